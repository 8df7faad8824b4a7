//! Scripted peer: one stack, and hand-made segments.

use std::net::Ipv4Addr;

use net::stack::{Config, Event, ListenOptions};
use net::{ConnId, EventKind, Stack};
use queueing::{Span, Time};
use wire::ethernet::{self, Mac};
use wire::tcp::{Flags, Options, Segment, Seq};
use wire::{arp, ipv4};

use crate::world::{config, meta, sent};

const MAC: Mac = [2, 0, 0, 0, 0, 2];
const ADDR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const STACK_MAC: Mac = [2, 0, 0, 0, 0, 1];
pub const STACK_ADDR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

/// Segment that owns its payload.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seg {
    pub from: u16,
    pub to: u16,
    pub seq: Seq,
    pub ack: Seq,
    pub flags: Flags,
    pub window: u16,
    pub options: Options,
    pub payload: Vec<u8>,
    /// ECN bits of the packet.
    pub ecn: u8,
}

/// One stack and its peer.
pub struct Peer {
    pub now: Time,
    pub stack: Stack,
    pub events: Vec<Event>,
    /// The peer's next sequence number, and the number up to which it has received.
    pub seq: Seq,
    pub ack: Seq,
    pub port: u16,
    pub window: u16,
}

impl Peer {
    pub fn new(config: Config) -> Self {
        let mut stack = Stack::new(config);
        stack.listen(80, ListenOptions::default()).unwrap();
        let mut peer = Self {
            now: Time::from_nanos(5_000_000_000),
            stack,
            events: Vec::new(),
            seq: Seq(u32::MAX - 100),
            ack: Seq(0),
            port: 5000,
            window: 60_000,
        };
        peer.introduce();
        let answers = sent(&mut peer.stack, peer.now);
        assert_eq!(answers.len(), 1, "the stack answers the ARP request");
        peer
    }

    /// Sends an ARP request for the stack's address, which also gives it the peer's.
    fn introduce(&mut self) {
        self.raw(&introduction(MAC, ADDR));
    }

    /// Stack with an established connection, and its id.
    pub fn established() -> (Self, ConnId) {
        Self::established_with(config(1), Options { mss: Some(1000), ..Options::NONE })
    }

    pub fn established_with(config: Config, options: Options) -> (Self, ConnId) {
        let mut peer = Self::new(config);
        let conn = peer.open(options);
        (peer, conn)
    }

    /// Opens a connection from the peer's side with the three-way handshake.
    pub fn open(&mut self, options: Options) -> ConnId {
        let answer = self.exchange(Seg { options, ..self.seg(Flags::SYN) });
        assert_eq!(answer.len(), 1);
        assert_eq!(answer[0].flags, Flags::SYN | Flags::ACK);
        self.seq += 1;
        self.ack = answer[0].seq + 1;
        let echo = answer[0].options.timestamps.map(|t| t.value);
        let options = match (options.timestamps, echo) {
            (Some(stamps), Some(echo)) => {
                Options { timestamps: Some(wire::tcp::Timestamps { echo, ..stamps }), ..Options::NONE }
            }
            _ => Options::NONE,
        };
        self.exchange(Seg { options, ..self.seg(Flags::ACK) });
        let accepted = self.events.iter().rev().find(|e| matches!(e.kind, EventKind::Accepted(_)));
        accepted.expect("the connection is accepted").conn
    }

    /// Segment without payload at the peer's current numbers.
    pub fn seg(&self, flags: Flags) -> Seg {
        let ack = if flags.contains(Flags::ACK) { self.ack } else { Seq(0) };
        Seg {
            from: self.port,
            to: 80,
            seq: self.seq,
            ack,
            flags,
            window: self.window,
            options: Options::NONE,
            payload: Vec::new(),
            ecn: 0,
        }
    }

    /// Segment with data at `offset` bytes after the peer's next number.
    pub fn data(&self, offset: u32, payload: &[u8]) -> Seg {
        Seg { seq: self.seq + offset, payload: payload.to_vec(), ..self.seg(Flags::ACK) }
    }

    pub fn raw(&mut self, frame: &[u8]) {
        let meta = meta(self.now, frame);
        self.stack.ingress(self.now, frame, &meta);
        while let Some(event) = self.stack.poll_event() {
            self.events.push(event);
        }
    }

    /// Sends `s` without reading the answer.
    pub fn inject(&mut self, s: &Seg) {
        let frame = frame(s);
        self.raw(&frame);
    }

    /// Sends `s` and returns the stack's segments.
    pub fn exchange(&mut self, s: Seg) -> Vec<Seg> {
        self.inject(&s);
        self.receive()
    }

    /// Segments that the stack sends now.
    pub fn receive(&mut self) -> Vec<Seg> {
        let mut frames = sent(&mut self.stack, self.now);
        let all = frames.len();
        frames.retain(|frame| frame[12..14] == ethernet::EtherType::Ipv4.number().to_be_bytes());
        if frames.len() < all {
            self.introduce();
            frames.extend(sent(&mut self.stack, self.now).into_iter().skip(1));
        }
        while let Some(event) = self.stack.poll_event() {
            self.events.push(event);
        }
        frames.iter().map(|frame| parse(frame)).collect()
    }

    /// Advances to the next timer and returns the segments that it sends.
    pub fn wait(&mut self) -> Vec<Seg> {
        for _ in 0..10_000 {
            let Some(next) = self.stack.poll_timeout() else { return Vec::new() };
            self.now = self.now.max(next);
            self.stack.handle_timeout(self.now);
            let received = self.receive();
            if !received.is_empty() {
                return received;
            }
        }
        Vec::new()
    }

    pub fn pass(&mut self, span: Span) {
        self.now += span;
    }

    pub fn kinds(&self) -> Vec<EventKind> {
        self.events.iter().map(|e| e.kind).collect()
    }

    /// Reasons of all `Closed` events.
    pub fn closed(&self) -> Vec<net::stack::CloseReason> {
        let reason = |e: &Event| match e.kind {
            EventKind::Closed(reason) => Some(reason),
            _ => None,
        };
        self.events.iter().filter_map(reason).collect()
    }
}

/// ARP request of `sender` for the stack's address.
pub fn introduction(sender_mac: Mac, sender: Ipv4Addr) -> Vec<u8> {
    let question = arp::Packet {
        operation: arp::Operation::Request,
        sender_mac,
        sender,
        target_mac: [0; 6],
        target: STACK_ADDR,
    };
    let mut frame = vec![0; 60];
    ethernet::emit_header(&mut frame, ethernet::BROADCAST, sender_mac, ethernet::EtherType::Arp);
    question.emit(&mut frame[ethernet::HEADER_LEN..]);
    frame
}

/// Frame with `s` from the peer.
pub fn frame(s: &Seg) -> Vec<u8> {
    frame_from(MAC, ADDR, s)
}

/// Frame with `s` from `source` at `mac` to the stack.
pub fn frame_from(mac: Mac, source: Ipv4Addr, s: &Seg) -> Vec<u8> {
    let segment = Segment {
        source_port: s.from,
        target_port: s.to,
        seq: s.seq,
        ack: s.ack,
        flags: s.flags,
        window: s.window,
        options: s.options,
        payload: &s.payload,
    };
    let start = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
    let payload_len = segment.header_len() + s.payload.len();
    let mut frame = vec![0; start + payload_len];
    ethernet::emit_header(&mut frame, STACK_MAC, mac, ethernet::EtherType::Ipv4);
    let header = ipv4::Header {
        source,
        target: STACK_ADDR,
        protocol: ipv4::Protocol::Tcp,
        dscp: 0,
        ecn: s.ecn,
        ttl: ipv4::TTL,
        payload_len,
    };
    header.emit(&mut frame[ethernet::HEADER_LEN..]);
    segment.emit(source, STACK_ADDR, &mut frame[start..]);
    frame
}

fn parse(frame: &[u8]) -> Seg {
    let frame = ethernet::Frame::parse(frame).expect("a frame");
    let packet = ipv4::Packet::parse(frame.payload).expect("a packet");
    let s = Segment::parse(packet.payload, packet.source, packet.target, true).expect("a segment");
    Seg {
        from: s.source_port,
        to: s.target_port,
        seq: s.seq,
        ack: s.ack,
        flags: s.flags,
        window: s.window,
        options: s.options,
        payload: s.payload.to_vec(),
        ecn: packet.ecn,
    }
}
