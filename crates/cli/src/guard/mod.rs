//! `greenwave guard`: servers that keep their goodput under overload.

mod attach;
mod model;
mod status;

use std::process::ExitCode;

use clap::Subcommand;

use crate::Error;
use crate::configuration::Arguments;

/// Keep a server's goodput under overload.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Shed connections to a server before the kernel sees them.
    Attach(attach::Args),
    /// Show what a guard sheds and sees.
    Status(status::Args),
    /// Take a guard off; its controller ends.
    Detach {
        /// The interface.
        device: String,
    },
    /// Predict throughput over offered load, with and without shedding.
    Model(model::Args),
}

impl Args {
    /// Checks of a start before its first action.
    ///
    /// # Errors
    /// As [`run`].
    pub fn check(&self) -> Result<(), Error> {
        match &self.command {
            Command::Attach(args) => args.check(),
            Command::Status(_) | Command::Detach { .. } | Command::Model(_) => Ok(()),
        }
    }
}

/// Does what the subcommand says.
///
/// # Errors
/// As the subcommand.
pub fn run(args: &Args, arguments: &Arguments) -> Result<ExitCode, Error> {
    match &args.command {
        Command::Attach(args) => attach::run(args, arguments),
        Command::Status(args) => status::run(args),
        Command::Detach { device } => {
            println!("{device}: detached: {}", host::guard::detach(device)?);
            Ok(ExitCode::SUCCESS)
        }
        Command::Model(args) => model::run(args),
    }
}
