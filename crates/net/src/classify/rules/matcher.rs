//! The rules of one layer, flattened: every condition that is absent becomes a
//! range that holds everything, so a rule is a row of comparisons.

use queueing::Span;

use super::condition::{Cidr, Conditions, Range, bits, loss_order};
use super::pattern::Pattern;
use super::port_protocols::PortProtocols;
use super::request_match::RequestMatch;
use crate::classify::l7::{Protocol, Request};
use crate::classify::{FlowContext, FlowState, PacketView, Verdict};

/// Rules in the order in which they are asked.
pub struct Matcher {
    rows: Box<[Row]>,
    /// What any row needs to know.
    needs: u8,
    /// What rows ask of requests, each a bit of a request's mark.
    questions: Box<[Question]>,
    /// What is spoken on which of our ports.
    spoken: PortProtocols,
    /// What holds when no rule matches.
    pub default: Verdict,
}

/// Rules that may ask what requests say: as many as a mark has bits.
pub const ASKS_MAX: usize = u64::BITS as usize;

struct Question {
    asks: RequestMatch,
    service: Option<Range>,
}

struct Row {
    needs: u8,
    /// The bit that a request's mark must have.
    said: u64,
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

/// A range of 16 bits.
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

/// What is known of one packet.
#[derive(Clone, Copy, Default)]
pub struct PacketAttrs<'a> {
    pub has: u8,
    /// The mark of the request that it belongs to.
    pub said: u64,
    pub dscp: u8,
    pub port: u16,
    pub length: u16,
    pub source: u128,
    pub payload: &'a [u8],
    pub received: u64,
    pub rtt: u64,
    pub loss: u64,
}

/// The packet is IP, whole headers.
pub const IP: u8 = 1;
/// It is TCP or UDP, unfragmented, whole headers.
pub const TRANSPORT: u8 = 2;
/// The flow has a round-trip time.
pub const RTT: u8 = 4;

impl PacketAttrs<'_> {
    /// What the transport knows besides, on a connection like `flow`.
    pub fn on_flow(self, flow: &FlowState) -> Self {
        Self {
            has: self.has | if flow.srtt.is_some() { RTT } else { 0 },
            received: flow.received.get(),
            rtt: flow.srtt.map_or(0, Span::as_nanos),
            loss: loss_order(flow.loss),
            ..self
        }
    }

    /// What the transport knows of a segment.
    pub fn of_flow<'a>(cx: &'a FlowContext<'_>) -> PacketAttrs<'a> {
        PacketAttrs {
            has: IP | TRANSPORT | if cx.flow.srtt.is_some() { RTT } else { 0 },
            said: 0,
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
    pub fn new<'a>(rules: impl Iterator<Item = (&'a Conditions, Verdict)>, default: Verdict) -> Self {
        let (mut questions, mut spoken) = (Vec::new(), Vec::new());
        let rows: Box<[Row]> = rules
            .map(|(conditions, verdict)| {
                let said = conditions.asks.as_ref().map_or(0, |asks| {
                    spoken.push((conditions.port.unwrap_or(Range::FULL), asks.protocol.clone()));
                    questions.push(Question { asks: asks.clone(), service: conditions.service });
                    1 << (questions.len() - 1)
                });
                Row::new(conditions, verdict, said)
            })
            .collect();
        assert!(questions.len() <= ASKS_MAX, "the parser refuses more");
        let needs = rows.iter().fold(0, |needs, row| needs | row.needs);
        Self { rows, needs, questions: questions.into(), spoken: PortProtocols::new(spoken), default }
    }

    /// What connections speak, where a rule asks for it.
    pub const fn spoken(&self) -> &PortProtocols {
        &self.spoken
    }

    /// Whether any rule asks what requests say.
    pub const fn asks(&self) -> bool {
        !self.questions.is_empty()
    }

    /// Whether any rule asks what requests are expected to take.
    pub fn learns(&self) -> bool {
        self.questions.iter().any(|question| question.service.is_some())
    }

    /// Whether any rule drops.
    pub fn drops(&self) -> bool {
        self.rows.iter().any(|row| row.verdict == Verdict::Drop)
    }

    /// Which questions `request` of `protocol` answers with yes: its mark.
    pub fn mark(&self, protocol: &Protocol, request: &Request<'_>, expected: Option<Span>) -> u64 {
        let holds = |question: &Question| {
            question.asks.protocol == *protocol
                && question.asks.hold(request)
                && question
                    .service
                    .is_none_or(|range| expected.is_some_and(|span| range.contains(span.as_nanos())))
        };
        let bits = self.questions.iter().enumerate().filter(|(_, question)| holds(question));
        bits.fold(0, |mark, (bit, _)| mark | 1 << bit)
    }

    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// All that the driver can know of a packet.
    pub fn facts_of_any<'a>(packet: &PacketView<'a>) -> PacketAttrs<'a> {
        Self::facts(packet, IP | TRANSPORT)
    }

    /// What the driver can know of a packet, as far as any rule asks.
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

    /// Whether rule `index` of this layer matches.
    pub fn matches(&self, index: usize, facts: &PacketAttrs<'_>) -> bool {
        self.rows[index].matches(facts)
    }

    /// What the first rule that matches says.
    #[inline]
    pub fn verdict(&self, facts: &PacketAttrs<'_>) -> Option<Verdict> {
        self.rows.iter().find(|row| row.matches(facts)).map(|row| row.verdict)
    }
}

impl Row {
    fn new(conditions: &Conditions, verdict: Verdict, said: u64) -> Self {
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
            said,
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
            && self.said & !facts.said == 0
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
