//! The loaded XDP program, compared with the model.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

use proptest::prelude::*;
use queueing::{Clock, Span, Time};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use super::frames::{ipv4, syn, tcp};
use super::model::{Listening, Model, Verdict};
use super::syn::Syn;
use super::vectors::vectors;
use super::*;
use crate::soon::soon;
use netlab::{Namespace, NetLab};

/// Prints a skipped test, past the test harness, which captures the output of passing tests.
fn skipped(test: &str, why: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}

const PORTS: [u16; 4] = [80, 81, 82, 83];

fn classes() -> Classes {
    let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Classes(vec![rules(&["10.7.0.0/16", "11.7.7.7", "port:81"]), rules(&["11.0.0.0/8", "fd00::7/128"])])
}

/// The loaded program, and a network namespace with listeners for the vectors.
struct Rig {
    loaded: Loaded,
    namespace: Namespace,
    listening: Vec<(u16, Option<Listening>)>,
    watching: bool,
    resets: Option<Way>,
    _sockets: (Vec<TcpListener>, Vec<TcpStream>),
}

impl Rig {
    /// `None`, with `test` skipped, if BPF is not available.
    fn new(test: &str) -> Option<Self> {
        Self::with(test, false, None)
    }

    fn with(test: &str, watching: bool, resets: Option<Way>) -> Option<Self> {
        if let Some(why) = NetLab::unavailable() {
            skipped(test, &why);
            return None;
        }
        let namespace = NetLab::new(test).unwrap().namespace("a").unwrap();
        namespace.disable_forwarding().unwrap();
        let loaded = match load(WaitEnd::Answer) {
            Err(GuardError::NoAnswers) => load(WaitEnd::Accept),
            loaded => loaded,
        };
        let loaded = match loaded {
            Ok(loaded) => loaded,
            Err(e @ (GuardError::NoPermission | GuardError::NoBtf)) => {
                skipped(test, &e.to_string());
                return None;
            }
            Err(e) => panic!("the verifier rejects: {e}"),
        };
        let maps = &loaded.maps;
        for (slot, (port, class)) in classes().of_ports(&PORTS).enumerate() {
            maps.set_port(port, PortEntry { class, slot, before: 0 }).unwrap();
        }
        for (prefix, class) in classes().of_prefixes() {
            maps.set_prefix(prefix, class).unwrap();
        }
        let netns = namespace.enter(|| netns().unwrap());
        let settings = Settings {
            netns,
            classes: 3,
            watching,
            resets,
            prefixes: true,
            answers: true,
            ports: PORTS.to_vec(),
            ..Settings::default()
        };
        maps.set_settings(&settings).unwrap();
        let sockets = namespace.enter(|| {
            let on = |at: &str| TcpListener::bind(at).unwrap();
            let listeners = vec![on("0.0.0.0:80"), on("[::]:81"), on("[::]:82"), on("[::]:84")];
            // A backlog of one holds two.
            listen(&listeners[2], 1).unwrap();
            let to = SocketAddr::from(([127, 0, 0, 1], 82));
            let waits = (0..2).map(|_| TcpStream::connect(to).unwrap()).collect();
            (listeners, waits)
        });
        let full = Listening { waiting: 2, room: 1 };
        let free = Listening { waiting: 0, room: 128 };
        let listening = vec![(80, Some(free)), (81, Some(free)), (82, Some(full)), (83, None)];
        Some(Self { loaded, namespace, listening, watching, resets, _sockets: sockets })
    }

    /// Listener of a SYN.
    fn finds(&self, syn: &Syn) -> Option<Listening> {
        let of_port = self.listening.iter().find(|(port, _)| *port == syn.target.1);
        of_port?.1.filter(|_| syn.target.1 != 80 || syn.target.0.is_ipv4())
    }

    /// Sets the limit of one port.
    fn hold(&self, slot: usize, alive: Time, held: LimitInForce) {
        let entry = LimitEntry { alive, held, ..LimitEntry::default() };
        self.loaded.maps.set_limit(slot, &entry).unwrap();
    }

    /// Counts of all ports.
    fn counts(&self) -> Counts {
        let mut all = Counts::default();
        (0..PORTS.len()).for_each(|slot| all.add(&self.loaded.maps.counts(slot).unwrap()));
        all
    }

    /// Sets program and model to the same state, on every port: limit `held` at `alive`, bucket empty until
    /// `spent`, `present` connections in the server.
    fn state(&self, alive: Time, held: LimitInForce, spent: Time, present: u64) -> Model {
        let mut model = Model::new(alive, &PORTS, &classes(), self.watching);
        for (slot, port) in PORTS.into_iter().enumerate() {
            self.hold(slot, alive, held);
            self.loaded.maps.set_spent(slot, spent).unwrap();
            self.loaded.maps.set_connections(slot, [present + 5, 5]).unwrap();
            model.hold(port, alive, held);
        }
        model.set_spent(spent);
        if self.resets.is_some() { model.with_reset() } else { model }
    }

    fn judge(&self, frame: &[u8]) -> Verdict {
        let mut out = vec![0; frame.len()];
        let ran = bpf::run(&self.loaded.program, frame, &mut [], &mut out);
        let (verdict, len) = ran.expect("the kernel runs the loaded program");
        match verdict {
            1 => Verdict::Dropped,
            2 => Verdict::Passes,
            3 if self.resets == Some(Way::Driver) => Verdict::Answered(out[..len].to_vec()),
            4 if self.resets == Some(Way::Redirect) => Verdict::Answered(out[..len].to_vec()),
            other => panic!("verdict {other}"),
        }
    }

    fn passes(&self, frame: &[u8]) -> bool {
        self.judge(frame) == Verdict::Passes
    }

    /// Accept queues of these ports, sorted by port and length.
    fn queues(&self, ports: &[u16]) -> Vec<accept_queue::Queue> {
        let mut looks = Queues::new(ports).unwrap();
        let mut found = looks.observe(&self.loaded.look, Monotonic::new().now()).unwrap().to_vec();
        found.sort_by_key(|queue| (queue.port, queue.since));
        found
    }

    /// Compares both on `frames` in order, and then their counts.
    fn agree(&self, model: &mut Model, present: u64, frames: impl IntoIterator<Item = (String, Vec<u8>)>) {
        let (before, counted) = (self.counts(), *model.counts());
        for (what, frame) in frames {
            let now = Monotonic::new().now();
            let expected = model.decide(now, &frame, present, |syn| self.finds(syn));
            assert_eq!(self.judge(&frame), expected, "{what}: {frame:x?}");
        }
        let (after, model) = (self.counts(), model.counts());
        for class in 0..CLASSES {
            assert_eq!(after.seen[class] - before.seen[class], model.seen[class] - counted.seen[class]);
            for reason in 0..4 {
                let kernel = after.shed[class][reason] - before.shed[class][reason];
                assert_eq!(
                    kernel,
                    model.shed[class][reason] - counted.shed[class][reason],
                    "{class} {reason}"
                );
            }
        }
        assert_eq!(after.silent - before.silent, model.silent - counted.silent);
    }
}

/// Time per connection of a rate here: so long that even a slow test refills none of it.
const COST: u64 = 60_000_000_000;

/// Limits, from an unused to an exhausted one.
fn states() -> Vec<(&'static str, Time, LimitInForce, Time, u64)> {
    let now = Monotonic::new().now();
    let alive = now + Span::from_secs(3600);
    let dead = Time::from_nanos(now.as_nanos().saturating_sub(10_000_000_000));
    let rate = LimitInForce::Rate {
        cost_ns: COST,
        burst_ns: 10 * COST,
        need_ns: std::array::from_fn(|place| COST * (1 + 2 * place.min(2) as u64)),
    };
    let spent = |halves: u64| Time::from_nanos(now.as_nanos().saturating_sub(halves * COST / 2));
    let present = LimitInForce::Concurrency(std::array::from_fn(|place| 100 - 10 * place as u64));
    vec![
        ("open", alive, LimitInForce::Open, now, 0),
        ("closed", alive, LimitInForce::Closed, now, 0),
        ("closed, silent", dead, LimitInForce::Closed, now, 0),
        ("a rate, all in the bucket", alive, rate, Time::ZERO, 0),
        ("a rate, a little in the bucket", alive, rate, spent(5), 0),
        ("a rate, half of one in the bucket", alive, rate, spent(1), 0),
        ("a rate, empty until later", alive, rate, alive, 0),
        ("a rate, silent", dead, rate, alive, 0),
        ("no connection present", alive, present, now, 0),
        ("some connections present", alive, present, now, 85),
        ("all connections present", alive, present, now, 100),
    ]
}

//~ xdp-guard: the BPF program decides, counts and answers as its model in Rust, frame by frame
#[test]
fn the_kernel_sheds_the_syns_that_the_model_sheds() {
    let (sent, redirected) = (Some(Way::Driver), Some(Way::Redirect));
    for (watching, resets) in [(false, None), (false, sent), (false, redirected), (true, sent)] {
        let test = "the_kernel_sheds_the_syns_that_the_model_sheds";
        let Some(rig) = Rig::with(test, watching, resets) else { return };
        rig.namespace.enter(|| {
            for (what, alive, held, spent, present) in states() {
                let mut model = rig.state(alive, held, spent, present);
                let twice = vectors().into_iter().chain(vectors());
                let frames = twice.map(|vector| (format!("{}, {what}", vector.what), vector.frame));
                rig.agree(&mut model, present, frames);
            }
        });
    }
}

//~ xdp-guard: the BPF program decides, counts and answers as its model in Rust, frame by frame
#[test]
fn any_frames_are_judged_alike_by_model_and_kernel() {
    let test = "any_frames_are_judged_alike_by_model_and_kernel";
    let Some(rig) = Rig::with(test, false, Some(Way::Driver)) else { return };
    let frames: Vec<Vec<u8>> = vectors().into_iter().map(|vector| vector.frame).collect();
    let (any, byte) = (any::<prop::sample::Index>(), any::<u8>());
    let damage = prop::collection::vec((any.clone(), byte), 0..3);
    let mixes = prop::collection::vec((any.clone(), damage, any.clone()), 1..60);
    proptest!(ProptestConfig::with_cases(60), |(state in any, mix in mixes)| {
        let damaged: Vec<_> = mix.into_iter().map(|(frame, bytes, len)| {
            let mut frame = frames[frame.index(frames.len())].clone();
            for (at, byte) in bytes {
                let at = at.index(frame.len());
                frame[at] = byte;
            }
            // One in four is truncated; the kernel's test run rejects a frame without an Ethernet
            // header.
            frame.truncate(15 + len.index(4 * frame.len()));
            ("a damaged frame".to_owned(), frame)
        }).collect();
        rig.namespace.enter(|| {
            let states = states();
            let (_, alive, held, spent, present) = states[state.index(states.len())];
            let mut model = rig.state(alive, held, spent, present);
            rig.agree(&mut model, present, damaged);
        });
    });
}

//~ xdp-guard: each port has a limit of its own, also at the most ports that a guard can have
#[test]
fn a_limit_holds_for_its_port_alone() {
    let Some(rig) = Rig::new("a_limit_holds_for_its_port_alone") else { return };
    let [(_, alive, open, now, _), (_, _, closed, ..), _, (_, _, rate, ..), ..] = states()[..] else {
        panic!("the states in this order")
    };
    rig.namespace.enter(|| {
        // Class 0, by which the bucket admits one connection at a time.
        let urgent = |port| [&syn(port)[..26], &[10, 7, 0, 1], &syn(port)[30..]].concat();
        let mut model = rig.state(alive, rate, now, 0);
        let once = |port| (format!("port {port}"), urgent(port));
        // Each bucket holds ten, and the first port empties its own alone.
        rig.loaded.maps.set_spent(0, alive).unwrap();
        assert!(!rig.passes(&urgent(80)));
        for (slot, port) in PORTS.into_iter().enumerate() {
            rig.loaded.maps.set_spent(slot, Time::ZERO).unwrap();
            model.hold(port, alive, rate);
        }
        model.set_spent(Time::ZERO);
        rig.agree(&mut model, 0, std::iter::repeat_n(80, 12).map(once));
        rig.agree(&mut model, 0, std::iter::repeat_n(81, 12).map(once));
        assert!(!rig.passes(&urgent(80)) && !rig.passes(&urgent(81)), "both are empty");
        for (slot, other) in [(0, 81), (1, 80)] {
            rig.state(alive, open, now, 0);
            rig.hold(slot, alive, closed);
            assert!(rig.passes(&urgent(other)) && !rig.passes(&urgent(PORTS[slot])), "{slot}");
        }
        // The last place of the maps.
        rig.state(alive, open, now, 0);
        let last = PORTS_MAX - 1;
        rig.hold(last, alive, closed);
        rig.loaded.maps.set_port(80, PortEntry { class: 0, slot: last, before: 0 }).unwrap();
        assert!(!rig.passes(&urgent(80)) && rig.passes(&urgent(81)));
        assert_eq!(rig.loaded.maps.counts(last).unwrap().shed(), 1);
    });
}

/// A SYN from `source` to the listener on port 80.
fn syn_of(source: SocketAddr) -> Vec<u8> {
    let mut frame = ipv4([127, 0, 0, 1], 0, 0, &tcp(80, 2));
    frame[30..34].copy_from_slice(&[127, 0, 0, 1]);
    frame[34..36].copy_from_slice(&source.port().to_be_bytes());
    frame
}

//~ xdp-guard: SYNs whose handshake is not completed count neither as offered connections nor against the limit
#[test]
fn syns_without_a_handshake_are_no_connections() {
    let test = "syns_without_a_handshake_are_no_connections";
    let Some(rig) = Rig::new(test) else { return };
    let (maps, now) = (&rig.loaded.maps, Monotonic::new().now());
    let reports = ReportFiles::new(&[]).unwrap().signals_of_all();
    let mut port = GuardedPort::new((0, 80), now, [0, 0], reports);
    rig.namespace.enter(|| {
        rig.state(now, LimitInForce::Open, now, 0);
        maps.set_connections(0, [0, 0]).unwrap();
        port.hold(maps, now, Limit::Open, 3).unwrap();
        let observe = |port: &mut GuardedPort, now| {
            let load = SystemLoadReader::new(false).unwrap().sample(now).unwrap();
            let observed =
                Observed { now, queues: &[], unanswered: None, reports: &[], load, watching: false };
            let connections = maps.connections(0).unwrap();
            port.observe(maps, &observed, connections.opened, &connections).unwrap()
        };
        let mut later = now;
        let mut clients = Vec::new();
        for _ in 0..100 {
            // A real client connects over loopback, so its SYN is judged here.
            clients.push(TcpStream::connect("127.0.0.1:80").unwrap());
            let judge = |number: u16| rig.passes(&syn_of(SocketAddr::from(([127, 0, 0, 1], 1 + number))));
            assert!((0..10).all(judge));
            later += Span::from_millis(10);
            let seen = observe(&mut port, later);
            assert_eq!((seen.offered, seen.admitted), (1, 1), "of 10 SYNs");
        }
        assert!((90_000..160_000).contains(&port.entry().seen.handshakes_ppm), "{:?}", port.entry().seen);
        // A limit of one connection each 10 ms is one of about nine SYNs.
        port.hold(maps, later, Limit::Rate { per_s: 100.0, burst: 4.0 }, 3).unwrap();
        let LimitInForce::Rate { cost_ns, .. } = port.entry().held else { panic!("a rate stays a rate") };
        assert!((900_000..1_600_000).contains(&cost_ns), "{cost_ns}");
    });
}

//~ xdp-guard: established connections and forwarded SYNs pass; earlier connections are counted
#[test]
fn a_syn_of_an_open_connection_passes_and_after_its_close_does_not() {
    let test = "a_syn_of_an_open_connection_passes_and_after_its_close_does_not";
    let Some(rig) = Rig::new(test) else { return };
    let (_, alive, closed, ..) = states()[1];
    rig.namespace.enter(|| {
        rig.state(alive, closed, alive, 0);
        let client = TcpStream::connect("127.0.0.1:80").unwrap();
        let frame = syn_of(client.local_addr().unwrap());
        assert!(rig.passes(&frame), "it belongs to a connection");
        assert_eq!(rig.counts().offered(), 0);
        // The side that closes first keeps the TIME_WAIT state: the server.
        let (server, _) = rig._sockets.0[0].accept().unwrap();
        drop(server);
        use std::io::Read;
        assert_eq!((&client).read(&mut [0]).unwrap(), 0, "the server has closed the connection");
        // The close is complete once the server has acknowledged it.
        sockopt::set_socket_linger(&client, Some(Duration::from_secs(10))).unwrap();
        drop(client);
        soon(|| !rig.passes(&frame));
        assert_eq!(rig.counts().offered(), 1);
    });
}

//~ xdp-guard: the oldest wait is measured per listener, also with SO_REUSEPORT
#[test]
fn connections_of_guarded_ports_of_the_namespace_are_counted() {
    let test = "connections_of_guarded_ports_of_the_namespace_are_counted";
    let Some(rig) = Rig::new(test) else { return };
    let maps = &rig.loaded.maps;
    let connect = |port: u16| TcpStream::connect(("127.0.0.1", port)).unwrap();
    let before = Monotonic::new().now();
    rig.namespace.enter(|| {
        let opened = || [0, 1, 2, 3].map(|slot| maps.connections(slot).unwrap().opened);
        assert_eq!(opened(), [0, 0, 2, 0], "those of the full queue");
        let streams = [80, 84, 80].map(connect);
        assert_eq!(opened(), [2, 0, 2, 0], "port 84 is not guarded");
        let look = || {
            let [queue] = rig.queues(&[80])[..] else { panic!("one listener") };
            (queue.waiting, queue.since.expect("established after the attach"))
        };
        let first = look();
        assert!(first.0 == 2 && before < first.1 && first.1 < Monotonic::new().now(), "{first:?}");
        let accepted = rig._sockets.0[0].accept().unwrap();
        let second = look();
        assert!(second.0 == 1 && first.1 < second.1, "{second:?} after {first:?}");
        drop((streams, accepted));
    });
    // In another namespace the port belongs to another listener.
    let elsewhere = NetLab::new(test).unwrap().namespace("b").unwrap();
    let _kept = elsewhere.enter(|| {
        let listener = TcpListener::bind("127.0.0.1:80").unwrap();
        (connect(80), listener)
    });
    assert_eq!(maps.connections(0).unwrap().opened, 2);
}

//~ xdp-guard: until-answer: a connection counts as waiting until its first response byte
#[test]
fn a_connection_with_a_request_waits_until_its_first_response_byte() {
    use std::io::{Read, Write};
    let Some(rig) = Rig::new("a_connection_with_a_request_waits_until_its_first_response_byte") else {
        return;
    };
    let Some(program) = &rig.loaded.waits else {
        return skipped(
            "a_connection_with_a_request_waits_until_its_first_response_byte",
            &GuardError::NoAnswers.to_string(),
        );
    };
    let listener = &rig._sockets.0[0];
    let start = Monotonic::new().now();
    // Waiting connections, and responses.
    let look = || {
        let now = Monotonic::new().now();
        let waits = response_wait::observe(program, now, [Time::ZERO]).unwrap()[0];
        assert!(waits.delay <= now.since(start), "{waits:?}");
        assert_eq!(waits.delay == Span::ZERO, waits.waiting == 0, "{waits:?}");
        (waits.waiting, rig.loaded.maps.connections(0).unwrap().answered)
    };
    rig.namespace.enter(|| {
        let connect = || TcpStream::connect("127.0.0.1:80").unwrap();
        let mut first = connect();
        assert_eq!(look(), (0, 0), "it has sent nothing");
        first.write_all(b"a").unwrap();
        assert_eq!(look(), (1, 0), "it is not accepted yet");
        let (mut server, _) = listener.accept().unwrap();
        server.read_exact(&mut [0]).unwrap();
        assert_eq!(look(), (1, 0), "it is accepted, and read");
        server.write_all(b"b").unwrap();
        assert_eq!(look(), (0, 1));
        first.write_all(b"c").unwrap();
        assert_eq!(look(), (0, 1), "it was admitted before");
        let mut second = connect();
        second.write_all(b"d").unwrap();
        second.shutdown(std::net::Shutdown::Write).unwrap();
        let (mut server, _) = listener.accept().unwrap();
        server.read_exact(&mut [0]).unwrap();
        assert_eq!(look(), (1, 1), "a half-closed connection still waits");
        drop(server);
        // The server closes it.
        soon(|| look() == (0, 2));
        let mut third = connect();
        third.write_all(b"e").unwrap();
        assert_eq!(look(), (1, 2));
        sockopt::set_socket_linger(&third, Some(Duration::ZERO)).unwrap();
        drop(third);
        // A connection that ends by RST no longer waits, and was not answered.
        soon(|| look() == (0, 2));
        let mut other = TcpStream::connect("127.0.0.1:84").unwrap();
        other.write_all(b"f").unwrap();
        assert_eq!(look(), (0, 2), "port 84 is not guarded");
        let by_time = rig.loaded.maps.connections(0).unwrap().by_time;
        assert_eq!(by_time.iter().sum::<u64>(), 2, "{by_time:?}");
        // Two that were made before a time are long polls; the third is not.
        let ask = || {
            let mut client = connect();
            client.write_all(b"g").unwrap();
            client
        };
        let clients = [ask(), ask()];
        let end = Monotonic::new().now();
        let last = ask();
        let now = Monotonic::new().now();
        let waits = response_wait::observe(program, now, [end]).unwrap()[0];
        assert_eq!((waits.waiting, waits.long_polls), (3, 2));
        assert!(waits.delay_recent <= now.since(end) && now.since(end) < waits.delay, "{waits:?}");
        drop((clients, last));
    });
}

//~ xdp-guard: established connections and forwarded SYNs pass; earlier connections are counted
#[test]
fn connections_older_than_the_guard_are_counted_as_present() {
    let Some(rig) = Rig::new("connections_older_than_the_guard_are_counted_as_present") else { return };
    let (_, alive, held, spent, present) = states()[9];
    rig.namespace.enter(|| {
        rig.state(alive, held, spent, present);
        for (before, passes) in [(0, true), (14, true), (15, false)] {
            rig.loaded.maps.set_port(81, PortEntry { class: 0, slot: 1, before }).unwrap();
            // Of the most urgent class, which may have 100.
            assert_eq!(rig.passes(&syn(81)), passes, "85 since the attach, {before} before");
        }
    });
}

//~ xdp-guard: established connections and forwarded SYNs pass; earlier connections are counted
#[test]
fn a_forwarding_host_sheds_only_syns_to_itself() {
    let Some(rig) = Rig::new("a_forwarding_host_sheds_only_syns_to_itself") else { return };
    let (_, alive, closed, ..) = states()[1];
    // It starts forwarding while it is guarded.
    rig.namespace.sysctl("net.ipv4.ip_forward", "1").unwrap();
    rig.namespace.run("ip", &["route", "add", "10.0.0.0/24", "dev", "lo"]).unwrap();
    rig.namespace.enter(|| {
        rig.state(alive, closed, alive, 0);
        assert!(rig.passes(&syn(80)), "10.0.0.2 is another host");
        let ours = syn_of("127.0.0.1:7".parse().unwrap());
        assert!(!rig.passes(&ours), "127.0.0.1 is this one");
    });
}

/// A listener on `at`, with SO_REUSEPORT or bound to one device.
fn listener(at: &str, shared: bool, device: Option<&str>) -> TcpListener {
    let at: SocketAddr = at.parse().unwrap();
    let family = if at.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None).unwrap();
    sockopt::set_socket_reuseport(&socket, shared).unwrap();
    if let Some(device) = device {
        let mut name = [0_u8; libc::IFNAMSIZ];
        name[..device.len()].copy_from_slice(device.as_bytes());
        host::sockopt::set(&socket, libc::SOL_SOCKET, libc::SO_BINDTODEVICE, &name).unwrap();
    }
    bind(&socket, &at).unwrap();
    listen(&socket, 128).unwrap();
    TcpListener::from(socket)
}

//~ xdp-guard: the oldest wait is measured per listener, also with SO_REUSEPORT
#[test]
fn each_listener_has_the_wait_of_its_own_first_connection() {
    let test = "each_listener_has_the_wait_of_its_own_first_connection";
    let Some(rig) = Rig::new(test) else { return };
    rig.namespace.enter(|| {
        let connect = |to: &str| TcpStream::connect(to).unwrap();
        let one_each = [connect("127.0.0.1:81"), connect("127.0.0.1:80")];
        let queues = rig.queues(&[80, 81]);
        let [of_80, of_81] = queues[..] else { panic!("{queues:?}") };
        assert_eq!((of_80.port, of_80.waiting, of_81.port, of_81.waiting), (80, 1, 81, 1));
        assert!(of_81.since < of_80.since && of_81.since.is_some(), "{queues:?}");
        // Several workers on one port, and a listener bound to a device.
        let shared = [1, 2].map(|_| listener("127.0.0.1:83", true, None));
        let bound = listener("[::1]:83", false, Some("lo"));
        let before = Monotonic::new().now();
        let many: Vec<_> = (0..64).map(|_| connect("127.0.0.1:83")).collect();
        let between = Monotonic::new().now();
        let last = connect("[::1]:83");
        let queues = rig.queues(&[83]);
        let [first, second, third] = queues[..] else { panic!("{queues:?}") };
        assert!(first.waiting > 0 && first.waiting + second.waiting == 64, "{queues:?}");
        assert!(Some(before) < first.since && second.since < Some(between), "{queues:?}");
        assert!(third.waiting == 1 && third.since > Some(between), "{queues:?}");
        drop((one_each, shared, bound, many, last));
    });
}

//~ xdp-guard: the oldest wait is measured per listener, also with SO_REUSEPORT
#[test]
fn a_closed_and_a_new_listener_are_found_at_the_next_step() {
    let Some(rig) = Rig::new("a_closed_and_a_new_listener_are_found_at_the_next_step") else { return };
    rig.namespace.enter(|| {
        let mut looks = Queues::new(&[83]).unwrap();
        let mut now = Time::ZERO + Span::from_secs(9);
        let mut look = |after: Span| {
            now += after;
            looks
                .observe(&rig.loaded.look, now)
                .unwrap()
                .iter()
                .map(|queue| queue.waiting)
                .collect::<Vec<_>>()
        };
        // At once, not after a second.
        const NEXT: Span = Span::from_micros(1);
        assert_eq!(look(Span::ZERO), [0_u32; 0]);
        let first = listener("127.0.0.1:83", false, None);
        assert_eq!(look(Span::from_secs(1)), [0], "within a second");
        drop(first);
        let other = listener("[::1]:83", false, None);
        let _waits = TcpStream::connect("[::1]:83").unwrap();
        // The first one is gone now.
        soon(|| look(NEXT) == [1]);
        drop(other);
        soon(|| look(NEXT).is_empty());
    });
}
