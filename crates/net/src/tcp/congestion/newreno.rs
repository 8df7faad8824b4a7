//! NewReno: slow start, congestion avoidance, and halving on loss.
//!
//! The first slow start is HyStart++.
//! Source: RFC 5681, RFC 6582.

use queueing::{Bytes, Span, Time};

use super::hystart::{Growth, HyStart};
use super::{Ack, CongestionControl, WINDOW_MAX, initial_window, narrow};

/// Congestion control that adds a segment per round trip and halves on loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewReno {
    cwnd: u32,
    ssthresh: u32,
    mss: u16,
    hystart: HyStart,
    /// Window and threshold before the last reduction.
    before: Option<(u32, u32)>,
}

impl NewReno {
    /// A control with the initial window for segments of up to `mss` bytes.
    #[must_use]
    pub fn new(mss: u16) -> Self {
        Self { cwnd: initial_window(mss), ssthresh: u32::MAX, mss, hystart: HyStart::new(), before: None }
    }

    /// Reduces the window to `bytes`, at least 2 segments.
    pub(super) fn reduce_to(&mut self, bytes: f64) {
        self.before = Some((self.cwnd, self.ssthresh));
        self.ssthresh = (bytes as u32).max(2 * u32::from(self.mss));
        self.cwnd = self.ssthresh;
    }

    /// Growth of the window in bytes for `ack`, which used the window.
    #[inline]
    fn growth(&mut self, ack: &Ack) -> u32 {
        let mss = u32::from(self.mss);
        let acked = narrow(ack.acked).min(mss);
        if self.cwnd >= self.ssthresh {
            return (u64::from(mss) * u64::from(acked) / u64::from(self.cwnd)).max(1) as u32;
        }
        if self.ssthresh < u32::MAX {
            return acked;
        }
        match self.hystart.on_ack(ack, self.mss) {
            Growth::By(grow) => grow,
            Growth::Last(grow) => {
                self.ssthresh = self.cwnd + grow;
                grow
            }
        }
    }
}

impl CongestionControl for NewReno {
    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        if ack.limited {
            self.cwnd = self.cwnd.saturating_add(self.growth(ack)).min(WINDOW_MAX);
        }
    }

    fn on_loss(&mut self, _now: Time, flight: Bytes) {
        self.reduce_to(f64::from(narrow(flight)) / 2.0);
    }

    fn on_recovered(&mut self, _now: Time) {
        self.cwnd = self.cwnd.min(self.ssthresh);
    }

    fn on_timeout(&mut self, now: Time, flight: Bytes) {
        self.on_loss(now, flight);
        self.cwnd = u32::from(self.mss);
    }

    fn on_syn_lost(&mut self, _now: Time) {
        self.cwnd = u32::from(self.mss);
    }

    fn on_undo(&mut self, _now: Time) {
        if let Some((cwnd, ssthresh)) = self.before.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = ssthresh;
        }
    }

    fn on_idle(&mut self, _now: Time, _idle: Span) {
        self.cwnd = self.cwnd.min(initial_window(self.mss));
    }

    fn on_mss(&mut self, mss: u16) {
        self.mss = mss;
    }

    #[inline]
    fn window(&self) -> Bytes {
        Bytes::new(u64::from(self.cwnd))
    }

    fn ssthresh(&self) -> Bytes {
        Bytes::new(u64::from(self.ssthresh))
    }
}

//~ recovery: NewReno starts with ten segments, doubles, then grows by one; an unused window does not grow (RFC 5681, 6928, 7661)
#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u16 = 1000;

    fn ack(cc: &mut NewReno, acked: u64, flight: Bytes) {
        let limited = flight >= cc.window();
        cc.on_ack(&Ack { acked: Bytes::new(acked), flight, limited, ..Ack::default() });
    }

    #[test]
    fn initial_window_is_ten_segments_but_few_kilobytes() {
        assert_eq!(NewReno::new(536).window(), Bytes::new(5360));
        assert_eq!(NewReno::new(1460).window(), Bytes::new(14_600));
        assert_eq!(NewReno::new(8960).window(), Bytes::new(17_920));
    }

    #[test]
    fn slow_start_doubles_each_round_trip() {
        let mut cc = NewReno::new(MSS);
        for _ in 0..10 {
            let flight = cc.window();
            ack(&mut cc, 1000, flight);
        }
        assert_eq!(cc.window(), Bytes::new(20_000));
    }

    #[test]
    fn avoidance_grows_by_one_segment_each_round_trip() {
        let mut cc = NewReno::new(MSS);
        cc.on_loss(Time::ZERO, Bytes::new(20_000));
        assert_eq!(cc.window(), Bytes::new(10_000));
        for _ in 0..10 {
            let flight = cc.window();
            ack(&mut cc, 1000, flight);
        }
        assert!((10_900..=11_000).contains(&cc.window().get()), "{:?}", cc.window());
    }

    #[test]
    fn unused_window_does_not_grow() {
        let mut cc = NewReno::new(MSS);
        for _ in 0..1000 {
            ack(&mut cc, 64, Bytes::new(64));
        }
        assert_eq!(cc.window(), Bytes::new(10_000));
    }

    #[test]
    fn after_a_pause_the_window_is_the_initial_one_at_most() {
        let mut cc = NewReno::new(MSS);
        let idle = |cc: &mut NewReno| cc.on_idle(Time::ZERO, Span::from_secs(1));
        (0..10).for_each(|_| ack(&mut cc, 1000, Bytes::new(20_000)));
        idle(&mut cc);
        assert_eq!(cc.window(), Bytes::new(10_000));
        cc.on_timeout(Time::ZERO, Bytes::new(10_000));
        idle(&mut cc);
        assert_eq!(cc.window(), Bytes::new(1000), "a smaller one stays");
    }

    #[test]
    fn a_spurious_loss_is_undone() {
        let mut cc = NewReno::new(MSS);
        cc.on_timeout(Time::ZERO, Bytes::new(8000));
        cc.on_undo(Time::ZERO);
        assert_eq!((cc.window(), cc.in_slow_start()), (Bytes::new(10_000), true));
        cc.on_undo(Time::ZERO);
        assert_eq!(cc.window(), Bytes::new(10_000));
    }

    #[test]
    fn timeout_leaves_one_segment() {
        let mut cc = NewReno::new(MSS);
        cc.on_timeout(Time::ZERO, Bytes::new(10_000));
        assert_eq!(cc.window(), Bytes::new(1000));
        ack(&mut cc, 1000, Bytes::new(1000));
        assert_eq!(cc.window(), Bytes::new(2000));
    }
}
