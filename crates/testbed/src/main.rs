//! `testbed RUNNER`: reads a plan from stdin, writes outcomes to stdout; see `spec/testbed.md`.
//!
//! Started by `greenwave exp run` for experiments with real services.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use testbed::{Error, OutputHandle, Planned, SetupMessage, calls, protocol, series, tier};

/// Runner: starts the services, executes the plan, and returns when all requests have ended.
type Runner = fn(&SetupMessage, Vec<Planned>, OutputHandle) -> Result<(), Error>;

/// Runners by name.
const RUNNERS: &[(&str, Runner)] = &[
    ("series", series::run),
    ("calls", calls::run),
    #[cfg(feature = "search")]
    ("search", testbed::search::fanout::run),
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<(), Error> {
    let name = std::env::args().nth(1).unwrap_or_default();
    if name == "tier" {
        return tier::command(std::env::args().skip(2));
    }
    #[cfg(feature = "search")]
    match name.as_str() {
        "record" => return testbed::search::record::command(std::env::args().skip(2)),
        "partitions" => return testbed::search::serve::command(std::env::args().skip(2)),
        _ => {}
    }
    let runner = RUNNERS.iter().find(|(known, _)| *known == name).map(|&(_, runner)| runner);
    let runner = runner.ok_or_else(|| {
        let names: Vec<_> = RUNNERS.iter().map(|(name, _)| *name).collect();
        let cause = format!("runner {name:?} is not one of {}", names.join(", "));
        Error::new(cause, "greenwave exp run d2p/e1-tonic, which starts it")
    })?;
    let (setup, plan) = protocol::read(std::io::stdin().lock())?;
    let (report, written) = OutputHandle::to_stdout();
    runner(&setup, plan, report)?;
    // All clones of the report are dropped, so that the thread writes the rest and ends.
    let _ = written.join();
    Ok(())
}
