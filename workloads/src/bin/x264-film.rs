//! `x264-film`: lets Debian's x264 encode until it is told to stop.
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
