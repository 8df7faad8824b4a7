//! Modes: the compared systems as settings of one server.
//!
//! A mode fixes the queues that order by priority and the classifiers that run; the scenario
//! supplies the classifiers. Everything else is the same, so a difference between two modes is a
//! difference of policy.
//! Source: ADPS §4.1; `ideal` is the bound drawn in its figures.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use classify::rules::PortProtocols;
use classify::{DriverClassifier, TransportClassifier, Verdict};
use net::driver::RxOrder;
use sched::dispatch::{Darc, Dispatch, Params, Steering, fcfs, strict};

/// A compared system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// First come, first served everywhere (mTCP-like).
    None,
    /// The label is read at the driver only (Labeled Network Stack).
    Lns,
    /// Request types classified after the transport; workers reserved (Perséphone).
    Darc,
    /// Application-defined priority at driver, transport and event queue.
    Adps,
    /// As `Adps`; where the driver's classifier gives no level, the receive buffer uses the
    /// connection's last known one. Not in the paper.
    Learned,
    /// As `Adps`, and the driver drops less urgent packets.
    Ideal,
}

/// Every mode: value, name, one-line description.
pub const MODES: &[(Mode, &str, &str)] = &[
    (Mode::None, "none", "FCFS in every queue"),
    (Mode::Lns, "lns", "labels read at the driver only; strict-priority queues"),
    (Mode::Darc, "darc", "request types classified after TCP; workers reserved for short requests"),
    (Mode::Adps, "adps", "application-defined priority at driver, transport and event queue"),
    (Mode::Learned, "learned", "as adps; the driver remembers each connection's last known priority"),
    (Mode::Ideal, "ideal", "as adps; the driver drops less urgent packets: an upper bound"),
];

/// Classifiers of a scenario.
#[derive(Clone, Default)]
pub struct Classifiers {
    /// `pri_filter`.
    pub driver: Option<DriverClassifier>,
    /// `pri_extraction`.
    pub transport: Option<TransportClassifier>,
    /// Classifier of the SYNs of connections that programs open; without it, `pri_filter`.
    pub handshake: Option<DriverClassifier>,
    /// Protocols by port, for tracking requests whose end the bytes alone do not show.
    pub spoken: PortProtocols,
}

/// Settings of a shard that a mode fixes.
pub struct ModeSettings {
    /// Receive buffer order.
    pub rx_order: RxOrder,
    /// `pri_filter`, if the mode uses it.
    pub driver: Option<DriverClassifier>,
    /// `pri_extraction`, if the mode uses it.
    pub transport: Option<TransportClassifier>,
    /// Classifier of outgoing SYNs, if the mode labels them.
    pub handshake: Option<DriverClassifier>,
    /// Dispatch policy: which worker serves which request.
    pub dispatch: Box<dyn Dispatch>,
    /// Priorities that each worker serves.
    pub steering: Steering,
}

/// Least urgent level that `ideal` keeps; steering calls levels 0–3 `high` too.
pub const URGENT_LEVEL_MAX: u8 = 3;

impl Mode {
    /// Policy of this mode with the scenario's classifiers and steering.
    #[must_use]
    pub fn policy(self, classifiers: Classifiers, params: &Params, steering: Steering) -> ModeSettings {
        let everyone = Steering::all(params.workers);
        let strict = || Box::new(strict(params.capacity));
        match self {
            Self::None => ModeSettings {
                rx_order: RxOrder::Fifo,
                driver: None,
                transport: None,
                handshake: None,
                dispatch: Box::new(fcfs(params.capacity)),
                steering: everyone,
            },
            Self::Lns => ModeSettings {
                rx_order: RxOrder::Strict,
                driver: classifiers.driver,
                transport: None,
                handshake: None,
                dispatch: strict(),
                steering: everyone,
            },
            Self::Darc => ModeSettings {
                rx_order: RxOrder::Fifo,
                driver: None,
                transport: None,
                handshake: None,
                dispatch: Box::new(Darc::new(params.workers, params.capacity, params.darc.clone())),
                steering: everyone,
            },
            Self::Adps | Self::Learned => ModeSettings {
                rx_order: if self == Self::Learned { RxOrder::Learned } else { RxOrder::Strict },
                driver: classifiers.driver,
                transport: classifiers.transport,
                handshake: classifiers.handshake,
                dispatch: strict(),
                steering,
            },
            Self::Ideal => ModeSettings {
                rx_order: RxOrder::Strict,
                driver: classifiers.driver.map(drop_less_urgent),
                transport: classifiers.transport,
                handshake: classifiers.handshake,
                dispatch: strict(),
                steering,
            },
        }
    }

    /// True if workers can be restricted to priorities (ADPS M7).
    #[must_use]
    pub const fn steers(self) -> bool {
        matches!(self, Self::Adps | Self::Learned | Self::Ideal)
    }

    /// Name of the mode.
    #[must_use]
    pub fn name(self) -> &'static str {
        MODES.iter().find(|(mode, ..)| *mode == self).map_or("", |(_, name, _)| name)
    }
}

/// Drops levels above [`URGENT_LEVEL_MAX`]; a packet without a verdict stays without one.
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

/// Error of an unknown mode name.
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
    fn mode_names_round_trip() {
        for (mode, name, _) in MODES {
            assert_eq!((name.parse(), mode.to_string()), (Ok(*mode), (*name).to_owned()));
        }
        let error = "mtcp".parse::<Mode>().unwrap_err().to_string();
        assert_eq!(error, "mode \"mtcp\" is not one of none, lns, darc, adps, learned, ideal");
    }
}
