//! Scenario 4: volume; senders of much data want throughput.
//! Source: ADPS §3.

use std::sync::Arc;

use queueing::Bytes;

use super::two_levels;
use crate::{FlowContext, TransportClassifier};

/// Connections that have received more than `threshold` bytes are low, others high. The segment
/// that exceeds the threshold is already low.
#[must_use]
pub fn volume(threshold: Bytes) -> TransportClassifier {
    Arc::new(move |cx: &mut FlowContext<'_>| two_levels(cx.flow.received > threshold))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Verdict, testing::TestFlow};

    //~ classifiers: scenario 4: a connection's priority falls when it passes the threshold of bytes
    #[test]
    fn a_connection_falls_when_it_passes_the_threshold() {
        let classifier = volume(Bytes::new(2_000));
        let mut flow = TestFlow::new();
        let verdicts = [1_000, 1_000, 1, 10].map(|n| flow.segment(&classifier, &vec![0; n]));
        assert_eq!(verdicts, [0, 0, 7, 7].map(Verdict::Level));
    }
}
