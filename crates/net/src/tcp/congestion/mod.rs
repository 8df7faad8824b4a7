//! Congestion control: the window of bytes that may be in flight.
//!
//! A [`CongestionControl`] only computes the window; loss detection and retransmission belong to
//! the connection. [`Cubic`] is the default and is stored inside the connection.
//! [`Config::congestion`](crate::stack::Config::congestion) selects another algorithm: one of
//! [`ALGORITHMS`], or your own.
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

/// Newly delivered bytes, reported to congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ack {
    /// Arrival time of the acknowledgement.
    pub now: Time,
    /// Bytes cumulatively or selectively acknowledged for the first time.
    pub acked: Bytes,
    /// Bytes in flight before, `acked` included.
    pub flight: Bytes,
    /// Smoothed round-trip time; `None` before the first sample.
    pub srtt: Option<Span>,
    /// Round-trip sample of this acknowledgement, if any.
    pub rtt: Option<Span>,
    /// Bytes of `acked` that were marked CE on the path, as reported by ECE.
    pub marked: Bytes,
    /// Bytes delivered so far, `acked` included.
    pub delivered: u64,
    /// Bytes sent so far. A round trip that starts now ends when `delivered` reaches this number.
    pub sent: u64,
    /// True if the window held the flight back, not the application or the peer.
    ///
    /// An unused window does not probe the path (the concern of RFC 7661).
    pub limited: bool,
}

/// Congestion window of one connection.
///
/// All amounts are bytes of sequence space. A reduction happens once per recovery, per timeout
/// episode, or per round trip with ECN echoes.
pub trait CongestionControl: Send {
    /// New bytes were delivered outside of fast recovery; the only call that may grow the window.
    fn on_ack(&mut self, ack: &Ack);

    /// A segment was lost with `flight` bytes in flight: fast recovery starts.
    ///
    /// Until [`CongestionControl::on_recovered`], the connection brings its flight down to
    /// [`CongestionControl::ssthresh`] (PRR, RFC 9937).
    fn on_loss(&mut self, now: Time, flight: Bytes);

    /// The peer echoed congestion (ECE) with `flight` bytes in flight; called at most once per
    /// round trip (RFC 3168 §6.1.2).
    fn on_ecn(&mut self, now: Time, flight: Bytes) {
        self.on_loss(now, flight);
    }

    /// Fast recovery ended: every loss of the episode is repaired.
    fn on_recovered(&mut self, _now: Time) {}

    /// The retransmission timer fired with `flight` bytes in flight.
    fn on_timeout(&mut self, now: Time, flight: Bytes);

    /// The SYN was retransmitted more than once: data starts with a window of one segment.
    ///
    /// The slow-start threshold should stay (RFC 5681 §3.1). The default acts as after a timeout,
    /// which lowers the threshold to half the window.
    fn on_syn_lost(&mut self, now: Time) {
        self.on_timeout(now, self.window());
    }

    /// The last reduction was spurious: nothing was lost (RFC 3522, RFC 5682).
    fn on_undo(&mut self, _now: Time) {}

    /// Sending resumes after `idle`, which exceeds the retransmission timeout (RFC 5681 §4.1).
    fn on_idle(&mut self, _now: Time, _idle: Span) {}

    /// The segment size changes to at most `mss` bytes because the path MTU changed.
    ///
    /// This is no congestion signal (RFC 8899 §3 item 7).
    fn on_mss(&mut self, _mss: u16) {}

    /// Congestion window in bytes; less than one MSS counts as one.
    #[must_use]
    fn window(&self) -> Bytes;

    /// Slow-start threshold, also the target of fast recovery.
    #[must_use]
    fn ssthresh(&self) -> Bytes;

    /// True in slow start, where the window doubles each round trip.
    #[must_use]
    fn in_slow_start(&self) -> bool {
        self.window() < self.ssthresh()
    }
}

/// Constructor of a congestion control for segments of up to `mss` bytes.
pub type NewCongestion = fn(mss: u16) -> Box<dyn CongestionControl>;

/// Entry of [`ALGORITHMS`].
#[derive(Clone, Copy)]
pub struct Algorithm {
    /// Name in the configuration.
    pub name: &'static str,
    /// One-line description.
    pub about: &'static str,
    /// Constructor.
    pub new: NewCongestion,
}

/// All congestion controls, for the command line, the guide and the tests.
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

/// The algorithm named `name`.
///
/// # Errors
/// [`UnknownAlgorithm`], whose text lists the known names.
pub fn by_name(name: &str) -> Result<&'static Algorithm, UnknownAlgorithm> {
    ALGORITHMS.iter().find(|known| known.name == name).ok_or_else(|| UnknownAlgorithm(name.to_owned()))
}

/// Error: no algorithm has this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownAlgorithm(String);

impl fmt::Display for UnknownAlgorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = ALGORITHMS.iter().map(|known| known.name).collect();
        write!(f, "congestion control {:?} is not one of {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownAlgorithm {}

/// Congestion control of a connection; the default needs neither memory nor an indirect call.
pub(crate) enum Congestion {
    Cubic(Cubic),
    Other(Box<dyn CongestionControl>),
}

impl Congestion {
    pub(crate) fn new(congestion: Option<NewCongestion>, mss: u16) -> Self {
        congestion.map_or_else(|| Self::Cubic(Cubic::new(mss)), |new| Self::Other(new(mss)))
    }

    /// Name in [`ALGORITHMS`]; `None` for a control other than the default.
    pub(crate) fn name(&self) -> Option<&'static str> {
        match self {
            Self::Cubic(_) => Some("cubic"),
            Self::Other(_) => None,
        }
    }

    /// True if the window held back a flight of `flight` bytes (see [`Ack::limited`]).
    ///
    /// That is: at most a segment of the window was free, or in slow start, which doubles, at most
    /// half of it.
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

/// Upper bound of every window: twice the largest that TCP can announce.
const WINDOW_MAX: u32 = 1 << 31;

/// Initial window: 10 segments, bounded by 14,600 bytes or 2 segments (RFC 6928 §2).
fn initial_window(mss: u16) -> u32 {
    let mss = u32::from(mss);
    (10 * mss).min((2 * mss).max(14_600))
}

/// `bytes` in 32 bits, the width of sequence numbers; saturates.
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
