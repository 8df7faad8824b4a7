//! `greenwave sim`: networks of switches under virtual time, and aids to configure them.

mod args;
mod fabric;
mod flows;
mod parquet;
mod plan;
mod render;
mod thresholds;
mod workload;

use std::process::ExitCode;

use clap::{Args as ClapArgs, Subcommand};

use crate::error::Error;

/// Simulate switched networks and compute their thresholds.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Simulate flows in a network and report their completion times.
    Fabric(Box<args::Args>),
    /// Compute the thresholds between levels that minimize the mean completion time.
    Thresholds(thresholds::Args),
}

/// Runs the subcommand.
///
/// # Errors
/// Invalid arguments, and files that cannot be read or written.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    match &args.command {
        Command::Fabric(args) => fabric::run(args),
        Command::Thresholds(args) => thresholds::run(args),
    }
}
