//! `greenwave bench programs`: unmodified servers on the kernel's TCP and on greenwave's.
//!
//! Each server of a Debian package is started three times: on the kernel, on greenwave's stack
//! without a policy, and with a policy that makes small requests urgent. All three share one core
//! in interleaved rounds, so that a slow phase of the machine affects all; figures are medians over
//! rounds. A server that the machine cannot run has a row with the reason.

use std::process::ExitCode;

use load::closed_loop::{LoadModel, RequestStream};
use netlab::{NetLab, is_installed};
use queueing::Span;

use super::comparison::{self, BenchCores, BenchScale, Common, StackArgs};
use crate::programs::{BULK, Program, ProgramSettings, ProgramSetup, SMALL, StackChoice};
use crate::{Error, progress};

mod report;
mod results;

use results::{CaseFigures, LoadCase, ProgramResults};

/// Compare unmodified servers on the kernel's TCP and on greenwave's (needs root).
#[derive(clap::Args)]
pub struct Args {
    /// Servers to run: lighttpd, nginx, redis-server, memcached [default: all].
    #[arg(long, value_delimiter = ',', value_name = "PROGRAM", value_parser = program)]
    programs: Vec<Program>,
    #[command(flatten)]
    common: Common,
    /// Duration of each case in each round.
    #[arg(long, default_value = "1s")]
    duration: Span,
    #[command(flatten)]
    ours: StackArgs,
    /// Busy-polling time of greenwave's idle stack before it sleeps. It shares
    /// a core with the server, which waits meanwhile.
    #[arg(long, value_name = "SPAN", default_value = "0us", value_parser = crate::options::busy_poll, verbatim_doc_comment)]
    busy_poll: Span,
}

fn program(name: &str) -> Result<Program, String> {
    Program::ALL
        .into_iter()
        .find(|program| program.name() == name)
        .ok_or_else(|| format!("{name:?} is not one of: {}", Program::ALL.map(Program::name).join(", ")))
}

/// Connections of small requests, and of bulk requests beside them.
#[derive(Clone, Copy, Debug)]
struct Connections {
    small: u32,
    bulk: u32,
}

/// Measures and prints the results.
///
/// # Errors
/// No network lab is possible here.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let lab = comparison::lab("bench programs")?;
    let (rounds, time, connections) = match args.common.scale {
        BenchScale::Full => (args.common.rounds, args.duration, Connections { small: 50, bulk: 32 }),
        BenchScale::Smoke => (1, Span::from_millis(50), Connections { small: 4, bulk: 4 }),
    };
    let programs = if args.programs.is_empty() { Program::ALL.to_vec() } else { args.programs.clone() };
    let cores = BenchCores::allowed()?;
    let bar = progress::bar(u64::from(rounds) * programs.len() as u64);
    let mut rows = ProgramResults::default();
    for round in 0..rounds {
        for &program in &programs {
            bar.set_message(program.name());
            let setting = ProgramSettings {
                client: cores.client,
                receive: cores.receive,
                server: cores.server,
                device: &args.ours.device,
                busy_poll: args.busy_poll,
                lib: args.ours.lib.as_deref(),
                items: &[SMALL, BULK],
                policy: &program.policy(),
                seed: round.into(),
            };
            if let Err(why) = measure(&lab, program, &setting, time, connections, &mut rows) {
                rows.fail(program, why);
            }
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    let goals = report::goals(&rows);
    if args.common.json {
        outln!("{:#}", report::json(&rows, &goals, rounds, time));
    } else {
        outln!(
            "{}; server and stack on core {}, client on core {}, the client's receive processing on core {}",
            host::Machine::this(),
            cores.server.0,
            cores.client.0,
            cores.receive.0
        );
        outln!("medians of {rounds} rounds of {time} each\n");
        report::print(&rows, &goals);
    }
    let met = goals.iter().all(|goal| goal.holds == Some(true));
    Ok(if args.common.check && !met { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

/// One round of one program: its capacity on each stack, then the same load for all stacks.
fn measure(
    lab: &NetLab,
    program: Program,
    setting: &ProgramSettings<'_>,
    duration: Span,
    connections: Connections,
    rows: &mut ProgramResults,
) -> Result<(), String> {
    if !is_installed(program.name()) {
        return Err("the program is not installed".to_owned());
    }
    let on = |stack: StackChoice| move |why: String| format!("{}: {why}", stack.name());
    let mut setups = Vec::new();
    for stack in StackChoice::ALL {
        let setup =
            ProgramSetup::new(lab, program, stack, setting, 1, |_, device| device).map_err(on(stack))?;
        setups.push((stack, setup));
    }
    let small = |pace| {
        let (request, answer) = program.request(SMALL);
        RequestStream { connections: connections.small, request, answer, pace }
    };
    let mut slowest = f64::INFINITY;
    for (stack, setup) in &mut setups[..2] {
        let kinds = vec![small(LoadModel::Closed { outstanding: 1 })];
        let measured = setup.measure(vec![kinds], duration / 2, duration).map_err(on(*stack))?;
        let figures = CaseFigures::of(&measured, 0);
        slowest = slowest.min(figures.answers_per_s);
        rows.add(program, *stack, LoadCase::Closed, figures);
    }
    let at = |share: f64| LoadModel::poisson((slowest * share).max(1.0), setting.seed);
    for (case, share) in [(LoadCase::Half, 0.5), (LoadCase::Most, 0.9)] {
        for (stack, setup) in &mut setups[..2] {
            let measured =
                setup.measure(vec![vec![small(at(share))]], duration / 2, duration).map_err(on(*stack))?;
            rows.add(program, *stack, case, CaseFigures::of(&measured, 0));
        }
    }
    // Bulk requests in a closed loop take all remaining capacity.
    for (stack, setup) in &mut setups {
        let (request, answer) = program.request(BULK);
        let pace = LoadModel::Closed { outstanding: 1 };
        let bulk = RequestStream { connections: connections.bulk, request, answer, pace };
        let measured =
            setup.measure(vec![vec![small(at(0.05)), bulk]], duration / 2, duration).map_err(on(*stack))?;
        rows.add(program, *stack, LoadCase::MixedSmall, CaseFigures::of(&measured, 0));
        rows.add(program, *stack, LoadCase::MixedBulk, CaseFigures::of(&measured, 1));
    }
    Ok(())
}
