//! `stream-l2`: keeps a second-level cache busy.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Memory in KiB: half of a small second-level cache, much larger than a first-level one.
const KIB: usize = 256;

fn main() -> ExitCode {
    workloads::stream::main("stream-l2", KIB)
}
