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
    /// Long polls among them.
    pub long_polls: u64,
    /// Wait of the first of the others.
    pub delay_recent: Span,
}

/// Runs `gw_waits`, where the connections of a slot that were made before its end are long polls; the
/// result, too, is by the ports' slots.
pub(super) fn observe(
    program: &OwnedFd,
    now: Time,
    long_polls_ends: impl IntoIterator<Item = Time>,
) -> io::Result<[PendingResponses; PORTS_MAX]> {
    let (mut query, mut answer) = ([0; WAITS * PORTS_MAX], [0; WAITS * PORTS_MAX]);
    for (of_port, end) in query.as_chunks_mut::<WAITS>().0.iter_mut().zip(long_polls_ends) {
        of_port[WAITS - 8..].copy_from_slice(&end.as_nanos().to_ne_bytes());
    }
    bpf::run(program, &query, &mut [], &mut answer)?;
    Ok(std::array::from_fn(|slot| {
        let [counts, since_ns, recent_ns, _] = words(&answer[slot * WAITS..][..WAITS]).unwrap_or_default();
        let [waiting, long_polls] = halves(counts);
        let age = |since_ns| match since_ns {
            0 => Span::ZERO,
            _ => now.since(Time::from_nanos(since_ns)),
        };
        PendingResponses { waiting, long_polls, delay: age(since_ns), delay_recent: age(recent_ns) }
    }))
}

/// The two 32-bit numbers at the place of `word`.
fn halves(word: u64) -> [u64; 2] {
    let [a, b, c, d, e, f, g, h] = word.to_ne_bytes();
    [[a, b, c, d], [e, f, g, h]].map(|bytes| u32::from_ne_bytes(bytes).into())
}

/// Bytes of a port in `struct waits`.
const WAITS: usize = 32;
