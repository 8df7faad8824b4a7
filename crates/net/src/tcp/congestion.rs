//! How much may be in flight.
//!
//! The connection knows what was acknowledged and lost; a
//! [`CongestionControl`] turns that into a window and knows nothing else.

/// Decides the congestion window.
pub(crate) trait CongestionControl {
    /// `acked` new bytes were confirmed while `flight` were in flight.
    fn on_ack(&mut self, acked: u32, flight: u32);

    /// A segment was lost (three duplicate acknowledgements) with `flight`
    /// bytes in flight: recovery starts.
    fn on_loss(&mut self, flight: u32);

    /// Everything lost in this episode was repaired.
    fn on_recovered(&mut self);

    /// The retransmission timer fired with `flight` bytes in flight.
    fn on_timeout(&mut self, flight: u32);

    /// Bytes that may be in flight, at least one MSS.
    fn window(&self) -> u32;
}

/// NewReno: slow start, congestion avoidance, halving on loss.
///
/// Source: RFC 5681, RFC 6582; initial window of ten segments, RFC 6928.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NewReno {
    cwnd: u32,
    ssthresh: u32,
    mss: u16,
}

impl NewReno {
    /// No window grows beyond this: twice the largest that TCP can announce.
    const WINDOW_MAX: u32 = 1 << 31;

    pub(crate) fn new(mss: u16) -> Self {
        let mss32 = u32::from(mss);
        Self { cwnd: (10 * mss32).min((2 * mss32).max(14_600)), ssthresh: u32::MAX, mss }
    }

    fn halve(&mut self, flight: u32) {
        self.ssthresh = (flight / 2).max(2 * u32::from(self.mss));
    }
}

impl CongestionControl for NewReno {
    #[inline]
    fn on_ack(&mut self, acked: u32, flight: u32) {
        // A window that was not used says nothing about the path (RFC 7661's concern).
        let limited = flight.saturating_add(u32::from(self.mss)) >= self.cwnd
            || (self.cwnd < self.ssthresh && flight >= self.cwnd / 2);
        if !limited {
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

    fn on_loss(&mut self, flight: u32) {
        self.halve(flight);
        self.cwnd = self.ssthresh;
    }

    fn on_recovered(&mut self) {
        self.cwnd = self.cwnd.min(self.ssthresh);
    }

    fn on_timeout(&mut self, flight: u32) {
        self.halve(flight);
        self.cwnd = u32::from(self.mss);
    }

    #[inline]
    fn window(&self) -> u32 {
        self.cwnd
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u16 = 1000;

    #[test]
    fn initial_window_is_ten_segments_but_few_kilobytes() {
        assert_eq!(NewReno::new(536).window(), 5360);
        assert_eq!(NewReno::new(1460).window(), 14_600);
        assert_eq!(NewReno::new(8960).window(), 17_920);
    }

    #[test]
    fn slow_start_doubles_each_round_trip() {
        let mut cc = NewReno::new(MSS);
        for _ in 0..10 {
            cc.on_ack(1000, cc.window());
        }
        assert_eq!(cc.window(), 20_000);
    }

    #[test]
    fn avoidance_grows_by_one_segment_each_round_trip() {
        let mut cc = NewReno::new(MSS);
        cc.on_loss(20_000);
        assert_eq!(cc.window(), 10_000);
        for _ in 0..10 {
            cc.on_ack(1000, cc.window());
        }
        assert!((10_900..=11_000).contains(&cc.window()), "{}", cc.window());
    }

    #[test]
    fn unused_window_does_not_grow() {
        let mut cc = NewReno::new(MSS);
        for _ in 0..1000 {
            cc.on_ack(64, 64);
        }
        assert_eq!(cc.window(), 10_000);
    }

    #[test]
    fn timeout_leaves_one_segment() {
        let mut cc = NewReno::new(MSS);
        cc.on_timeout(10_000);
        assert_eq!(cc.window(), 1000);
        cc.on_ack(1000, 1000);
        assert_eq!(cc.window(), 2000);
    }
}
