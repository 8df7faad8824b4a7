//! Driver stage: classification of frames between the device and the stack, and the receive buffer.
//!
//! The classifier ([`classify`]) reads a frame in the device's buffer; nothing is copied or
//! allocated before its verdict. An admitted frame waits in the [`RxBuffer`], as handle and
//! metadata only, until the stack receives it. A classifier that panics or returns an invalid level
//! gives no verdict; this is counted and the frame is admitted.
//!
//! Source: ADPS §2.1 (M1, M6).

use classify::catch_panic::catch;
use classify::{DriverClassifier, PacketMeta, PacketView, Verdict};
use queueing::{Priority, Time};

mod buffer;

pub use buffer::{FramePriority, RxBuffer, RxOrder};

/// Counts of the driver stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DriverCounters {
    /// Frames received.
    pub frames: u64,
    /// Frames passed to a classifier.
    pub classified: u64,
    /// Frames dropped by a classifier's verdict.
    pub dropped_by_verdict: u64,
    /// Frames dropped because the receive buffer was full; counted by its owner.
    pub dropped_full: u64,
    /// Classifier calls that panicked.
    pub panics: u64,
    /// Verdicts outside 0..=7.
    pub out_of_range: u64,
}

impl DriverCounters {
    /// Adds counts of another driver stage.
    pub const fn add(&mut self, other: &Self) {
        let Self { frames, classified, dropped_by_verdict, dropped_full, panics, out_of_range } = *other;
        self.frames += frames;
        self.classified += classified;
        self.dropped_by_verdict += dropped_by_verdict;
        self.dropped_full += dropped_full;
        self.panics += panics;
        self.out_of_range += out_of_range;
    }
}

/// Decision about a frame.
#[must_use]
#[derive(Clone, Copy, Debug)]
pub enum Admission {
    /// Push the frame into the receive buffer with this metadata.
    Queue(PacketMeta),
    /// Return the frame to the device.
    Drop,
}

/// Classifies `frame`, which the device received at `received`, by `classifier` if there is one.
///
/// A panic reaches the process's panic hook, is caught here and counts as no verdict, as does a
/// level outside 0..=7.
pub fn classify(
    classifier: Option<&DriverClassifier>,
    frame: &[u8],
    received: Time,
    counters: &mut DriverCounters,
) -> Admission {
    counters.frames += 1;
    let mut meta = PacketMeta::new(received, frame.len());
    let Some(classifier) = classifier else { return Admission::Queue(meta) };
    counters.classified += 1;
    match catch(&mut counters.panics, || classifier(&PacketView::new(frame, &meta))) {
        None | Some(Verdict::NoVerdict) => {}
        Some(verdict @ (Verdict::Level(level) | Verdict::Default(level))) => {
            meta.priority = Priority::new(level);
            meta.by_default = matches!(verdict, Verdict::Default(_));
            counters.out_of_range += u64::from(meta.priority.is_none());
        }
        Some(Verdict::Drop) => {
            counters.dropped_by_verdict += 1;
            return Admission::Drop;
        }
    }
    Admission::Queue(meta)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn check(classifier: Option<DriverClassifier>, expected: Option<Option<u8>>) -> DriverCounters {
        let mut counters = DriverCounters::default();
        let admission = classify(classifier.as_ref(), &[0; 60], Time::from_nanos(5), &mut counters);
        let got = match admission {
            Admission::Queue(meta) => {
                assert_eq!((meta.received, meta.bytes), (Time::from_nanos(5), 60));
                Some(meta.priority.map(Priority::level))
            }
            Admission::Drop => None,
        };
        assert_eq!(got, expected);
        counters
    }

    fn says(verdict: Verdict) -> Option<DriverClassifier> {
        Some(Arc::new(move |_: &PacketView<'_>| verdict))
    }

    //~ mechanisms: M1: the driver classifier sees each frame; its verdict becomes metadata, and an invalid one is counted
    #[test]
    fn a_verdict_becomes_metadata_and_an_invalid_one_is_counted() {
        let one = DriverCounters { frames: 1, classified: 1, ..DriverCounters::default() };
        assert_eq!(check(None, Some(None)), DriverCounters { classified: 0, ..one });
        assert_eq!(check(says(Verdict::NoVerdict), Some(None)), one);
        assert_eq!(check(says(Verdict::Level(3)), Some(Some(3))), one);
        assert_eq!(check(says(Verdict::Default(4)), Some(Some(4))), one);
        assert_eq!(check(says(Verdict::Level(8)), Some(None)), DriverCounters { out_of_range: 1, ..one });
        assert_eq!(check(says(Verdict::Drop), None), DriverCounters { dropped_by_verdict: 1, ..one });
        let panics: DriverClassifier = Arc::new(|_| panic!("a classifier with a bug"));
        assert_eq!(check(Some(panics), Some(None)), DriverCounters { panics: 1, ..one });
        let again: DriverClassifier = Arc::new(|_| std::panic::panic_any(Again));
        assert_eq!(check(Some(again), Some(None)), DriverCounters { panics: 1, ..one });
    }

    /// Panics again when the payload of its panic is dropped.
    struct Again;

    impl Drop for Again {
        fn drop(&mut self) {
            panic!("a panic with a bug");
        }
    }
}
