//! Service-time estimator per kind of request, from observation alone.
//!
//! The estimator sees the time at which a request was complete and the time at which its connection
//! began to answer. The difference includes queueing in the program, so a mean would overrate short
//! kinds queued behind long ones. The estimate is therefore the first quartile, which is closer to
//! the service time. Each answer moves it by a small share of its value, so old observations fade.
//! A kind not seen for [`FORGOTTEN`] is unknown again.
//!
//! Bounds: [`KINDS_MAX`] kinds. A full table replaces a forgotten kind or rejects the new one, so a
//! client that invents kinds evicts no live entry.
//! Source: ADPS §2.2, scenario 6, for programs that publish nothing; the quantile's steps are
//! stochastic approximation (Robbins and Monro, 1951).

use std::collections::BTreeMap;
use std::sync::Mutex;

use queueing::{Span, Time};

use super::RequestKind;

/// Maximum number of kinds in the table.
pub const KINDS_MAX: usize = 256;
/// Number of answers before a kind is known. The estimate starts at the fastest of them.
pub const FIRST: u32 = 8;
/// Age at which an unseen kind is forgotten.
pub const FORGOTTEN: Span = Span::from_secs(60);
/// Step up 1/32, step down 3/32: in equilibrium three of four answers take longer.
const STEP: u64 = 32;
const DOWN: u64 = 3;

/// Service times by kind, shared by all connections.
#[derive(Debug, Default)]
pub struct ServiceTimeEstimator {
    kinds: Mutex<BTreeMap<Box<[u8]>, Entry>>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    ns: u64,
    answers: u32,
    last: Time,
}

impl ServiceTimeEstimator {
    /// Records that a request of `kind` was answered at `now` after `service`.
    pub fn observe(&self, now: Time, kind: &RequestKind, service: Span) {
        let ns = service.as_nanos().clamp(1, u64::MAX / STEP);
        let mut kinds = self.lock();
        if let Some(entry) = kinds.get_mut(kind.as_bytes()) {
            match now.since(entry.last) > FORGOTTEN {
                true => *entry = Entry { ns, answers: 1, last: now },
                false => entry.observe(now, ns),
            }
            return;
        }
        if kinds.len() >= KINDS_MAX {
            let oldest = kinds.iter().min_by_key(|(_, entry)| entry.last);
            let Some((forgotten, _)) = oldest.filter(|(_, e)| now.since(e.last) > FORGOTTEN) else {
                return;
            };
            let forgotten = forgotten.clone();
            kinds.remove(&forgotten);
        }
        kinds.insert(kind.as_bytes().into(), Entry { ns, answers: 1, last: now });
    }

    /// Expected service time of `kind`; `None` before `FIRST` answers or after `FORGOTTEN`.
    #[must_use]
    pub fn expected(&self, now: Time, kind: &RequestKind) -> Option<Span> {
        let kinds = self.lock();
        let entry = kinds.get(kind.as_bytes())?;
        (entry.answers >= FIRST && now.since(entry.last) <= FORGOTTEN).then(|| Span::from_nanos(entry.ns))
    }

    /// Names and estimates of all kinds with at least `FIRST` answers.
    #[must_use]
    pub fn kinds(&self) -> Vec<(String, Span)> {
        let kinds = self.lock();
        let known = kinds.iter().filter(|(_, entry)| entry.answers >= FIRST);
        known.map(|(kind, entry)| (kind.escape_ascii().to_string(), Span::from_nanos(entry.ns))).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Box<[u8]>, Entry>> {
        // No code under the lock panics in the middle of a change.
        self.kinds.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

impl Entry {
    fn observe(&mut self, now: Time, ns: u64) {
        self.last = now;
        self.answers = self.answers.saturating_add(1);
        if self.answers <= FIRST {
            self.ns = self.ns.min(ns);
        } else if ns > self.ns {
            self.ns += (self.ns / STEP).max(1);
        } else if ns < self.ns {
            self.ns -= (self.ns * DOWN / STEP).max(1).min(self.ns - 1);
        }
    }
}

//~ classifiers: learned service times are bounded and fade
#[cfg(test)]
mod tests {
    use super::super::{L7Protocol, RequestHead};
    use super::*;

    fn kind(verb: &str) -> RequestKind {
        let request = RequestHead::Command { verb: verb.as_bytes(), key: b"" };
        RequestKind::of(&L7Protocol::Resp, &request).expect("commands have kinds")
    }

    /// Observes these service times of one kind, 1 ms apart.
    fn learn(
        learned: &ServiceTimeEstimator,
        verb: &str,
        from: Time,
        micros: impl IntoIterator<Item = u64>,
    ) -> Time {
        micros.into_iter().fold(from, |now, us| {
            learned.observe(now, &kind(verb), Span::from_micros(us));
            now + Span::from_millis(1)
        })
    }

    #[test]
    fn a_kind_is_unknown_before_its_eighth_response_and_after_a_minute() {
        let learned = ServiceTimeEstimator::default();
        let now = learn(&learned, "GET", Time::ZERO, [9, 8, 7, 9, 9, 9, 9]);
        assert_eq!(learned.expected(now, &kind("get")), None);
        let now = learn(&learned, "GET", now, [9]);
        assert_eq!(learned.expected(now, &kind("get")), Some(Span::from_micros(7)));
        assert_eq!(learned.expected(now + FORGOTTEN, &kind("get")), None);
        assert_eq!(learned.expected(now, &kind("SET")), None);
        learned.observe(now + FORGOTTEN, &kind("GET"), Span::from_secs(1));
        assert!(learned.kinds().is_empty(), "a forgotten kind starts again");
    }

    #[test]
    fn a_short_kind_that_mostly_waits_for_long_ones_is_still_short() {
        let learned = ServiceTimeEstimator::default();
        // Two of three answers waited for a request of 1 ms.
        let waits = (0..600).map(|n| if n % 3 == 0 { 5 } else { 1005 });
        let now = learn(&learned, "GET", Time::ZERO, waits);
        let expected = learned.expected(now, &kind("GET")).expect("known kind");
        assert!(expected < Span::from_micros(50), "{expected}");
    }

    #[test]
    fn learned_service_times_decay() {
        let learned = ServiceTimeEstimator::default();
        let now = learn(&learned, "EVAL", Time::ZERO, std::iter::repeat_n(10, 100));
        let now = learn(&learned, "EVAL", now, std::iter::repeat_n(1000, 300));
        let expected = learned.expected(now, &kind("EVAL")).expect("known kind");
        assert!(expected > Span::from_micros(900), "{expected}");
        let now = learn(&learned, "EVAL", now, std::iter::repeat_n(10, 100));
        let expected = learned.expected(now, &kind("EVAL")).expect("known kind");
        assert!(expected < Span::from_micros(12), "{expected}");
        let now = learn(&learned, "EVAL", now, std::iter::repeat_n(0, 1000));
        assert!(learned.expected(now, &kind("EVAL")) < Some(Span::from_nanos(60)), "never below 1 ns");
    }

    #[test]
    fn invented_kinds_displace_no_known_kind() {
        let learned = ServiceTimeEstimator::default();
        let mut now = learn(&learned, "GET", Time::ZERO, std::iter::repeat_n(5, 8));
        for n in 0..2 * KINDS_MAX {
            now = learn(&learned, &format!("X{n}"), now, [1]);
        }
        assert_eq!(learned.lock().len(), KINDS_MAX);
        assert!(learned.expected(now, &kind("GET")).is_some());
        now += FORGOTTEN + Span::from_millis(1);
        learn(&learned, "NEW", now, [1]);
        assert_eq!(learned.lock().len(), KINDS_MAX);
        assert!(learned.lock().contains_key(&b"NEW"[..]) && !learned.lock().contains_key(&b"GET"[..]));
    }
}
