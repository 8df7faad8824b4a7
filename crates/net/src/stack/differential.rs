//! Differential test fixture: two pairs of hosts take the same steps, and a test compares their
//! output and state after each.

use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hasher};

use classify::{PacketMeta, Verdict};
use proptest::prelude::*;
use queueing::{Label, Priority, Span, Time};
use wire::ip::Protocol;
use wire::{checksum, ipv4, tcp};

use crate::device::{Full, Offloads, ReceivedFrame};
use crate::stack::{Config, Counters, ListenOptions, TransmitOrder};
use crate::tcp::congestion::Congestion;
use crate::tcp::{Connection, Ecn};
use crate::{ConnId, Device, EventKind, Stack};

/// Device that keeps sent frames up to its capacity, and segments them if `segments`.
#[derive(Default)]
pub(crate) struct Wire {
    frames: VecDeque<Vec<u8>>,
    capacity: usize,
    segments: bool,
    /// Frames submitted for segmentation.
    pub(crate) segmented: usize,
}

impl Device for Wire {
    type Frame = Vec<u8>;

    fn receive(&mut self, _: Time) -> Option<ReceivedFrame<Vec<u8>>> {
        None
    }

    fn recycle(&mut self, _: Vec<u8>) {}

    fn transmit(&mut self, _: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        self.capacity = self.capacity.checked_sub(1).ok_or(Full)?;
        let mut frame = vec![0; len];
        fill(&mut frame);
        if self.segments && frame[12..14] == [8, 0] && frame[23] == 6 {
            complete(&mut frame);
        }
        self.frames.push_back(frame);
        Ok(())
    }

    fn transmit_cut(
        &mut self,
        _: Time,
        len: usize,
        size: u16,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Full> {
        let mut frame = vec![0; len];
        fill(&mut frame);
        let headers = IP + 20 + usize::from(frame[IP + 32] >> 4) * 4;
        let (headers, data) = frame.split_at(headers);
        let count = data.len().div_ceil(size.into());
        self.capacity = self.capacity.checked_sub(count).ok_or(Full)?;
        self.segmented += 1;
        let seq = u32::from_be_bytes(headers[IP + 24..IP + 28].try_into().unwrap());
        for (n, part) in data.chunks(size.into()).enumerate() {
            let mut segment = [headers, part].concat();
            let ip_len = (segment.len() - IP) as u16;
            segment[IP + 2..IP + 4].copy_from_slice(&ip_len.to_be_bytes());
            sum_header(&mut segment);
            let seq = seq.wrapping_add(n as u32 * u32::from(size));
            segment[IP + 24..IP + 28].copy_from_slice(&seq.to_be_bytes());
            if n + 1 < count {
                segment[IP + 33] &= !(PSH | FIN);
            }
            complete(&mut segment);
            self.frames.push_back(segment);
        }
        Ok(())
    }

    fn offloads(&self) -> Offloads {
        Offloads { tx_checksum: self.segments, tx_segmentation: self.segments }
    }
}

/// Sets the header checksum of an IPv4 packet without options.
fn sum_header(frame: &mut [u8]) {
    frame[IP + 10..IP + 12].fill(0);
    let sum = checksum::of(&frame[IP..IP + 20]);
    frame[IP + 10..IP + 12].copy_from_slice(&sum);
}

/// Sets the checksum of the TCP segment in an IPv4 packet without options.
fn complete(frame: &mut [u8]) {
    let addr = |at: usize| <[u8; 4]>::try_from(&frame[at..at + 4]).unwrap();
    let (source, target) = (addr(IP + 12), addr(IP + 16));
    frame[IP + 36..IP + 38].fill(0);
    tcp::finish_checksum(&mut frame[IP + 20..], source, target);
}

/// A router's ICMP error to the sender of `frame`, which exceeds `mtu` (RFC 792, RFC 1191 §4).
fn narrow(frame: &[u8], mtu: u16) -> Vec<u8> {
    let (quote, payload_len) = (&frame[IP..IP + 28], 8 + 28);
    let addr = |at: usize| <[u8; 4]>::try_from(&frame[at..at + 4]).unwrap().into();
    let (source, target, protocol) = (addr(IP + 16), addr(IP + 12), Protocol::new(1));
    let mut error = [&frame[6..12], &frame[..6], &[8, 0], &[0; 20][..]].concat();
    ipv4::Header { source, target, protocol, dscp: 0, ecn: 0, ttl: ipv4::TTL, payload_len }
        .emit(&mut error[IP..]);
    let [high, low] = mtu.to_be_bytes();
    error.extend([&[3, 4, 0, 0, 0, 0, high, low][..], quote].concat());
    let sum = checksum::of(&error[IP + 20..]);
    error[IP + 22..IP + 24].copy_from_slice(&sum);
    error
}

/// Offset of a frame's IP header.
const IP: usize = 14;
const PSH: u8 = 8;
const FIN: u8 = 1;

/// Step of one of two hosts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Send {
        host: usize,
        len: usize,
    },
    Read {
        host: usize,
        part: usize,
    },
    Egress {
        host: usize,
        early: bool,
        capacity: usize,
    },
    /// The next frame in transit to a host arrives.
    Arrive {
        host: usize,
    },
    Lose {
        host: usize,
    },
    Repeat {
        host: usize,
    },
    Overtake {
        host: usize,
    },
    Mark {
        host: usize,
    },
    /// A router reports that the next frame of a host exceeds `mtu`.
    Narrow {
        host: usize,
        mtu: u16,
    },
    Wait {
        us: u64,
    },
    Level {
        host: usize,
        level: u8,
    },
    /// The application sets the DSCP of a host's connection.
    Dscp {
        host: usize,
        dscp: u8,
    },
    /// The application sets the hop limit of a host's connection.
    Hops {
        host: usize,
        hops: u8,
    },
    Close {
        host: usize,
    },
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let host = || 0..2usize;
    prop_oneof![
        5 => (host(), prop_oneof![3 => 1..200usize, 1 => 1..5000usize]).prop_map(|(host, len)| Step::Send { host, len }),
        5 => (host(), 1..5usize).prop_map(|(host, part)| Step::Read { host, part }),
        6 => (host(), any::<bool>(), prop_oneof![1 => 0..3usize, 6 => 3..50usize])
            .prop_map(|(host, early, capacity)| Step::Egress { host, early, capacity }),
        12 => host().prop_map(|host| Step::Arrive { host }),
        1 => host().prop_map(|host| Step::Lose { host }),
        1 => host().prop_map(|host| Step::Repeat { host }),
        1 => host().prop_map(|host| Step::Overtake { host }),
        1 => host().prop_map(|host| Step::Mark { host }),
        1 => (host(), 300..1500u16).prop_map(|(host, mtu)| Step::Narrow { host, mtu }),
        5 => prop_oneof![6 => 1..300u64, 2 => 1..20_000u64, 1 => 1..3_000_000u64].prop_map(|us| Step::Wait { us }),
        1 => (host(), 0..8u8).prop_map(|(host, level)| Step::Level { host, level }),
        1 => (host(), 0..64u8).prop_map(|(host, dscp)| Step::Dscp { host, dscp }),
        1 => (host(), any::<u8>()).prop_map(|(host, hops)| Step::Hops { host, hops }),
        1 => proptest::option::weighted(0.1, host()).prop_map(|host| match host {
            Some(host) => Step::Close { host },
            None => Step::Wait { us: 7 },
        }),
    ]
}

/// Kind of hosts whose connections use Nagle's algorithm.
const NAGLE: u8 = 8;

/// Configurations of hosts.
fn configure(config: &mut Config, kind: u8) {
    match kind {
        0 => config.delayed_ack = Some(Span::from_millis(40)),
        1 => config.ecn = Ecn::Classic,
        2 => config.pacing = true,
        3 => config.rack = false,
        4 => (config.recv_buffer, config.send_buffer, config.mtu) = (3000, 2000, 600),
        5 => config.memory_max = 12_000,
        6 => config.transmit = TransmitOrder::WEIGHTED,
        7 => {
            config.classifier = Some(std::sync::Arc::new(|cx| match cx.payload.first() {
                Some(0..8) => Verdict::Drop,
                Some(byte) => Verdict::Level(byte % 9),
                None => Verdict::NoVerdict,
            }));
        }
        _ => {}
    }
}

/// Two hosts with one connection between them.
pub(crate) struct World {
    now: Time,
    hosts: [Stack; 2],
    conns: [Option<ConnId>; 2],
    /// Frames that each host has sent.
    pub(crate) wires: [Wire; 2],
    sent: u8,
}

impl World {
    /// Two connected hosts of the given `kind`; with `segments` their devices do segmentation offload.
    pub(crate) fn new(kind: u8, segments: bool) -> Self {
        let hosts = [1, 2].map(|n| {
            let mut config = Config::new([2, 0, 0, 0, 0, n], [10, 0, 0, n].into(), 24, [n; 16]);
            configure(&mut config, kind);
            Stack::new(config)
        });
        let mut world = Self {
            now: Time::from_nanos(1_000_000),
            hosts,
            conns: [None; 2],
            wires: [false; 2].map(|_| Wire { segments, ..Wire::default() }),
            sent: 0,
        };
        world.hosts[0].listen(80, ListenOptions::default()).unwrap();
        let to = "10.0.0.1:80".parse().unwrap();
        world.conns[1] = Some(world.hosts[1].connect(world.now, to, Some(2000)).unwrap());
        for _ in 0..6 {
            for host in [1, 0] {
                world.run(Step::Egress { host, early: false, capacity: 9 });
                while !world.wires[host].frames.is_empty() {
                    world.run(Step::Arrive { host: 1 - host });
                }
            }
            world.run(Step::Wait { us: 20 });
        }
        assert!(world.conns[0].is_some(), "the handshake is complete");
        if kind == NAGLE {
            let World { now, hosts, conns, .. } = &mut world;
            hosts
                .iter_mut()
                .zip(*conns)
                .for_each(|(host, conn)| host.set_nodelay(*now, conn.unwrap(), false));
        }
        world
    }

    /// Lengths of a host's frames in transit.
    pub(crate) fn lens(&self, host: usize) -> Vec<usize> {
        self.wires[host].frames.iter().map(Vec::len).collect()
    }

    /// Takes a step; returns its result and events.
    pub(crate) fn run(&mut self, step: Step) -> String {
        let now = self.now;
        let mut output = String::new();
        match step {
            Step::Send { host, len } => {
                self.sent = self.sent.wrapping_add(13);
                if let Some(conn) = self.conns[host] {
                    output = format!("{:?}", self.hosts[host].send(now, conn, &vec![self.sent; len]));
                }
            }
            Step::Read { host, part } => {
                if let Some(conn) = self.conns[host] {
                    let len = self.hosts[host].received(conn).len().div_ceil(part);
                    self.hosts[host].consume(now, conn, len);
                }
            }
            Step::Egress { host, early, capacity } => {
                let wire = &mut self.wires[host];
                wire.capacity = capacity;
                let stack = &mut self.hosts[host];
                let n = if early { stack.egress_early(now, wire) } else { stack.egress(now, wire) };
                output = n.to_string();
            }
            Step::Arrive { host } => {
                if let Some(frame) = self.wires[1 - host].frames.pop_front() {
                    let meta = PacketMeta::new(now, frame.len());
                    self.hosts[host].ingress(now, &frame, &meta);
                }
            }
            Step::Lose { host } => drop(self.wires[host].frames.pop_front()),
            Step::Repeat { host } => {
                let first = self.wires[host].frames.front().cloned();
                self.wires[host].frames.extend(first);
            }
            Step::Overtake { host } => {
                self.wires[host].frames.rotate_left(1.min(self.wires[host].frames.len()))
            }
            Step::Mark { host } => {
                if let Some(frame) = self.wires[host].frames.front_mut()
                    && frame.len() > 34
                    && frame[12..15] == [8, 0, 0x45]
                {
                    frame[15] |= 3;
                    sum_header(frame);
                }
            }
            Step::Narrow { host, mtu } => {
                if let Some(frame) = self.wires[host].frames.front()
                    && frame.len() > 60
                {
                    let error = narrow(frame, mtu);
                    self.hosts[host].ingress(now, &error, &PacketMeta::new(now, error.len()));
                }
            }
            Step::Wait { us } => {
                self.now += Span::from_micros(us);
                self.hosts.iter_mut().for_each(|stack| stack.handle_timeout(self.now));
            }
            Step::Level { host, level } => {
                if let Some(conn) = self.conns[host] {
                    self.hosts[host].set_label(now, conn, Label::new(Priority::new(level).unwrap()));
                }
            }
            Step::Dscp { host, dscp } => {
                if let Some(conn) = self.conns[host] {
                    self.hosts[host].set_dscp(now, conn, dscp);
                }
            }
            Step::Hops { host, hops } => {
                if let Some(conn) = self.conns[host] {
                    self.hosts[host].set_hops(now, conn, |limits| limits.sent = hops);
                }
            }
            Step::Close { host } => {
                if let Some(conn) = self.conns[host] {
                    self.hosts[host].close(now, conn);
                }
            }
        }
        for (host, stack) in self.hosts.iter_mut().enumerate() {
            while let Some(event) = stack.poll_event() {
                output += &format!("{host}: {event:?}\n");
                match event.kind {
                    EventKind::Accepted(_) => self.conns[host] = Some(event.conn),
                    EventKind::Closed(_) => self.conns[host] = None,
                    _ => {}
                }
            }
        }
        output
    }

    /// Complete observable state.
    pub(crate) fn state(&mut self) -> String {
        let frames = |wire: &Wire| wire.frames.iter().map(|frame| digest(frame)).collect::<Vec<_>>();
        let mut state = format!("{:?}\n", self.wires.each_ref().map(frames));
        for stack in &mut self.hosts {
            // The stack counts a frame that the device segments as one; the result of egress covers
            // them.
            let counters = Counters { frames_sent: 0, ..*stack.counters() };
            state += &format!("{counters:?} {:?} {:?}\n", stack.poll_timeout(), stack.waiting_acks);
            state += &format!("{} {}\n", stack.buffer_bytes(), stack.wants_egress());
            if let Some((_, connection)) = stack.flows.at(0) {
                state += &of(connection);
            }
        }
        state
    }
}

/// Length and hash of `bytes`.
fn digest(bytes: &[u8]) -> (usize, u64) {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    (bytes.len(), hasher.finish())
}

fn of(c: &Connection) -> String {
    let local = (c.snd_una, c.snd_nxt, c.snd_wnd, c.snd_wnd_max, c.snd_wl1, c.snd_wl2, c.recovery, &c.flight);
    let remote = (c.rcv_nxt, c.rcv_adv, c.ts_recent, c.last_ack_sent, c.ack_due_us, c.window, c.early_fin);
    let times =
        (c.rtt, c.reordering, c.tlp, c.early_at, c.rto_at, c.received_at, c.timer.map(|timer| timer.0));
    let counts = (c.received, c.acknowledged, c.segments, c.ack_rate_limit);
    let small = (c.duplicate_acks, c.retries, c.acks_due, c.keep_alives, c.mss, c.tx_links, c.transmit);
    let rest = (&c.reassembly, &c.timeout_options, &c.ecn_pacing, &c.reason, c.flow());
    let congestion = match &c.congestion {
        Congestion::Cubic(own) => format!("{own:?}"),
        Congestion::Other(_) => String::new(),
    };
    let queues = (digest(c.send.as_slice()), digest(c.recv.as_slice()));
    format!(
        "{:?} {:?}\n{local:?}\n{remote:?}\n{times:?}\n{counts:?}\n{small:?}\n{rest:?}\n{queues:?}\n{congestion}\n",
        c.state, c.flags
    )
}
