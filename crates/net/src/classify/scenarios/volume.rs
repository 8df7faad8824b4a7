//! Scenario 4: who sends much wants throughput. Source: ADPS §3.

use std::sync::Arc;

use queueing::Bytes;

use super::two_levels;
use crate::classify::{FlowContext, TransportClassifier};

/// Connections on which more than `threshold` was received are low, others
/// high. The segment that passes the threshold is low already.
#[must_use]
pub fn volume(threshold: Bytes) -> TransportClassifier {
    Arc::new(move |cx: &mut FlowContext<'_>| two_levels(cx.flow.received > threshold))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::{Verdict, testing::Flow};

    #[test]
    fn a_connection_falls_when_it_passes_the_threshold() {
        let classifier = volume(Bytes::new(2_000));
        let mut flow = Flow::new();
        let verdicts = [1_000, 1_000, 1, 10].map(|n| flow.segment(&classifier, &vec![0; n]));
        assert_eq!(verdicts, [0, 0, 7, 7].map(Verdict::Level));
    }
}
