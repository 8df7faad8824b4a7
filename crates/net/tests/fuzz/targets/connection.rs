//! A stack under any list of calls, segments and times.
//!
//! The segments are made from what the stack itself said last, slightly off,
//! so that they come close enough to matter. Promises: no panic; every frame
//! reads back; the streams hold the bytes that were sent there; an end is told
//! once and is one; time goes on.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;

use net::wire::tcp::{Flags, Segment, Seq};
use net::wire::{arp, ethernet, ip, ipv4};
use net::{ConnId, EventKind, Stack};
use queueing::{Span, Time};

use super::input::{Input, pattern};
use super::{sent, stack};
use crate::world::meta;

const STACK: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const PEER: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
const STACK_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];

/// What the peer knows of one pair of ports from what the stack said.
#[derive(Clone, Copy, Default)]
struct Heard {
    /// The stack's next number, and the peer's.
    seq: u32,
    ack: u32,
    /// The number of the first byte of the stack's stream, and of the peer's.
    stack_start: Option<u32>,
    peer_start: Option<u32>,
}

#[derive(Default)]
struct Known {
    read: u32,
    written: u32,
    closed: bool,
}

struct World {
    stack: Stack,
    now: Time,
    heard: BTreeMap<(u16, u16), Heard>,
    known: BTreeMap<ConnId, Known>,
    open: Vec<ConnId>,
}

pub fn connection(data: &[u8]) {
    let mut world = World {
        stack: stack(),
        now: Time::from_nanos(5_000_000_000),
        heard: BTreeMap::new(),
        known: BTreeMap::new(),
        open: Vec::new(),
    };
    world.introduce();
    let mut input = Input(data);
    for _ in 0..2000 {
        if world.step(&mut input).is_none() {
            break;
        }
    }
    world.let_time_pass();
}

impl World {
    /// One decision of the input's; `None` when there is none left.
    fn step(&mut self, input: &mut Input<'_>) -> Option<()> {
        match input.below(16)? {
            0..=7 => self.segment(input)?,
            8 => {
                let id = self.pick(input)?;
                let len = input.one_of(&[1, 10, 536, 600, 3000, 9000])?;
                self.write(id, len);
            }
            9 => {
                let id = self.pick(input)?;
                let len = input.one_of(&[1, 100, 4096])?;
                self.read(id, len);
            }
            10 => {
                let id = self.pick(input)?;
                self.stack.close(self.now, id);
            }
            11 => {
                let id = self.pick(input)?;
                self.stack.abort(self.now, id);
            }
            12 => {
                let (remote, local) = (input.one_of(&[5000, 5001])?, input.one_of(&[80, 90, 91])?);
                let target = (PEER, remote).into();
                if let Ok(id) = self.stack.connect(self.now, target, Some(local)) {
                    self.heard.insert((remote, local), Heard::default());
                    self.known.insert(id, Known::default());
                    self.open.push(id);
                }
            }
            13 => {
                let ms = input.one_of(&[0, 1, 5, 40, 300, 1100, 70_000])?;
                self.pass(Span::from_millis(ms));
            }
            14 => self.pass_to_timer(),
            _ => {
                let len = 14 + input.below(80)?;
                let mut frame = input.bytes(len);
                frame.resize(len, 0);
                frame[..6].copy_from_slice(&STACK_MAC);
                self.frame(&frame);
            }
        }
        let room = input.one_of(&[usize::MAX, usize::MAX, usize::MAX, 0, 1])?;
        self.listen_to(room);
        Some(())
    }

    fn pick(&self, input: &mut Input<'_>) -> Option<ConnId> {
        let at = usize::from(input.byte()?);
        Some(if self.open.is_empty() {
            ConnId { index: at as u32, generation: 0 }
        } else {
            self.open[at % self.open.len()]
        })
    }

    /// A segment of the peer's, near to what the stack expects.
    fn segment(&mut self, input: &mut Input<'_>) -> Option<()> {
        let ports = (input.one_of(&[5000, 5000, 5000, 5001])?, input.one_of(&[80, 80, 80, 81, 90, 99])?);
        let heard = self.heard.get(&ports).copied().unwrap_or_default();
        let near = [0, 0, 0, 0, 0, 1, 536, 1000, 4096, 0u32.wrapping_sub(1), 0u32.wrapping_sub(500), 1 << 31];
        let seq = heard.ack.wrapping_add(input.one_of(&near)?);
        let ack = heard.seq.wrapping_add(input.one_of(&near)?);
        let flags =
            input.one_of(&[0x10, 0x10, 0x10, 0x18, 0x02, 0x12, 0x11, 0x04, 0x14, 0x00, 0x29, 0xff, 0xd0])?;
        let window = input.one_of(&[8000, 8000, 0, 1, 500, 65_535])?;
        let len = input.one_of(&[0u32, 0, 0, 1, 100, 536, 580])?;
        let options = match input.below(6)? {
            0 | 1 => Vec::new(),
            2 => vec![2, 4, 2, 0x18, 4, 2, 3, 3, 7, 1, 1, 1],
            3 => {
                let (start, end) = (input.u16()?, input.u16()?);
                let base = heard.seq.wrapping_sub(4096);
                let edge = |offset: u16| base.wrapping_add(u32::from(offset) % 8192).to_be_bytes();
                [&[1, 1, 5, 10][..], &edge(start), &edge(end)].concat()
            }
            4 => {
                let stamp = u32::from(input.u16()?).to_be_bytes();
                [&[2, 4, 2, 0x18, 4, 2, 8, 10][..], &stamp, &[0; 4]].concat()
            }
            _ => input.bytes(12),
        };
        let syn = u32::from(flags & 2 != 0);
        let payload: Vec<u8> = (0..len).map(|i| pattern(seq.wrapping_add(syn + i))).collect();
        self.frame(&frame(ports, [seq, ack], flags, window, &options, &payload));
        Some(())
    }

    fn write(&mut self, id: ConnId, len: u32) {
        let Some(known) = self.known.get_mut(&id) else { return };
        let bytes: Vec<u8> = (0..len).map(|i| pattern(known.written + i)).collect();
        if let Ok(taken) = self.stack.send(self.now, id, &bytes) {
            assert!(taken <= bytes.len());
            known.written += taken as u32;
        }
    }

    fn read(&mut self, id: ConnId, len: usize) {
        let bytes = self.stack.received(id);
        let taken = bytes.len().min(len);
        if let (Some(known), Some(tuple)) = (self.known.get_mut(&id), self.stack.tuple(id)) {
            let heard = self.heard.get(&(tuple.remote_port, tuple.local_port));
            if let Some(start) = heard.and_then(|heard| heard.peer_start) {
                let wanted = |i: usize| pattern(start.wrapping_add(known.read + i as u32));
                assert!((0..taken).all(|i| bytes[i] == wanted(i)), "the peer's bytes, in order");
            }
            known.read += taken as u32;
        }
        self.stack.consume(self.now, id, taken);
    }

    fn introduce(&mut self) {
        let question = arp::Packet {
            operation: arp::Operation::Request,
            sender_mac: PEER_MAC,
            sender: PEER,
            target_mac: [0; 6],
            target: STACK,
        };
        let mut frame = vec![0; 60];
        ethernet::emit_header(&mut frame, ethernet::BROADCAST, PEER_MAC, ethernet::EtherType::Arp);
        question.emit(&mut frame[ethernet::HEADER_LEN..]);
        self.frame(&frame);
    }

    fn frame(&mut self, frame: &[u8]) {
        let meta = meta(self.now, frame);
        self.stack.ingress(self.now, frame, &meta);
        self.hear_events();
    }

    fn hear_events(&mut self) {
        while let Some(event) = self.stack.poll_event() {
            let known = self.known.entry(event.conn).or_default();
            assert!(!known.closed, "{event:?} after the end");
            match event.kind {
                EventKind::Accepted(_) => self.open.push(event.conn),
                EventKind::Closed(_) => {
                    known.closed = true;
                    self.open.retain(|id| *id != event.conn);
                }
                _ => {}
            }
        }
        assert!(self.stack.connections() <= 8, "connections are bounded");
        for id in &self.open {
            assert!(self.stack.received(*id).len() <= 4096, "the receive buffer is bounded");
        }
    }

    /// Takes in what the stack says.
    fn listen_to(&mut self, room: usize) {
        self.hear_events();
        for frame in sent(&mut self.stack, self.now, room) {
            let read = ethernet::Frame::parse(&frame).expect("the stack's frames read back");
            if read.kind == ethernet::EtherType::Arp {
                self.introduce();
                continue;
            }
            let packet = ipv4::Packet::parse(read.payload).expect("the stack's packets read back");
            if packet.protocol != ip::Protocol::Tcp {
                continue;
            }
            let s =
                Segment::parse(packet.payload, packet.source, packet.target, true).expect("segments, too");
            self.hear(&s);
        }
    }

    fn hear(&mut self, s: &Segment<'_>) {
        let heard = self.heard.entry((s.target_port, s.source_port)).or_default();
        let has = |flag| s.flags.contains(flag);
        if has(Flags::RST) {
            return;
        }
        if has(Flags::SYN) {
            let start = Some((s.seq + 1).0);
            if heard.stack_start != start {
                *heard = Heard { stack_start: start, ..Heard::default() };
            }
        }
        if has(Flags::ACK) {
            heard.ack = s.ack.0;
            if has(Flags::SYN) {
                heard.peer_start = Some(s.ack.0);
            }
        }
        heard.seq = (s.seq + s.seq_len()).0;
        if let Some(start) = heard.stack_start.filter(|_| !has(Flags::SYN)) {
            let from = s.seq - Seq(start);
            let whole =
                s.payload.iter().enumerate().all(|(i, byte)| *byte == pattern(from.wrapping_add(i as u32)));
            assert!(whole, "the stack sends what was written, where it was written");
        }
    }

    fn pass(&mut self, span: Span) {
        self.now += span;
        self.stack.handle_timeout(self.now);
    }

    fn pass_to_timer(&mut self) {
        if let Some(next) = self.stack.poll_timeout() {
            self.now = self.now.max(next);
            self.stack.handle_timeout(self.now);
        }
    }

    /// With a silent peer the timers run out: none fires for ever at one instant.
    fn let_time_pass(&mut self) {
        let mut same = 0;
        for _ in 0..3000 {
            let before = self.now;
            self.listen_to(usize::MAX);
            if self.stack.poll_timeout().is_none() {
                return;
            }
            self.pass_to_timer();
            same = if self.now == before { same + 1 } else { 0 };
            assert!(same < 50, "time stands still");
        }
    }
}

fn frame(
    (source, target): (u16, u16),
    [seq, ack]: [u32; 2],
    flags: u8,
    window: u16,
    options: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let mut segment = [source.to_be_bytes(), target.to_be_bytes()].concat();
    segment.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
    let options_len = options.len().next_multiple_of(4);
    segment.extend([((20 + options_len) as u8) << 2, flags]);
    segment.extend(window.to_be_bytes());
    segment.extend([0; 4]);
    segment.extend(options);
    segment.resize(20 + options_len, 0);
    segment.extend(payload);
    net::wire::tcp::finish_checksum(&mut segment, PEER, STACK);
    let header = ipv4::Header {
        source: PEER,
        target: STACK,
        protocol: ip::Protocol::Tcp,
        dscp: 0,
        ecn: flags & 3,
        payload_len: segment.len(),
    };
    let start = ethernet::HEADER_LEN + ipv4::HEADER_LEN;
    let mut frame = vec![0; start];
    ethernet::emit_header(&mut frame, STACK_MAC, PEER_MAC, ethernet::EtherType::Ipv4);
    header.emit(&mut frame[ethernet::HEADER_LEN..]);
    frame.extend(segment);
    frame
}
