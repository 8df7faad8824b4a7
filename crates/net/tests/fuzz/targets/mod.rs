//! What is fuzzed: a function of bytes for each target. It panics when the
//! stack does not keep a promise. `cargo fuzz` and `cargo test` run the same.

mod connection;
mod differential;
mod input;
mod parsers;

use net::Stack;
use net::classify::PacketMeta;
use net::device::{Device, Full, Received};
use net::stack::{Config, ListenOptions};
use queueing::{Span, Time};

/// A target.
pub type Target = fn(&[u8]);

/// Every target by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("ethernet", parsers::ethernet),
    ("arp", parsers::arp),
    ("ipv4", parsers::ipv4),
    ("ipv6", parsers::ipv6),
    ("icmp", parsers::icmp),
    ("icmpv6", parsers::icmpv6),
    ("udp", parsers::udp),
    ("tcp", parsers::tcp),
    ("options", parsers::options),
    ("rules", parsers::rules),
    ("frames", parsers::frames),
    ("connection", connection::connection),
    ("differential", differential::differential),
];

/// Runs the target called `name`.
#[allow(dead_code)] // `cargo fuzz` calls by name; the test goes through the table.
pub fn run(name: &str, data: &[u8]) {
    let (_, target) = TARGETS.iter().find(|(known, _)| *known == name).expect("a target of that name");
    target(data);
}

const MTU: u16 = 600;

/// A small host: 10.0.0.`host`.
fn config(host: u8) -> Config {
    let mut config = Config::new([2, 0, 0, 0, 0, host], [10, 0, 0, host].into(), 24, [host; 16]);
    config.mtu = MTU;
    config.time_wait = Span::from_secs(1);
    config.recv_buffer = 4096;
    config.send_buffer = 4096;
    config.connections_max = 8;
    config
}

/// Host 1, listening on two ports.
fn stack() -> Stack {
    let mut stack = Stack::new(config(1));
    for port in [80, 81] {
        stack.listen(port, ListenOptions { backlog: 2, ..ListenOptions::default() }).expect("a free port");
    }
    stack
}

fn meta(now: Time, frame: &[u8]) -> PacketMeta {
    PacketMeta::new(now, frame.len())
}

/// What `stack` has to send now, at most `room` frames.
fn sent(stack: &mut Stack, now: Time, room: usize) -> Vec<Vec<u8>> {
    let mut outbox = Outbox { frames: Vec::new(), room };
    stack.egress(now, &mut outbox);
    for frame in &outbox.frames {
        assert!(frame.len() <= usize::from(MTU) + 14, "a frame of {} bytes", frame.len());
    }
    outbox.frames
}

struct Outbox {
    frames: Vec<Vec<u8>>,
    room: usize,
}

impl Device for Outbox {
    type Frame = Vec<u8>;

    fn receive(&mut self, _now: Time) -> Option<Received<Vec<u8>>> {
        None
    }

    fn recycle(&mut self, _frame: Vec<u8>) {}

    fn transmit(&mut self, _now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        self.room = self.room.checked_sub(1).ok_or(Full)?;
        let mut frame = vec![0; len];
        fill(&mut frame);
        self.frames.push(frame);
        Ok(())
    }
}
