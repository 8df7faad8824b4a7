//! `greenwave bench cores`: scaling of a server's throughput with its cores, on the kernel's TCP
//! and on greenwave's.
//!
//! A server and its stack have N cores, its clients N others, with the same number of connections
//! per core for every N, so that the load grows with the cores. The comparison is between stacks
//! for the same server on the same cores. Rounds are interleaved, and figures are medians over
//! rounds. Each row shows the utilisation of the busiest client, since one client core may be too
//! slow for one server core.

use std::process::ExitCode;

use queueing::Span;

use super::comparison::{self, BenchScale, Common, StackArgs};
use super::target;
use crate::{Error, progress};

mod clients;
mod core_assignment;
mod report;
mod results;
mod servers;
mod setup;

use core_assignment::QueueCores;
use results::ScalingRow;
use servers::{ScalingServer, ServerStack};

/// Compare servers' throughput on 1, 2, 4 … cores (needs root).
#[derive(clap::Args)]
pub struct Args {
    /// Cores of the server; its clients use as many
    /// [default: 1, 2, 4 …, up to half of the machine's cores].
    #[arg(long, value_delimiter = ',', value_name = "N", value_parser = clap::value_parser!(u16).range(1..=128), verbatim_doc_comment)]
    cores: Vec<u16>,
    /// Servers to run: echo, nginx, memcached [default: all].
    #[arg(long, value_delimiter = ',', value_enum, value_name = "SERVER", hide_possible_values = true)]
    servers: Vec<ScalingServer>,
    #[command(flatten)]
    common: Common,
    /// Duration of each server's measurement per round.
    #[arg(long, default_value = "1s")]
    duration: Span,
    #[command(flatten)]
    ours: StackArgs,
    /// Busy-polling time of greenwave's idle stack before it sleeps
    /// [default: 20us; 0us if a program shares its cores].
    #[arg(long, value_name = "SPAN", value_parser = crate::options::busy_poll, verbatim_doc_comment)]
    busy_poll: Option<Span>,
}

/// Measures and prints the results.
///
/// # Errors
/// No network lab is possible here, or there are fewer cores than requested.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let smoke = args.common.scale == BenchScale::Smoke;
    let allowed = host::affinity::cores().map_err(|e| Error::new(e.to_string()))?;
    let steps =
        if args.cores.is_empty() { core_assignment::steps(allowed.len()) } else { args.cores.clone() };
    let all = steps.iter().map(|&count| match smoke {
        true => Ok(QueueCores::shared(&allowed, count)),
        false => QueueCores::disjoint(&allowed, count),
    });
    let all: Vec<QueueCores> = all.collect::<Result<_, _>>()?;
    let lab = comparison::lab("bench cores")?;
    let (rounds, time, connections) = match args.common.scale {
        BenchScale::Full => (args.common.rounds, args.duration, CONNECTIONS),
        BenchScale::Smoke => (1, Span::from_millis(400), 4),
    };
    let servers = if args.servers.is_empty() { ScalingServer::ALL.to_vec() } else { args.servers.clone() };
    let mut rows = Vec::new();
    for &server in &servers {
        for cores in &all {
            rows.extend(ServerStack::ALL.map(|stack| ScalingRow::new(server, stack, cores)));
        }
    }
    let bar = progress::bar(u64::from(rounds) * rows.len() as u64);
    for round in 0..rounds {
        for row in &mut rows {
            bar.set_message(row.name());
            let setting = setup::RowSettings {
                cores: &row.cores,
                device: &args.ours.device,
                busy_poll: args.busy_poll,
                lib: args.ours.lib.as_deref(),
                connections,
                time,
                seed: round.into(),
            };
            let measured = setup::measure(&lab, row.server, row.stack, &setting);
            row.add(measured);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let goals = report::goals(&rows);
    if args.common.json {
        outln!("{:#}", report::json(&rows, &goals, connections, rounds, time));
    } else {
        outln!("{}; {connections} connections per server core", host::Machine::this());
        all.iter().for_each(|cores| outln!("{cores}"));
        outln!("medians of {rounds} rounds of {time} each\n");
        report::print(&rows, &goals);
    }
    let met = target::all_met(&goals);
    Ok(if args.common.check && !met { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// Number of connections of each client, with one outstanding request each.
const CONNECTIONS: u32 = 100;
