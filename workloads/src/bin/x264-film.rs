//! `x264-film`: runs Debian's x264 until it is stopped.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use workloads::progress::Pace;
use workloads::{film, serve};

/// Feeds x264 a film that is made up, and says how many frames it has encoded.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    pace: Pace,
}

fn main() -> ExitCode {
    let args = Args::parse();
    film::encode(args.pace, host::signals::flag()).unwrap_or_else(|e| serve::failed(&e))
}
