//! `greenwave bench net`: comparison of TCP servers.
//!
//! Each server is a process on its own core, in a network namespace. The client is greenwave's
//! stack on another core, in a closed loop or at a fixed rate, with the same workload for all
//! servers. Rounds are interleaved, so that a slow phase of the machine affects every server;
//! figures are medians over rounds. A server that cannot run here has a row with the reason.

use std::process::ExitCode;

use queueing::Span;

use super::comparison::{BenchCores, BenchScale, Common, lab};
use crate::{Error, progress};

mod cases;
mod gvisor;
mod report;
mod results;
mod setup;
mod systems;
mod targets;

use cases::Case;
use results::SystemRow;
use systems::System;

/// Compare TCP servers on greenwave, the kernel, smoltcp and gVisor (needs root).
#[derive(clap::Args)]
pub struct Args {
    #[command(flatten)]
    common: Common,
    /// Duration of each case per server and round.
    #[arg(long, default_value = "500ms")]
    duration: Span,
    /// Systems to run, such as kernel/veth,greenwave/xdp [default: all].
    #[arg(long, value_delimiter = ',', value_name = "SYSTEM/DEVICE")]
    systems: Vec<String>,
    /// Cases to run, by the start of their name, such as echo-64 [default: all].
    #[arg(long, value_delimiter = ',', value_name = "CASE")]
    cases: Vec<String>,
    /// Core of the receive processing of veth and TAP devices.
    #[arg(long, value_enum, default_value = "receiver")]
    rx_core: RxCore,
    /// Busy-polling time of greenwave's idle server before it sleeps.
    #[arg(long, value_name = "SPAN", default_value = "20us", value_parser = crate::options::busy_poll)]
    busy_poll: Span,
    /// Maximum time that greenwave's server batches responses.
    #[arg(long, value_name = "SPAN", default_value = "30us", value_parser = crate::options::tx_coalesce)]
    tx_coalesce: Span,
}

/// Core on which the kernel processes frames received over a veth or TAP device.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum RxCore {
    /// The receiver's core, by receive packet steering (RPS), as behind a NIC; costs
    /// an inter-processor interrupt.
    Receiver,
    /// The sender's core, the default of such devices: the client's core then
    /// does much of the kernel's TCP work for the server.
    Sender,
}

/// Measures and prints the results.
///
/// # Errors
/// No network lab is possible here, or a name does not exist.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let lab = lab("bench net")?;
    let smoke = args.common.scale == BenchScale::Smoke;
    let systems = chosen(systems::SYSTEMS, &args.systems, |system, name| system.name() == *name)?;
    let all = if smoke { cases::smoke() } else { cases::full() };
    let cases = chosen(&all, &args.cases, |case, name| case.name.starts_with(name.as_str()))?;
    let (rounds, time) =
        if smoke { (1, Span::from_millis(100)) } else { (args.common.rounds, args.duration) };
    let rx_core = args.rx_core;
    let cores = BenchCores::allowed()?;
    let gvisor = match systems.iter().any(|system| system.stack == systems::SystemStack::Gvisor) {
        true if !smoke => gvisor::build(),
        _ => gvisor::built(),
    };
    let mut rows = Vec::new();
    for &case in &cases {
        let serving = systems.iter().filter(|system| system.serves(case));
        rows.extend(serving.map(|&system| SystemRow::new(*system, case)));
    }
    let bar = progress::bar(u64::from(rounds) * rows.len() as u64);
    for round in 0..rounds {
        for row in &mut rows {
            bar.set_message(format!("{} {}", row.system.name(), row.case.name));
            let seed = u64::from(round);
            let setting = setup::RoundSettings {
                cores,
                time,
                rx_core,
                busy_poll: args.busy_poll,
                tx_coalesce: args.tx_coalesce,
                gvisor: &gvisor,
                seed,
            };
            row.add(setup::measure(&lab, &row.system, &row.case, &setting));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let goals = targets::goals(&rows);
    let met = super::target::all_met(&goals);
    if args.common.json {
        outln!("{:#}", report::json(&rows, &goals, rounds, time));
    } else {
        let core_owner = match rx_core {
            RxCore::Receiver => "receiver's",
            RxCore::Sender => "sender's",
        };
        outln!(
            "{}; server on core {}, client on core {}; receive processing on the {core_owner} core",
            host::Machine::this(),
            cores.server.0,
            cores.client.0
        );
        outln!("medians of {rounds} rounds of {time} each\n");
        report::print(&rows, &goals);
    }
    Ok(if args.common.check && !met { ExitCode::from(1) } else { ExitCode::SUCCESS })
}

/// Items of `all` that are named, or all if no names are given.
fn chosen<'a, T: Named>(
    all: &'a [T],
    names: &[String],
    fits: impl Fn(&T, &String) -> bool,
) -> Result<Vec<&'a T>, Error> {
    if let Some(name) = names.iter().find(|name| !all.iter().any(|one| fits(one, name))) {
        let there: Vec<String> = all.iter().map(Named::label).collect();
        return Err(Error::new(format!("{name:?} is not one of: {}", there.join(", "))));
    }
    Ok(all.iter().filter(|one| names.is_empty() || names.iter().any(|name| fits(one, name))).collect())
}

/// An item that can be selected by name.
trait Named {
    fn label(&self) -> String;
}

impl Named for System {
    fn label(&self) -> String {
        self.name()
    }
}

impl Named for Case {
    fn label(&self) -> String {
        self.name.clone()
    }
}
