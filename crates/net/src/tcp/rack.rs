//! RACK: time-based loss detection.
//!
//! A segment is lost once a segment sent later was delivered and the reordering window has passed.
//! This file holds only the rule; `recovery` applies it to the records.
//! Source: RFC 8985 §6.2.

use queueing::{Span, Time};
use wire::tcp::Seq;

use super::retransmit_queue::Record;

/// RACK state: the most recently sent segment that was delivered, and the order of delivery.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rack {
    /// Send time (RACK.xmit_ts).
    sent: Time,
    /// End (RACK.end_seq).
    end: Seq,
    /// Round-trip time (RACK.rtt).
    rtt: Span,
    /// True if the segment was a retransmission.
    retransmitted: bool,
    /// True once a segment was delivered.
    known: bool,
    /// Highest sequence number delivered (RACK.fack).
    fack: Seq,
    /// Until this is acknowledged, further D-SACKs do not count (RACK.dsack_round).
    dsack_round: Option<Seq>,
}

/// Timing information of an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RackSample {
    pub(crate) now: Time,
    /// Echoed timestamp in our milliseconds, if present.
    pub(crate) echo_ms: Option<u32>,
    pub(crate) min_rtt: Span,
}

impl Rack {
    /// Starts a flight at `una`.
    pub(crate) fn start(&mut self, una: Seq) {
        self.fack = una;
    }

    /// Processes the delivery of segment `r` (RFC 8985 §6.2 steps 1 to 3).
    ///
    /// Returns true for reordering: `r` was sent once and arrived after a later segment.
    #[inline]
    pub(crate) fn on_delivered(&mut self, r: &Record, a: &RackSample) -> bool {
        let rtt = a.now.since(r.sent);
        // Both conditions count: within a millisecond timestamps do not distinguish the copies.
        let older = |echo_ms| (millis(r.sent).wrapping_sub(echo_ms) as i32) > 0;
        let of_the_original = r.retransmitted && (a.echo_ms.is_some_and(older) || rtt < a.min_rtt);
        let later = !self.known || is_later(r.sent, r.end, self.sent, self.end);
        if !of_the_original && later {
            *self =
                Self { sent: r.sent, end: r.end, rtt, retransmitted: r.retransmitted, known: true, ..*self };
        }
        if r.end.after(self.fack) {
            self.fack = r.end;
            return false;
        }
        !r.retransmitted && r.end.before(self.fack)
    }

    /// The originals have arrived: the send times of retransmissions no longer count.
    pub(crate) fn on_undo(&mut self) {
        self.known &= !self.retransmitted;
    }

    /// True once a segment was delivered.
    pub(crate) fn is_known(&self) -> bool {
        self.known
    }

    /// Time at which `r` is lost; `None` if it was not sent before the most recent delivered
    /// segment.
    pub(crate) fn lost_at(&self, r: &Record, window: Span) -> Option<Time> {
        // At the same instant, a retransmission may leave before or after new data: their order is
        // unknown.
        let unclear = r.sent == self.sent && r.retransmitted != self.retransmitted;
        let earlier = self.known && !unclear && is_later(self.sent, self.end, r.sent, r.end);
        earlier.then(|| r.sent + self.rtt + window)
    }

    /// Latest round-trip time, or `fallback` if the flight has none.
    pub(crate) fn rtt_or(&self, fallback: Span) -> Span {
        if self.known { self.rtt } else { fallback }
    }

    pub(crate) fn fack(&self) -> Seq {
        self.fack
    }

    /// Processes a D-SACK, with `nxt` as the next sequence number to send; returns true for the
    /// first one of its round.
    pub(crate) fn on_dsack(&mut self, nxt: Seq) -> bool {
        let first = self.dsack_round.is_none();
        self.dsack_round.get_or_insert(nxt);
        first
    }

    /// Ends the D-SACK round if `una` has passed it.
    pub(crate) fn end_round(&mut self, una: Seq) {
        if self.dsack_round.is_some_and(|round| una.at_or_after(round)) {
            self.dsack_round = None;
        }
    }
}

/// Reordering observed on a path; persists across flights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reordering {
    /// Minimum round-trip time of the previous and the current period.
    min_rtt_ns: [u32; 2],
    period: u16,
    /// Reordering window in quarters of the minimum RTT (RACK.reo_wnd_mult).
    quarters: u8,
    /// Recoveries until the window is reset (RACK.reo_wnd_persist).
    persist: u8,
    /// RACK.reordering_seen.
    seen: bool,
}

impl Reordering {
    /// Number of recoveries for which a wider window persists.
    const PERSIST: u8 = 16;
    /// Number of SACKed segments that indicate loss, as long as no reordering was seen.
    const DUP_THRESH: u32 = 3;
    /// Period of the minimum RTT: 2³³ ns, 8.6 s.
    const PERIOD_BITS: u32 = 33;

    pub(crate) const fn new() -> Self {
        Self { min_rtt_ns: [u32::MAX; 2], period: 0, quarters: 1, persist: 0, seen: false }
    }

    /// Records a round-trip sample.
    #[inline]
    pub(crate) fn on_rtt(&mut self, now: Time, rtt: Span) {
        let rtt_ns = u32::try_from(rtt.as_nanos()).unwrap_or(u32::MAX);
        let period = (now.as_nanos() >> Self::PERIOD_BITS) as u16;
        if period != self.period {
            (self.min_rtt_ns, self.period) = ([self.min_rtt_ns[1], rtt_ns], period);
        }
        self.min_rtt_ns[1] = self.min_rtt_ns[1].min(rtt_ns);
    }

    /// Minimum round-trip time of the last two periods; 4.29 s without a sample.
    #[inline]
    pub(crate) fn min_rtt(&self) -> Span {
        Span::from_nanos(u64::from(self.min_rtt_ns[0].min(self.min_rtt_ns[1])))
    }

    pub(crate) fn on_reordering(&mut self) {
        self.seen = true;
    }

    /// Widens the window: a D-SACK shows that it was too small.
    pub(crate) fn on_dsack(&mut self) {
        self.quarters = self.quarters.saturating_add(1);
        self.persist = Self::PERSIST;
    }

    /// Counts a finished recovery.
    pub(crate) fn on_recovered(&mut self) {
        self.persist = self.persist.saturating_sub(1);
        if self.persist == 0 {
            self.quarters = 1;
        }
    }

    /// Reordering window (RACK.reo_wnd).
    pub(crate) fn window(&self, repairing: bool, sacked_records: u32, srtt: Option<Span>) -> Span {
        if !self.seen && (repairing || sacked_records >= Self::DUP_THRESH) {
            return Span::ZERO;
        }
        (self.min_rtt() / 4 * u64::from(self.quarters)).min(srtt.unwrap_or(Span::ZERO))
    }
}

/// `at` in whole milliseconds, the unit of timestamps.
#[inline]
pub(crate) fn millis(at: Time) -> u32 {
    (at.as_nanos() / 1_000_000) as u32
}

/// True if a segment was sent after the `other` (RACK_sent_after); at the same instant, the one
/// with the higher end.
#[inline]
fn is_later(sent: Time, end: Seq, other_sent: Time, other_end: Seq) -> bool {
    sent > other_sent || (sent == other_sent && end.after(other_end))
}

//~ recovery: RACK-TLP detects loss by time, adapts to reordering and probes for tail loss (RFC 8985)
#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Span = Span::from_micros(100);

    fn at(us: u64) -> Time {
        Time::from_nanos(us * 1000)
    }

    fn record(i: u32, sent_us: u64) -> Record {
        Record::new(Seq(i * 1000), Seq(i * 1000 + 1000), at(sent_us))
    }

    fn arrived(now_us: u64) -> RackSample {
        RackSample { now: at(now_us), echo_ms: None, min_rtt: RTT }
    }

    #[test]
    fn segment_sent_before_an_arrived_one_is_lost_after_the_window() {
        let mut rack = Rack::default();
        rack.start(Seq(0));
        assert!(!rack.on_delivered(&record(1, 10), &arrived(110)));
        assert_eq!(rack.lost_at(&record(0, 0), Span::from_micros(25)), Some(at(125)));
        assert_eq!(rack.lost_at(&record(2, 20), Span::ZERO), None, "sent after the delivered one");
    }

    #[test]
    fn of_segments_sent_at_once_the_later_number_was_sent_later() {
        let mut rack = Rack::default();
        rack.start(Seq(0));
        rack.on_delivered(&record(1, 0), &arrived(100));
        assert!(rack.lost_at(&record(0, 0), Span::ZERO).is_some());
        assert!(rack.lost_at(&record(2, 0), Span::ZERO).is_none());
    }

    #[test]
    fn late_original_is_reordering_and_a_retransmission_is_not() {
        let mut rack = Rack::default();
        rack.start(Seq(0));
        rack.on_delivered(&record(2, 0), &arrived(100));
        assert!(rack.on_delivered(&record(1, 0), &arrived(110)));
        assert!(!rack.on_delivered(&Record { retransmitted: true, ..record(0, 50) }, &arrived(160)));
    }

    #[test]
    fn ack_of_the_original_is_no_sample_of_the_retransmission() {
        let mut rack = Rack::default();
        rack.start(Seq(0));
        let retransmitted = Record { retransmitted: true, ..record(0, 50) };
        rack.on_delivered(&retransmitted, &arrived(60));
        assert!(!rack.is_known(), "faster than the minimum RTT");
        let echo = |echo_ms| RackSample { now: at(9000), echo_ms: Some(echo_ms), min_rtt: RTT };
        let later = Record { retransmitted: true, ..record(0, 5000) };
        rack.on_delivered(&later, &echo(4));
        assert!(!rack.is_known(), "echo of an earlier send");
        rack.on_delivered(&later, &RackSample { now: at(5060), ..echo(5) });
        assert!(!rack.is_known(), "same millisecond, but faster than the minimum RTT");
        rack.on_delivered(&later, &echo(5));
        assert!(rack.is_known());
    }

    #[test]
    fn window_is_a_quarter_of_the_round_trip_and_grows_with_duplicates() {
        let mut path = Reordering::new();
        path.on_rtt(at(0), RTT);
        let srtt = Some(Span::from_micros(120));
        assert_eq!(path.window(false, 0, srtt), RTT / 4);
        assert_eq!(path.window(false, 3, srtt), Span::ZERO, "no reordering seen: three segments mean loss");
        path.on_reordering();
        assert_eq!(path.window(true, 3, srtt), RTT / 4);
        path.on_dsack();
        assert_eq!(path.window(true, 3, srtt), RTT / 2);
        (0..9).for_each(|_| path.on_dsack());
        assert_eq!(path.window(true, 3, srtt), Span::from_micros(120), "never more than SRTT");
        (0..16).for_each(|_| path.on_recovered());
        assert_eq!(path.window(true, 3, srtt), RTT / 4, "reset after 16 recoveries");
    }

    #[test]
    fn duplicates_widen_the_window_once_a_round() {
        let mut rack = Rack::default();
        assert!(rack.on_dsack(Seq(5000)));
        assert!(!rack.on_dsack(Seq(6000)));
        rack.end_round(Seq(4999));
        assert!(!rack.on_dsack(Seq(6000)));
        rack.end_round(Seq(5000));
        assert!(rack.on_dsack(Seq(7000)));
    }

    #[test]
    fn smallest_round_trip_is_forgotten_after_two_periods() {
        let mut path = Reordering::new();
        let second = |s: u64| Time::from_nanos(s * 1_000_000_000);
        path.on_rtt(second(0), RTT);
        for s in [9, 18, 27] {
            path.on_rtt(second(s), RTT * 3);
        }
        assert_eq!(path.min_rtt(), RTT * 3);
    }
}
