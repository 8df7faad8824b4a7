//! Scenario 6: expected service time per kind of request.
//!
//! Workers measure and the classifier compares. They share a connection's private bytes, as in the
//! paper, or one lock-free [`ServiceTimes`] for all connections.
//! Source: ADPS §2.2, scenario 6.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use queueing::Span;

use super::{Magic, has_magic, two_levels};
use crate::{FlowContext, TransportClassifier, Verdict, private};

/// Position of the kind in a request's header.
#[derive(Clone, Copy, Debug)]
pub struct KindAt {
    /// Offset and bytes that mark the start of a request.
    pub magic: Magic,
    /// Offset of the kind byte.
    pub kind_at: usize,
}

/// Expected service time per kind, written by workers and read by classifiers.
///
/// A moving average in which each observation weighs 1/8. Size 2 KiB.
pub struct ServiceTimes {
    /// Nanoseconds; 0 before the first observation.
    expected: [AtomicU64; 256],
}

impl Default for ServiceTimes {
    fn default() -> Self {
        Self { expected: std::array::from_fn(|_| AtomicU64::new(0)) }
    }
}

impl ServiceTimes {
    /// Table without observations.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Records that a request of `kind` was served for `service`. Of two concurrent observations
    /// one may be lost, which an average tolerates.
    pub fn observe(&self, kind: u8, service: Span) {
        let slot = &self.expected[usize::from(kind)];
        let service = service.as_nanos().clamp(1, u64::MAX >> 3);
        let expected = match slot.load(Ordering::Relaxed) {
            0 => service,
            old => old - old / WEIGHT + service / WEIGHT,
        };
        slot.store(expected.max(1), Ordering::Relaxed);
    }

    /// Sets the expected service time of `kind`.
    pub fn publish(&self, kind: u8, expected: Span) {
        self.expected[usize::from(kind)].store(expected.as_nanos().max(1), Ordering::Relaxed);
    }

    /// Expected service time of `kind`; `None` before the first observation.
    #[must_use]
    #[inline]
    pub fn expected(&self, kind: u8) -> Option<Span> {
        match self.expected[usize::from(kind)].load(Ordering::Relaxed) {
            0 => None,
            ns => Some(Span::from_nanos(ns)),
        }
    }
}

/// Requests of kinds expected to run longer than `threshold` are low, those of other known kinds
/// high. Unknown kinds and segments that start no request keep the driver's verdict.
/// [`ServiceTimes`] attached to the connection take precedence over the shared `times`.
#[must_use]
pub fn service_time(times: Arc<ServiceTimes>, at: KindAt, threshold: Span) -> TransportClassifier {
    Arc::new(move |cx: &mut FlowContext<'_>| {
        let times = cx.app.and_then(|memory| memory.downcast_ref()).unwrap_or(&*times);
        compare(at.kind(cx.payload).and_then(|kind| times.expected(kind)), threshold)
    })
}

/// As [`service_time`], with times that the application published in the connection's private bytes
/// ([`private::publish`]).
#[must_use]
pub fn service_time_private(at: KindAt, threshold: Span) -> TransportClassifier {
    Arc::new(move |cx: &mut FlowContext<'_>| {
        compare(at.kind(cx.payload).and_then(|kind| private::expected(cx.private, kind)), threshold)
    })
}

impl KindAt {
    /// Kind of the request that starts here, if any.
    fn kind(&self, payload: &[u8]) -> Option<u8> {
        payload.get(self.kind_at).copied().filter(|_| has_magic(payload, self.magic))
    }
}

fn compare(expected: Option<Span>, threshold: Span) -> Verdict {
    expected.map_or(Verdict::NoVerdict, |expected| two_levels(expected > threshold))
}

const WEIGHT: u64 = 8;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestFlow;

    const AT: KindAt = KindAt { magic: (0, b"GW"), kind_at: 3 };

    //~ classifiers: scenario 6: request kinds with long measured service times get low priority
    #[test]
    fn kinds_that_run_long_are_low_once_they_are_known() {
        let times = Arc::new(ServiceTimes::new());
        let classifier = service_time(Arc::clone(&times), AT, Span::from_micros(10));
        let mut flow = TestFlow::new();
        let mut check = |payload: &[u8], expected| assert_eq!(flow.segment(&classifier, payload), expected);
        check(b"GW\x01\x05", Verdict::NoVerdict);
        times.observe(5, Span::from_millis(1));
        times.observe(6, Span::from_micros(1));
        check(b"GW\x01\x05", Verdict::Level(7));
        check(b"GW\x01\x06....", Verdict::Level(0));
        check(b"XX\x01\x06", Verdict::NoVerdict);
        check(b"GW\x01", Verdict::NoVerdict);
    }

    //~ classifiers: scenario 6: service times published in the private area count for that connection
    #[test]
    fn service_times_published_on_a_connection_apply_to_it_alone() {
        let classifier = service_time_private(AT, Span::from_micros(10));
        let (mut published, mut unpublished) = (TestFlow::new(), TestFlow::new());
        private::publish(&mut published.private, 5, Span::from_millis(1)).unwrap();
        private::publish(&mut published.private, 6, Span::from_micros(1)).unwrap();
        assert_eq!(published.segment(&classifier, b"GW\x01\x05"), Verdict::Level(7));
        assert_eq!(published.segment(&classifier, b"GW\x01\x06"), Verdict::Level(0));
        assert_eq!(published.segment(&classifier, b"XX\x01\x06"), Verdict::NoVerdict);
        assert_eq!(unpublished.segment(&classifier, b"GW\x01\x05"), Verdict::NoVerdict);
    }

    //~ classifiers: scenario 6: request kinds with long measured service times get low priority
    #[test]
    fn an_average_follows_the_observations() {
        let times = ServiceTimes::new();
        times.publish(1, Span::from_micros(100));
        for _ in 0..64 {
            times.observe(1, Span::from_micros(10));
        }
        let expected = times.expected(1).unwrap();
        assert!(Span::from_micros(9) < expected && expected < Span::from_micros(11), "{expected}");
        times.observe(2, Span::MAX);
        times.observe(2, Span::MAX);
        times.observe(3, Span::ZERO);
        assert!(times.expected(2) > Some(Span::from_secs(1)) && times.expected(3).is_some());
    }
}
