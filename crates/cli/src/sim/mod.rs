//! `greenwave sim`: networks of switches under virtual time, and what helps to
//! set them up.

mod args;
mod fabric;
mod flows;
mod parquet;
mod plan;
mod show;
mod thresholds;
mod workload;

use std::process::ExitCode;

use clap::{Args as ClapArgs, Subcommand};

use crate::error::Error;

/// Simulate networks of switches, and what helps to set them up.
#[derive(Debug, ClapArgs)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Send flows through a network and see how long each takes.
    Fabric(Box<args::Args>),
    /// The thresholds between levels that make flows fastest in the mean.
    Thresholds(thresholds::Args),
}

/// Runs the command.
///
/// # Errors
/// What was given and cannot be, and files that cannot be read or written.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    match &args.command {
        Command::Fabric(args) => fabric::run(args),
        Command::Thresholds(args) => thresholds::run(args),
    }
}
