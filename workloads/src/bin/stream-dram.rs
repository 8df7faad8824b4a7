//! `stream-dram`: keeps DRAM busy.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Larger than any core's share of a last-level cache.
const KIB: usize = 192 << 10;

fn main() -> ExitCode {
    workloads::stream::main("stream-dram", KIB)
}
