//! Runner of a script on a stack under virtual time.
//!
//! Between two events the stack's timers run at their exact times. The runner keeps each packet of
//! the stack with its time until a `>` line matches it. A packet that no line matches before time
//! advances fails the script.

use std::collections::{BTreeMap, VecDeque};

use net::Stack;
use queueing::{Span, Time};

use super::ast::{Body, Event, Packet, What, When};
use super::calls::Sockets;
use super::codec;
use super::compare;
use super::flow::{Flow, bytes};
use super::parse_packet::stream_offset;
use super::settings::Settings;
use crate::world::{meta, sent};

/// Default ports of the peer and of the stack.
pub const PORTS: (u16, u16) = (50_000, 8080);

/// Granularity of the stack's timer wheel. A timer may fire late by less than this, and the next
/// one then seems early by as much.
const TICK: Span = Span::from_nanos(1024);

/// Longest wait for a packet after its due time, so that a report shows the packet sent instead.
const TOLERANCE_LATE: Span = Span::from_secs(300);

/// Failure of a script.
#[derive(Debug, Default)]
pub struct Failure {
    pub what: String,
    pub expected: Option<String>,
    pub got: Option<String>,
}

impl Failure {
    pub fn new(what: impl Into<String>) -> Self {
        Self { what: what.into(), ..Self::default() }
    }

    pub fn differs(what: impl Into<String>, expected: impl ToString, got: impl ToString) -> Self {
        Self { what: what.into(), expected: Some(expected.to_string()), got: Some(got.to_string()) }
    }
}

/// Packet of the stack that no line has matched yet.
struct Sent {
    at: Time,
    packet: Packet,
    payload: Vec<u8>,
}

pub struct Runner {
    pub stack: Stack,
    pub now: Time,
    pub sockets: Sockets,
    pub v6: bool,
    /// Whole exchange, for the report.
    pub exchange: Vec<String>,
    start: Time,
    /// Time of the previous event.
    last: Time,
    tolerance: Span,
    /// True if all packets of one instant are delivered before the stack sends.
    batch: bool,
    flows: BTreeMap<(u16, u16), Flow>,
    sent: VecDeque<Sent>,
    broken: Option<String>,
    /// Last Fast Open cookie of the stack.
    cookie: Vec<u8>,
}

impl Runner {
    pub fn new(settings: Settings) -> Self {
        let start = Time::from_nanos(5_000_000_000);
        let mut runner = Self {
            stack: Stack::new(settings.config),
            now: start,
            sockets: Sockets::default(),
            v6: settings.v6,
            exchange: Vec::new(),
            start,
            last: start,
            tolerance: settings.tolerance,
            batch: settings.batch,
            flows: BTreeMap::new(),
            sent: VecDeque::new(),
            broken: None,
            cookie: Vec::new(),
        };
        runner.frame(&codec::arp(1, &[0; 6]));
        if runner.v6 {
            runner.frame(&codec::solicitation());
        }
        runner.collect();
        runner
    }

    /// Executes `event`.
    ///
    /// # Errors
    /// If the stack behaves differently.
    pub fn play(&mut self, event: &Event) -> Result<(), Failure> {
        let (from, to) = match event.when {
            When::At(span) => (self.start + span, self.start + span),
            When::After(span) => (self.last + span, self.last + span),
            When::Any => (self.last, self.last + TOLERANCE_LATE * 40),
            When::Between { from, to, relative } => {
                let base = if relative { self.last } else { self.start };
                (base + from, base + to)
            }
        };
        if let What::Out(packet) = &event.what {
            let exact = from == to;
            let late = if exact { self.tolerance + TICK } else { TICK };
            let early = if exact { self.tolerance + TICK } else { Span::ZERO };
            let at = self.expect(packet, from.since(Time::ZERO + early), to + late)?;
            self.last = at;
            return self.check_broken();
        }
        if from != to {
            return Err(Failure::new("only what the stack sends may have a range of times"));
        }
        if from + TICK < self.now {
            return Err(Failure::new("the event lies before the one that precedes it"));
        }
        let together = self.batch && matches!(event.what, What::In(_));
        if !together || from > self.now {
            self.advance(from);
        }
        self.nothing_left(from)?;
        self.last = from;
        match &event.what {
            What::In(packet) => self.inject(packet)?,
            What::Call(call) => {
                let line = self.call(call)?;
                self.note(self.now, &line);
            }
            What::Assert(assertions) => {
                self.drain();
                assertions.iter().try_for_each(|assertion| self.check(assertion))?;
            }
            What::Out(_) => {}
        }
        if !together {
            self.collect();
        }
        self.check_broken()
    }

    /// Adds unmatched packets to the exchange, for a report.
    pub fn note_rest(&mut self) {
        while self.take(None).is_some() {}
    }

    /// End of the script: no packet may be unmatched.
    ///
    /// # Errors
    /// If one is.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.nothing_left(Time::MAX)
    }

    /// Fails if a packet sent before `now` is unmatched.
    fn nothing_left(&mut self, now: Time) -> Result<(), Failure> {
        if self.sent.front().is_some_and(|sent| sent.at + TICK < now) {
            let (at, packet, _) = self.take(None).expect("front was checked");
            let got = format!("{} > {packet}", self.clock(at));
            return Err(Failure::differs("the stack sent what no line expects", "nothing", got));
        }
        Ok(())
    }

    fn check_broken(&mut self) -> Result<(), Failure> {
        self.broken.take().map_or(Ok(()), |why| Err(Failure::new(format!("the stack sent {why}"))))
    }

    /// Takes the next packet, which must match `wanted` and be sent between `from` and `to`.
    fn expect(&mut self, wanted: &Packet, from: Span, to: Time) -> Result<Time, Failure> {
        self.run_until_sent(to);
        let from = Time::ZERO + from;
        let expected = format!("{} > {wanted}", self.clock(from));
        if self.sent.is_empty() {
            self.run_until_sent(to + TOLERANCE_LATE);
            let got = match self.take(None) {
                Some((at, packet, _)) => format!("{} > {packet}", self.clock(at)),
                None => "nothing at all".to_owned(),
            };
            return Err(Failure::differs("nothing was sent by then", expected, got));
        }
        let (at, packet, payload) = self.take(Some(wanted)).expect("a packet was sent");
        let got = format!("{} > {packet}", self.clock(at));
        if let Some(what) = compare::difference(wanted, &packet) {
            return Err(Failure::differs(format!("{what} differs"), expected, got));
        }
        if at < from || at > to {
            return Err(Failure::differs("the time differs", expected, got));
        }
        let offset = if let Body::Tcp(tcp) = &packet.body { stream_offset(tcp) } else { 0 };
        // An ICMP error quotes a packet; any other payload is the pattern.
        let quotes = matches!(&packet.body, Body::Icmp(icmp) if icmp.len.is_none());
        if !quotes && payload != bytes(offset, payload.len() as u32) {
            return Err(Failure::differs("the payload is not what was written there", expected, got));
        }
        Ok(at)
    }

    /// Removes the oldest sent packet, in the script's numbers.
    fn take(&mut self, wanted: Option<&Packet>) -> Option<(Time, Packet, Vec<u8>)> {
        let sent = self.sent.pop_front()?;
        let (local, peer) = sent.packet.ports.unwrap_or((PORTS.1, PORTS.0));
        let wanted =
            wanted.and_then(|packet| if let Body::Tcp(tcp) = &packet.body { Some(tcp) } else { None });
        let mut packet = self.flows.entry((peer, local)).or_default().accepts(&sent.packet, wanted);
        packet.ports = packet.ports.filter(|ports| *ports != (PORTS.1, PORTS.0));
        if let Some(cookie) = packet.cookie().filter(|cookie| !cookie.is_empty()) {
            self.cookie = cookie.to_vec();
        }
        let line = format!("> {packet}");
        self.note(sent.at, &line);
        Some((sent.at, packet, sent.payload))
    }

    fn inject(&mut self, packet: &Packet) -> Result<(), Failure> {
        let ports = packet.ports.unwrap_or(PORTS);
        let line = format!("< {packet}");
        self.note(self.now, &line);
        let flow = self.flows.entry(ports).or_default();
        let mut wire = flow.sends(packet);
        wire.show_cookie(&self.cookie);
        wire.ports = Some(ports);
        let payload = match &packet.body {
            Body::Tcp(tcp) => bytes(flow.peer_offset(stream_offset(tcp)), tcp.len),
            Body::Udp { len } => bytes(0, *len as u32),
            Body::Icmp(icmp) => bytes(0, icmp.len.unwrap_or(0) as u32),
        };
        if let Some((from, to, _)) = packet.ip.fragment
            && to.is_some_and(|to| to < from || to > 60_000)
        {
            return Err(Failure::new("a fragment ends after it starts"));
        }
        let frame = codec::frame(self.v6, &wire, &payload);
        self.frame(&frame);
        Ok(())
    }

    fn frame(&mut self, frame: &[u8]) {
        let meta = meta(self.now, frame);
        self.stack.ingress(self.now, frame, &meta);
    }

    /// Advances to `to`, running the stack's timers.
    fn advance(&mut self, to: Time) {
        self.collect();
        while self.step(to) {}
        self.now = self.now.max(to);
    }

    /// Advances until a packet is sent, at most to `to`.
    fn run_until_sent(&mut self, to: Time) {
        self.collect();
        while self.sent.is_empty() && self.step(to) {}
        if self.sent.is_empty() {
            self.now = self.now.max(to);
        }
    }

    /// Runs the next timer due by `to`; false if there is none.
    fn step(&mut self, to: Time) -> bool {
        let Some(next) = self.stack.poll_timeout().filter(|next| *next <= to) else { return false };
        self.now = self.now.max(next);
        self.stack.handle_timeout(self.now);
        self.collect();
        true
    }

    /// Collects the stack's packets; replies to requests for the peer's hardware address.
    fn collect(&mut self) {
        loop {
            let frames = sent(&mut self.stack, self.now);
            if frames.is_empty() {
                return;
            }
            for frame in frames {
                if let Some(answer) = codec::answer(&frame) {
                    self.frame(&answer);
                } else if let Some(decoded) = codec::decode(&frame) {
                    match decoded {
                        Ok((packet, payload)) => {
                            self.sent.push_back(Sent { at: self.now, packet, payload });
                        }
                        Err(why) => self.broken = Some(why),
                    }
                }
            }
        }
    }

    /// Restarts the count for a new connection between these ports.
    pub fn connects(&mut self, peer: u16, local: u16) {
        self.flows.entry((peer, local)).or_default().connects();
    }

    /// Distance between the initial sequence numbers of the last two connections between the
    /// default ports.
    pub fn isn_advance(&self) -> Option<u32> {
        self.flows.get(&PORTS)?.isn_advance()
    }

    fn note(&mut self, at: Time, line: &str) {
        let clock = self.clock(at);
        self.exchange.push(format!("{clock} {line}"));
    }

    /// `at` in the script's format.
    fn clock(&self, at: Time) -> String {
        let ns = at.as_nanos().saturating_sub(self.start.as_nanos());
        format!("{}.{:06}", ns / 1_000_000_000, ns / 1_000 % 1_000_000)
    }
}
