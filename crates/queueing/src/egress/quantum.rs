//! Quantum of a queue: how many bytes it sends before the next one is served.
//!
//! The kernel enqueues packets of up to `gso_max_size`, 64 KB, which the NIC segments later (GSO). With a
//! quantum of one frame, a queue of such packets sends 64 KB in its turn and a queue of single frames one
//! frame. So HTB's quantum is at least as long as the largest packet; fq and sfq let a queue that sent
//! more wait for several rounds. A flow waits for a quantum of every other one, so attach lowers the
//! device's `gso_max_size` to [`PERIOD`]'s worth, and detach restores it. It is at least two frames: the
//! kernel's TCP puts two segments into a packet whatever the limit is (`tcp_min_tso_segs`).
//!
//! Source: ip-link(8); net/ipv4/tcp_output.c, `tcp_tso_autosize`.

use crate::{Bytes, Rate, Span};

/// Maximum transmission time of a packet that is more than two frames.
const PERIOD: Span = Span::from_micros(100);
/// Assumed size of the largest packet if the kernel does not report it.
const GSO_DEFAULT: u32 = 65_536;

/// Quantum of each queue, and the limit of packets that belongs to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueQuantum {
    /// Bytes that a queue sends in its turn.
    pub bytes: u32,
    /// Bytes of a full frame.
    pub frame: u32,
    /// `gso_max_size` before the attach and since, if it was lowered.
    pub gso: Option<[u32; 2]>,
}

impl QueueQuantum {
    /// Quantum for a line of `rate` with frames of `frame` bytes, where the device's `gso_max_size` is
    /// `gso`.
    #[must_use]
    pub fn choose(rate: Rate, frame: u32, gso: Option<u32>) -> Self {
        let present = gso.unwrap_or(GSO_DEFAULT);
        let most = rate.bits_per_sec().saturating_mul(PERIOD.as_nanos()) / 8_000_000_000;
        let most = u32::try_from(most).unwrap_or(u32::MAX).max(2 * frame);
        match gso {
            Some(before) if most < before => {
                Self { bytes: Self::of(most, frame), frame, gso: Some([before, most]) }
            }
            _ => Self { bytes: Self::of(present, frame), frame, gso: None },
        }
    }

    /// Quantum that fits packets of `gso` bytes, and of two frames: each segment after the first has
    /// headers of its own.
    fn of(gso: u32, frame: u32) -> u32 {
        let largest = gso.max(2 * frame);
        largest.saturating_add(largest / 8)
    }

    /// Bytes of the quantum, and of a frame.
    #[must_use]
    pub fn amounts(self) -> [Bytes; 2] {
        [self.bytes, self.frame].map(|bytes| Bytes::new(bytes.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ egress: a queue's quantum fits the largest packet that the kernel enqueues; a packet takes 0.1 ms of the line, or is two frames
    #[test]
    fn a_turn_fits_the_largest_packet_and_a_packet_takes_a_tenth_of_a_millisecond_or_is_two_frames() {
        for frame in [582, 1_514, 9_014] {
            for gso in [None, Some(16_384), Some(65_536), Some(524_280)] {
                for mbit in [1, 4, 10, 50, 100, 200, 500, 1_000, 10_000, 100_000] {
                    let rate = Rate::from_bits_per_sec(mbit * 1_000_000);
                    let quantum = QueueQuantum::choose(rate, frame, gso);
                    let largest = quantum.gso.map_or(gso.unwrap_or(65_536), |[_, limit]| limit);
                    // Segments of an MSS of 536 bytes with 66 bytes of headers each.
                    let wire = largest + largest / 536 * 66;
                    assert!(quantum.bytes >= wire.max(2 * frame), "{mbit} {gso:?}: {quantum:?}");
                    let us = u64::from(largest) * 8 / mbit;
                    let is_short =
                        us <= 100 || largest <= 2 * frame || gso.is_none() || quantum.gso.is_none();
                    assert!(is_short, "{mbit} Mbit/s, {gso:?}: {us} µs");
                    assert_eq!(quantum.gso.map(|[before, _]| before), quantum.gso.and(gso));
                }
            }
        }
        let rate = Rate::from_bits_per_sec(100_000_000);
        assert_eq!(
            QueueQuantum::choose(rate, 1_514, Some(65_536)),
            QueueQuantum { bytes: 3_406, frame: 1_514, gso: Some([65_536, 3_028]) }
        );
        assert_eq!(
            QueueQuantum::choose(Rate::from_gbps(1), 1_514, Some(65_536)),
            QueueQuantum { bytes: 14_062, frame: 1_514, gso: Some([65_536, 12_500]) }
        );
        assert_eq!(
            QueueQuantum::choose(Rate::from_gbps(10), 1_514, Some(65_536)),
            QueueQuantum { bytes: 73_728, frame: 1_514, gso: None }
        );
    }
}
