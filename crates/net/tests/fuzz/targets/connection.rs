//! Fuzz target: a stack under any sequence of calls, segments and times.
//!
//! Segments derive from the stack's latest segment between the same ports, with small changes, so
//! that they are nearly valid. Each connection is checked against its own handshake, because ports
//! are reused while an earlier connection between them still has unread data.
//!
//! Properties: no panic; every frame parses; both streams of every connection, opened by either
//! side, hold the bytes that were sent; a close is reported once and is final; byte counts agree;
//! buffers stay within their bounds and are released at the end; time advances.

use std::collections::BTreeMap;
use std::net::IpAddr;

use net::stack::{Config, Ecn, Ipv6, KeepAlive, ListenOptions, State, SynCookies};
use net::{ConnId, EventKind, Stack};
use queueing::{Label, Priority, Span, Time};
use wire::ip::{self, Protocol};
use wire::tcp::{FastOpen, Flags, Segment, Seq};
use wire::{arp, ethernet, icmpv6, ipv6, ndp};

use super::input::{Input, pattern};
use super::{config, sent};
use crate::host::{MAC, PAIRS, PEER4, PEER6, STACK_MAC, STACK4, STACK6, parse};
use crate::world::meta;

/// Ports of the peer and of the stack.
type Ports = (u16, u16);

/// Latest state of one pair of ports, from the stack's segments.
#[derive(Clone, Copy, Default)]
struct Received {
    /// Next sequence numbers of the stack and of the peer.
    seq: u32,
    ack: u32,
    /// First byte of the stack's stream, of the connection opened last.
    stack_start: Option<u32>,
    /// True if a SYN with data opened it (Fast Open) and its SYN-ACK is pending.
    early: bool,
    /// First byte of the peer's stream, of the connection that a SYN of the peer opened last.
    peer_start: Option<u32>,
}

/// Connection from the application's side.
#[derive(Default)]
struct Known {
    /// First byte of the peer's stream, once the peer's SYN was accepted.
    peer_start: Option<u32>,
    read: u32,
    written: u32,
    closed: bool,
}

struct World {
    stack: Stack,
    now: Time,
    addrs: (IpAddr, IpAddr),
    received: BTreeMap<Ports, Received>,
    known: BTreeMap<ConnId, Known>,
    open: Vec<ConnId>,
    /// Latest Fast Open cookie of the stack.
    cookie: FastOpen,
}

const LISTENERS: [u16; 2] = [80, 81];
const RECV_BUFFER_MAX: usize = 16 * 1024;
/// Type of the message, RFC 4861 §4.3.
const NEIGHBOR_SOLICITATION: u8 = 135;

pub fn connection(data: &[u8]) {
    // Settings are last, so that the decisions before them mean the same with all settings.
    let (decisions, settings) = data.split_at(data.len().saturating_sub(2));
    let bits = settings.iter().fold(0, |bits, byte| bits << 8 | u16::from(*byte));
    let six = bits & 1 == 1;
    let mut stack = Stack::new(settings_of(bits));
    for port in LISTENERS {
        stack.listen(port, listen_options(bits)).expect("a free port");
    }
    let mut world = World {
        stack,
        now: Time::from_nanos(5_000_000_000),
        addrs: PAIRS[usize::from(six)],
        received: BTreeMap::new(),
        known: BTreeMap::new(),
        open: Vec::new(),
        cookie: FastOpen::REQUEST,
    };
    world.introduce();
    let mut input = Input(decisions);
    for _ in 0..2000 {
        if world.step(&mut input, bits).is_none() {
            break;
        }
    }
    world.let_time_pass();
    world.end();
}

/// Configuration; 0 is IPv4 with every option off.
fn settings_of(bits: u16) -> Config {
    let on = |bit: u16| bits >> bit & 1 == 1;
    let one_of = |bit: u16| usize::from(bits >> bit & 3);
    let ipv6 = Ipv6 { addrs: vec![(STACK6, 64)], slaac: false, probes: 0, ..Ipv6::default() };
    let plain = config(1);
    Config {
        mtu: if on(0) { 1280 } else { plain.mtu },
        ipv6: on(0).then_some(ipv6),
        pacing: on(1),
        rack: !on(2),
        reads_after_reset: on(3),
        ecn: [Ecn::Off, Ecn::Classic, Ecn::Dctcp, Ecn::Off][one_of(4)],
        memory_max: [1 << 30, 16 << 10, 48 << 10, 128 << 10][one_of(6)],
        delayed_ack: on(8).then_some(Span::from_millis(40)),
        keep_alive: on(9).then_some(Span::from_secs(2)),
        syn_cookies: match one_of(10) {
            // Otherwise a cookie looks like the answer to a SYN with data.
            _ if on(12) => SynCookies::Off,
            1 => SynCookies::Always,
            2 => SynCookies::Off,
            _ => SynCookies::WhenFull,
        },
        fast_open_cookies: if on(12) { 2 } else { 0 },
        user_timeout: on(13).then_some(Span::from_secs(3)),
        recv_buffer_max: RECV_BUFFER_MAX,
        send_buffer_max: if on(14) { 32 << 10 } else { 0 },
        ..plain
    }
}

fn listen_options(bits: u16) -> ListenOptions {
    let fast_open = if bits >> 12 & 1 == 1 { 2 } else { 0 };
    ListenOptions { backlog: 2, fast_open, ..ListenOptions::default() }
}

impl World {
    /// Executes one decision of the input; `None` at its end.
    fn step(&mut self, input: &mut Input<'_>, bits: u16) -> Option<()> {
        let byte = input.byte()?;
        match (byte % 16, byte >= 128) {
            (0..=7, _) => self.segment(input)?,
            (8, _) => {
                let id = self.pick(input)?;
                let len = input.one_of(&[1, 10, 536, 600, 3000, 9000])?;
                self.write(id, len);
            }
            (9, _) => {
                let id = self.pick(input)?;
                let len = input.one_of(&[1, 100, 4096])?;
                self.read(id, len);
            }
            (10, false) => {
                let id = self.pick(input)?;
                self.stack.close(self.now, id);
            }
            (10, true) => {
                let id = self.pick(input)?;
                // Only connections that were reported are released.
                if self.open.contains(&id) {
                    self.release(id);
                }
            }
            (11, false) => {
                let id = self.pick(input)?;
                self.stack.abort(self.now, id);
            }
            (11, true) => self.set_option(input)?,
            (12, false) => self.connect(input)?,
            (12, true) => {
                let port = input.one_of(&LISTENERS)?;
                if self.stack.listens(port) {
                    self.stack.unlisten(port);
                } else {
                    self.stack.listen(port, listen_options(bits)).expect("a free port");
                }
            }
            (13, _) => {
                let ms = input.one_of(&[0, 1, 5, 40, 300, 1100, 70_000])?;
                self.pass(Span::from_millis(ms));
            }
            (14, _) => self.pass_to_timer(),
            _ => {
                let len = 14 + input.below(80)?;
                let mut frame = input.bytes(len);
                frame.resize(len, 0);
                frame[..6].copy_from_slice(&STACK_MAC);
                self.frame(&frame, None);
            }
        }
        let space = input.one_of(&[usize::MAX, usize::MAX, usize::MAX, 0, 1])?;
        self.listen_to(space);
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

    fn connect(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (remote, local) = (input.one_of(&[5000, 5001])?, input.one_of(&[80, 90, 91])?);
        let target = (self.addrs.1, remote).into();
        let early: Vec<u8> = (0..200).map(pattern).collect();
        let connected = match self.stack.config().fast_open_cookies {
            0 => self.stack.connect(self.now, target, Some(local)).map(|id| (id, 0)),
            _ => self.stack.connect_with(self.now, target, Some(local), &early),
        };
        if let Ok((id, written)) = connected {
            self.received.insert((remote, local), Received::default());
            self.known.insert(id, Known { written: written as u32, ..Known::default() });
            self.open.push(id);
        }
        Some(())
    }

    fn set_option(&mut self, input: &mut Input<'_>) -> Option<()> {
        let (id, value) = (self.pick(input)?, input.byte()?);
        let span = Span::from_millis(u64::from(value) * 100 + 1);
        match value % 6 {
            0 => self.stack.set_nodelay(self.now, id, value < 128),
            1 => {
                let requested = KeepAlive { idle: span, interval: span, count: 1 + value / 64 };
                self.stack.set_keep_alive(self.now, id, (value >= 16).then_some(requested));
            }
            2 => self.stack.set_user_timeout(self.now, id, (value >= 16).then_some(span)),
            3 => self.stack.set_dscp(self.now, id, value),
            4 => {
                let level = Priority::new(value / 6 % Priority::LEVELS as u8).expect("a level");
                self.stack.set_label(self.now, id, Label { priority: level, ..Label::default() });
            }
            _ => self.stack.set_fast_open(LISTENERS[usize::from(value) % 2], usize::from(value / 64)),
        }
        Some(())
    }

    /// Sends a segment of the peer, near what the stack expects.
    fn segment(&mut self, input: &mut Input<'_>) -> Option<()> {
        let ports = (input.one_of(&[5000, 5000, 5000, 5001])?, input.one_of(&[80, 80, 80, 81, 90, 99])?);
        let received = self.received.get(&ports).copied().unwrap_or_default();
        let near = [0, 0, 0, 0, 0, 1, 536, 1000, 4096, 0u32.wrapping_sub(1), 0u32.wrapping_sub(500), 1 << 31];
        let seq = received.ack.wrapping_add(input.one_of(&near)?);
        let ack = received.seq.wrapping_add(input.one_of(&near)?);
        let flags =
            input.one_of(&[0x10, 0x10, 0x10, 0x18, 0x02, 0x12, 0x11, 0x04, 0x14, 0x00, 0x29, 0xff, 0xd0])?;
        let window = input.one_of(&[8000, 8000, 0, 1, 500, 65_535])?;
        let len = input.one_of(&[0u32, 0, 0, 1, 100, 536, 580])?;
        let options = match input.below(6)? {
            0 | 1 => Vec::new(),
            2 => [&[2, 4, 2, 0x18, 4, 2, 3, 3, 7, 1, 1, 1][..], &self.fast_open()].concat(),
            3 => {
                let (start, end) = (input.u16()?, input.u16()?);
                let base = received.seq.wrapping_sub(4096);
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
        let frame = frame(self.addrs, ports, [seq, ack], flags, window, &options, &payload);
        self.frame(&frame, Some(Sent { ports, seq, ack, flags: Flags::from_bits(flags) }));
        Some(())
    }

    /// Fast Open option of the peer's SYN, if the stack has Fast Open.
    fn fast_open(&self) -> Vec<u8> {
        let cookie = self.cookie.as_slice();
        match self.stack.config().fast_open_cookies {
            0 => Vec::new(),
            _ => [&[34, 2 + cookie.len() as u8][..], cookie].concat(),
        }
    }

    fn write(&mut self, id: ConnId, len: u32) {
        let Some(known) = self.known.get_mut(&id) else { return };
        let bytes: Vec<u8> = (0..len).map(|i| pattern(known.written + i)).collect();
        if let Ok(accepted) = self.stack.send(self.now, id, &bytes) {
            assert!(accepted <= bytes.len());
            known.written += accepted as u32;
        }
    }

    fn read(&mut self, id: ConnId, len: usize) {
        let bytes = self.stack.received(id);
        let accepted = bytes.len().min(len);
        if let Some(known) = self.known.get_mut(&id).filter(|_| accepted > 0) {
            let start = known.peer_start.expect("data follows a SYN");
            let wanted = |i: usize| pattern(start.wrapping_add(known.read + i as u32));
            assert!((0..accepted).all(|i| bytes[i] == wanted(i)), "the peer's bytes, in order");
            known.read += accepted as u32;
        }
        self.stack.consume(self.now, id, accepted);
    }

    fn release(&mut self, id: ConnId) {
        self.stack.detach(self.now, id);
        self.open.retain(|open| *open != id);
        self.known.entry(id).or_default().closed = true;
        assert!(self.stack.tuple(id).is_none(), "a released id is invalid");
    }

    fn introduce(&mut self) {
        let mut frame = vec![0; 60];
        if self.addrs.0.is_ipv4() {
            let (operation, target_mac) = (arp::Operation::Request, [0; 6]);
            let question =
                arp::Packet { operation, sender_mac: MAC, sender: PEER4, target_mac, target: STACK4 };
            ethernet::emit_header(&mut frame, ethernet::BROADCAST, MAC, ethernet::EtherType::Arp);
            question.emit(&mut frame[ethernet::HEADER_LEN..]);
        } else {
            let group = ipv6::solicited_node(STACK6);
            let mut bytes = Vec::new();
            ndp::Message::NeighborSolicitation { target: STACK6, source: Some(MAC) }.emit(&mut bytes);
            icmpv6::finish_checksum(&mut bytes, PEER6, group);
            frame = crate::host::frame(PEER6.into(), group.into(), Protocol::Icmpv6, &bytes);
        }
        self.frame(&frame, None);
    }

    /// Delivers a frame to the stack, and records the connection that it opens.
    fn frame(&mut self, frame: &[u8], message: Option<Sent>) {
        let opening = message.and_then(|message| self.opening(message.ports));
        let before = (self.stack.connections(), *self.stack.counters());
        let meta = meta(self.now, frame);
        self.stack.ingress(self.now, frame, &meta);
        if let Some(message) = message {
            let counters = self.stack.counters();
            let received = self.received.entry(message.ports).or_default();
            let has = |flag| message.flags.contains(flag);
            if has(Flags::SYN)
                && (self.stack.connections() > before.0
                    || counters.time_wait_reused > before.1.time_wait_reused)
            {
                received.peer_start = Some(message.seq.wrapping_add(1));
            }
            if counters.cookies_accepted > before.1.cookies_accepted {
                received.peer_start = Some(message.seq);
            }
            if let Some(id) = opening
                && has(Flags::SYN)
                && self.stack.info(self.now, id).is_some_and(|info| info.state != State::SynSent)
            {
                self.known.entry(id).or_default().peer_start = Some(message.seq.wrapping_add(1));
            }
        }
        self.poll_events(message);
    }

    /// Connection of the stack in SYN-SENT between `ports`.
    fn opening(&self, (remote, local): Ports) -> Option<ConnId> {
        self.open.iter().copied().find(|id| {
            let opens = self.stack.info(self.now, *id).is_some_and(|info| info.state == State::SynSent);
            let tuple = self.stack.tuple(*id).filter(|_| opens);
            tuple.is_some_and(|tuple| (tuple.remote_port, tuple.local_port) == (remote, local))
        })
    }

    /// Reads events; `message` is the segment just delivered, if any.
    fn poll_events(&mut self, message: Option<Sent>) {
        while let Some(event) = self.stack.poll_event() {
            let known = self.known.entry(event.conn).or_default();
            assert!(!known.closed, "{event:?} after the end");
            match event.kind {
                EventKind::Accepted(_) => {
                    let tuple = self.stack.tuple(event.conn).expect("an accepted connection exists");
                    let its = (tuple.remote_port, tuple.local_port);
                    let message = message
                        .filter(|message| message.ports == its)
                        .expect("a segment of its own opened it");
                    let received = self.received.entry(its).or_default();
                    known.peer_start = received.peer_start;
                    // That segment acknowledges only the SYN, unless it is a SYN.
                    received.early = message.flags.contains(Flags::SYN);
                    received.stack_start = (!received.early).then_some(message.ack);
                    self.open.push(event.conn);
                }
                EventKind::Connected => {
                    assert!(known.peer_start.is_some(), "{event:?} without a SYN of the peer's");
                }
                EventKind::Closed(_) => {
                    known.closed = true;
                    self.open.retain(|id| *id != event.conn);
                }
                _ => {}
            }
        }
        self.check();
    }

    /// Checks the invariants.
    fn check(&self) {
        let config = self.stack.config();
        assert!(self.stack.connections() <= config.connections_max, "connections are bounded");
        let held = self.stack.buffer_bytes();
        assert!(held <= config.memory_max, "{held} bytes are held of {}", config.memory_max);
        for id in &self.open {
            let (unread, known) = (self.stack.received(*id).len(), &self.known[id]);
            assert!(unread <= RECV_BUFFER_MAX, "the receive buffer is bounded");
            let Some(info) = self.stack.info(self.now, *id) else { continue };
            assert_eq!(info.received.get(), u64::from(known.read) + unread as u64, "{id:?} has received");
            assert!(info.acknowledged.get() <= u64::from(known.written), "{id:?}: nothing more was written");
            if !matches!(info.state, State::Closed | State::TimeWait { .. }) {
                // A SYN and a FIN count as bytes in flight.
                let all = (info.acknowledged + info.unacknowledged + info.unsent).get();
                let written = u64::from(known.written);
                assert!((written..=written + 2).contains(&all), "{id:?}: {written} written, {all} known");
            }
        }
    }

    /// Reads events and the stack's frames, at most `space`.
    fn listen_to(&mut self, space: usize) {
        self.poll_events(None);
        for frame in sent(&mut self.stack, self.now, space) {
            let Some(packet) = parse(&frame) else {
                self.introduce();
                continue;
            };
            match packet.protocol {
                Protocol::Tcp => {
                    let segment = Segment::parse(&packet.payload, packet.source, packet.target, true);
                    self.receive(&segment.expect("the stack's segments read back"));
                }
                Protocol::Icmpv6 if packet.payload.first() == Some(&NEIGHBOR_SOLICITATION) => {
                    self.introduce()
                }
                _ => {}
            }
        }
    }

    fn receive(&mut self, s: &Segment<'_>) {
        let received = self.received.entry((s.target_port, s.source_port)).or_default();
        let has = |flag| s.flags.contains(flag);
        if has(Flags::RST) {
            return;
        }
        if has(Flags::SYN) {
            // A SYN-ACK may be a cookie, which belongs to no connection yet.
            if !has(Flags::ACK) || received.early {
                received.stack_start = Some((s.seq + 1).0);
            }
            self.cookie = s.options.fast_open.unwrap_or(self.cookie);
        }
        if has(Flags::ACK) {
            received.ack = s.ack.0;
        }
        received.seq = (s.seq + s.seq_len()).0;
        if let Some(start) = received.stack_start {
            let from = (s.seq + u32::from(has(Flags::SYN))) - Seq(start);
            let is_complete =
                s.payload.iter().enumerate().all(|(i, byte)| *byte == pattern(from.wrapping_add(i as u32)));
            assert!(is_complete, "the stack sends what was written, where it was written");
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

    /// Runs the timers against a silent peer; none may fire forever at one instant.
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

    /// The application reads all data and releases its connections; nothing may remain.
    fn end(&mut self) {
        for id in self.open.clone() {
            self.read(id, usize::MAX);
            self.release(id);
        }
        self.let_time_pass();
        assert_eq!(self.stack.connections(), 0, "connections remain");
        assert_eq!(self.stack.buffer_bytes(), 0, "buffers remain");
    }
}

/// Segment sent by the harness.
#[derive(Clone, Copy)]
struct Sent {
    ports: Ports,
    seq: u32,
    ack: u32,
    flags: Flags,
}

fn frame(
    (target, source): (IpAddr, IpAddr),
    ports: Ports,
    [seq, ack]: [u32; 2],
    flags: u8,
    window: u16,
    options: &[u8],
    payload: &[u8],
) -> Vec<u8> {
    let mut segment = [ports.0.to_be_bytes(), ports.1.to_be_bytes()].concat();
    segment.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
    let options_len = options.len().next_multiple_of(4);
    segment.extend([((20 + options_len) as u8) << 2, flags]);
    segment.extend(window.to_be_bytes());
    segment.extend([0; 4]);
    segment.extend(options);
    segment.resize(20 + options_len, 0);
    segment.extend(payload);
    wire::tcp::finish_checksum(&mut segment, source, target);
    let (protocol, ecn, payload_len) = (Protocol::Tcp, flags & 3, segment.len());
    let header = ip::Header { source, target, protocol, dscp: 0, ecn, hops: protocol.hops(), payload_len };
    let start = ethernet::HEADER_LEN + header.len();
    let mut frame = vec![0; start];
    let kind = if source.is_ipv4() { ethernet::EtherType::Ipv4 } else { ethernet::EtherType::Ipv6 };
    ethernet::emit_header(&mut frame, STACK_MAC, MAC, kind);
    header.emit(&mut frame[ethernet::HEADER_LEN..]);
    frame.extend(segment);
    frame
}
