//! Fuzz targets: functions of bytes that panic if the stack violates a property. `cargo fuzz` and
//! `cargo test` run the same targets.

mod connection;
mod differential;
mod fragments;
mod input;
mod network;
mod parsers;
mod streams;
mod texts;

use net::Stack;
use net::stack::{Config, ListenOptions};
use queueing::Time;

use crate::world::{self, Outbox};

/// Fuzz target.
pub type Target = fn(&[u8]);

/// All targets of this crate by name.
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
    ("dhcp", parsers::dhcp),
    ("steer", parsers::steer),
    ("pcap", parsers::pcap),
    ("rules", texts::rules),
    ("request_streams", streams::requests),
    ("stream_labels", streams::labels),
    ("faults", texts::faults),
    ("distributions", texts::distributions),
    ("frames", network::frames),
    ("network", network::network),
    ("fragments", fragments::fragments),
    ("connection", connection::connection),
    ("differential", differential::differential),
];

const MTU: u16 = 600;

/// Small host 10.0.0.`host`.
fn config(host: u8) -> Config {
    Config {
        mtu: MTU,
        recv_buffer: 4096,
        send_buffer: 4096,
        connections_max: 8,
        ipv6: None,
        ..world::config(host)
    }
}

/// Host 1 with listeners on two ports.
fn stack() -> Stack {
    let mut stack = Stack::new(config(1));
    for port in [80, 81] {
        stack.listen(port, ListenOptions { backlog: 2, ..ListenOptions::default() }).expect("a free port");
    }
    stack
}

/// Frames that `stack` sends now, at most `space`.
fn sent(stack: &mut Stack, now: Time, space: usize) -> Vec<Vec<u8>> {
    let mut outbox = Outbox { frames: Vec::new(), space };
    stack.egress(now, &mut outbox);
    for frame in &outbox.frames {
        assert!(frame.len() <= usize::from(stack.config().mtu) + 14, "a frame of {} bytes", frame.len());
    }
    outbox.frames
}
