//! `greenwave explain`: the handling of a request, and its reason.
//!
//! For a request: every rule of a policy that is evaluated, the first condition that it misses, and
//! the rule that decides. `greenwave check` says if the policy is valid.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Subcommand;

use crate::{Error, check};

mod report;
mod request;

use report::Answer;

/// Explain a request's priority.
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Show the rules that match a request, and why the others do not.
    Request(Request),
}

/// Show the rules that match a request, and why the others do not.
#[derive(clap::Args)]
struct Request {
    /// The policy, in TOML.
    file: PathBuf,
    #[command(flatten)]
    asked: request::RequestArgs,
    /// Print JSON instead of the table.
    #[arg(long)]
    json: bool,
}

/// Explains a request.
///
/// # Errors
/// A policy that cannot be read or is wrong; an invalid request.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    let Command::Request(Request { file, asked, json }) = &args.command;
    let (policy, when) = check::policy(file)?;
    let packet = asked.packet()?;
    let explained = policy.explain(&packet.frame, packet.flow, packet.service);
    let answer = Answer { policy: &policy, when: &when, packet: &packet };
    match json {
        true => outln!("{:#}", explained.iter().map(|e| answer.json(e)).collect::<serde_json::Value>()),
        false => out!("{}", explained.iter().map(|e| answer.text(e)).collect::<Vec<_>>().join("\n")),
    }
    Ok(ExitCode::SUCCESS)
}
