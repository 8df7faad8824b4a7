//! Explanation of a packet's label: every evaluated rule and its first unmet condition.
//!
//! Rules are evaluated as by the classifiers, and each condition is then checked separately. The
//! observations of the classifiers are neither used nor changed.

use std::sync::Arc;

use queueing::priority_field::Trust;
use queueing::{Bytes, Priority, Span};

use super::condition::{Conditions, Range};
use super::matcher::{IP, Matcher, PacketAttrs, RTT, TRANSPORT};
use super::{Policy, Rule, matcher};
use crate::l7::{L7Protocol, Nonsense, Notes, RequestHead, RequestKind, RequestVisitor, StreamParser};
use crate::{FlowState, Layer, PacketMeta, PacketView, Verdict};

/// Explanation for one request, or for a packet without one.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Request and protocol, or the reason why there is no request where rules need one. `None` if
    /// no rule needs one.
    pub request: Option<Result<(String, &'static str), String>>,
    /// Evaluated rules in order, first at the driver and then at the transport. The last rule of
    /// each layer may have matched.
    pub tried: Vec<RuleTrace>,
    /// Source of the decision.
    pub decided: Decided,
    /// Level that the request's field `Priority` asks for, and the trust in its sender.
    pub asked: Option<(Priority, Trust)>,
    /// Decision, after what the request asks for.
    pub verdict: Verdict,
}

/// Evaluated rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleTrace {
    /// Index in [`Policy::rules`].
    pub rule: usize,
    /// First unmet condition; `None` if the rule matches.
    pub missed: Option<UnmetCondition>,
}

/// Condition that does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnmetCondition {
    /// Key of the condition in the policy.
    pub condition: &'static str,
    /// Value in the packet.
    pub given: String,
}

/// Source of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decided {
    /// Rule at this index in [`Policy::rules`].
    Rule(usize),
    /// The policy's default.
    Default,
    /// No source: the packet keeps the least urgent level.
    NoRule,
}

impl Policy {
    /// Explains the verdict on `frame`, once per request whose head it holds. `flow` is the state
    /// of the connection and `expected` the expected service time of the requests.
    #[must_use]
    pub fn explain(&self, frame: &[u8], flow: FlowState, expected: Option<Span>) -> Vec<Explanation> {
        let meta = PacketMeta::new(queueing::Time::ZERO, frame.len());
        let view = PacketView::new(frame, &meta);
        let driver = self.matcher(Layer::Driver);
        let facts = Matcher::facts_of_any(&view);
        let mut tried = Vec::new();
        let hit = self.first_match(Layer::Driver, &driver, &facts, &RequestAttrs::none(), &mut tried);
        let decided = match hit {
            Some(rule) => Decided::Rule(rule),
            None if self.default.is_some() && self.driver().is_some() => Decided::Default,
            None => Decided::NoRule,
        };
        let has_payload = view.tcp_payload().is_some_and(|payload| !payload.is_empty());
        if self.verdict_of(decided) == Verdict::Drop || !has_payload {
            return vec![self.explanation(None, tried, decided, None)];
        }
        let transport = self.matcher(Layer::Transport);
        let payload = facts.payload;
        let received = flow.received.max(Bytes::new(payload.len() as u64));
        let facts = facts.on_flow(&FlowState { received, ..flow });
        let requests = self.requests(&transport, facts.port, payload, expected);
        let explain = |attrs: RequestAttrs| {
            let mut tried = tried.clone();
            let facts = PacketAttrs { mark: attrs.mark, ..facts };
            let hit = self.first_match(Layer::Transport, &transport, &facts, &attrs, &mut tried);
            let has_transport_rules = self.rules.iter().any(|rule| rule.layer == Layer::Transport);
            let decided = match hit {
                Some(rule) => Decided::Rule(rule),
                None if decided == Decided::NoRule && has_transport_rules && self.default.is_some() => {
                    Decided::Default
                }
                None => decided,
            };
            self.explanation(attrs.request, tried, decided, Some((&transport, &facts)))
        };
        requests.into_iter().map(explain).collect()
    }

    /// Evaluates the rules of `layer` in order; returns the first match.
    fn first_match(
        &self,
        layer: Layer,
        matcher: &Matcher,
        facts: &PacketAttrs<'_>,
        attrs: &RequestAttrs,
        tried: &mut Vec<RuleTrace>,
    ) -> Option<usize> {
        let rules = self.rules.iter().enumerate().filter(|(_, rule)| rule.layer == layer);
        for (index, (rule, Rule { conditions, .. })) in rules.enumerate() {
            let matches = matcher.matches(index, facts);
            let missed = conditions.missed(facts, attrs, index);
            debug_assert_eq!(matches, missed.is_none(), "rule {rule}: {missed:?}");
            tried.push(RuleTrace { rule, missed });
            if matches {
                return Some(rule);
            }
        }
        None
    }

    /// Requests in `payload`, or one empty entry if there is none.
    fn requests(
        &self,
        matcher: &Matcher,
        port: u16,
        payload: &[u8],
        expected: Option<Span>,
    ) -> Vec<RequestAttrs> {
        let Some(protocol) = matcher.protocols().on(port) else { return vec![RequestAttrs::none()] };
        let rules: Vec<&Rule> = self.rules.iter().filter(|rule| rule.layer == Layer::Transport).collect();
        let notes = Arc::new(Notes::default());
        let mut collector = RequestCollector { matcher, rules, expected, requests: Vec::new() };
        StreamParser::new(protocol.clone(), Arc::clone(&notes), 0).read(0, payload, &mut collector);
        if collector.requests.is_empty() {
            let why = Nonsense::ALL.into_iter().find(|why| notes.failed(*why) > 0);
            let why = why.map_or("its head is not complete".to_owned(), |why| why.to_string());
            let request = Some(Err(format!("no request of {}: {why}", protocol.name())));
            return vec![RequestAttrs { request, ..RequestAttrs::none() }];
        }
        collector.requests
    }

    fn verdict_of(&self, decided: Decided) -> Verdict {
        match decided {
            Decided::Rule(rule) => self.rules[rule].verdict,
            Decided::Default => self.default.map_or(Verdict::NoVerdict, Verdict::Level),
            Decided::NoRule => Verdict::NoVerdict,
        }
    }

    fn explanation(
        &self,
        request: Option<Result<(String, &'static str), String>>,
        tried: Vec<RuleTrace>,
        decided: Decided,
        transport: Option<(&Matcher, &PacketAttrs<'_>)>,
    ) -> Explanation {
        let (mut verdict, mut asked) = (self.verdict_of(decided), None);
        if let Some((matcher, facts)) = transport {
            asked = matcher::asked(facts.mark).map(|level| (level, matcher.trust(facts.source)));
            verdict = matcher.accepted(verdict, facts);
        }
        Explanation { request, tried, decided, asked, verdict }
    }
}

/// Properties of a request.
#[derive(Clone)]
struct RequestAttrs {
    request: Option<Result<(String, &'static str), String>>,
    mark: u64,
    /// One entry per transport rule: true if its request condition holds.
    holds: Vec<bool>,
    expected: Option<Span>,
}

impl RequestAttrs {
    const fn none() -> Self {
        Self { request: None, mark: 0, holds: Vec::new(), expected: None }
    }
}

struct RequestCollector<'a> {
    matcher: &'a Matcher,
    rules: Vec<&'a Rule>,
    expected: Option<Span>,
    requests: Vec<RequestAttrs>,
}

impl RequestVisitor for RequestCollector<'_> {
    fn on_request(&mut self, protocol: &L7Protocol, request: &RequestHead<'_>) -> u64 {
        let expected = self.expected.filter(|_| RequestKind::of(protocol, request).is_some());
        let holds = |rule: &&Rule| {
            let matched = rule.conditions.request.as_ref();
            matched.is_some_and(|matched| matched.protocol == *protocol && matched.hold(request))
        };
        self.requests.push(RequestAttrs {
            request: Some(Ok((text_of(request), protocol.name()))),
            mark: self.matcher.mark(protocol, request, expected),
            holds: self.rules.iter().map(holds).collect(),
            expected,
        });
        0
    }

    fn on_segment(&mut self, _: u64) {}

    fn on_end(&mut self) {}
}

fn text_of(request: &RequestHead<'_>) -> String {
    match request {
        RequestHead::Http { method, path, .. } => format!("{method} {path}"),
        RequestHead::Command { verb, key: [] } => verb.escape_ascii().to_string(),
        RequestHead::Command { verb, key } => format!("{} {}", verb.escape_ascii(), key.escape_ascii()),
        RequestHead::ClientHello { name: Some(name) } => name.escape_ascii().to_string(),
        RequestHead::ClientHello { name: None } => "a ClientHello without a server name".to_owned(),
        RequestHead::Message { bytes } => bytes.escape_ascii().to_string(),
    }
}

impl Conditions {
    /// First condition that does not hold.
    fn missed(&self, facts: &PacketAttrs<'_>, attrs: &RequestAttrs, index: usize) -> Option<UnmetCondition> {
        let missed = |condition, given: String| Some(UnmetCondition { condition, given });
        let outside = |range: Option<Range>, value: u64| range.is_some_and(|range| !range.contains(value));
        let none = |text: &str| text.to_owned();
        if (self.port.is_some() || !self.patterns().is_empty()) && facts.has & TRANSPORT == 0 {
            let condition = match (self.port, &self.http) {
                (Some(_), _) => "port",
                (None, Some(_)) => "http",
                (None, None) => "bytes",
            };
            return missed(condition, none("absent: the packet is neither TCP nor UDP"));
        }
        if (self.source.is_some() || self.dscp.is_some()) && facts.has & IP == 0 {
            let condition = if self.source.is_some() { "source" } else { "dscp" };
            return missed(condition, none("absent: the packet is not IP"));
        }
        if outside(self.port, facts.port.into()) {
            return missed("port", facts.port.to_string());
        }
        if self.source.is_some_and(|source| !source.contains(facts.source)) {
            let addr = std::net::Ipv6Addr::from_bits(facts.source).to_canonical();
            return missed("source", addr.to_string());
        }
        if outside(self.dscp, facts.dscp.into()) {
            return missed("dscp", facts.dscp.to_string());
        }
        if outside(self.length, facts.length.into()) {
            return missed("length", facts.length.to_string());
        }
        if self.patterns().iter().any(|pattern| !pattern.matches(facts.payload)) {
            let start = &facts.payload[..facts.payload.len().min(SHOWN_BYTES)];
            let condition = if self.http.is_some() { "http" } else { "bytes" };
            return missed(condition, format!("\"{}\"", start.escape_ascii()));
        }
        if let Some(matched) = &self.request
            && !attrs.holds.get(index).is_some_and(|holds| *holds)
        {
            return missed(
                matched.protocol.name(),
                match &attrs.request {
                    Some(Ok((request, _))) => request.clone(),
                    Some(Err(why)) => why.clone(),
                    None => format!("no request parser on port {}", facts.port),
                },
            );
        }
        if self.service.is_some() {
            match attrs.expected {
                None => return missed("service", none("not known yet")),
                Some(span) if outside(self.service, span.as_nanos()) => {
                    return missed("service", span.to_string());
                }
                Some(_) => {}
            }
        }
        if outside(self.received, facts.received) {
            return missed("received", format!("{} B", facts.received));
        }
        if self.rtt.is_some() && facts.has & RTT == 0 {
            return missed("rtt", none("not known yet"));
        }
        if outside(self.rtt, facts.rtt) {
            return missed("rtt", Span::from_nanos(facts.rtt).to_string());
        }
        if outside(self.loss, facts.loss) {
            return missed("loss", f32::from_bits(facts.loss as u32).to_string());
        }
        None
    }
}

/// Bytes of a payload in an explanation.
const SHOWN_BYTES: usize = 24;
