//! Ideal flow completion time: the flow has the network to itself.
//!
//! No transport is modelled: all segments are sent at once and the last one's acknowledgement
//! returns. Full segments cross every line of the path; after the first they follow at the pace
//! of the slowest line. For n segments, the time to the last byte and back is
//!
//! ```text
//! Σ (segment + delay) + (n − 1) · slowest segment  +  Σ (acknowledgement + delay)
//! ```
//!
//! This is exact on a single path. Where packets are sprayed over k equal lines, a stage sends
//! k at a time and the formula is a lower bound.

use queueing::{Bytes, Span};

use super::packet::{ACK_BYTES, SEGMENT_BYTES};
use super::topology::{Node, Wiring};

/// Parallel lines at equal distance along the path.
struct Stage {
    lines: u64,
    segment: Span,
    acknowledgement: Span,
    delay: Span,
}

/// Time from the first byte of `segments` sent to the acknowledgement of the last, and one-way
/// latency of a minimal packet.
pub(super) fn ideal(wiring: &Wiring, spray: bool, from: Node, to: Node, segments: u32) -> (Span, Span) {
    let forward = stages(wiring, from, to);
    let reverse = stages(wiring, to, from);
    let train = |stage: &Stage| {
        let side_by_side = if spray { stage.lines } else { 1 };
        stage.segment * (u64::from(segments).div_ceil(side_by_side) - 1)
    };
    let first: Span = forward.iter().map(|stage| stage.segment + stage.delay).sum();
    let others = forward.iter().map(train).max().unwrap_or_default();
    let latency =
        |path: &[Stage]| -> Span { path.iter().map(|stage| stage.acknowledgement + stage.delay).sum() };
    (first + others + latency(&reverse), latency(&forward))
}

/// Paths from one host to another, stage by stage; each stage is as fast as its fastest line.
fn stages(wiring: &Wiring, from: Node, to: Node) -> Vec<Stage> {
    let mut stages = Vec::new();
    let mut nodes = vec![from];
    while nodes.first().is_some_and(|&node| node != to) {
        let mut lines: Vec<u32> =
            nodes.iter().flat_map(|&node| wiring.next_hops(node, to)).copied().collect();
        lines.sort_unstable();
        lines.dedup();
        let lines = lines.iter().map(|&line| &wiring.lines[line as usize]);
        let fastest =
            |bytes: u32| lines.clone().map(|line| line.rate.time_for(Bytes::new(bytes.into()))).min();
        stages.push(Stage {
            lines: lines.len() as u64,
            segment: fastest(SEGMENT_BYTES).unwrap_or_default(),
            acknowledgement: fastest(ACK_BYTES).unwrap_or_default(),
            delay: lines.clone().map(|line| line.delay).min().unwrap_or_default(),
        });
        nodes = lines.map(|line| line.to).collect();
        nodes.sort_unstable();
        nodes.dedup();
    }
    stages
}
