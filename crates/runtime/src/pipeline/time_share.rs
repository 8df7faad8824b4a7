//! Time shares of receiving and other work on a shard's core.
//!
//! The shard reads no clock: each call charges the time since the last one to the kind of work set
//! then. Moving frames in and running them through TCP is *receiving*. Transmitting, assigning
//! requests and serving them in the shard's own thread is the *rest*.
//! Source: the overload paper §3.4: the stage that runs first is limited to a share.

use queueing::{Span, Time};

/// Kind of work of a core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Work {
    /// Moves frames in and runs them through TCP.
    Receive,
    /// Any other work.
    Rest,
    /// No work.
    #[default]
    None,
}

/// Time-share meter of one core.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TimeShare {
    current: Work,
    since: Time,
    /// Receiving time since the last [`TimeShare::take_share`].
    receiving: Span,
    all: Span,
    /// Time that receiving may still take, negative after an excess; in 1/100 ns, so that shares
    /// are whole numbers.
    credit: i64,
}

/// Maximum credit or debt: rounds differ, and the share applies over many of them.
const CREDIT_MAX: i64 = Span::from_millis(1).as_nanos() as i64 * 100;

impl TimeShare {
    /// Charges the time until `now`; receiving should take at most `percent` of the time.
    #[inline]
    pub(crate) fn at(&mut self, now: Time, percent: u8) {
        let span = now.since(self.since);
        self.since = now;
        self.all += span;
        let ns = span.as_nanos() as i64;
        let percent = i64::from(percent);
        let credit = match std::mem::replace(&mut self.current, Work::Rest) {
            Work::Receive => {
                self.receiving += span;
                self.credit.saturating_sub(ns.saturating_mul(100 - percent))
            }
            Work::Rest => self.credit.saturating_add(ns.saturating_mul(percent)),
            Work::None => self.credit,
        };
        self.credit = credit.clamp(-CREDIT_MAX, CREDIT_MAX);
    }

    /// Sets the kind of work from now on.
    #[inline]
    pub(crate) fn begin(&mut self, work: Work) {
        self.current = work;
    }

    /// True if receiving has exceeded its share.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.credit < 0
    }

    /// Clears a debt, as no other work waited.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.credit = self.credit.max(0);
    }

    /// Share of time, 0 to 1, that receiving took since the last call.
    pub(crate) fn take_share(&mut self) -> f64 {
        let (receiving, all) = (std::mem::take(&mut self.receiving), std::mem::take(&mut self.all));
        receiving.as_secs_f64() / all.as_secs_f64().max(1e-9)
    }
}
