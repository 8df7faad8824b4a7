//! Connections that wait for the first byte of an answer: how many there are,
//! and for how long the first of them has.
//!
//! They are counted by a program of ours in the kernel, `gw_waits`, which walks
//! through those alone that have not been answered.
//! Source: bpf(2) `BPF_PROG_TEST_RUN`; `bpf/answers.h`.

use std::io;
use std::os::fd::OwnedFd;

use queueing::{Span, Time};

use super::map_layout::words;
use crate::bpf;

/// Who waits for an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PendingResponses {
    pub waiting: u64,
    /// Since the first of them was made.
    pub delay: Span,
}

/// What `gw_waits` counts.
pub(super) fn look(program: &OwnedFd, now: Time) -> io::Result<PendingResponses> {
    let mut answer = [0; 16];
    bpf::run(program, &[0; 16], &mut [], &mut answer)?;
    let [waiting, since_ns] = words(&answer).unwrap_or_default();
    let since = if waiting > 0 { Time::from_nanos(since_ns) } else { now };
    Ok(PendingResponses { waiting, delay: now.since(since) })
}
