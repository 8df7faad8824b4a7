//! Fuzz target: two stacks on a network driven by the input. Both streams must arrive whole, and
//! both sides must finish once the faults end.

use std::collections::BTreeMap;

use net::stack::{Ecn, KeepAlive, ListenOptions};
use net::{ConnId, EventKind, Stack};
use queueing::{Label, Priority, Span, Time};
use wire::checksum;

use super::input::{Input, pattern};
use super::{config, sent};
use crate::world::{self, Dice, SERVER, meta};

/// Number of frames that the network may lose or delay.
const FAULTS: u64 = 600;
/// Steps that no transfer here needs.
const STEPS: usize = 200_000;

/// One side of the connection.
struct Side {
    stack: Stack,
    conn: Option<ConnId>,
    /// Numbers of bytes that this side sends in total, has written, and has read.
    len: u32,
    written: u32,
    read: u32,
    /// Number of bytes that this side is to read.
    awaited: u32,
    /// Options that the application changes during the transfer.
    options: u16,
    /// Consecutive losses of its frames, by [`Kind`].
    lost: [u32; 4],
    /// Highest sequence number that this side has sent.
    highest: Option<u32>,
    mtu: u16,
    open: bool,
    closed: bool,
    done: bool,
}

pub fn differential(data: &[u8]) {
    // Settings are last, so that the decisions before them mean the same with all settings.
    let (data, settings) = data.split_at(data.len().saturating_sub(2));
    let settings = settings.iter().fold(0, |bits, byte| bits << 8 | u16::from(*byte));
    let six = settings & 1 == 1;
    let mut input = Input(data);
    let Some(mut sides) = sides(&mut input, settings) else { return };
    let mut dice = Dice(data.iter().fold(1, |sum, byte| sum * 31 % 1_000_003 + u64::from(*byte)));
    let mut now = Time::from_nanos(1_000_000_000);
    let mut wire: BTreeMap<(Time, u64), (usize, Vec<u8>)> = BTreeMap::new();
    let mut frames = 0;
    let fast_open = if sides[0].stack.config().fast_open_cookies > 0 { 4 } else { 0 };
    let _ = sides[0].stack.listen(80, ListenOptions { fast_open, ..ListenOptions::default() });
    let target = SERVER[usize::from(six)].parse().expect("an address");
    sides[1].conn = sides[1].stack.connect(now, target, None).ok();
    for _ in 0..STEPS {
        for side in &mut sides {
            side.work(now);
        }
        if sides.iter().all(|side| side.done) {
            return;
        }
        for (from, side) in sides.iter_mut().enumerate() {
            for frame in sent(&mut side.stack, now, usize::MAX) {
                frames += 1;
                assert!(frame.len() <= usize::from(side.mtu) + 14, "no packet is longer than the MTU");
                let kind = side.kind(&frame);
                let byte = input.byte().unwrap_or_else(|| dice.roll() as u8);
                let frame = if (100..112).contains(&byte) { marked(frame) } else { frame };
                let lost = &mut side.lost[kind as usize];
                let is_safe = frames > FAULTS || matches!(kind, Kind::Arp | Kind::Probe);
                let (copies, late_us) = if is_safe { (1, 0) } else { fault(byte, *lost) };
                *lost = if copies == 0 { *lost + 1 } else { 0 };
                for copy in 0..copies {
                    let delay = Span::from_micros(50 + late_us * (1 + copy));
                    wire.insert((now + delay, 2 * frames + copy), (1 - from, frame.clone()));
                }
            }
        }
        let arrival = wire.keys().next().map(|key| key.0);
        let timers = sides.iter().filter_map(|side| side.stack.poll_timeout()).min();
        let Some(next) = arrival.into_iter().chain(timers).min() else { panic!("no event is pending") };
        now = now.max(next);
        while let Some(entry) = wire.first_entry().filter(|entry| entry.key().0 <= now) {
            let (to, frame) = entry.remove();
            sides[to].stack.ingress(now, &frame, &meta(now, &frame));
        }
        sides.iter_mut().for_each(|side| side.stack.handle_timeout(now));
    }
    let far: Vec<_> = sides.iter().map(|side| (side.written, side.read, side.done)).collect();
    panic!("not done after {STEPS} steps: {far:?}");
}

/// Frame marked CE (RFC 3168 §5) if its transport is ECN-capable.
fn marked(mut frame: Vec<u8>) -> Vec<u8> {
    match frame[12..14] {
        [8, 0] if frame[15] & 3 == 2 => {
            frame[15] |= 3;
            frame[24..26].fill(0);
            let sum = checksum::of(&frame[14..34]);
            frame[24..26].copy_from_slice(&sum);
        }
        // The traffic class spans two bytes.
        [0x86, 0xdd] if frame[15] >> 4 & 3 == 2 => frame[15] |= 0x30,
        _ => {}
    }
    frame
}

/// Purpose of a frame.
#[derive(Clone, Copy)]
enum Kind {
    /// Pure acknowledgement.
    Ack,
    /// Segment that needs an acknowledgement.
    Data,
    /// Address resolution (ARP, NDP). Only few of these may be lost.
    Arp,
    /// Keep-alive probe; only few of these may be lost. It is below the window, so its
    /// acknowledgement has no effect there (RFC 9293 §3.10.7.4), nor here.
    Probe,
}

/// Copies of a frame that arrive, and their delay in µs. At most two frames of a kind are lost in a
/// row, so that no side gives up.
fn fault(byte: u8, lost: u32) -> (u64, u64) {
    match byte {
        0..=31 if lost < 2 => (0, 0),
        32..=47 => (2, 40),
        48..=79 => (1, u64::from(byte) * 10),
        80..=87 => (1, 20_000),
        _ => (1, 0),
    }
}

/// Two stacks configured by the first bytes of the input and by `settings`. Cookies for every SYN
/// are excluded: with them an out-of-order segment causes a reset (RFC 4987 §3.6).
fn sides(input: &mut Input<'_>, settings: u16) -> Option<[Side; 2]> {
    let on = |bit: u16| settings >> bit & 1 == 1;
    let one_of = |bit: u16| usize::from(settings >> bit & 3);
    let mut side = |host: u8| {
        let mut config = config(host);
        config.mtu = input.one_of(&[600, 600, 200, 100])?;
        if on(0) {
            config.mtu = 1280;
            config.ipv6 = world::config(host).ipv6;
        }
        config.ecn = [Ecn::Off, Ecn::Classic, Ecn::Dctcp, Ecn::Off][one_of(1)];
        config.pacing = on(3);
        config.rack = !on(4);
        config.delayed_ack = on(5).then_some(Span::from_millis(40));
        config.memory_max = [1 << 30, 1 << 20, 256 << 10, 128 << 10][one_of(6)];
        config.keep_alive = on(8).then_some(Span::from_secs(20));
        config.fast_open_cookies = if on(9) { 2 } else { 0 };
        config.recv_buffer = input.one_of(&[4096, 1000, 300, 65_536, 200_000])?;
        config.send_buffer = input.one_of(&[4096, 500, 65_536])?;
        let algorithms = net::congestion::ALGORITHMS;
        config.congestion = Some(algorithms[input.below(algorithms.len())?].new);
        let len = input.one_of(&[0, 1, 5000, 20_000, 60_000])?;
        let (stack, mtu) = (Stack::new(config.clone()), config.mtu);
        Some(Side {
            stack,
            conn: None,
            len,
            written: 0,
            read: 0,
            awaited: 0,
            options: settings >> 11,
            lost: [0; 4],
            highest: None,
            mtu,
            open: false,
            closed: false,
            done: false,
        })
    };
    let mut sides = [side(1)?, side(2)?];
    (sides[0].awaited, sides[1].awaited) = (sides[1].len, sides[0].len);
    Some(sides)
}

impl Side {
    /// Purpose of `frame`, which this side sends.
    fn kind(&mut self, frame: &[u8]) -> Kind {
        if frame[12..14] == [8, 6] {
            return Kind::Arp;
        }
        let header = if frame[12..14] == [8, 0] { 20 } else { 40 };
        if header == 40 && frame[14 + 6] != 6 {
            return Kind::Arp;
        }
        let tcp = &frame[14 + header..];
        let seq = u32::from_be_bytes(tcp[4..8].try_into().expect("four bytes"));
        let (header, syn_or_fin) = (usize::from(tcp[12] >> 4) * 4, tcp[13] & 3 != 0);
        let below = self.highest.is_some_and(|highest| (seq.wrapping_sub(highest) as i32) < 0);
        if !below {
            self.highest = Some(seq);
        }
        match tcp.len() > header || syn_or_fin {
            true => Kind::Data,
            false if below => Kind::Probe,
            false => Kind::Ack,
        }
    }

    /// Runs the application: writes, reads, and closes after the last write.
    fn work(&mut self, now: Time) {
        while let Some(event) = self.stack.poll_event() {
            match event.kind {
                EventKind::Accepted(_) => (self.conn, self.open) = (Some(event.conn), true),
                EventKind::Connected => self.open = true,
                EventKind::Closed(reason) => {
                    assert_eq!(self.read, self.awaited, "everything arrived before {reason:?}");
                    assert_eq!(self.written, self.len, "everything was sent before {reason:?}");
                    self.done = true;
                }
                _ => {}
            }
        }
        let Some(id) = self.conn.filter(|_| !self.done) else { return };
        self.set_options(now, id);
        self.read_all(now, id);
        let left = self.len - self.written;
        if left > 0 {
            let bytes: Vec<u8> = (0..left.min(8192)).map(|i| pattern(self.written + i)).collect();
            let accepted = self.stack.send(now, id, &bytes).expect("our half is open");
            self.written += accepted as u32;
        } else if self.open && !self.closed {
            self.closed = true;
            self.stack.close(now, id);
        }
    }

    /// Changes options, which must not change the received data.
    fn set_options(&mut self, now: Time, id: ConnId) {
        let on = |bit: u16| self.options >> bit & 1 == 1;
        if on(0) {
            self.stack.set_nodelay(now, id, self.written.is_multiple_of(3));
        }
        if on(1) {
            let level = Priority::new((self.written / 7 % 8) as u8).expect("a level");
            self.stack.set_label(now, id, Label::new(level));
            self.stack.set_dscp(now, id, (self.read % 64) as u8);
        }
        if on(2) && self.open {
            self.stack.unlisten(80);
        }
        if on(3) {
            let idle = Span::from_secs(30 + u64::from(self.read % 7));
            let requested = KeepAlive { idle, interval: Span::from_secs(10), count: 9 };
            self.stack.set_keep_alive(now, id, Some(requested));
        }
    }

    fn read_all(&mut self, now: Time, id: ConnId) {
        let bytes = self.stack.received(id);
        let len = bytes.len() as u32;
        if len == 0 {
            return;
        }
        assert!(self.read + len <= self.awaited, "no more than was sent");
        let is_correct = bytes.iter().enumerate().all(|(i, byte)| *byte == pattern(self.read + i as u32));
        assert!(is_correct, "the other side's bytes, in order");
        self.read += len;
        self.stack.consume(now, id, len as usize);
    }
}
