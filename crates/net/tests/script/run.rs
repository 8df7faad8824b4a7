//! Plays a script against a stack under virtual time.
//!
//! Between two events the stack's timers run at their exact times. What it
//! sends is kept with its time until a `>` line takes it; a segment that no
//! line takes before time moves on fails the script.

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

/// The ports that a script means when it names none: the peer's and the stack's.
pub const PORTS: (u16, u16) = (50_000, 8080);

/// A timer may fire late by less than this (a tick of the stack's timer wheel),
/// so the one after a late one seems early by as much.
const TICK: Span = Span::from_nanos(1024);

/// How long a report waits for what comes instead of what was expected.
const PATIENCE: Span = Span::from_secs(300);

/// Why a script does not hold.
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

/// What the stack sent and no line has taken yet.
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
    /// The whole exchange, for the report.
    pub exchange: Vec<String>,
    start: Time,
    /// When the event before happened.
    last: Time,
    tolerance: Span,
    /// What comes at one instant is taken in before anything is sent.
    batch: bool,
    flows: BTreeMap<(u16, u16), Flow>,
    sent: VecDeque<Sent>,
    broken: Option<String>,
    /// The last Fast Open cookie that the stack gave.
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

    /// Does what `event` says.
    ///
    /// # Errors
    /// When the stack does not do what it should.
    pub fn play(&mut self, event: &Event) -> Result<(), Failure> {
        let (from, to) = match event.when {
            When::At(span) => (self.start + span, self.start + span),
            When::After(span) => (self.last + span, self.last + span),
            When::Any => (self.last, self.last + PATIENCE * 40),
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

    /// Puts what no line has taken into the exchange, for a report.
    pub fn note_rest(&mut self) {
        while self.take(None).is_some() {}
    }

    /// The script is over: nothing may be left that no line took.
    ///
    /// # Errors
    /// When there is.
    pub fn finish(&mut self) -> Result<(), Failure> {
        self.nothing_left(Time::MAX)
    }

    /// What was sent before `now` must have been taken.
    fn nothing_left(&mut self, now: Time) -> Result<(), Failure> {
        if self.sent.front().is_some_and(|sent| sent.at + TICK < now) {
            let (at, packet, _) = self.take(None).expect("there is one");
            let got = format!("{} > {packet}", self.clock(at));
            return Err(Failure::differs("the stack sent what no line expects", "nothing", got));
        }
        Ok(())
    }

    fn check_broken(&mut self) -> Result<(), Failure> {
        self.broken.take().map_or(Ok(()), |why| Err(Failure::new(format!("the stack sent {why}"))))
    }

    /// Takes the next packet, which must be `wanted` and sent between `from` and `to`.
    fn expect(&mut self, wanted: &Packet, from: Span, to: Time) -> Result<Time, Failure> {
        self.run_until_sent(to);
        let from = Time::ZERO + from;
        let expected = format!("{} > {wanted}", self.clock(from));
        if self.sent.is_empty() {
            self.run_until_sent(to + PATIENCE);
            let got = match self.take(None) {
                Some((at, packet, _)) => format!("{} > {packet}", self.clock(at)),
                None => "nothing at all".to_owned(),
            };
            return Err(Failure::differs("nothing was sent by then", expected, got));
        }
        let (at, packet, payload) = self.take(Some(wanted)).expect("there is one");
        let got = format!("{} > {packet}", self.clock(at));
        if let Some(what) = compare::difference(wanted, &packet) {
            return Err(Failure::differs(format!("{what} differs"), expected, got));
        }
        if at < from || at > to {
            return Err(Failure::differs("the time differs", expected, got));
        }
        let offset = if let Body::Tcp(tcp) = &packet.body { stream_offset(tcp) } else { 0 };
        // An ICMP error quotes; everything else carries the pattern.
        let quotes = matches!(&packet.body, Body::Icmp(icmp) if icmp.len.is_none());
        if !quotes && payload != bytes(offset, payload.len() as u32) {
            return Err(Failure::differs("the payload is not what was written there", expected, got));
        }
        Ok(at)
    }

    /// The oldest packet that was sent, in the script's numbers.
    fn take(&mut self, wanted: Option<&Packet>) -> Option<(Time, Packet, Vec<u8>)> {
        let sent = self.sent.pop_front()?;
        let (local, peer) = sent.packet.ports.unwrap_or((PORTS.1, PORTS.0));
        let wanted =
            wanted.and_then(|packet| if let Body::Tcp(tcp) = &packet.body { Some(tcp) } else { None });
        let mut packet = self.flows.entry((peer, local)).or_default().hears(&sent.packet, wanted);
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
        if let Some((from, to, _)) = packet.ip.piece
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

    /// Lets time pass to `to`, running the stack's timers.
    fn advance(&mut self, to: Time) {
        self.collect();
        while self.step(to) {}
        self.now = self.now.max(to);
    }

    /// Lets time pass until something is sent, at most to `to`.
    fn run_until_sent(&mut self, to: Time) {
        self.collect();
        while self.sent.is_empty() && self.step(to) {}
        if self.sent.is_empty() {
            self.now = self.now.max(to);
        }
    }

    /// Runs the next timer that is due by `to`, if there is one.
    fn step(&mut self, to: Time) -> bool {
        let Some(next) = self.stack.poll_timeout().filter(|next| *next <= to) else { return false };
        self.now = self.now.max(next);
        self.stack.handle_timeout(self.now);
        self.collect();
        true
    }

    /// Takes what the stack has to send; answers what asks for the peer's address.
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

    /// A new connection of ours between these ports counts anew.
    pub fn connects(&mut self, peer: u16, local: u16) {
        self.flows.entry((peer, local)).or_default().connects();
    }

    /// How far the latest connection between the usual ports starts beyond the one before.
    pub fn isn_advance(&self) -> Option<u32> {
        self.flows.get(&PORTS)?.isn_advance()
    }

    fn note(&mut self, at: Time, line: &str) {
        let clock = self.clock(at);
        self.exchange.push(format!("{clock} {line}"));
    }

    /// `at` as scripts count.
    fn clock(&self, at: Time) -> String {
        let ns = at.as_nanos().saturating_sub(self.start.as_nanos());
        format!("{}.{:06}", ns / 1_000_000_000, ns / 1_000 % 1_000_000)
    }
}
