//! Where the time of a shard's core goes, and whose turn it is by that.
//!
//! The shard reads no clock: what it was last told to do has taken the time
//! until it is next told what time it is. Taking frames in and running them
//! through TCP is *receiving*; sending, handing requests to workers and
//! serving them in the shard's own thread is the *rest*.
//! Source: the overload paper §3.4: the stage that goes first gets a share.

use queueing::{Span, Time};

/// What a core does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Work {
    /// Takes frames in.
    Receive,
    /// Whatever else is to be done.
    Rest,
    /// Nothing is.
    #[default]
    None,
}

/// Measures a core.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeShare {
    doing: Work,
    since: Time,
    /// Of the time since the last [`TimeShare::take_share`].
    receiving: Span,
    all: Span,
    /// Nanoseconds that receiving may still take, negative when it has taken
    /// too many; a hundredth of them, so that shares are whole numbers.
    credit: i64,
}

/// Time that may be saved up or owed: rounds of work differ from one to the
/// next, and the share is one of many rounds.
const CREDIT_MAX: i64 = Span::from_millis(1).as_nanos() as i64 * 100;

impl TimeShare {
    /// It is `now`; receiving should take `percent` of the time at most.
    #[inline]
    pub(crate) fn at(&mut self, now: Time, percent: u8) {
        let span = now.since(self.since);
        self.since = now;
        self.all += span;
        let ns = span.as_nanos() as i64;
        let percent = i64::from(percent);
        let credit = match std::mem::replace(&mut self.doing, Work::Rest) {
            Work::Receive => {
                self.receiving += span;
                self.credit.saturating_sub(ns.saturating_mul(100 - percent))
            }
            Work::Rest => self.credit.saturating_add(ns.saturating_mul(percent)),
            Work::None => self.credit,
        };
        self.credit = credit.clamp(-CREDIT_MAX, CREDIT_MAX);
    }

    /// What happens from now on is `work`.
    #[inline]
    pub(crate) fn begin(&mut self, work: Work) {
        self.doing = work;
    }

    /// Whether receiving has had more than its share.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.credit < 0
    }

    /// Nobody was kept waiting by it: nothing is owed.
    #[inline]
    pub(crate) fn forgive(&mut self) {
        self.credit = self.credit.max(0);
    }

    /// The share of time that receiving took since this was last asked, 0 to 1.
    pub(crate) fn take_share(&mut self) -> f64 {
        let (receiving, all) = (std::mem::take(&mut self.receiving), std::mem::take(&mut self.all));
        receiving.as_secs_f64() / all.as_secs_f64().max(1e-9)
    }
}
