//! NewReno: slow start, congestion avoidance, halving on loss.
//!
//! Source: RFC 5681, RFC 6582; initial window of ten segments, RFC 6928.

use queueing::{Bytes, Time};

use super::{Ack, CongestionControl, narrow};

/// Adds a segment each round trip and halves on loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewReno {
    cwnd: u32,
    ssthresh: u32,
    mss: u16,
}

impl NewReno {
    /// No window grows beyond this: twice the largest that TCP can announce.
    const WINDOW_MAX: u32 = 1 << 31;

    /// The initial window for segments of up to `mss` bytes.
    #[must_use]
    pub fn new(mss: u16) -> Self {
        let mss32 = u32::from(mss);
        Self { cwnd: (10 * mss32).min((2 * mss32).max(14_600)), ssthresh: u32::MAX, mss }
    }

    fn halve(&mut self, flight: Bytes) {
        self.ssthresh = (narrow(flight) / 2).max(2 * u32::from(self.mss));
    }
}

impl CongestionControl for NewReno {
    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        let acked = narrow(ack.acked);
        if !ack.limited {
            return;
        }
        let mss = u32::from(self.mss);
        let grow = if self.cwnd < self.ssthresh {
            acked.min(mss)
        } else {
            (u64::from(mss) * u64::from(mss.min(acked)) / u64::from(self.cwnd)).max(1) as u32
        };
        self.cwnd = self.cwnd.saturating_add(grow).min(Self::WINDOW_MAX);
    }

    fn on_loss(&mut self, _now: Time, flight: Bytes) {
        self.halve(flight);
        self.cwnd = self.ssthresh;
    }

    fn on_recovered(&mut self, _now: Time) {
        self.cwnd = self.cwnd.min(self.ssthresh);
    }

    fn on_timeout(&mut self, _now: Time, flight: Bytes) {
        self.halve(flight);
        self.cwnd = u32::from(self.mss);
    }

    #[inline]
    fn window(&self) -> Bytes {
        Bytes::new(u64::from(self.cwnd))
    }

    fn ssthresh(&self) -> Bytes {
        Bytes::new(u64::from(self.ssthresh))
    }
}

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
    fn timeout_leaves_one_segment() {
        let mut cc = NewReno::new(MSS);
        cc.on_timeout(Time::ZERO, Bytes::new(10_000));
        assert_eq!(cc.window(), Bytes::new(1000));
        ack(&mut cc, 1000, Bytes::new(1000));
        assert_eq!(cc.window(), Bytes::new(2000));
    }
}
