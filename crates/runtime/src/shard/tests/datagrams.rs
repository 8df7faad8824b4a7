//! Datagrams beside connections: one event queue, one order, one application.

//~ devices: `serve --proto udp` echoes datagrams on every device and labels them by the policy

use std::net::IpAddr;

use net::stack::{UdpId, UdpOptions};

use super::*;

const PORT: u16 = 53;

/// A world whose server has a UDP socket, and the client's socket.
fn world_with_udp(workers: usize, change: impl FnOnce(&mut Config)) -> (World, UdpId) {
    let mut world = world(workers, change);
    world.shard.stack().bind_udp(PORT, UdpOptions::default()).unwrap();
    let socket = world.client.bind_udp(9, UdpOptions::default()).unwrap();
    (world, socket)
}

impl World {
    fn say(&mut self, socket: UdpId, text: &str) {
        let remote = SocketAddr::new(SERVER.into(), PORT);
        self.client.send_to(self.clock.now(), socket, remote, text.as_bytes()).unwrap();
        self.settle();
    }

    /// Responses received, checked to come from the address of the request.
    fn answers(&mut self, socket: UdpId) -> Vec<String> {
        let now = self.clock.now();
        let got = std::iter::from_fn(|| self.client.receive_from(now, socket));
        got.map(|datagram| {
            assert_eq!(datagram.remote, SocketAddr::new(SERVER.into(), PORT));
            String::from_utf8(datagram.payload).unwrap()
        })
        .collect()
    }
}

#[test]
fn a_datagram_is_a_request_and_gets_its_response() {
    let (mut world, socket) = world_with_udp(1, |_| {});
    world.say(socket, "3 hello\n");
    assert_eq!(world.jobs[0].label.priority.level(), 3);
    assert_eq!(world.serve_all(), ["3 hello\n"]);
    assert_eq!(world.answers(socket), ["3 hello\n"]);
    let counters = world.counters();
    assert_eq!((counters.datagrams, counters.requests, counters.responses), (1, 1, 1));
    assert_eq!(world.shard.stats().stages.get(3, 3).max(), Span::from_micros(1));
}

#[test]
fn datagrams_and_connections_wait_in_one_queue_by_label() {
    let (mut world, socket) = world_with_udp(1, |_| {});
    let ids: Vec<_> = (0..3).map(|_| world.connect()).collect();
    world.send(ids[0], "7 busy\n");
    world.say(socket, "5 a\n");
    world.send(ids[1], "2 b\n");
    world.say(socket, "0 c\n");
    world.say(socket, "2 d\n");
    world.send(ids[2], "6 e\n");
    assert_eq!(world.serve_all(), ["7 busy\n", "0 c\n", "2 b\n", "2 d\n", "5 a\n", "6 e\n"]);
    assert_eq!(world.answers(socket), ["0 c\n", "2 d\n", "5 a\n"]);
}

#[test]
fn a_full_event_queue_keeps_datagrams_in_their_socket_and_admits_the_urgent_first() {
    let (mut world, socket) = world_with_udp(1, |config| config.dispatch = Box::new(strict(2)));
    // One is served, two are queued, one waits to enter, two are in the socket.
    for text in ["7 a\n", "7 b\n", "7 c\n", "7 d\n", "5 e\n", "3 f\n"] {
        world.say(socket, text);
    }
    assert_eq!((world.shard.waiting(), world.counters().queue_full), (3, 1), "the rest stays in the socket");
    let order = world.serve_all();
    assert_eq!(order.len(), 6, "nothing is lost: {order:?}");
    assert_eq!(order[..2], ["7 a\n", "7 b\n"]);
    let position = |text| order.iter().position(|served| served == text);
    assert!(position("3 f\n") < position("5 e\n"), "{order:?}");
    assert_eq!(world.shard.waiting(), 0);
}

#[test]
fn invalid_datagrams_and_panics_get_no_response() {
    let (mut world, socket) = world_with_udp(1, |_| {});
    for text in ["!", "", "torn", "two\nlines\n", "P\n", "3 good\n"] {
        world.say(socket, text);
        world.serve_all();
    }
    assert_eq!(world.answers(socket), ["3 good\n"]);
    let counters = world.counters();
    assert_eq!((counters.invalid, counters.panics, counters.requests), (4, 1, 2));
    assert_eq!(world.shard.idle().len(), 1);
}

#[test]
fn a_datagrams_response_has_the_requests_destination_as_source() {
    let (own, other) = ("fd00::1", "fd00::5");
    let ipv6 = |addrs: &[&str]| net::stack::Ipv6 {
        addrs: addrs.iter().map(|addr| (addr.parse().unwrap(), 64)).collect(),
        probes: 0,
        ..Default::default()
    };
    let (mut world, _) = world_with_udp(1, |config| config.stack.ipv6 = Some(ipv6(&[own, other])));
    let mut config = world.client.config().clone();
    config.ipv6 = Some(ipv6(&["fd00::2"]));
    world.client = Stack::new(config);
    let socket = world.client.bind_udp(9, UdpOptions::default()).unwrap();
    for (n, asked) in [own, other].into_iter().enumerate() {
        let asked: IpAddr = asked.parse().unwrap();
        let now = world.clock.now();
        world.client.handle_timeout(now);
        world.shard.stack().handle_timeout(now);
        world.client.send_to(now, socket, (asked, PORT).into(), b"1\n").unwrap();
        world.settle();
        world.serve_all();
        let now = world.clock.now();
        let got = world.client.receive_from(now, socket).unwrap_or_else(|| panic!("answer {n}"));
        assert_eq!(got.remote, SocketAddr::new(asked, PORT));
    }
}
