//! The rules of one layer, flattened: every condition that is absent becomes a
//! range that holds everything, so a rule is a row of comparisons.

use super::condition::{Cidr, Conditions, Pattern, Range, bits, loss_order};
use crate::classify::{FlowContext, PacketView, Verdict};

/// Rules in the order in which they are asked.
pub struct Matcher {
    rows: Box<[Row]>,
    /// What any row needs to know.
    needs: u8,
    /// What holds when no rule matches.
    pub default: Verdict,
}

struct Row {
    needs: u8,
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
#[derive(Default)]
pub struct Facts<'a> {
    has: u8,
    dscp: u8,
    port: u16,
    length: u16,
    source: u128,
    payload: &'a [u8],
    received: u64,
    rtt: u64,
    loss: u64,
}

/// The packet is IP, whole headers.
const IP: u8 = 1;
/// It is TCP or UDP, unfragmented, whole headers.
const TRANSPORT: u8 = 2;
/// The flow has a round-trip time.
const RTT: u8 = 4;

impl Facts<'_> {
    /// What the transport knows of a segment.
    pub fn of_flow<'a>(cx: &'a FlowContext<'_>) -> Facts<'a> {
        Facts {
            has: IP | TRANSPORT | if cx.flow.srtt.is_some() { RTT } else { 0 },
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
        let rows: Box<[Row]> = rules.map(|(conditions, verdict)| Row::new(conditions, verdict)).collect();
        let needs = rows.iter().fold(0, |needs, row| needs | row.needs);
        Self { rows, needs, default }
    }

    pub const fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// What the driver can know of a packet, as far as any rule asks.
    #[inline]
    pub fn facts_of_packet<'a>(&self, packet: &PacketView<'a>) -> Facts<'a> {
        let length = u16::try_from(packet.len()).unwrap_or(u16::MAX);
        let mut facts = Facts { length, ..Facts::default() };
        if self.needs == 0 {
            return facts;
        }
        let Some(ip) = packet.ip() else { return facts };
        facts.has = IP;
        facts.source = bits(ip.source());
        facts.dscp = ip.dscp();
        if self.needs & TRANSPORT != 0
            && let Some((_, port, payload)) = ip.transport()
        {
            facts.has |= TRANSPORT;
            facts.port = port;
            facts.payload = payload;
        }
        facts
    }

    /// What the first rule that matches says.
    #[inline]
    pub fn verdict(&self, facts: &Facts<'_>) -> Option<Verdict> {
        self.rows.iter().find(|row| row.matches(facts)).map(|row| row.verdict)
    }
}

impl Row {
    fn new(conditions: &Conditions, verdict: Verdict) -> Self {
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
    fn matches(&self, facts: &Facts<'_>) -> bool {
        self.needs & !facts.has == 0
            && self.length.contains(facts.length)
            && self.port.contains(facts.port)
            && self.dscp.contains(facts.dscp.into())
            && self.source.contains(facts.source)
            && self.flow.as_ref().is_none_or(|flow| flow.matches(facts))
            && self.patterns.iter().all(|pattern| pattern.matches(facts.payload))
    }
}

impl FlowRow {
    fn matches(&self, facts: &Facts<'_>) -> bool {
        self.received.contains(facts.received)
            && self.rtt.contains(facts.rtt)
            && self.loss.contains(facts.loss)
    }
}
