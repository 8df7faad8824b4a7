//! Tests of buffer autotuning: a long fat path is filled, small exchanges stay small.

//~ tcp: receive window and send buffer grow to the bandwidth-delay product (RFC 7323)

use std::collections::VecDeque;

use net::stack::{Config, ListenOptions};
use net::{ConnId, EventKind, Stack};
use queueing::{Span, Time};

use crate::world::{World, config, meta, sent};

/// 1 Gb/s: time per byte, and overhead per frame in bytes.
const BYTE_NS: u64 = 8;
const FRAME_OVERHEAD: u64 = 24;
const DELAY: Span = Span::from_millis(10);
/// Queueing time before the line drops; more than the largest window needs.
const LINE_WAIT: Span = Span::from_millis(20);

/// One direction of a path of 1 Gb/s and 20 ms RTT.
#[derive(Default)]
struct Line {
    free_at: Time,
    flight: VecDeque<(Time, Vec<u8>)>,
}

impl Line {
    fn send(&mut self, now: Time, frame: Vec<u8>) {
        if self.free_at <= now + LINE_WAIT {
            self.free_at =
                self.free_at.max(now) + Span::from_nanos((frame.len() as u64 + FRAME_OVERHEAD) * BYTE_NS);
            self.flight.push_back((self.free_at + DELAY, frame));
        }
    }
}

/// Sender, receiver, and the bytes that the receiver has read.
struct Path {
    now: Time,
    stacks: [Stack; 2],
    lines: [Line; 2],
    conn: Option<ConnId>,
    read: u64,
}

impl Path {
    fn new(change: impl Fn(&mut Config)) -> Self {
        let stacks = [1, 2].map(|host| {
            let mut config = config(host);
            change(&mut config);
            Stack::new(config)
        });
        let mut path = Self {
            now: Time::from_nanos(1_000_000_000),
            stacks,
            lines: Default::default(),
            conn: None,
            read: 0,
        };
        path.stacks[1].listen(80, ListenOptions::default()).unwrap();
        path.stacks[0].connect(path.now, "10.0.0.2:80".parse().unwrap(), None).unwrap();
        path
    }

    fn run(&mut self, span: Span) {
        let end = self.now + span;
        while self.now < end {
            for side in 0..2 {
                while self.lines[1 - side].flight.front().is_some_and(|(at, _)| *at <= self.now) {
                    let (_, frame) = self.lines[1 - side].flight.pop_front().expect("just seen");
                    let meta = meta(self.now, &frame);
                    self.stacks[side].ingress(self.now, &frame, &meta);
                }
                self.stacks[side].handle_timeout(self.now);
                self.serve(side);
                for frame in sent(&mut self.stacks[side], self.now) {
                    self.lines[side].send(self.now, frame);
                }
            }
            let arrivals = self.lines.each_ref().map(|line| line.flight.front().map(|(at, _)| *at));
            let timers = self.stacks.each_ref().map(Stack::poll_timeout);
            let next = arrivals.into_iter().chain(timers).flatten().chain([end]).min();
            self.now = next.expect("the end at least").max(self.now);
        }
    }

    fn serve(&mut self, side: usize) {
        let stack = &mut self.stacks[side];
        while let Some(event) = stack.poll_event() {
            match event.kind {
                EventKind::Connected | EventKind::Writable => {
                    self.conn = Some(event.conn);
                    while stack.send(self.now, event.conn, &[7; 64 * 1024]) == Ok(64 * 1024) {}
                }
                EventKind::Readable { .. } => {
                    let n = stack.received(event.conn).len();
                    stack.consume(self.now, event.conn, n);
                    self.read += n as u64;
                }
                _ => {}
            }
        }
    }

    /// Goodput in Mb/s after the first second.
    fn goodput_mbps(mut self) -> u64 {
        self.run(Span::from_secs(1));
        let before = self.read;
        self.run(Span::from_millis(500));
        (self.read - before) * 8 / 500_000
    }
}

#[test]
fn gigabit_path_of_20_ms_fills_and_would_not_with_fixed_windows() {
    let grown = Path::new(|_| {}).goodput_mbps();
    let fixed = Path::new(|config| config.recv_buffer_max = 0).goodput_mbps();
    println!("20 ms at 1 Gb/s: {grown} Mb/s with windows that grow, {fixed} Mb/s with 256 KiB");
    assert!(grown >= 900, "{grown} Mb/s");
    assert!(fixed <= 110, "{fixed} Mb/s: 256 KiB each 20 ms");
}

#[test]
fn send_buffer_grows_with_the_congestion_window_only() {
    let fixed = Path::new(|config| config.send_buffer_max = 0).goodput_mbps();
    assert!(fixed <= 110, "{fixed} Mb/s: 256 KiB each 20 ms");
    let mut path = Path::new(|_| {});
    path.run(Span::from_millis(25));
    assert!(path.stacks[0].buffer_bytes() <= 512 * 1024, "the buffers have not grown yet");
}

#[test]
fn small_exchanges_keep_small_windows_and_no_buffers() {
    let mut world = World::perfect();
    let (server, client) = world.connect();
    for _ in 0..1000 {
        for (side, conn, n) in [(1, client, 300), (0, server, 2000)] {
            world.stacks[side].send(world.now, conn, &vec![1; n]).unwrap();
            world.run_for(Span::from_micros(150));
            let (other, peer) = [(1, client), (0, server)][side];
            assert_eq!(world.stacks[other].received(peer).len(), n);
            world.stacks[other].consume(world.now, peer, n);
        }
    }
    world.run_for(Span::from_millis(10));
    assert_eq!(world.stacks.each_ref().map(Stack::buffer_bytes), [0, 0]);
}
