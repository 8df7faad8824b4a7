//! `stream-dram`: keeps DRAM busy.
#![forbid(unsafe_code)]

use std::process::ExitCode;

/// Beyond any last-level cache that a core has to itself.
const KIB: usize = 192 << 10;

fn main() -> ExitCode {
    workloads::stream::main("stream-dram", KIB)
}
