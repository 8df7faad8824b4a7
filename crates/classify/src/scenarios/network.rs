//! Scenario 3: round-trip time and loss; distant users do not notice small variations.
//! Source: ADPS §3.

use std::sync::Arc;

use queueing::Span;

use super::two_levels;
use crate::{FlowContext, TransportClassifier};

/// Connections with a smoothed round-trip time above `rtt_max`, or with a loss share of sent
/// segments above `loss_max` (0.0..=1.0), are low, others high. A connection without a sample
/// counts as near.
#[must_use]
pub fn network(rtt_max: Span, loss_max: f32) -> TransportClassifier {
    Arc::new(move |cx: &mut FlowContext<'_>| {
        two_levels(cx.flow.srtt.is_some_and(|srtt| srtt > rtt_max) || cx.flow.loss > loss_max)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Verdict, testing::TestFlow};

    //~ classifiers: scenario 3: connections with long RTT or loss get low priority
    #[test]
    fn far_and_lossy_connections_are_low() {
        let classifier = network(Span::from_millis(100), 0.005);
        let check = |srtt, loss, level| {
            let mut flow = TestFlow::new();
            flow.state.srtt = srtt;
            flow.state.loss = loss;
            assert_eq!(flow.segment(&classifier, b"x"), Verdict::Level(level));
        };
        check(None, 0.0, 0);
        check(Some(Span::from_millis(50)), 0.0, 0);
        check(Some(Span::from_millis(100)), 0.005, 0);
        check(Some(Span::from_millis(200)), 0.0, 7);
        check(Some(Span::from_millis(50)), 0.01, 7);
    }
}
