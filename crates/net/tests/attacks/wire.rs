//! Victim on a link of finite capacity, with a fixed CPU time per frame.
//!
//! A client and an attacker share the line to the victim. Both lines, the ring before the core and
//! the core itself are finite; excess frames are lost.

use std::collections::VecDeque;
use std::net::Ipv4Addr;

use net::device::{Device, Full, ReceivedFrame};
use net::stack::Config;
use net::{ConnId, EventKind, Stack};
use queueing::{Span, Time};

use crate::peer::{self, Seg};
use crate::world::{config, meta, sent};

/// CPU time per frame, in or out.
const CORE: Span = Span::from_nanos(500);
/// Maximum number of frames in the ring before the core.
const RING: usize = 1024;
/// 1 Gb/s: time per byte, and overhead per frame in bytes.
const BYTE_NS: u64 = 8;
const FRAME_OVERHEAD: u64 = 24;
const DELAY: Span = Span::from_micros(100);
/// Longest queue before a line.
const LINE_WAIT: Span = Span::from_millis(2);

/// Router of the clients outside the subnet.
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 254);
const ROUTER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 254];

/// One direction of the link.
#[derive(Default)]
struct Line {
    free_at: Time,
    flight: VecDeque<(Time, Vec<u8>)>,
}

impl Line {
    fn has_space(&self, now: Time) -> bool {
        self.free_at <= now + LINE_WAIT
    }

    fn send(&mut self, now: Time, frame: Vec<u8>) {
        if self.has_space(now) {
            let bytes = frame.len().max(60) as u64 + FRAME_OVERHEAD;
            self.free_at = self.free_at.max(now) + Span::from_nanos(bytes * BYTE_NS);
            self.flight.push_back((self.free_at + DELAY, frame));
        }
    }

    fn take(&mut self, now: Time) -> Option<Vec<u8>> {
        self.flight.front().filter(|(at, _)| *at <= now)?;
        self.flight.pop_front().map(|(_, frame)| frame)
    }
}

/// Device of the victim: accepts frames until its line is full.
struct Nic<'a> {
    line: &'a mut Line,
    frames: u64,
}

impl Device for Nic<'_> {
    type Frame = Vec<u8>;

    fn receive(&mut self, _now: Time) -> Option<ReceivedFrame<Vec<u8>>> {
        None
    }

    fn recycle(&mut self, _frame: Vec<u8>) {}

    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        if !self.line.has_space(now) {
            return Err(Full);
        }
        let mut frame = vec![0; len];
        fill(&mut frame);
        self.line.send(now, frame);
        self.frames += 1;
        Ok(())
    }
}

/// Victim, client, and the link.
pub struct Wire {
    pub now: Time,
    pub victim: Stack,
    pub client: Stack,
    to_victim: Line,
    to_client: Line,
    ring: VecDeque<Vec<u8>>,
    core_free_at: Time,
    /// Bytes that the client has read, and its events.
    pub read: u64,
    pub connected: u64,
    pub accepted: Vec<ConnId>,
}

impl Wire {
    pub fn new(victim: Config) -> Self {
        let mut wire = Self {
            now: Time::from_nanos(1_000_000_000),
            victim: Stack::new(Config { gateway: Some(ROUTER), ..victim }),
            client: Stack::new(config(2)),
            to_victim: Line::default(),
            to_client: Line::default(),
            ring: VecDeque::new(),
            core_free_at: Time::ZERO,
            read: 0,
            connected: 0,
            accepted: Vec::new(),
        };
        wire.to_victim.send(wire.now, peer::introduction(ROUTER_MAC, ROUTER));
        wire.victim.listen(80, net::stack::ListenOptions::default()).unwrap();
        wire
    }

    /// Opens one more connection of the client.
    pub fn connect(&mut self) {
        self.client.connect(self.now, "10.0.0.1:80".parse().unwrap(), None).unwrap();
    }

    /// Advances by `span` while `attack` sends `per_second` frames/s. The victim sends as much as
    /// possible on every accepted connection.
    pub fn run(&mut self, span: Span, per_second: u64, mut attack: impl FnMut(u64) -> Vec<u8>) {
        let (start, end) = (self.now, self.now + span);
        let mut attacks = 0;
        let attack_at = |n: u64| match per_second {
            0 => Time::MAX,
            rate => start + Span::from_nanos(n * 1_000_000_000 / rate),
        };
        while self.now < end {
            while attack_at(attacks) <= self.now {
                let frame = attack(attacks);
                self.to_victim.send(self.now, frame);
                attacks += 1;
            }
            while let Some(frame) = self.to_victim.take(self.now) {
                if self.ring.len() < RING {
                    self.ring.push_back(frame);
                }
            }
            self.work();
            self.serve_client();
            let core = if self.ring.is_empty() && !self.victim.wants_egress() {
                Time::MAX
            } else {
                self.core_free_at
            };
            let lines = [&self.to_victim, &self.to_client].map(|l| l.flight.front().map(|(at, _)| *at));
            let timers = [self.victim.poll_timeout(), self.client.poll_timeout()];
            let next = lines.into_iter().chain(timers).flatten().chain([core, attack_at(attacks), end]).min();
            // If no event is due sooner, a full line is retried after one frame's CPU time.
            let retry = self.now + Span::from_nanos(CORE.as_nanos());
            self.now = next.expect("the end at least").max(retry.min(end));
        }
    }

    /// Runs the victim's core when it is free.
    fn work(&mut self) {
        if self.core_free_at > self.now {
            return;
        }
        let mut frames = 0;
        if let Some(frame) = self.ring.pop_front() {
            let meta = meta(self.now, &frame);
            self.victim.ingress(self.now, &frame, &meta);
            frames += 1;
        }
        self.victim.handle_timeout(self.now);
        while let Some(event) = self.victim.poll_event() {
            match event.kind {
                EventKind::Accepted(_) => self.accepted.push(event.conn),
                EventKind::Writable => {}
                _ => continue,
            }
            while self.victim.send(self.now, event.conn, &[7; 64 * 1024]) == Ok(64 * 1024) {}
        }
        let mut nic = Nic { line: &mut self.to_client, frames };
        self.victim.egress(self.now, &mut nic);
        self.core_free_at = self.now + CORE * nic.frames;
    }

    fn serve_client(&mut self) {
        let mut received = false;
        while let Some(frame) = self.to_client.take(self.now) {
            let meta = meta(self.now, &frame);
            self.client.ingress(self.now, &frame, &meta);
            received = true;
        }
        received |= self.client.poll_timeout().is_some_and(|at| at <= self.now) || self.client.wants_egress();
        if !received {
            return;
        }
        self.client.handle_timeout(self.now);
        while let Some(event) = self.client.poll_event() {
            self.connected += u64::from(event.kind == EventKind::Connected);
            let n = self.client.received(event.conn).len();
            self.client.consume(self.now, event.conn, n);
            self.read += n as u64;
        }
        for frame in sent(&mut self.client, self.now) {
            self.to_victim.send(self.now, frame);
        }
    }
}

/// Frame with `s` from `source`, through the router, to the victim.
pub fn frame_from(source: Ipv4Addr, s: &Seg) -> Vec<u8> {
    peer::frame_from(ROUTER_MAC, source, s)
}
