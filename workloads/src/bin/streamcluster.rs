//! `streamcluster`: clusters a stream of points until it is stopped.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use clap::Parser;
use workloads::progress::{ProgressArgs, ProgressReporter};
use workloads::streamcluster::{ClusterParams, Stream};

/// Clusters a stream of points by k-medians, and checks what it costs.
#[derive(Parser)]
struct Args {
    #[command(flatten)]
    pace: ProgressArgs,
}

fn main() -> ExitCode {
    host::signals::restore_sigpipe();
    let args = Args::parse();
    let mut stream = Stream::new(ClusterParams::default(), args.pace.seed);
    let mut progress = ProgressReporter::new("streamcluster", "points", args.pace, host::signals::flag());
    while progress.add(stream.turn()) {}
    progress.end(&stream.check())
}
