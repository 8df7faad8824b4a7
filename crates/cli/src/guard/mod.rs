//! `greenwave guard`: admission control that keeps a server's goodput under overload.

mod attach;
mod model;
mod status;

use std::process::ExitCode;

use clap::Subcommand;

use crate::Error;
use crate::config_file::Arguments;

/// Keep a server's goodput under overload.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Drop excess new connections to a server before the kernel processes them.
    Attach(attach::Args),
    /// Show a guard's counters and queues.
    Status(status::Args),
    /// Detach a guard and stop its controller.
    Detach {
        /// Network interface.
        device: String,
    },
    /// Predict throughput by offered load, with and without shedding.
    Model(model::Args),
}

impl Args {
    /// True if the subcommand keeps running as a daemon: `attach`.
    pub fn is_daemon(&self) -> bool {
        matches!(self.command, Command::Attach(_))
    }

    /// Checks the arguments before the first action.
    ///
    /// # Errors
    /// The errors of [`run`].
    pub fn check(&self) -> Result<(), Error> {
        match &self.command {
            Command::Attach(args) => args.check(),
            Command::Status(_) | Command::Detach { .. } | Command::Model(_) => Ok(()),
        }
    }
}

/// Runs the subcommand.
///
/// # Errors
/// The errors of the subcommand.
pub fn run(args: &Args, arguments: &Arguments) -> Result<ExitCode, Error> {
    match &args.command {
        Command::Attach(args) => attach::run(args, arguments),
        Command::Status(args) => status::run(args),
        Command::Detach { device } => {
            outln!("{device}: detached: {}", hostbpf::guard::detach(device)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Model(args) => model::run(args),
    }
}
