//! `x264-video`: runs Debian's x264 until it is stopped.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use workloads::progress::ProgressArgs;
use workloads::{serve, video};

/// Feeds x264 a synthetic video and reports the number of encoded frames.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    pace: ProgressArgs,
}

fn main() -> ExitCode {
    let args = Args::parse();
    video::encode(args.pace, host::signals::flag()).unwrap_or_else(|e| serve::failed(&e))
}
