//! How much may be in flight.
//!
//! The connection knows what was acknowledged and lost; a
//! [`CongestionControl`] turns that into a window and knows nothing else.
//! [`NewReno`] is the default and lies inside the connection;
//! [`Config::congestion`](crate::stack::Config::congestion) names another one.
//!
//! ```
//! use net::congestion::{Ack, CongestionControl, NewReno};
//! use net::stack::Config;
//! use queueing::{Bytes, Time};
//!
//! /// NewReno that never has more than 64 KiB in flight.
//! struct Capped(NewReno);
//!
//! impl CongestionControl for Capped {
//!     fn on_ack(&mut self, ack: &Ack) { self.0.on_ack(ack) }
//!     fn on_loss(&mut self, now: Time, flight: Bytes) { self.0.on_loss(now, flight) }
//!     fn on_timeout(&mut self, now: Time, flight: Bytes) { self.0.on_timeout(now, flight) }
//!     fn window(&self) -> Bytes { self.0.window().min(Bytes::new(65_536)) }
//! }
//!
//! let mut config = Config::new([2, 0, 0, 0, 0, 1], [10, 0, 0, 1].into(), 24, [7; 16]);
//! config.congestion = Some(|mss| Box::new(Capped(NewReno::new(mss))));
//! ```

use queueing::{Bytes, Span, Time};

/// New bytes were confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack {
    /// When.
    pub now: Time,
    /// How many.
    pub acked: Bytes,
    /// How many were in flight before, these among them.
    pub flight: Bytes,
    /// The smoothed round-trip time, once there is a sample.
    pub srtt: Option<Span>,
}

/// Decides the congestion window of one connection.
pub trait CongestionControl: Send {
    /// New bytes were confirmed, and no loss is being repaired that only a
    /// part of them repairs.
    fn on_ack(&mut self, ack: &Ack);

    /// A segment was lost (three duplicate acknowledgements) with `flight`
    /// bytes in flight: recovery starts.
    fn on_loss(&mut self, now: Time, flight: Bytes);

    /// Everything lost in this episode was repaired.
    fn on_recovered(&mut self, _now: Time) {}

    /// The retransmission timer fired with `flight` bytes in flight.
    fn on_timeout(&mut self, now: Time, flight: Bytes);

    /// Bytes that may be in flight; less than one MSS counts as one.
    #[must_use]
    fn window(&self) -> Bytes;
}

/// Makes the congestion control of a connection whose segments carry up to
/// `mss` bytes.
pub type NewCongestion = fn(mss: u16) -> Box<dyn CongestionControl>;

/// A connection's own: the default costs neither memory nor an indirect call.
pub(crate) enum Congestion {
    NewReno(NewReno),
    Other(Box<dyn CongestionControl>),
}

impl Congestion {
    pub(crate) fn new(congestion: Option<NewCongestion>, mss: u16) -> Self {
        congestion.map_or_else(|| Self::NewReno(NewReno::new(mss)), |new| Self::Other(new(mss)))
    }
}

impl CongestionControl for Congestion {
    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        match self {
            Self::NewReno(own) => own.on_ack(ack),
            Self::Other(other) => other.on_ack(ack),
        }
    }

    fn on_loss(&mut self, now: Time, flight: Bytes) {
        match self {
            Self::NewReno(own) => own.on_loss(now, flight),
            Self::Other(other) => other.on_loss(now, flight),
        }
    }

    fn on_recovered(&mut self, now: Time) {
        match self {
            Self::NewReno(own) => own.on_recovered(now),
            Self::Other(other) => other.on_recovered(now),
        }
    }

    fn on_timeout(&mut self, now: Time, flight: Bytes) {
        match self {
            Self::NewReno(own) => own.on_timeout(now, flight),
            Self::Other(other) => other.on_timeout(now, flight),
        }
    }

    #[inline]
    fn window(&self) -> Bytes {
        match self {
            Self::NewReno(own) => own.window(),
            Self::Other(other) => other.window(),
        }
    }
}

/// NewReno: slow start, congestion avoidance, halving on loss.
///
/// Source: RFC 5681, RFC 6582; initial window of ten segments, RFC 6928.
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
        let (acked, flight) = (narrow(ack.acked), narrow(ack.flight));
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
}

/// Sequence numbers have 32 bits: no more can be in flight.
#[inline]
fn narrow(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u16 = 1000;

    fn ack(cc: &mut NewReno, acked: u64, flight: Bytes) {
        cc.on_ack(&Ack { now: Time::ZERO, acked: Bytes::new(acked), flight, srtt: None });
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
