//! How much may be in flight.
//!
//! The connection knows what was acknowledged and lost, and repairs it; a
//! [`CongestionControl`] turns that into a window and knows nothing else.
//! [`Cubic`] is the default and lies inside the connection;
//! [`Config::congestion`](crate::stack::Config::congestion) names another one:
//! one of [`ALGORITHMS`], or your own.
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
//!     fn ssthresh(&self) -> Bytes { self.0.ssthresh() }
//! }
//!
//! let mut config = Config::new([2, 0, 0, 0, 0, 1], [10, 0, 0, 1].into(), 24, [7; 16]);
//! config.congestion = Some(|mss| Box::new(Capped(NewReno::new(mss))));
//! ```

use std::fmt;

use queueing::{Bytes, Span, Time};

mod cubic;
mod dctcp;
mod hystart;
mod newreno;

pub use cubic::Cubic;
pub use dctcp::Dctcp;
pub use newreno::NewReno;

/// New bytes were delivered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// When the sender heard of it.
    pub now: Time,
    /// How many, cumulatively or selectively acknowledged for the first time.
    pub acked: Bytes,
    /// How many were in flight before, these among them.
    pub flight: Bytes,
    /// The smoothed round-trip time, once there is a sample.
    pub srtt: Option<Span>,
    /// The round trip that this acknowledgement timed, if it timed one.
    pub rtt: Option<Span>,
    /// How many of `acked` met congestion on their way (CE, told by ECE).
    pub marked: Bytes,
    /// Bytes delivered so far, these included.
    pub delivered: u64,
    /// Bytes sent so far: what is sent now starts a round trip that ends when
    /// `delivered` reaches this number.
    pub sent: u64,
    /// The window held the flight back, not the application or the peer: a
    /// window that was not used says nothing about the path (RFC 7661's concern).
    pub limited: bool,
}

/// Decides the congestion window of one connection.
///
/// All amounts are bytes of sequence space. A reduction happens once per
/// recovery, per timeout episode, or per round trip with ECN echoes.
pub trait CongestionControl: Send {
    /// New bytes were delivered, and no fast recovery is under way: the one
    /// chance to grow.
    fn on_ack(&mut self, ack: &Ack);

    /// A segment was lost with `flight` bytes in flight: fast recovery starts.
    /// Until [`CongestionControl::on_recovered`], the connection brings its
    /// flight down to [`CongestionControl::ssthresh`] (PRR, RFC 9937).
    fn on_loss(&mut self, now: Time, flight: Bytes);

    /// The peer echoed congestion (ECE) with `flight` bytes in flight; called
    /// at most once a round trip (RFC 3168 §6.1.2).
    fn on_ecn(&mut self, now: Time, flight: Bytes) {
        self.on_loss(now, flight);
    }

    /// Everything lost in this episode was repaired.
    fn on_recovered(&mut self, _now: Time) {}

    /// The retransmission timer fired with `flight` bytes in flight.
    fn on_timeout(&mut self, now: Time, flight: Bytes);

    /// The handshake took more than one repetition, and nothing was sent yet: data starts with one
    /// segment, and slow start ends where it would have (RFC 5681 §3.1). By default as after a
    /// timeout, which ends it at half the window.
    fn on_syn_lost(&mut self, now: Time) {
        self.on_timeout(now, self.window());
    }

    /// The last reduction was a mistake: nothing was lost (RFC 3522, RFC 5682).
    fn on_undo(&mut self, _now: Time) {}

    /// Sending resumes after `idle`, which is longer than a retransmission
    /// timeout (RFC 5681 §4.1).
    fn on_idle(&mut self, _now: Time, _idle: Span) {}

    /// Segments carry up to `mss` bytes from now on: the path takes less, or
    /// more, than was thought, which says nothing about congestion (RFC 8899
    /// §3 item 7).
    fn on_mss(&mut self, _mss: u16) {}

    /// Bytes that may be in flight; less than one MSS counts as one.
    #[must_use]
    fn window(&self) -> Bytes;

    /// Where slow start ends, and what fast recovery aims at.
    #[must_use]
    fn ssthresh(&self) -> Bytes;

    /// Whether the window still doubles each round trip.
    #[must_use]
    fn in_slow_start(&self) -> bool {
        self.window() < self.ssthresh()
    }
}

/// Makes the congestion control of a connection whose segments carry up to
/// `mss` bytes.
pub type NewCongestion = fn(mss: u16) -> Box<dyn CongestionControl>;

/// One line of [`ALGORITHMS`].
#[derive(Clone, Copy)]
pub struct Algorithm {
    /// What the user calls it.
    pub name: &'static str,
    /// What it does, in one line.
    pub about: &'static str,
    /// Makes one.
    pub new: NewCongestion,
}

/// Every congestion control, for the command line, the guide and the tests.
pub const ALGORITHMS: &[Algorithm] = &[
    Algorithm {
        name: "cubic",
        about: "grows with the time since the last loss (RFC 9438); the default",
        new: |mss| Box::new(Cubic::new(mss)),
    },
    Algorithm {
        name: "newreno",
        about: "a segment each round trip, half on loss (RFC 5681)",
        new: |mss| Box::new(NewReno::new(mss)),
    },
    Algorithm {
        name: "dctcp",
        about: "shrinks by the fraction of marked bytes (RFC 8257); data centres with ECN only",
        new: |mss| Box::new(Dctcp::new(mss)),
    },
];

/// The algorithm called `name`.
///
/// # Errors
/// [`UnknownAlgorithm`], whose text lists those that exist.
pub fn by_name(name: &str) -> Result<&'static Algorithm, UnknownAlgorithm> {
    ALGORITHMS.iter().find(|known| known.name == name).ok_or_else(|| UnknownAlgorithm(name.to_owned()))
}

/// There is no algorithm of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm(String);

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = ALGORITHMS.iter().map(|known| known.name).collect();
        write!(f, "congestion control {:?} is not one of {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownAlgorithm {}

/// A connection's own: the default costs neither memory nor an indirect call.
pub(crate) enum Congestion {
    Cubic(Cubic),
    Other(Box<dyn CongestionControl>),
}

impl Congestion {
    pub(crate) fn new(congestion: Option<NewCongestion>, mss: u16) -> Self {
        congestion.map_or_else(|| Self::Cubic(Cubic::new(mss)), |new| Self::Other(new(mss)))
    }

    /// What [`ALGORITHMS`] calls it; `None` for one that it is not known of.
    pub(crate) fn name(&self) -> Option<&'static str> {
        match self {
            Self::Cubic(_) => Some("cubic"),
            Self::Other(_) => None,
        }
    }

    /// Whether a flight of `flight` bytes was held back by the window (what
    /// [`Ack::limited`] tells): less than a segment was free, or in slow start,
    /// which doubles, less than half.
    #[inline]
    pub(crate) fn limits(&self, flight: u32, mss: u16) -> bool {
        let window = self.window().get();
        let flight = u64::from(flight);
        flight + u64::from(mss) >= window || (self.in_slow_start() && flight >= window / 2)
    }
}

impl CongestionControl for Congestion {
    #[inline]
    fn on_ack(&mut self, ack: &Ack) {
        match self {
            Self::Cubic(own) => own.on_ack(ack),
            Self::Other(other) => other.on_ack(ack),
        }
    }

    fn on_loss(&mut self, now: Time, flight: Bytes) {
        match self {
            Self::Cubic(own) => own.on_loss(now, flight),
            Self::Other(other) => other.on_loss(now, flight),
        }
    }

    fn on_ecn(&mut self, now: Time, flight: Bytes) {
        match self {
            Self::Cubic(own) => own.on_ecn(now, flight),
            Self::Other(other) => other.on_ecn(now, flight),
        }
    }

    fn on_recovered(&mut self, now: Time) {
        match self {
            Self::Cubic(own) => own.on_recovered(now),
            Self::Other(other) => other.on_recovered(now),
        }
    }

    fn on_timeout(&mut self, now: Time, flight: Bytes) {
        match self {
            Self::Cubic(own) => own.on_timeout(now, flight),
            Self::Other(other) => other.on_timeout(now, flight),
        }
    }

    fn on_syn_lost(&mut self, now: Time) {
        match self {
            Self::Cubic(own) => own.on_syn_lost(now),
            Self::Other(other) => other.on_syn_lost(now),
        }
    }

    fn on_undo(&mut self, now: Time) {
        match self {
            Self::Cubic(own) => own.on_undo(now),
            Self::Other(other) => other.on_undo(now),
        }
    }

    fn on_idle(&mut self, now: Time, idle: Span) {
        match self {
            Self::Cubic(own) => own.on_idle(now, idle),
            Self::Other(other) => other.on_idle(now, idle),
        }
    }

    fn on_mss(&mut self, mss: u16) {
        match self {
            Self::Cubic(own) => own.on_mss(mss),
            Self::Other(other) => other.on_mss(mss),
        }
    }

    #[inline]
    fn window(&self) -> Bytes {
        match self {
            Self::Cubic(own) => own.window(),
            Self::Other(other) => other.window(),
        }
    }

    #[inline]
    fn ssthresh(&self) -> Bytes {
        match self {
            Self::Cubic(own) => own.ssthresh(),
            Self::Other(other) => other.ssthresh(),
        }
    }

    #[inline]
    fn in_slow_start(&self) -> bool {
        match self {
            Self::Cubic(own) => own.in_slow_start(),
            Self::Other(other) => other.in_slow_start(),
        }
    }
}

/// No window grows beyond this: twice the largest that TCP can announce.
const WINDOW_MAX: u32 = 1 << 31;

/// Ten segments, but few kilobytes (RFC 6928 §2).
fn initial_window(mss: u16) -> u32 {
    let mss = u32::from(mss);
    (10 * mss).min((2 * mss).max(14_600))
}

/// Sequence numbers have 32 bits: no more can be in flight.
#[inline]
fn narrow(bytes: Bytes) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn algorithms_are_found_by_name() {
        for known in ALGORITHMS {
            assert_eq!(by_name(known.name).map(|found| found.about), Ok(known.about));
            assert_eq!((known.new)(1460).window(), Bytes::new(14_600), "{}", known.name);
        }
        let error = by_name("vegas").err().unwrap().to_string();
        assert_eq!(error, "congestion control \"vegas\" is not one of cubic, newreno, dctcp");
    }

    #[test]
    fn smaller_segments_change_no_window_but_its_growth() {
        for known in ALGORITHMS {
            let mut cc = (known.new)(1460);
            cc.on_loss(Time::ZERO, Bytes::new(14_600));
            cc.on_recovered(Time::ZERO);
            let before = cc.window();
            cc.on_mss(500);
            assert_eq!(cc.window(), before, "{}", known.name);
            let acked = Bytes::new(before.get());
            cc.on_ack(&Ack { acked, flight: before, limited: true, ..Ack::default() });
            assert!(cc.window().get() - before.get() <= 500, "{}: {:?}", known.name, cc.window());
        }
    }

    #[test]
    fn a_full_flight_is_limited_by_the_window_and_in_slow_start_half_a_one() {
        let mut congestion = Congestion::new(None, 1000);
        assert_eq!([4999, 5000, 9000].map(|flight| congestion.limits(flight, 1000)), [false, true, true]);
        congestion.on_loss(Time::ZERO, Bytes::new(10_000));
        assert_eq!([5999, 6000].map(|flight| congestion.limits(flight, 1000)), [false, true]);
    }
}
