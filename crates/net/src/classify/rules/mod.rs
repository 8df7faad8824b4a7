//! Who is urgent, written by an operator in TOML instead of code.
//!
//! ```toml
//! default = 6                       # when no rule matches, 0..=7
//!
//! [[rule]]                          # the first rule of a layer that matches decides
//! name = "api"
//! layer = "driver"                  # or "transport"
//! port = "8000-8099"                # ours: a number or a range
//! source = "10.0.0.0/8"
//! http = { method = "GET", path = "/api" }   # the path is a prefix
//! priority = 0                      # or: drop = true
//! ```
//!
//! Further conditions: `dscp`, `length` (frame, bytes), `bytes = { offset = 0,
//! equals = "GW" }` or `hex = "4757"` (TCP payload), and at the transport
//! `received`, `rtt`, `loss`. Quantities take a number, `"> 1000"`, `">= 1MB"`,
//! `"< 50ms"`, `"10-20"` or `{ min = 10, max = 20 }`, as makes sense for them.
//! All conditions of a rule must hold.
//!
//! At the driver, what a rule looks for must be in one packet. At the transport
//! a rule can ask what the request says that the segment's bytes belong to,
//! wherever in the stream its head was ([`talk`](super::talk)):
//!
//! ```toml
//! http = { method = "GET", path = "/api", header = "x-tier: gold" }
//! resp = { verb = ["GET", "MGET"], key = "session:" }     # Redis
//! memcached = { verb = "get" }
//! tls = { sni = "*.shop.example" }
//! message = { offset = 4, hex = "00" }    # with [message] length_at = 8, or end = "\n"
//! service = "> 1ms"                       # what such requests were seen to take
//! ```
//!
//! or `"any"` of a protocol. A segment of several requests is as urgent as the
//! most urgent of them. Before a head is complete, and on a connection that
//! does not speak the protocol, such a rule does not hold.
//!
//! A policy that cannot mean what it says is refused with the line.

mod condition;
mod explain;
mod matcher;
mod parse;
mod pattern;
mod port_protocols;
mod request_match;
mod request_rules;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;

use condition::Conditions;
use matcher::{Matcher, PacketAttrs};
use request_rules::RequestRules;

pub use explain::{Decided, Explanation, RuleTrace, UnmetCondition};
pub use port_protocols::PortProtocols;

use super::l7::{Notes, ServiceTimeEstimator};
use super::{DriverClassifier, FlowContext, Layer, PacketView, TransportClassifier, Verdict};

/// An operator's rules, checked.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Vec<Rule>,
    default: Option<u8>,
    observed: Arc<Observed>,
}

/// What all classifiers of a policy have come across.
#[derive(Debug, Default)]
pub struct Observed {
    /// Requests, and streams that made no sense.
    pub notes: Arc<Notes>,
    /// What requests take, by kind.
    pub learned: ServiceTimeEstimator,
}

/// One rule of a policy.
#[derive(Clone, Debug)]
pub struct Rule {
    name: String,
    layer: Layer,
    conditions: Conditions,
    verdict: Verdict,
}

impl Rule {
    /// Its name, or `rule N` counted from 1.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where it is asked.
    #[must_use]
    pub const fn layer(&self) -> Layer {
        self.layer
    }

    /// What it says of a packet that it matches.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }
}

/// Why a text is not a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// Line, counted from 1.
    pub line: usize,
    /// What is wrong and what would be valid.
    pub message: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for PolicyError {}

impl Policy {
    fn new(rules: Vec<Rule>, default: Option<u8>) -> Self {
        Self { rules, default, observed: Arc::default() }
    }

    /// Reads a policy.
    ///
    /// # Errors
    /// When it is not TOML, has an unknown key, a value out of range, a
    /// condition that its layer cannot see, or a rule that can never be
    /// reached.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        parse::policy(text)
    }

    /// The rules, in the order in which they are asked.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The level of packets that no rule matches, if the policy names one.
    #[must_use]
    pub const fn default_level(&self) -> Option<u8> {
        self.default
    }

    /// What this policy's classifiers see, here and in all clones of it.
    #[must_use]
    pub fn observed(&self) -> Arc<Observed> {
        Arc::clone(&self.observed)
    }

    /// The driver's half, if it has anything to say there.
    #[must_use]
    pub fn driver(&self) -> Option<DriverClassifier> {
        let default_only = self.default.is_some() && self.rules.is_empty();
        let matcher = Some(self.matcher(Layer::Driver)).filter(|m| default_only || !m.is_empty())?;
        Some(Arc::new(move |packet: &PacketView<'_>| {
            matcher.verdict(&matcher.facts_of_packet(packet)).unwrap_or(matcher.default)
        }))
    }

    /// The transport's half, if it has anything to say there. Where no rule
    /// matches, a verdict of the driver's stands before the default.
    #[must_use]
    pub fn transport(&self) -> Option<TransportClassifier> {
        let matcher = Some(self.matcher(Layer::Transport)).filter(|m| !m.is_empty())?;
        let ears = Arc::new(RequestRules::new(matcher, self.observed()));
        if ears.matcher.asks() {
            return Some(Arc::new(move |cx: &mut FlowContext<'_>| ears.verdict(cx)));
        }
        Some(Arc::new(move |cx: &mut FlowContext<'_>| ears.verdict_of(cx, &PacketAttrs::of_flow(cx))))
    }

    /// What connections to our ports speak, where a rule asks for it.
    #[must_use]
    pub fn spoken(&self) -> PortProtocols {
        self.matcher(Layer::Transport).spoken().clone()
    }

    fn matcher(&self, layer: Layer) -> Matcher {
        let rules = self.rules.iter().filter(|rule| rule.layer == layer);
        let default = match layer {
            Layer::Driver => Verdict::Default,
            Layer::Transport => Verdict::Level,
        };
        let default = self.default.map_or(Verdict::NoVerdict, default);
        Matcher::new(rules.map(|rule| (&rule.conditions, rule.verdict)), default)
    }
}
