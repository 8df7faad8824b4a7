//! `greenwave guard`: servers that keep their goodput under overload.

mod model;

use std::process::ExitCode;

use clap::Subcommand;

use crate::Error;

/// Keep a server's goodput under overload.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Predict throughput over offered load, with and without shedding.
    Model(model::Args),
}

/// Does what the subcommand says.
///
/// # Errors
/// As the subcommand.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    match &args.command {
        Command::Model(args) => model::run(args),
    }
}
