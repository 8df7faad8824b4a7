//! Levels of what programs send: of a call its own, never of what came last on its connection.

//~ programs: a call leaves with the level of its own request, and its response arrives with it
//~ programs: an outgoing handshake has the level of the rules that hold without a request
//~ datagrams: a datagram has the level of its peer's last, or as a query its own

use std::net::SocketAddr;

use classify::Policy;
use net::stack::{ListenOptions, UdpId, UdpOptions};

use super::super::calls::CALL_BYTES;
use super::super::datagrams::{PEERS_MAX, Peers};
use super::datagrams::CLIENT;
use super::world::MAIL;
use super::*;

const RULES: &str = "default = 4\n\
    [[rule]]\nlayer = \"transport\"\nport = 90\nhttp = { path = \"/pay\" }\npriority = 0\n\
    [[rule]]\nlayer = \"transport\"\nport = 90\nhttp = { header = \"x-tier: bulk\" }\npriority = 7\n\
    [[rule]]\nlayer = \"driver\"\nport = 54\nbytes = { offset = 0, equals = \"pay\" }\npriority = 0\n\
    [[rule]]\nlayer = \"driver\"\nport = 54\nbytes = { offset = 0, equals = \"bulk\" }\npriority = 7\n";
const PAY: &[u8] = b"GET /pay HTTP/1.1\r\nHost: a\r\n\r\n";
const BULK: &[u8] = b"POST /load HTTP/1.1\r\nX-Tier: bulk\r\nContent-Length: 4\r\n\r\n";
const OTHER: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";

/// A world whose programs are under the policy `rules`, with a listener at the client.
fn world(rules: &str) -> World {
    let mut world = World::without(10_000);
    let policy = Policy::parse(rules).unwrap();
    let (driver, transport, spoken) = (policy.driver(), policy.transport(), policy.protocols());
    let handshake = policy.handshake();
    world.proxy.set_classifiers(Classifiers { driver, transport, handshake, spoken });
    world.client.listen(90, ListenOptions::default()).unwrap();
    world
}

impl World {
    /// Levels of the frames that the client has received since the last call.
    fn levels_out(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.frames).into_iter().map(|(_, level)| level).collect()
    }

    /// Levels published to the program on its `n`th connection since the last call.
    fn levels_in(&mut self, n: usize) -> Vec<u8> {
        let levels = std::mem::take(&mut self.end(n).borrow_mut().levels);
        levels.into_iter().map(|(level, _)| level.level()).collect()
    }
}

/// One step of a program that has opened a connection.
enum Step {
    /// It writes this, which leaves at this level.
    Writes(&'static [u8], u8),
    /// The service answers this, which arrives at this level.
    Receives(&'static [u8], u8),
    /// It sets the level.
    Sets(u8),
    /// The policy is read again.
    Reloads,
}

#[test]
fn a_call_has_its_own_level_whatever_came_last() {
    use Step::*;
    let cases: &[(&str, &[Step])] = &[
        (
            "one after another",
            &[
                Writes(BULK, 7),
                Writes(b"four", 7),
                Receives(RESPONSE, 7),
                Writes(PAY, 0),
                Receives(RESPONSE, 0),
                Writes(OTHER, 4),
                Receives(RESPONSE, 4),
                Writes(PAY, 0),
            ],
        ),
        ("a response that reads like a request", &[Writes(BULK, 7), Receives(PAY, 7), Writes(b"four", 7)]),
        ("a response in parts", &[Writes(PAY, 0), Receives(b"HTTP", 0), Receives(b"/1.1 200 OK\r\n\r\n", 0)]),
        (
            "a head in parts",
            &[Writes(b"GET /pay HT", 4), Writes(b"TP/1.1\r\n\r\n", 0), Receives(RESPONSE, 0)],
        ),
        (
            "a body after an early response",
            &[Writes(BULK, 7), Receives(b"HTTP/1.1 100 Continue\r\n\r\n", 7), Writes(b"four", 7)],
        ),
        (
            "calls that wait together",
            &[Writes(PAY, 0), Writes(OTHER, 4), Receives(RESPONSE, 0), Writes(OTHER, 4)],
        ),
        (
            "a service that speaks first",
            &[Receives(b"220 ready\r\n", 4), Writes(b"GET /pay HTTP/1.1\r\n\r\n", 0)],
        ),
        (
            "another protocol",
            &[Writes(b"\x16\x03\x01 hello", 4), Receives(b"\x16\x03", 4), Writes(b"\x17", 4)],
        ),
        (
            "a level of the program's own",
            &[Sets(2), Writes(BULK, 2), Receives(RESPONSE, 2), Writes(b"four", 7)],
        ),
        (
            "a field that asks for a level",
            &[
                Writes(b"GET /pay HTTP/1.1\r\nPriority: u=6\r\n\r\n", 6),
                Receives(RESPONSE, 6),
                Writes(b"GET /pay HTTP/1.1\r\nPriority: u=1\r\n\r\n", 1),
                Receives(b"HTTP/1.1 200 OK\r\nPriority: u=7\r\n\r\n", 1),
                Writes(b"GET / HTTP/1.1\r\nPriority: u=0\r\n\r\n", 4),
            ],
        ),
        (
            "a new policy",
            &[Writes(BULK, 7), Writes(b"four", 7), Receives(RESPONSE, 7), Reloads, Writes(PAY, 0)],
        ),
    ];
    for (name, steps) in cases {
        let mut world = world(RULES);
        world.open();
        world.settle();
        assert_eq!(world.levels_out(), [4], "{name}: the SYN has the default");
        for (at, step) in steps.iter().enumerate() {
            let conn = world.end(0).borrow().conn.expect("it is open");
            match step {
                Writes(bytes, level) => {
                    world.answer(0, bytes);
                    assert_eq!(world.levels_out(), [*level], "{name}: step {at}");
                }
                Receives(bytes, level) => {
                    world.levels_in(0);
                    world.ask(0, bytes);
                    assert_eq!(world.levels_in(0), [*level], "{name}: step {at}");
                }
                Sets(level) => {
                    let level = Priority::new(*level).expect("a level");
                    world.proxy.programs.events.push(AppEvent::Set(conn, SocketOption::Level(level)));
                    world.settle();
                }
                Reloads => {
                    let policy = Policy::parse(RULES).unwrap();
                    let (driver, transport) = (policy.driver(), policy.transport());
                    let classifiers = Classifiers { driver, transport, ..Classifiers::default() };
                    world.proxy.set_classifiers(classifiers);
                }
            }
        }
    }
}

#[test]
fn a_handshake_has_the_level_of_the_rules_without_a_request() {
    let rule = |layer, more| format!("[[rule]]\nlayer = \"{layer}\"\n{more}\npriority = 2\n");
    for (name, rules, level) in [
        ("the service's port at the driver", rule("driver", "port = 90"), 2),
        ("the same at the transport", rule("transport", "port = 90"), 2),
        ("our own address", rule("driver", "source = \"10.0.0.1\""), 2),
        ("another port", rule("driver", "port = 91"), 7),
        (
            "a request, and a default",
            "default = 5\n".to_owned() + &rule("driver", "http = { path = \"/\" }"),
            5,
        ),
        ("a request, no default", rule("transport", "port = 90\nhttp = \"any\""), 7),
        ("a rule that drops", "[[rule]]\nlayer = \"driver\"\nport = 90\ndrop = true\n".to_owned(), 7),
    ] {
        let mut world = world(&rules);
        world.open();
        world.settle();
        assert_eq!(world.levels_out(), [level], "{name}");
    }
}

/// Responses follow their request, whatever came in between on other connections.
#[test]
fn a_response_has_the_level_of_its_request() {
    let mut world = World::new(100);
    world.connect();
    world.ask(0, b"0");
    world.ask(1, b"6");
    world.levels_out();
    world.answer(1, b"of 6");
    world.answer(0, b"of 0");
    assert_eq!(world.levels_out(), [6, 0]);
    world.ask(0, b"5");
    world.answer(0, b"of 5");
    assert_eq!(world.levels_out(), [5]);
}

#[test]
fn an_urgent_call_is_read_before_output_of_known_levels() {
    let mut world = world(RULES);
    (0..2).for_each(|_| world.open());
    world.settle();
    for n in 0..2 {
        world.answer(n, BULK);
        world.answer(n, b"four");
        world.ask(n, RESPONSE);
    }
    world.frames.clear();
    // The first has more output than is read unclassified.
    let body = [b"POST /load HTTP/1.1\r\nX-Tier: bulk\r\nContent-Length: 40000\r\n\r\n", &[b'x'; 40_000][..]];
    world.end(0).borrow_mut().outbound.extend(body.concat());
    world.end(1).borrow_mut().outbound.extend(PAY);
    (0..2).for_each(|n| world.notify(n));
    world.settle();
    let at = world.frames.iter().position(|(payload, _)| payload == PAY).expect("it arrives");
    let before: usize = world.frames[..at].iter().map(|(payload, _)| payload.len()).sum();
    assert!(before <= CALL_BYTES, "{before} bytes of bulk leave first");
    assert!(world.frames.iter().all(|(payload, level)| (payload == PAY) == (*level == 0)));
}

#[test]
fn without_a_policy_nothing_has_a_level() {
    let mut world = World::without(1000);
    world.proxy.set_classifiers(Classifiers::default());
    world.client.listen(90, ListenOptions::default()).unwrap();
    world.open();
    world.settle();
    world.answer(0, PAY);
    world.ask(0, RESPONSE);
    assert_eq!((world.levels_out(), world.levels_in(0)), (vec![7, 7], vec![7]));
    assert_eq!(world.proxy.counters().driver.classified, 0);
}

/// A query and its answer, and two peers whose answers cross.
#[test]
fn a_datagram_has_the_level_of_its_query() {
    let mut world = world(RULES);
    world.proxy.programs.mail.room = 100;
    world.proxy.programs.events.push(AppEvent::Bound(53));
    let service = world.client.bind_udp(54, UdpOptions::default()).unwrap();
    world.settle();
    let to = "10.0.0.2:54";
    let ask = |world: &mut World, payload: &[u8], level| {
        world.send_mail(1, to, payload);
        world.settle();
        assert_eq!(world.levels_out(), [level], "{}", payload.escape_ascii());
    };
    for (query, level) in [(&b"bulk"[..], 7), (b"pay", 0), (b"other", 4), (b"pay", 0)] {
        ask(&mut world, query, level);
        let answer = b"bulk, it says";
        world.client.send_to(world.now, service, MAIL.parse().unwrap(), answer).unwrap();
        world.settle();
    }

    let mut world = World::without(1000);
    world.proxy.programs.mail.room = 100;
    world.proxy.programs.events.push(AppEvent::Bound(53));
    let ports = [7, 8].map(|port| world.client.bind_udp(port, UdpOptions::default()).unwrap());
    world.settle();
    let post = |world: &mut World, id: UdpId, payload: &[u8]| {
        world.post(id, payload);
        world.settle();
    };
    world.proxy.programs.mail.taker = 1;
    post(&mut world, ports[0], b"0");
    post(&mut world, ports[1], b"6");
    for (to, level) in [(CLIENT, 0), ("10.0.0.2:8", 6), (CLIENT, 0)] {
        world.send_mail(1, to, b"answer");
        world.settle();
        assert_eq!(world.levels_out(), [level], "{to}");
    }
}

/// A thousand peers, most of which are forgotten; a forgotten one is read like a query.
#[test]
fn a_socket_remembers_its_recent_peers() {
    let mut peers = Peers::default();
    let peer = |n: u16| SocketAddr::from(([10, 0, 0, 2], n));
    for n in 0..2_000 {
        peers.on_received(peer(n), Priority::HIGHEST);
        assert!(peers.len() <= 2 * PEERS_MAX);
    }
    assert!((1_500..2_000).all(|n| peers.get(peer(n)).is_some()) && peers.get(peer(0)).is_none());
}
