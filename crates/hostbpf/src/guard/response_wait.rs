//! Connections that wait for the first byte of a response: their number, and the wait of the first.
//!
//! The BPF program `gw_waits` counts them; it visits only connections without a response.
//!
//! Source: bpf(2) `BPF_PROG_TEST_RUN`; `bpf/answers.h`.

use std::io;
use std::os::fd::OwnedFd;

use queueing::{Span, Time};

use super::map_layout::words;
use crate::bpf;

/// Connections that wait for a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PendingResponses {
    pub waiting: u64,
    /// Wait of the first of them.
    pub delay: Span,
}

/// Runs `gw_waits`.
pub(super) fn look(program: &OwnedFd, now: Time) -> io::Result<PendingResponses> {
    let mut answer = [0; 16];
    bpf::run(program, &[0; 16], &mut [], &mut answer)?;
    let [waiting, since_ns] = words(&answer).unwrap_or_default();
    let since = if waiting > 0 { Time::from_nanos(since_ns) } else { now };
    Ok(PendingResponses { waiting, delay: now.since(since) })
}
