//! The compared systems, as modes of one server.
//!
//! A mode says which queues order by priority and which classifiers run; the
//! scenario brings the classifiers. Everything else stays the same, so a
//! difference between two modes is a difference of policy.
//! Source: ADPS §4.1; `ideal` is the bound drawn in its figures.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use net::classify::rules::PortProtocols;
use net::classify::{DriverClassifier, TransportClassifier, Verdict};
use net::driver::RxOrder;
use sched::dispatch::{Darc, Dispatch, Params, Steering, fcfs, strict};

/// A compared system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// First come, first served everywhere (mTCP-like).
    None,
    /// The label is read at the driver only (Labeled Network Stack).
    Lns,
    /// Types told apart after the transport; workers reserved (Perséphone).
    Darc,
    /// Application-defined priority at driver, transport and event queue.
    Adps,
    /// As `Adps`, and the receive buffer goes by what is known of connections
    /// where the driver has nothing to say: ours.
    Learned,
    /// As `Adps`, but what the driver calls less urgent is dropped there.
    Ideal,
}

/// Every mode: name, one line.
pub const MODES: &[(Mode, &str, &str)] = &[
    (Mode::None, "none", "FCFS in every queue"),
    (Mode::Lns, "lns", "labels read at the driver only; strict-priority queues"),
    (Mode::Darc, "darc", "request types classified after TCP; workers reserved for short requests"),
    (Mode::Adps, "adps", "application-defined priority at driver, transport and event queue"),
    (Mode::Learned, "learned", "as adps; the driver remembers each connection's last known priority"),
    (Mode::Ideal, "ideal", "as adps; the driver drops less urgent packets: an upper bound"),
];

/// What the scenario brings.
#[derive(Clone, Default)]
pub struct Classifiers {
    /// `pri_filter`.
    pub driver: Option<DriverClassifier>,
    /// `pri_extraction`.
    pub transport: Option<TransportClassifier>,
    /// What requests look like that nobody can tell by themselves, for who follows them.
    pub spoken: PortProtocols,
}

/// What a mode means for a shard.
pub struct Policy {
    /// Receive buffer order.
    pub rx_order: RxOrder,
    /// `pri_filter`, if the mode uses it.
    pub driver: Option<DriverClassifier>,
    /// `pri_extraction`, if the mode uses it.
    pub transport: Option<TransportClassifier>,
    /// Who serves whom.
    pub dispatch: Box<dyn Dispatch>,
    /// Which workers serve which priorities.
    pub steering: Steering,
}

/// The least urgent level that `ideal` keeps; steering calls 0–3 `high` too.
pub const URGENT_LEVEL_MAX: u8 = 3;

impl Mode {
    /// What this mode makes of the scenario's classifiers and steering.
    #[must_use]
    pub fn policy(self, classifiers: Classifiers, params: &Params, steering: Steering) -> Policy {
        let everyone = Steering::all(params.workers);
        let strict = || Box::new(strict(params.capacity));
        match self {
            Self::None => Policy {
                rx_order: RxOrder::Fifo,
                driver: None,
                transport: None,
                dispatch: Box::new(fcfs(params.capacity)),
                steering: everyone,
            },
            Self::Lns => Policy {
                rx_order: RxOrder::Strict,
                driver: classifiers.driver,
                transport: None,
                dispatch: strict(),
                steering: everyone,
            },
            Self::Darc => Policy {
                rx_order: RxOrder::Fifo,
                driver: None,
                transport: None,
                dispatch: Box::new(Darc::new(params.workers, params.capacity, params.darc.clone())),
                steering: everyone,
            },
            Self::Adps | Self::Learned => Policy {
                rx_order: if self == Self::Learned { RxOrder::Learned } else { RxOrder::Strict },
                driver: classifiers.driver,
                transport: classifiers.transport,
                dispatch: strict(),
                steering,
            },
            Self::Ideal => Policy {
                rx_order: RxOrder::Strict,
                driver: classifiers.driver.map(drop_less_urgent),
                transport: classifiers.transport,
                dispatch: strict(),
                steering,
            },
        }
    }

    /// Whether its workers can be told which priorities to serve (M7).
    #[must_use]
    pub const fn steers(self) -> bool {
        matches!(self, Self::Adps | Self::Learned | Self::Ideal)
    }

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        MODES.iter().find(|(mode, ..)| *mode == self).map_or("", |(_, name, _)| name)
    }
}

/// Levels above [`URGENT_LEVEL_MAX`] become [`Verdict::Drop`]; no opinion stays none.
fn drop_less_urgent(classifier: DriverClassifier) -> DriverClassifier {
    Arc::new(move |packet| match classifier(packet) {
        Verdict::Level(level) | Verdict::Default(level) if level > URGENT_LEVEL_MAX => Verdict::Drop,
        verdict => verdict,
    })
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// There is no mode of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownMode(String);

impl fmt::Display for UnknownMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = MODES.iter().map(|(_, name, _)| *name).collect();
        write!(f, "mode {:?} is not one of {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownMode {}

impl FromStr for Mode {
    type Err = UnknownMode;

    fn from_str(text: &str) -> Result<Self, UnknownMode> {
        let found = MODES.iter().find(|(_, name, _)| *name == text);
        found.map(|(mode, ..)| *mode).ok_or_else(|| UnknownMode(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_steers_exactly_when_its_policy_keeps_the_steering() {
        let low = Steering::from_lists(2, [("low", &[1][..])]).unwrap();
        for (mode, ..) in MODES {
            let policy = mode.policy(Classifiers::default(), &Params::new(2, 64), low);
            assert_eq!(policy.steering == low, mode.steers(), "{mode}");
        }
    }

    #[test]
    fn modes_read_as_they_are_written() {
        for (mode, name, _) in MODES {
            assert_eq!((name.parse(), mode.to_string()), (Ok(*mode), (*name).to_owned()));
        }
        let error = "mtcp".parse::<Mode>().unwrap_err().to_string();
        assert_eq!(error, "mode \"mtcp\" is not one of none, lns, darc, adps, learned, ideal");
    }
}
