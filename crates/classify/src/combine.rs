//! Combination of several classifiers into one.

use std::sync::Arc;

use super::{DriverClassifier, FlowContext, PacketView, TransportClassifier, Verdict};

/// Classifiers that can be combined: those of the driver and those of the transport.
pub trait Combine: Sized {
    /// One classifier that calls each of `parts` in order and combines the verdicts. It stops after
    /// a verdict for which `enough` is true.
    fn combine(parts: Vec<Self>, enough: fn(Verdict) -> bool) -> Self;
}

impl Combine for DriverClassifier {
    fn combine(parts: Vec<Self>, enough: fn(Verdict) -> bool) -> Self {
        Arc::new(move |packet: &PacketView<'_>| join(parts.iter().map(|part| part(packet)), enough))
    }
}

impl Combine for TransportClassifier {
    fn combine(parts: Vec<Self>, enough: fn(Verdict) -> bool) -> Self {
        Arc::new(move |cx: &mut FlowContext<'_>| join(parts.iter().map(|part| part(cx)), enough))
    }
}

/// First verdict in order; later classifiers are not called. [`Verdict::Default`] counts only if no
/// other classifier has a verdict.
pub fn first_of<C: Combine>(classifiers: impl IntoIterator<Item = C>) -> C {
    let enough = |verdict| !matches!(verdict, Verdict::NoVerdict | Verdict::Default(_));
    C::combine(classifiers.into_iter().collect(), enough)
}

/// Most urgent of all verdicts. All classifiers are called, so that stateful ones see every packet;
/// [`Verdict::Drop`] is final and ends the calls.
pub fn most_urgent_of<C: Combine>(classifiers: impl IntoIterator<Item = C>) -> C {
    C::combine(classifiers.into_iter().collect(), |verdict| verdict == Verdict::Drop)
}

fn join(verdicts: impl Iterator<Item = Verdict>, enough: fn(Verdict) -> bool) -> Verdict {
    let mut combined = Verdict::NoVerdict;
    for verdict in verdicts {
        combined = more_urgent(combined, verdict);
        if enough(verdict) {
            break;
        }
    }
    combined
}

pub(super) fn more_urgent(one: Verdict, other: Verdict) -> Verdict {
    match (one, other) {
        (Verdict::Drop, _) | (_, Verdict::Drop) => Verdict::Drop,
        (Verdict::NoVerdict, verdict) | (verdict, Verdict::NoVerdict) => verdict,
        (Verdict::Level(one), Verdict::Level(other)) => Verdict::Level(one.min(other)),
        (Verdict::Default(one), Verdict::Default(other)) => Verdict::Default(one.min(other)),
        (Verdict::Default(_), verdict) | (verdict, Verdict::Default(_)) => verdict,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::testing::{TestFlow, TestPacket, view};
    use Verdict::{Drop, Level, NoVerdict};

    fn says(verdict: Verdict) -> DriverClassifier {
        Arc::new(move |_: &PacketView<'_>| verdict)
    }

    //~ classifiers: combined classifiers take the first verdict or the most urgent
    #[test]
    fn first_of_takes_the_first_verdict_and_most_urgent_of_the_lowest_level() {
        let check = |verdicts: &[Verdict], first, most_urgent| {
            let frame = TestPacket::new(b"").frame();
            let parts = || verdicts.iter().map(|&v| says(v));
            assert_eq!(view(&frame, |v| first_of(parts())(v)), first, "first of {verdicts:?}");
            assert_eq!(
                view(&frame, |v| most_urgent_of(parts())(v)),
                most_urgent,
                "most urgent of {verdicts:?}"
            );
        };
        check(&[], NoVerdict, NoVerdict);
        check(&[Verdict::Default(2), NoVerdict, Level(5)], Level(5), Level(5));
        check(
            &[Verdict::Default(4), Verdict::Default(2), NoVerdict],
            Verdict::Default(2),
            Verdict::Default(2),
        );
        check(&[NoVerdict, NoVerdict], NoVerdict, NoVerdict);
        check(&[NoVerdict, Level(5), Level(2)], Level(5), Level(2));
        check(&[Level(5), Drop, Level(0)], Level(5), Drop);
        check(&[Level(9), Level(3)], Level(9), Level(3));
    }

    #[test]
    fn most_urgent_of_calls_every_transport_classifier() {
        let calls = Arc::new(AtomicU32::new(0));
        let counted = |verdict| -> TransportClassifier {
            let calls = Arc::clone(&calls);
            Arc::new(move |_: &mut FlowContext<'_>| {
                calls.fetch_add(1, Ordering::Relaxed);
                verdict
            })
        };
        let combined = most_urgent_of([counted(Level(0)), counted(NoVerdict), counted(Level(4))]);
        assert_eq!(TestFlow::new().segment(&combined, b"x"), Level(0));
        assert_eq!(calls.load(Ordering::Relaxed), 3);
        let first = first_of([counted(Level(6)), counted(Level(0))]);
        assert_eq!(TestFlow::new().segment(&first, b"x"), Level(6));
        assert_eq!(calls.load(Ordering::Relaxed), 4);
    }
}
