//! Time to a response, where some of the connections without one are long polls.
//!
//! Where a wait ends with the response, not every waiting connection is in a queue: long polls, event
//! streams and half requests have no response for minutes at an idle server. A queue delays every response,
//! a long poll only its own. So the time to a response is taken from fast ones: the least of `t / share`,
//! where `share` of the responses took at most `t`, at least [`SHARE_MIN`] of them. In order of arrival all
//! take the same time; in processor sharing the share is in proportion to `t`. Both give the mean.
//!
//! A connection older than [`LONG_POLL_TIMES`] of these was overtaken by many: it is a long poll, and its
//! wait for the server has ended. Decision: `docs/adr/0085-long-polls-are-no-queue.md`.

use queueing::{Span, Time};

use crate::{Responses, Signals};

/// Recent responses, and connections that are long polls.
#[derive(Clone, Debug)]
pub struct ResponseWaits {
    /// Responses by bin; decaying.
    weights: [f64; Self::BINS],
    /// Responses in the bins since the last tick.
    recorded: u64,
    long_polls_end: Time,
    long_polls: u64,
    /// Waits that ended since the last tick; negative: too many were counted before.
    ended: f64,
}

impl Default for ResponseWaits {
    fn default() -> Self {
        Self {
            weights: [0.0; Self::BINS],
            recorded: 0,
            long_polls_end: Time::ZERO,
            long_polls: 0,
            ended: 0.0,
        }
    }
}

impl ResponseWaits {
    /// Number of bins: four for each power of two, from 65 µs to 8.6 s. Longer times are those of long
    /// polls, as clients leave a queue sooner.
    pub const BINS: usize = 4 * (OCTAVE_MAX - OCTAVE_MIN) as usize;

    /// Bin of a response after `time`; `None` if it took longer than any bin.
    fn bin(time: Span) -> Option<usize> {
        let ns = time.as_nanos().max(1 << OCTAVE_MIN);
        let octave = ns.ilog2();
        let quarter = (ns >> (octave - 2)) & 3;
        let bin = 4 * (octave - OCTAVE_MIN) as usize + quarter as usize;
        (bin < Self::BINS).then_some(bin)
    }

    /// Records a response after `time`.
    pub fn record(&mut self, time: Span) {
        if let Some(bin) = Self::bin(time) {
            self.decay(1);
            self.weights[bin] += 1.0;
        }
    }

    /// Records the numbers of responses by bin.
    pub fn record_bins(&mut self, bins: impl IntoIterator<Item = u64> + Clone) {
        self.decay(bins.clone().into_iter().fold(0, u64::saturating_add));
        self.weights.iter_mut().zip(bins).for_each(|(weight, more)| *weight += more as f64);
    }

    fn decay(&mut self, responses: u64) {
        self.recorded = self.recorded.saturating_add(responses);
        let keep = (-(responses as f64) / MEMORY).exp();
        self.weights.iter_mut().for_each(|weight| *weight *= keep);
    }

    /// Time before which connections without a response were made that are long polls at `now`; those
    /// found before stay long polls.
    pub fn long_polls_end(&mut self, now: Time) -> Time {
        let age = (self.response_time() * LONG_POLL_TIMES).max(LONG_POLL_MIN);
        let end = Time::from_nanos(now.as_nanos().saturating_sub(age.as_nanos()));
        self.long_polls_end = self.long_polls_end.max(end);
        self.long_polls_end
    }

    /// `seen`, of responses and of connections without one, completed; there are `long_polls` besides
    /// those waiting in `seen`.
    #[must_use]
    pub fn signals(&mut self, seen: Signals, long_polls: u64) -> Signals {
        let before = std::mem::replace(&mut self.long_polls, long_polls);
        let new = long_polls as f64 - before as f64;
        self.ended = self.ended.min(0.0) * DEBT_KEPT + seen.served as f64 + new;
        let ended = self.ended.max(0.0) as u64;
        let served = std::mem::take(&mut self.recorded);
        Signals { served, responses: Some(Responses { time: self.response_time(), ended }), ..seen }
    }

    /// Time to a response; zero if none is known.
    #[must_use]
    pub fn response_time(&self) -> Span {
        let total: f64 = self.weights.iter().sum();
        let mut below = 0.0;
        let times = self.weights.iter().enumerate().filter_map(|(bin, weight)| {
            below += weight;
            (*weight > 0.0 && below >= SHARE_MIN * total).then(|| bin_end_s(bin) * total / below)
        });
        times.reduce(f64::min).map_or(Span::ZERO, Span::from_secs_f64)
    }
}

/// Upper end of a bin in seconds.
fn bin_end_s(bin: usize) -> f64 {
    let octave = OCTAVE_MIN + bin as u32 / 4;
    ((5 + bin as u64 % 4) << (octave - 2)) as f64 / 1e9
}

/// Powers of two, in nanoseconds, of the first bin and after the last.
const OCTAVE_MIN: u32 = 16;
const OCTAVE_MAX: u32 = 33;
/// Responses that the histogram covers.
const MEMORY: f64 = 16.0;
/// Minimum share of responses that counts as more than chance.
const SHARE_MIN: f64 = 1.0 / 8.0;
/// Age of a long poll: at least this many times to a response, and at least this long.
const LONG_POLL_TIMES: u64 = 16;
const LONG_POLL_MIN: Span = Span::from_secs(1);
/// Share of a debt that is kept from one tick to the next.
const DEBT_KEPT: f64 = 0.99;

//~ guard: until-answer: the time to a response is that of a queue, not of long polls
#[cfg(test)]
mod tests {
    use super::*;

    /// Time to a response in milliseconds, after 200 responses that take `ms`.
    fn time_ms(ms: impl Fn(u64) -> f64) -> f64 {
        let mut waits = ResponseWaits::default();
        (0..200).for_each(|n| waits.record(Span::from_secs_f64(ms(n) / 1e3)));
        waits.response_time().as_secs_f64() * 1e3
    }

    #[test]
    fn the_time_is_that_of_all_in_a_queue_and_of_the_fast_ones_beside_long_polls() {
        let times = [
            ("all take as long", time_ms(|_| 50.0), 50.0),
            ("in proportion to their work", time_ms(|n| ((n * 7919) % 200 + 1) as f64), 200.0),
            ("long polls end after 30 s", time_ms(|n| if n % 10 == 0 { 5.0 } else { 30_000.0 }), 5.0),
            ("half of all end after a second", time_ms(|n| if n % 2 == 0 { 5.0 } else { 1_000.0 }), 10.0),
            ("overload since 100 responses", time_ms(|n| if n < 100 { 1.0 } else { 300.0 }), 300.0),
        ];
        for (what, ms, expected) in times {
            assert!((0.6..1.5).contains(&(ms / expected)), "{what}: {ms} ms, expected {expected}");
        }
        assert_eq!(ResponseWaits::default().response_time(), Span::ZERO);
    }

    #[test]
    fn bins_are_in_order_and_hold_their_times() {
        let ends = (0..ResponseWaits::BINS).map(bin_end_s).collect::<Vec<_>>();
        assert!(ends.is_sorted());
        for (bin, end_s) in ends.into_iter().enumerate() {
            let end = Span::from_secs_f64(end_s);
            assert_eq!(ResponseWaits::bin(end - Span::from_micros(1)), Some(bin));
            assert_eq!(ResponseWaits::bin(end).unwrap_or(ResponseWaits::BINS), bin + 1);
        }
    }

    #[test]
    fn a_long_poll_ends_its_wait_once() {
        let mut waits = ResponseWaits::default();
        let mut ended = |served, long_polls| {
            let seen = Signals { served, ..Signals::default() };
            waits.signals(seen, long_polls).responses.expect("it is set").ended
        };
        assert_eq!([ended(3, 0), ended(2, 5), ended(5, 0), ended(1, 0)], [3, 7, 0, 1]);
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        assert_eq!([waits.long_polls_end(at(5_000)), waits.long_polls_end(at(4_000))], [at(4_000); 2]);
    }
}
