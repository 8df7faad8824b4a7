//! Classifier rules in TOML, written by an operator instead of code.
//!
//! ```toml
//! default = 6                       # when no rule matches, 0..=7
//!
//! [[rule]]                          # the first rule of a layer that matches decides
//! name = "api"
//! layer = "driver"                  # or "transport"
//! port = "8000-8099"                # the server's: a number or a range
//! source = "10.0.0.0/8"
//! http = { method = "GET", path = "/api" }   # the path is a prefix
//! priority = 0                      # or: drop = true
//! ```
//!
//! Further conditions: `dscp`, `length` (frame, bytes), `bytes = { offset = 0, equals = "GW" }` or
//! `hex = "4757"` (TCP payload), and at the transport `received`, `rtt`, `loss`. Quantities take a
//! number, `"> 1000"`, `">= 1MB"`, `"< 50ms"`, `"10-20"` or `{ min = 10, max = 20 }`, where the
//! form makes sense. All conditions of a rule must hold.
//!
//! A driver rule sees one packet. A transport rule can match the request to which the segment's
//! bytes belong, wherever in the stream its head was ([`l7`](super::l7)):
//!
//! ```toml
//! http = { method = "GET", path = "/api", header = "x-tier: gold" }
//! resp = { verb = ["GET", "MGET"], key = "session:" }     # Redis
//! memcached = { verb = "get" }
//! tls = { sni = "*.shop.example" }
//! message = { offset = 4, hex = "00" }    # with [message] length_at = 8, or end = "\n"
//! service = "> 1ms"                       # observed service time of such requests
//! ```
//!
//! or `"any"` of a protocol. Where HTTP requests are read, the field `Priority` (RFC 9218) can lower
//! a request below the level of the rules; that of peers in `trusted = ["10.0.0.0/8"]` sets it. A
//! segment with several requests gets the most urgent level among them.
//! Such a rule does not hold before a head is complete, nor on a connection that does not speak the
//! protocol.
//!
//! A policy that contradicts itself is rejected with the line number.

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
use std::net::IpAddr;
use std::sync::Arc;

use condition::{Cidr, Conditions};
use matcher::{Matcher, PacketAttrs};
use request_rules::RequestRules;

pub use explain::{Decided, Explanation, RuleTrace, UnmetCondition};
pub use port_protocols::PortProtocols;

use super::l7::{Notes, ServiceTimeEstimator};
use super::{DriverClassifier, FlowContext, Layer, PacketView, TransportClassifier, Verdict};

/// Validated rules of an operator.
#[derive(Clone, Debug)]
pub struct Policy {
    rules: Vec<Rule>,
    default: Option<u8>,
    /// Peers whose field `Priority` may raise a request.
    trusted: Vec<Cidr>,
    observed: Arc<Observed>,
}

/// Observations of all classifiers of a policy.
#[derive(Debug, Default)]
pub struct Observed {
    /// Counters of requests and of streams that could not be parsed.
    pub notes: Arc<Notes>,
    /// Service times by kind of request.
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
    /// Name of the rule, or `rule N` counted from 1.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Layer that evaluates the rule.
    #[must_use]
    pub const fn layer(&self) -> Layer {
        self.layer
    }

    /// Verdict on a matching packet.
    #[must_use]
    pub const fn verdict(&self) -> Verdict {
        self.verdict
    }
}

/// Error in the text of a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PolicyError {
    /// Line number, counted from 1.
    pub line: usize,
    /// Error, and valid alternatives.
    pub message: String,
}

impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl std::error::Error for PolicyError {}

impl Policy {
    fn new(rules: Vec<Rule>, default: Option<u8>, trusted: Vec<Cidr>) -> Self {
        Self { rules, default, trusted, observed: Arc::default() }
    }

    /// Parses a policy.
    ///
    /// # Errors
    /// If the text is not TOML, has an unknown key, a value out of range, a condition that its
    /// layer cannot see, or an unreachable rule.
    pub fn parse(text: &str) -> Result<Self, PolicyError> {
        parse::policy(text)
    }

    /// Rules in the order of evaluation.
    #[must_use]
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Level of packets that no rule matches, if the policy sets one.
    #[must_use]
    pub const fn default_level(&self) -> Option<u8> {
        self.default
    }

    /// Prefixes of the peers whose field `Priority` sets the level of their requests.
    pub fn trusted(&self) -> impl Iterator<Item = (IpAddr, u32)> {
        self.trusted.iter().map(|peers| peers.prefix())
    }

    /// Observations of this policy's classifiers and of those of its clones.
    #[must_use]
    pub fn observed(&self) -> Arc<Observed> {
        Arc::clone(&self.observed)
    }

    /// Driver classifier of the policy, if the policy has driver rules or only a default.
    #[must_use]
    pub fn driver(&self) -> Option<DriverClassifier> {
        let default_only = self.default.is_some() && self.rules.is_empty();
        let matcher = Some(self.matcher(Layer::Driver)).filter(|m| default_only || !m.is_empty())?;
        Some(Arc::new(move |packet: &PacketView<'_>| {
            matcher.verdict(&matcher.facts_of_packet(packet)).unwrap_or(matcher.default)
        }))
    }

    /// Classifier of SYNs that leave to a service, if the policy sets any level: the rules of both
    /// layers that hold without a request, and else the default.
    #[must_use]
    pub fn handshake(&self) -> Option<DriverClassifier> {
        if self.default.is_none() && self.rules.is_empty() {
            return None;
        }
        let (driver, transport) = (self.matcher(Layer::Driver), self.matcher(Layer::Transport));
        let default = self.default.map_or(Verdict::NoVerdict, Verdict::Level);
        Some(Arc::new(move |packet: &PacketView<'_>| {
            let facts = Matcher::facts_of_any(packet);
            driver.verdict(&facts).or_else(|| transport.verdict(&facts)).unwrap_or(default)
        }))
    }

    /// Transport classifier of the policy, if the policy has transport rules. If no rule matches,
    /// the driver's verdict takes precedence over the default.
    #[must_use]
    pub fn transport(&self) -> Option<TransportClassifier> {
        let matcher = Some(self.matcher(Layer::Transport)).filter(|m| !m.is_empty())?;
        let rules = Arc::new(RequestRules::new(matcher, self.observed()));
        if rules.matcher.has_request_conditions() {
            return Some(Arc::new(move |cx: &mut FlowContext<'_>| rules.verdict(cx)));
        }
        Some(Arc::new(move |cx: &mut FlowContext<'_>| rules.verdict_of(cx, &PacketAttrs::of_flow(cx))))
    }

    /// Protocols of connections to the server's ports, as named in the rules.
    #[must_use]
    pub fn protocols(&self) -> PortProtocols {
        self.matcher(Layer::Transport).protocols().clone()
    }

    fn matcher(&self, layer: Layer) -> Matcher {
        let rules = self.rules.iter().filter(|rule| rule.layer == layer);
        let default = match layer {
            Layer::Driver => Verdict::Default,
            Layer::Transport => Verdict::Level,
        };
        let default = self.default.map_or(Verdict::NoVerdict, default);
        Matcher::new(rules.map(|rule| (&rule.conditions, rule.verdict)), &self.trusted, default)
    }
}
