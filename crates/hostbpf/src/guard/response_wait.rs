//! Connections that wait for the first byte of a response: their number for each
//! port, and the wait of the first.
//!
//! The BPF program `gw_waits` counts them; it visits only connections without a response.
//!
//! Source: bpf(2) `BPF_PROG_TEST_RUN`; `bpf/answers.h`.

use std::io;
use std::os::fd::OwnedFd;

use queueing::{Span, Time};

use super::map_layout::{PORTS_MAX, words};
use crate::bpf;

/// Connections of a port that wait for a response.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PendingResponses {
    pub waiting: u64,
    /// Wait of the first of them.
    pub delay: Span,
}

/// Runs `gw_waits`; the result is by the ports' slots.
pub(super) fn look(program: &OwnedFd, now: Time) -> io::Result<[PendingResponses; PORTS_MAX]> {
    let mut answer = [0; WAITS * PORTS_MAX];
    bpf::run(program, &[0; WAITS * PORTS_MAX], &mut [], &mut answer)?;
    Ok(std::array::from_fn(|slot| {
        let [waiting, since_ns] = words(&answer[slot * WAITS..][..WAITS]).unwrap_or_default();
        let since = if waiting > 0 { Time::from_nanos(since_ns) } else { now };
        PendingResponses { waiting, delay: now.since(since) }
    }))
}

/// Bytes of a port in `struct waits`.
const WAITS: usize = 16;
