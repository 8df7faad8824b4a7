//! Drivers tested against the Linux kernel's TCP, in a test bed.

mod dpdk;
mod echo;
mod packet;
mod tap;
mod xdp;

/// Prints a skipped test, past the test harness, which captures the output of passing tests.
pub fn skipped(test: &str, why: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}
