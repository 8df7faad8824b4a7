//! The loaded program, held to the model.

use std::net::{SocketAddr, TcpListener, TcpStream};

use proptest::prelude::*;
use queueing::{Clock, Span, Time};

use super::frames::{ipv4, syn, tcp};
use super::model::{Listening, Model, Syn};
use super::vectors::vectors;
use super::*;
use crate::lab::{Lab, Namespace};

/// Says what is not tested. Written past the test harness, which keeps what
/// passing tests print to itself.
fn skipped(test: &str, why: &str) {
    use std::io::Write;
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}

const PORTS: [u16; 4] = [80, 81, 82, 83];

fn classes() -> Classes {
    let rules = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
    Classes(vec![rules(&["10.7.0.0/16", "11.7.7.7", "port:81"]), rules(&["11.0.0.0/8", "fd00::7/128"])])
}

/// The program, loaded and set up, and a network namespace with listeners for the vectors.
struct Rig {
    loaded: Loaded,
    namespace: Namespace,
    listening: Vec<(u16, Option<Listening>)>,
    watching: bool,
    _sockets: (Vec<TcpListener>, Vec<TcpStream>),
}

impl Rig {
    /// Unless there can be none here, when `test` is skipped.
    fn new(test: &str, watching: bool) -> Option<Self> {
        if let Some(why) = Lab::unavailable() {
            skipped(test, &why);
            return None;
        }
        let namespace = Lab::new(test).unwrap().namespace("a").unwrap();
        let loaded = match load() {
            Ok(loaded) => loaded,
            Err(e @ (GuardError::NoPermission | GuardError::NoBtf)) => {
                skipped(test, &e.to_string());
                return None;
            }
            Err(e) => panic!("the verifier refuses: {e}"),
        };
        let maps = &loaded.maps;
        for (port, class) in classes().of_ports(&PORTS) {
            maps.set_port(port, class).unwrap();
        }
        for (prefix, class) in classes().of_prefixes() {
            maps.set_prefix(prefix, class).unwrap();
        }
        let netns = namespace.enter(|| netns().unwrap());
        let settings = Settings {
            netns,
            classes: 3,
            watching,
            prefixes: true,
            ports: PORTS.to_vec(),
            ..Settings::default()
        };
        maps.set_settings(&settings).unwrap();
        let sockets = namespace.enter(|| {
            let listen = |at: &str| TcpListener::bind(at).unwrap();
            let listeners =
                vec![listen("0.0.0.0:80"), listen("[::]:81"), listen("[::]:82"), listen("[::]:84")];
            // A queue with room for one takes two.
            rustix::net::listen(&listeners[2], 1).unwrap();
            let to = SocketAddr::from(([127, 0, 0, 1], 82));
            let waits = (0..2).map(|_| TcpStream::connect(to).unwrap()).collect();
            (listeners, waits)
        });
        let full = Listening { waiting: 2, room: 1 };
        let free = Listening { waiting: 0, room: 128 };
        let listening = vec![(80, Some(free)), (81, Some(free)), (82, Some(full)), (83, None)];
        Some(Self { loaded, namespace, listening, watching, _sockets: sockets })
    }

    /// What a SYN finds.
    fn finds(&self, syn: &Syn) -> Option<Listening> {
        let of_port = self.listening.iter().find(|(port, _)| *port == syn.target.1);
        of_port?.1.filter(|_| syn.target.1 != 80 || syn.target.0.is_ipv4())
    }

    /// Both in the same state: told to hold to `held` at `alive`, everything
    /// spent until `spent`, `present` in the server.
    fn state(&self, alive: Time, held: Held, spent: Time, present: u64) -> Model {
        let maps = &self.loaded.maps;
        maps.set_look(&Look { alive, held, seen: Seen::default() }).unwrap();
        maps.set_spent(spent).unwrap();
        maps.set_connections([present + 5, 5]).unwrap();
        let mut model = Model::new(alive, &PORTS, &classes(), self.watching);
        model.hold(alive, held);
        model.set_spent(spent);
        model
    }

    fn run(&self, frame: &[u8]) -> bool {
        match bpf::run_xdp(&self.loaded.program, frame).expect("the kernel runs what it has loaded") {
            1 => false,
            2 => true,
            other => panic!("verdict {other}"),
        }
    }

    /// Asks both of `frames` in turn, and compares what they counted.
    fn agree(&self, model: &mut Model, present: u64, frames: impl IntoIterator<Item = (String, Vec<u8>)>) {
        let (before, counted) = (self.loaded.maps.counts().unwrap(), *model.counts());
        for (what, frame) in frames {
            let now = Monotonic::new().now();
            let expected = model.passes(now, &frame, present, |syn| self.finds(syn));
            assert_eq!(self.run(&frame), expected, "{what}: {frame:x?}");
        }
        let (after, model) = (self.loaded.maps.counts().unwrap(), model.counts());
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

/// What a connection takes of a rate here: long, so that no test is slow enough
/// to see any of it saved up.
const COST: u64 = 60_000_000_000;

/// Limits, from nobody spent to all spent, from nobody present to all.
fn states() -> Vec<(&'static str, Time, Held, Time, u64)> {
    let now = Monotonic::new().now();
    let alive = now + Span::from_secs(3600);
    let dead = Time::from_nanos(now.as_nanos().saturating_sub(10_000_000_000));
    let rate = Held::Rate {
        cost_ns: COST,
        burst_ns: 10 * COST,
        need_ns: std::array::from_fn(|place| COST * (1 + 2 * place.min(2) as u64)),
    };
    let spent = |halves: u64| Time::from_nanos(now.as_nanos().saturating_sub(halves * COST / 2));
    let present = Held::Present(std::array::from_fn(|place| 100 - 10 * place as u64));
    vec![
        ("open", alive, Held::Open, now, 0),
        ("closed", alive, Held::Closed, now, 0),
        ("closed, silent", dead, Held::Closed, now, 0),
        ("a rate, all saved up", alive, rate, Time::ZERO, 0),
        ("a rate, a little saved up", alive, rate, spent(5), 0),
        ("a rate, half of one saved up", alive, rate, spent(1), 0),
        ("a rate, overdrawn", alive, rate, alive, 0),
        ("a rate, silent", dead, rate, alive, 0),
        ("nobody there", alive, present, now, 0),
        ("some there", alive, present, now, 85),
        ("all there", alive, present, now, 100),
    ]
}

#[test]
fn the_kernel_sheds_whom_the_model_sheds() {
    for watching in [false, true] {
        let Some(rig) = Rig::new("the_kernel_sheds_whom_the_model_sheds", watching) else { return };
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

#[test]
fn any_frames_are_judged_alike_by_model_and_kernel() {
    let test = "any_frames_are_judged_alike_by_model_and_kernel";
    let Some(rig) = Rig::new(test, false) else { return };
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
            // One in four is cut; the kernel tests no frame without an Ethernet header.
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

/// A SYN from `source` to the listener on port 80.
fn syn_of(source: SocketAddr) -> Vec<u8> {
    let mut frame = ipv4([127, 0, 0, 1], 0, 0, &tcp(80, 2));
    frame[30..34].copy_from_slice(&[127, 0, 0, 1]);
    frame[34..36].copy_from_slice(&source.port().to_be_bytes());
    frame
}

#[test]
fn a_connection_is_left_alone_and_what_is_left_of_an_old_one_is_not() {
    let test = "a_connection_is_left_alone_and_what_is_left_of_an_old_one_is_not";
    let Some(rig) = Rig::new(test, false) else { return };
    let (_, alive, closed, ..) = states()[1];
    rig.namespace.enter(|| {
        rig.state(alive, closed, alive, 0);
        let client = TcpStream::connect("127.0.0.1:80").unwrap();
        let frame = syn_of(client.local_addr().unwrap());
        assert!(rig.run(&frame), "it belongs to a connection");
        assert_eq!(rig.loaded.maps.counts().unwrap().offered(), 0);
        // Who closes first waits: the server.
        let (server, _) = rig._sockets.0[0].accept().unwrap();
        drop(server);
        use std::io::Read;
        assert_eq!((&client).read(&mut [0]).unwrap(), 0, "the server has closed");
        drop(client);
        assert!(!rig.run(&frame), "the connection is over");
        assert_eq!(rig.loaded.maps.counts().unwrap().offered(), 1);
    });
}

#[test]
fn arrivals_at_guarded_ports_of_the_namespace_are_remembered() {
    let test = "arrivals_at_guarded_ports_of_the_namespace_are_remembered";
    let Some(rig) = Rig::new(test, false) else { return };
    let maps = &rig.loaded.maps;
    let connect = |port: u16| TcpStream::connect(("127.0.0.1", port)).unwrap();
    let before = Monotonic::new().now();
    rig.namespace.enter(|| {
        assert_eq!(maps.connections().unwrap(), [2, 0], "those of the full queue");
        let streams = [80, 84, 80].map(connect);
        assert_eq!(maps.connections().unwrap(), [4, 0], "port 84 is not guarded");
        let made = [2, 3].map(|n| maps.made(n).unwrap());
        assert!(before < made[0] && made[0] < made[1] && made[1] < Monotonic::new().now());
        drop(streams);
    });
    // Elsewhere the same port is another's.
    let elsewhere = Lab::new(test).unwrap().namespace("b").unwrap();
    let _kept = elsewhere.enter(|| {
        let listener = TcpListener::bind("127.0.0.1:80").unwrap();
        (connect(80), listener)
    });
    assert_eq!(maps.connections().unwrap()[0], 4);
}

#[test]
fn a_host_that_forwards_judges_what_is_its_own() {
    let Some(rig) = Rig::new("a_host_that_forwards_judges_what_is_its_own", false) else { return };
    let (_, alive, closed, ..) = states()[1];
    let settings = rig.loaded.maps.settings().unwrap();
    rig.loaded.maps.set_settings(&Settings { forwarding: true, ..settings }).unwrap();
    rig.namespace.sysctl("net.ipv4.ip_forward", "1").unwrap();
    rig.namespace.run("ip", &["route", "add", "10.0.0.0/24", "dev", "lo"]).unwrap();
    rig.namespace.enter(|| {
        rig.state(alive, closed, alive, 0);
        assert!(rig.run(&syn(80)), "10.0.0.2 is another host");
        let ours = syn_of("127.0.0.1:7".parse().unwrap());
        assert!(!rig.run(&ours), "127.0.0.1 is this one");
    });
}
