//! `swaptions`: prices one swaption by simulation until it is stopped.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use workloads::progress::{Check, ProgressArgs, ProgressReporter};
use workloads::swaptions::{Simulation, Swaption};

/// Prices a swaption by simulation, and checks the price by formula.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    pace: ProgressArgs,
    /// Keeps the last paths, so many MiB of them
    #[arg(long, value_name = "MIB", default_value_t = 0)]
    keep_mib: usize,
}

/// Number of paths between two checks of the clock.
const BATCH: u64 = 64;

fn main() -> ExitCode {
    host::signals::restore_sigpipe();
    let args = Args::parse();
    let swaption = Swaption::default();
    let mut simulation = Simulation::new(swaption, args.pace.seed).keeping(args.keep_mib << 20);
    let mut progress = ProgressReporter::new("swaptions", "paths", args.pace, host::signals::flag());
    loop {
        simulation.add(BATCH);
        if !progress.add(BATCH) {
            break;
        }
    }
    let (found, price) = (simulation.estimate(), swaption.price());
    let says = format!("{:.6} ± {:.6}, by formula {price:.6}", found.mean, found.interval());
    progress.end(&Check { holds: found.holds(price), says })
}
