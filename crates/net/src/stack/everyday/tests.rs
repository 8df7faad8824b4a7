//! The short ways say and leave what the long way does: two pairs of hosts
//! live through the same, one of them without short ways, and are compared
//! after every step.

use std::collections::VecDeque;

use proptest::collection::vec;
use proptest::prelude::*;
use queueing::{Label, Priority, Span, Time};

use crate::classify::{PacketMeta, Verdict};
use crate::device::{Full, Received};
use crate::stack::{Config, ListenOptions, TransmitOrder};
use crate::tcp::congestion::Congestion;
use crate::tcp::everyday::testing::{LONG_WAY_ONLY, TAKEN};
use crate::tcp::{Connection, Ecn};
use crate::{ConnId, Device, EventKind, Stack};

/// Keeps what is sent, as far as it has room.
#[derive(Default)]
struct Wire {
    frames: VecDeque<Vec<u8>>,
    room: usize,
}

impl Device for Wire {
    type Frame = Vec<u8>;

    fn receive(&mut self, _: Time) -> Option<Received<Vec<u8>>> {
        None
    }

    fn recycle(&mut self, _: Vec<u8>) {}

    fn transmit(&mut self, _: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        self.room = self.room.checked_sub(1).ok_or(Full)?;
        let mut frame = vec![0; len];
        fill(&mut frame);
        self.frames.push_back(frame);
        Ok(())
    }
}

/// Something that happens to one of two hosts.
#[derive(Clone, Copy, Debug)]
enum Step {
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
        room: usize,
    },
    /// The next frame on the way to a host arrives.
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
    Wait {
        us: u64,
    },
    Level {
        host: usize,
        level: u8,
    },
    Close {
        host: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let host = || 0..2usize;
    prop_oneof![
        5 => (host(), prop_oneof![3 => 1..200usize, 1 => 1..5000usize]).prop_map(|(host, len)| Step::Send { host, len }),
        5 => (host(), 1..5usize).prop_map(|(host, part)| Step::Read { host, part }),
        6 => (host(), any::<bool>(), prop_oneof![1 => 0..3usize, 6 => 3..50usize])
            .prop_map(|(host, early, room)| Step::Egress { host, early, room }),
        12 => host().prop_map(|host| Step::Arrive { host }),
        1 => host().prop_map(|host| Step::Lose { host }),
        1 => host().prop_map(|host| Step::Repeat { host }),
        1 => host().prop_map(|host| Step::Overtake { host }),
        1 => host().prop_map(|host| Step::Mark { host }),
        5 => prop_oneof![6 => 1..300u64, 2 => 1..20_000u64, 1 => 1..3_000_000u64].prop_map(|us| Step::Wait { us }),
        1 => (host(), 0..8u8).prop_map(|(host, level)| Step::Level { host, level }),
        1 => proptest::option::weighted(0.1, host()).prop_map(|host| match host {
            Some(host) => Step::Close { host },
            None => Step::Wait { us: 7 },
        }),
    ]
}

/// Ways in which hosts may be set up.
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
                None => Verdict::Keep,
            }));
        }
        _ => {}
    }
}

/// Two hosts with one connection between them.
struct World {
    now: Time,
    hosts: [Stack; 2],
    conns: [Option<ConnId>; 2],
    /// What each host has sent.
    wires: [Wire; 2],
    sent: u8,
}

impl World {
    fn new(kind: u8) -> Self {
        let hosts = [1, 2].map(|n| {
            let mut config = Config::new([2, 0, 0, 0, 0, n], [10, 0, 0, n].into(), 24, [n; 16]);
            configure(&mut config, kind);
            Stack::new(config)
        });
        let mut world = Self {
            now: Time::from_nanos(1_000_000),
            hosts,
            conns: [None; 2],
            wires: Default::default(),
            sent: 0,
        };
        world.hosts[0].listen(80, ListenOptions::default()).unwrap();
        let to = "10.0.0.1:80".parse().unwrap();
        world.conns[1] = Some(world.hosts[1].connect(world.now, to, Some(2000)).unwrap());
        for _ in 0..6 {
            for host in [1, 0] {
                world.take(Step::Egress { host, early: false, room: 9 });
                while !world.wires[host].frames.is_empty() {
                    world.take(Step::Arrive { host: 1 - host });
                }
            }
            world.take(Step::Wait { us: 20 });
        }
        assert!(world.conns[0].is_some(), "the handshake is over");
        world
    }

    /// Takes a step; tells what it led to.
    fn take(&mut self, step: Step) -> String {
        let now = self.now;
        let mut told = String::new();
        match step {
            Step::Send { host, len } => {
                self.sent = self.sent.wrapping_add(13);
                if let Some(conn) = self.conns[host] {
                    told = format!("{:?}", self.hosts[host].send(now, conn, &vec![self.sent; len]));
                }
            }
            Step::Read { host, part } => {
                if let Some(conn) = self.conns[host] {
                    let len = self.hosts[host].received(conn).len().div_ceil(part);
                    self.hosts[host].consume(now, conn, len);
                }
            }
            Step::Egress { host, early, room } => {
                let wire = &mut self.wires[host];
                wire.room = room;
                let stack = &mut self.hosts[host];
                let n = if early { stack.egress_early(now, wire) } else { stack.egress(now, wire) };
                told = n.to_string();
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
                    frame[24..26].fill(0);
                    let sum = crate::wire::checksum::of(&frame[14..34]);
                    frame[24..26].copy_from_slice(&sum);
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
            Step::Close { host } => {
                if let Some(conn) = self.conns[host] {
                    self.hosts[host].close(now, conn);
                }
            }
        }
        for (host, stack) in self.hosts.iter_mut().enumerate() {
            while let Some(event) = stack.poll_event() {
                told += &format!("{host}: {event:?}\n");
                match event.kind {
                    EventKind::Accepted(_) => self.conns[host] = Some(event.conn),
                    EventKind::Closed(_) => self.conns[host] = None,
                    _ => {}
                }
            }
        }
        told
    }

    /// Everything that can be told of it.
    fn state(&mut self) -> String {
        let mut state = format!("{:?}\n", self.wires.each_ref().map(|wire| &wire.frames));
        for stack in &mut self.hosts {
            state += &format!("{:?} {:?} {:?}\n", stack.counters(), stack.poll_timeout(), stack.waiting_acks);
            state += &format!("{} {}\n", stack.buffer_bytes(), stack.wants_egress());
            if let Some((_, connection)) = stack.flows.at(0) {
                state += &of(connection);
            }
        }
        state
    }
}

fn of(c: &Connection) -> String {
    let ours = (c.snd_una, c.snd_nxt, c.snd_wnd, c.snd_wnd_max, c.snd_wl1, c.snd_wl2, c.recovery, &c.flight);
    let theirs = (c.rcv_nxt, c.rcv_adv, c.ts_recent, c.last_ack_sent, c.ack_due_us, c.window, c.early_fin);
    let times = (c.rtt, c.reordering, c.tail, c.early_at, c.rto_at, c.heard_at, c.timer.map(|timer| timer.0));
    let counts = (c.received, c.acknowledged, c.segments_sent, c.segments_again, c.answers);
    let small = (c.duplicate_acks, c.retries, c.acks_due, c.keep_alives, c.mss, c.places, c.transmit);
    let rest = (&c.reassembly, &c.patience, &c.manners, &c.reason, c.flow());
    let congestion = match &c.congestion {
        Congestion::Cubic(own) => format!("{own:?}"),
        Congestion::Other(_) => String::new(),
    };
    let queues = (c.send.as_slice(), c.recv.as_slice());
    format!(
        "{:?} {:?}\n{ours:?}\n{theirs:?}\n{times:?}\n{counts:?}\n{small:?}\n{rest:?}\n{queues:?}\n{congestion}\n",
        c.state, c.flags
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn short_ways_say_and_leave_what_the_long_way_does(kind in 0u8..10, steps in vec(step(), 1..160)) {
        LONG_WAY_ONLY.set(true);
        let mut long = World::new(kind);
        LONG_WAY_ONLY.set(false);
        let mut short = World::new(kind);
        for step in steps {
            LONG_WAY_ONLY.set(true);
            let told = long.take(step);
            LONG_WAY_ONLY.set(false);
            prop_assert_eq!(short.take(step), told, "{:?}", step);
            prop_assert_eq!(short.state(), long.state(), "{:?}", step);
        }
    }
}

#[test]
fn a_request_and_its_response_take_the_short_ways() {
    let mut world = World::new(9);
    for round in 0..10 {
        for host in [1, 0] {
            world.take(Step::Send { host, len: 64 });
            let before = TAKEN.get();
            world.take(Step::Egress { host, early: true, room: 9 });
            world.take(Step::Arrive { host: 1 - host });
            assert_eq!(TAKEN.get() - before, 2, "round {round}: one out, one in");
            world.take(Step::Read { host: 1 - host, part: 1 });
        }
    }
}
