//! Compiled rules of one layer: each rule is a row of comparisons, in which an absent condition is
//! a range that contains everything.

use queueing::priority_field::{Trust, accept};
use queueing::{Priority, Span};

use super::condition::{Cidr, Conditions, Range, bits, loss_order};
use super::pattern::Pattern;
use super::port_protocols::PortProtocols;
use super::request_match::RequestMatch;
use crate::l7::{L7Protocol, RequestHead};
use crate::{FlowContext, FlowState, PacketView, Verdict};

/// Rules in the order of evaluation.
pub struct Matcher {
    rows: Box<[Row]>,
    /// Attributes that any row needs.
    needs: u8,
    /// Request conditions of the rows, each a bit of a request's mark.
    mark_conditions: Box<[MarkCondition]>,
    /// Protocols of the server's ports.
    protocols: PortProtocols,
    /// Peers whose requests may raise their level.
    trusted: Box<[Cidr]>,
    /// Verdict when no rule matches.
    pub default: Verdict,
}

/// Maximum number of rules with a request condition: the bits of a mark below [`ASKED_AT`].
pub const REQUEST_RULES_MAX: usize = ASKED_AT as usize;

/// First of the bits of a mark that hold the level that a request asks for: a flag above it.
const ASKED_AT: u32 = 60;
const ASKED: u64 = 8;

/// Level that the request with this mark asks for by its field `Priority`, if it has one.
pub fn asked(mark: u64) -> Option<Priority> {
    let bits = mark >> ASKED_AT;
    if bits & ASKED == 0 { None } else { Priority::new((bits & !ASKED) as u8) }
}

/// Mark of a request that asks for `level`.
fn mark_of_asked(level: Option<Priority>) -> u64 {
    level.map_or(0, |level| (ASKED | u64::from(level.level())) << ASKED_AT)
}

struct MarkCondition {
    request: RequestMatch,
    service: Option<Range>,
}

struct Row {
    needs: u8,
    /// Bit that a request's mark must have.
    mark: u64,
    dscp: Small,
    port: Small,
    length: Small,
    source: Cidr,
    verdict: Verdict,
    flow: Option<Box<FlowRow>>,
    patterns: Box<[Pattern]>,
}

struct FlowRow {
    received: Range,
    rtt: Range,
    loss: Range,
}

/// 16-bit range.
#[derive(Clone, Copy)]
struct Small {
    min: u16,
    more: u16,
}

impl Small {
    fn new(range: Option<Range>) -> Self {
        let Range { min, max } = range.unwrap_or(Range { min: 0, max: u16::MAX.into() });
        Self { min: min as u16, more: (max - min) as u16 }
    }

    #[inline]
    const fn contains(self, value: u16) -> bool {
        value.wrapping_sub(self.min) <= self.more
    }
}

/// Attributes of a packet.
#[derive(Clone, Copy, Default)]
pub struct PacketAttrs<'a> {
    pub has: u8,
    /// Mark of the packet's request.
    pub mark: u64,
    pub dscp: u8,
    pub port: u16,
    pub length: u16,
    pub source: u128,
    pub payload: &'a [u8],
    pub received: u64,
    pub rtt: u64,
    pub loss: u64,
}

/// The packet is IP with complete headers.
pub const IP: u8 = 1;
/// The packet is unfragmented TCP or UDP with complete headers.
pub const TRANSPORT: u8 = 2;
/// The flow has a round-trip time sample.
pub const RTT: u8 = 4;

impl PacketAttrs<'_> {
    /// Adds the attributes of the connection `flow`.
    pub fn on_flow(self, flow: &FlowState) -> Self {
        Self {
            has: self.has | if flow.srtt.is_some() { RTT } else { 0 },
            received: flow.received.get(),
            rtt: flow.srtt.map_or(0, Span::as_nanos),
            loss: loss_order(flow.loss),
            ..self
        }
    }

    /// Attributes of a segment at the transport.
    pub fn of_flow<'a>(cx: &'a FlowContext<'_>) -> PacketAttrs<'a> {
        PacketAttrs {
            has: IP | TRANSPORT | if cx.flow.srtt.is_some() { RTT } else { 0 },
            mark: 0,
            dscp: 0,
            port: cx.tuple.local_port,
            length: cx.meta.bytes,
            source: bits(cx.tuple.remote),
            payload: cx.payload,
            received: cx.flow.received.get(),
            rtt: cx.flow.srtt.map_or(0, queueing::Span::as_nanos),
            loss: loss_order(cx.flow.loss),
        }
    }
}

impl Matcher {
    pub fn new<'a>(
        rules: impl Iterator<Item = (&'a Conditions, Verdict)>,
        trusted: &[Cidr],
        default: Verdict,
    ) -> Self {
        let (mut mark_conditions, mut protocols) = (Vec::new(), Vec::new());
        let rows: Box<[Row]> = rules
            .map(|(conditions, verdict)| {
                let mark = conditions.request.as_ref().map_or(0, |request| {
                    protocols.push((conditions.port.unwrap_or(Range::FULL), request.protocol.clone()));
                    mark_conditions
                        .push(MarkCondition { request: request.clone(), service: conditions.service });
                    1 << (mark_conditions.len() - 1)
                });
                Row::new(conditions, verdict, mark)
            })
            .collect();
        assert!(mark_conditions.len() <= REQUEST_RULES_MAX, "the parser rejects more");
        let needs = rows.iter().fold(0, |needs, row| needs | row.needs);
        Self {
            rows,
            needs,
            mark_conditions: mark_conditions.into(),
            protocols: PortProtocols::new(protocols),
            trusted: trusted.into(),
            default,
        }
    }

    /// Protocols of the server's ports, as named in the rules.
    pub const fn protocols(&self) -> &PortProtocols {
        &self.protocols
    }

    /// True if any rule has a request condition.
    pub const fn has_request_conditions(&self) -> bool {
        !self.mark_conditions.is_empty()
    }

    /// True if any rule has a condition on the expected service time.
    pub fn needs_service_time(&self) -> bool {
        self.mark_conditions.iter().any(|condition| condition.service.is_some())
    }

    /// True if any rule drops.
    pub fn drops(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == Verdict::Drop)
    }

    /// Mark of `request`: one bit per request condition that it fulfils, and the level that it asks
    /// for.
    pub fn mark(&self, protocol: &L7Protocol, request: &RequestHead<'_>, expected: Option<Span>) -> u64 {
        let holds = |condition: &MarkCondition| {
            condition.request.protocol == *protocol
                && condition.request.hold(request)
                && condition
                    .service
                    .is_none_or(|range| expected.is_some_and(|span| range.contains(span.as_nanos())))
        };
        let bits = self.mark_conditions.iter().enumerate().filter(|(_, condition)| holds(condition));
        bits.fold(mark_of_asked(request.asked()), |mark, (bit, _)| mark | 1 << bit)
    }

    /// Trust in the peer with this address.
    pub fn trust(&self, source: u128) -> Trust {
        if self.trusted.iter().any(|peers| peers.contains(source)) { Trust::Peer } else { Trust::Client }
    }

    /// `verdict` of the rules on a segment with these attributes, after the level that its request
    /// asks for.
    pub fn accepted(&self, verdict: Verdict, facts: &PacketAttrs<'_>) -> Verdict {
        let Some(asked) = asked(facts.mark) else { return verdict };
        let own = match verdict {
            Verdict::Drop => return verdict,
            Verdict::NoVerdict => Priority::default(),
            Verdict::Level(level) | Verdict::Default(level) => match Priority::new(level) {
                Some(level) => level,
                None => return verdict,
            },
        };
        let level = accept(self.trust(facts.source), own, Some(asked));
        if level == own { verdict } else { level.into() }
    }

    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All attributes that the driver can see.
    pub fn facts_of_any<'a>(packet: &PacketView<'a>) -> PacketAttrs<'a> {
        Self::facts(packet, IP | TRANSPORT)
    }

    /// Attributes that the driver can see and that any rule needs.
    #[inline]
    pub fn facts_of_packet<'a>(&self, packet: &PacketView<'a>) -> PacketAttrs<'a> {
        Self::facts(packet, self.needs)
    }

    #[inline]
    fn facts<'a>(packet: &PacketView<'a>, needs: u8) -> PacketAttrs<'a> {
        let length = u16::try_from(packet.len()).unwrap_or(u16::MAX);
        let mut facts = PacketAttrs { length, ..PacketAttrs::default() };
        if needs == 0 {
            return facts;
        }
        let Some(ip) = packet.ip() else { return facts };
        facts.has = IP;
        facts.source = bits(ip.source());
        facts.dscp = ip.dscp();
        if needs & TRANSPORT != 0
            && let Some((_, port, payload)) = ip.transport()
        {
            facts.has |= TRANSPORT;
            facts.port = port;
            facts.payload = payload;
        }
        facts
    }

    /// True if rule `index` of this layer matches.
    pub fn matches(&self, index: usize, facts: &PacketAttrs<'_>) -> bool {
        self.rows[index].matches(facts)
    }

    /// Verdict of the first matching rule.
    #[inline]
    pub fn verdict(&self, facts: &PacketAttrs<'_>) -> Option<Verdict> {
        self.rows.iter().find(|row| row.matches(facts)).map(|row| row.verdict)
    }
}

impl Row {
    fn new(conditions: &Conditions, verdict: Verdict, mark: u64) -> Self {
        let c = conditions;
        let patterns: Box<[Pattern]> = c.patterns().into();
        let need = |bit, wanted| if wanted { bit } else { 0 };
        let flow = (c.received.is_some() || c.rtt.is_some() || c.loss.is_some()).then(|| {
            Box::new(FlowRow {
                received: c.received.unwrap_or(Range::FULL),
                rtt: c.rtt.unwrap_or(Range::FULL),
                loss: c.loss.unwrap_or(Range::FULL),
            })
        });
        Self {
            needs: need(IP, c.source.is_some() || c.dscp.is_some())
                | need(IP | TRANSPORT, c.port.is_some() || !patterns.is_empty())
                | need(RTT, c.rtt.is_some()),
            mark,
            dscp: Small::new(c.dscp),
            port: Small::new(c.port),
            length: Small::new(c.length),
            source: c.source.unwrap_or(Cidr::ANY),
            verdict,
            flow,
            patterns,
        }
    }

    #[inline]
    fn matches(&self, facts: &PacketAttrs<'_>) -> bool {
        self.needs & !facts.has == 0
            && self.mark & !facts.mark == 0
            && self.length.contains(facts.length)
            && self.port.contains(facts.port)
            && self.dscp.contains(facts.dscp.into())
            && self.source.contains(facts.source)
            && self.flow.as_ref().is_none_or(|flow| flow.matches(facts))
            && self.patterns.iter().all(|pattern| pattern.matches(facts.payload))
    }
}

impl FlowRow {
    fn matches(&self, facts: &PacketAttrs<'_>) -> bool {
        self.received.contains(facts.received)
            && self.rtt.contains(facts.rtt)
            && self.loss.contains(facts.loss)
    }
}
