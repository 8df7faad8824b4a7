//! The drivers against the Linux kernel's own TCP, in a laboratory.

mod dpdk;
mod echo;
mod packet;
mod tap;
mod xdp;

/// Says what is not tested. Written past the test harness, which keeps what
/// passing tests print to itself.
pub fn skipped(test: &str, why: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}
