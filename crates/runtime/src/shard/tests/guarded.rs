//! Guard at the driver stage, and the time share of receiving.

//~ guard: G3: SYNs are shed at the driver stage by policy, class and limit; open connections continue

use std::sync::Mutex;

use guard::{Limit, Policy, Signals};
use proptest::prelude::{prop_assert, proptest};

use super::*;
use crate::pipeline::{TimeShare, Work};

/// Policy with a limit set by the test, which records its signals.
#[derive(Clone, Default)]
struct Puppet(Arc<Mutex<(Limit, Vec<Signals>)>>);

impl Puppet {
    fn says(&self, limit: Limit) {
        self.0.lock().unwrap().0 = limit;
    }

    fn saw(&self) -> Vec<Signals> {
        std::mem::take(&mut self.0.lock().unwrap().1)
    }
}

impl Policy for Puppet {
    fn tick(&mut self, _now: Time, signals: &Signals) -> Limit {
        let mut state = self.0.lock().unwrap();
        state.1.push(*signals);
        state.0
    }
}

/// A world whose guard evaluates at every step.
fn guarded(refusal: Refusal, watches: bool, change: impl FnOnce(&mut Config)) -> (World, Puppet) {
    let puppet = Puppet::default();
    let policy = Box::new(puppet.clone());
    let guard = ShardGuard { policy, period: Span::from_nanos(1), refusal, watches };
    let world = world(1, |config| {
        config.guard = Some(guard);
        change(config);
    });
    (world, puppet)
}

/// SYNs seen and shed, over all classes.
fn counts(world: &World) -> (u64, u64) {
    let of = world.counters().guard;
    (of.iter().map(|class| class.seen).sum(), of.iter().map(Shed::shed).sum())
}

#[test]
fn a_shed_syn_creates_no_connection_and_open_connections_continue() {
    let (mut world, puppet) = guarded(Refusal::Drop, false, |_| {});
    let id = world.connect();
    puppet.says(Limit::Closed);
    let refused = world.connect();
    world.send(id, "3 hello\n");
    assert_eq!(world.serve_all(), ["3 hello\n"]);
    assert_eq!(world.text(id), "3 hello\n");
    assert_eq!((world.shard.stack().connections(), world.closed.contains(&refused)), (1, false));
    assert_eq!((counts(&world), world.counters().guard[0].by_closing), ((2, 1), 1));
}

#[test]
fn a_reset_reaches_the_shed_client_at_once_and_no_open_connection() {
    let (mut world, puppet) = guarded(Refusal::Reset, false, |_| {});
    let id = world.connect();
    puppet.says(Limit::Closed);
    let refused = world.connect();
    assert_eq!(world.closed, [refused]);
    // A second SYN from the same ports, like an old duplicate in the network.
    let tuple = world.client.tuple(id).unwrap();
    let mut again = Stack::new(world.client.config().clone());
    let remote = (tuple.remote, tuple.remote_port).into();
    again.connect(world.clock.now(), remote, Some(tuple.local_port)).unwrap();
    std::mem::swap(&mut world.client, &mut again);
    world.settle();
    std::mem::swap(&mut world.client, &mut again);
    assert_eq!(counts(&world), (3, 2));
    world.send(id, "still here\n");
    assert_eq!(world.serve_all(), ["still here\n"]);
    assert_eq!(world.closed, [refused]);
}

//~ guard: SYNs whose handshake is not completed count neither as offered connections nor against the limit
#[test]
fn syns_without_a_handshake_do_not_use_up_the_limit() {
    let (mut world, puppet) = guarded(Refusal::Drop, false, |_| {});
    world.connect();
    let seen = |puppet: &Puppet| {
        let sum = |field: fn(&Signals) -> u64, saw: &[Signals]| saw.iter().map(field).sum::<u64>();
        let saw = puppet.saw();
        (sum(|signals| signals.offered, &saw), sum(|signals| signals.admitted, &saw))
    };
    assert_eq!(seen(&puppet), (1, 1));
    // A flood that lasts longer than handshakes take.
    let flood = |world: &mut World, times: u32| {
        for _ in 0..times {
            world.clock.compute(Span::from_millis(5));
            world.flood(4);
        }
    };
    flood(&mut world, 400);
    assert_eq!((counts(&world), seen(&puppet)), ((1_601, 0), (0, 0)));
    // Few SYNs led to a connection, so a limit of one connection admits many SYNs, but not all.
    puppet.says(Limit::Rate { per_s: 20.0, burst: 1.0 });
    world.settle();
    flood(&mut world, 10);
    let (_, shed) = counts(&world);
    assert!((5..33).contains(&shed), "{shed}");
}

#[test]
fn a_dry_run_admits_every_syn_and_counts() {
    let (mut world, puppet) = guarded(Refusal::Drop, true, |_| {});
    puppet.says(Limit::Closed);
    world.settle();
    let id = world.connect();
    world.send(id, "a\n");
    assert_eq!((world.serve_all(), counts(&world)), (vec!["a\n".to_owned()], (1, 1)));
}

#[test]
fn a_class_is_the_level_of_the_drivers_classifier_and_the_last_is_shed_first() {
    let (mut world, puppet) = guarded(Refusal::Drop, false, |config| {
        config.driver_classifier = Some(Arc::new(|packet| match packet.tcp_ports() {
            Some((1..=999, _)) => Verdict::Level(0),
            Some((1000..=1999, _)) => Verdict::Level(7),
            _ => Verdict::NoVerdict,
        }));
    });
    puppet.says(Limit::Concurrency { max: 8 });
    let connect = |world: &mut World, from: u16| {
        let remote = SocketAddr::new(SERVER.into(), 80);
        world.client.connect(world.clock.now(), remote, Some(from)).unwrap();
        world.settle();
    };
    // Nine sixteenths of the limit are open to every class.
    (0..7).for_each(|n| connect(&mut world, 1000 + n));
    connect(&mut world, 5000);
    (0..5).for_each(|n| connect(&mut world, 100 + n));
    let of = world.counters().guard;
    assert_eq!((of[7].seen, of[7].by_presence), (8, 3), "a SYN without a level is in the last class");
    assert_eq!((of[0].seen, of[0].by_presence), (5, 2));
}

/// Sends twenty SYNs before a request of an open connection; returns the SYNs shed for space and
/// the frames dropped from the full buffer.
fn crowded(guard: Option<&str>) -> (u64, u64) {
    let (mut world, _puppet) = guarded(Refusal::Drop, false, |config| {
        config.rx_frames_max = 8;
        if let Some(name) = guard {
            config.guard = Some(ShardGuard::by_name(name, &::guard::Params::default()).unwrap());
        }
    });
    let id = world.connect();
    for _ in 0..20 {
        world.client.connect(world.clock.now(), SocketAddr::new(SERVER.into(), 80), None).unwrap();
    }
    world.client.egress(world.clock.now(), &mut world.far);
    world.queue(id, "hello\n");
    world.settle();
    let Counters { driver, guard: [of, ..], .. } = world.counters();
    assert_eq!((of.seen, world.serve_all().len()), (21, usize::from(driver.dropped_full == 0)));
    (of.by_presence, driver.dropped_full)
}

#[test]
fn admitted_syns_of_a_burst_fit_the_receive_buffer() {
    assert_eq!(crowded(None), (14, 0), "six of eight frames may be SYNs");
    assert_eq!(crowded(Some("none")), (0, 13), "a policy that never sheds reserves no space");
}

#[test]
fn the_guard_ignores_a_syn_to_a_closed_port() {
    let (mut world, puppet) = guarded(Refusal::Drop, false, |_| {});
    puppet.says(Limit::Closed);
    world.settle();
    world.client.connect(world.clock.now(), SocketAddr::new(SERVER.into(), 81), None).unwrap();
    world.settle();
    assert_eq!((counts(&world), world.closed.len()), ((0, 0), 1));
}

/// Line protocol in which a request's budget is its length in milliseconds.
struct Sparing;

impl App for Sparing {
    fn frame(&self, received: &[u8]) -> Framing {
        Lines.frame(received)
    }

    fn budget(&self, request: &[u8]) -> Option<Span> {
        Some(Span::from_millis(request.len() as u64))
    }

    fn serve(&self, request: &[u8], cx: &mut Context<'_>, response: &mut Vec<u8>) -> ConnectionFate {
        Lines.serve(request, cx, response)
    }
}

#[test]
fn a_guard_policy_gets_queue_length_age_throughput_and_budgets() {
    let (mut world, puppet) = guarded(Refusal::Drop, false, |_| {});
    let ids = [world.connect(), world.connect()];
    world.send(ids[0], "a\n");
    world.send(ids[1], "b\n");
    puppet.saw();
    world.clock.compute(Span::from_millis(5));
    world.settle();
    let last = *puppet.saw().last().unwrap();
    assert_eq!((last.waiting, last.present, last.sockets), (1, 2, 2));
    assert!(last.delay >= Span::from_millis(5), "{last:?}");
    world.serve_all();
    let saw = puppet.saw();
    assert_eq!(saw.iter().map(|signals| signals.served).sum::<u64>(), 1, "the other was served before");
    assert!(saw.iter().filter_map(|signals| signals.latency).any(|latency| latency >= Span::from_millis(5)));
    assert_eq!(saw.last().unwrap().budget, None, "lines have no budget");
    world.send(ids[0], "a second on the same connection\n");
    world.serve_all();
    assert_eq!(
        puppet.saw().iter().map(|signals| signals.served).sum::<u64>(),
        0,
        "what comes is connections"
    );
}

//~ guard: budgets of requests reach the admission policy
#[test]
fn request_budgets_reach_the_guard_policy() {
    let puppet = Puppet::default();
    let guard = ShardGuard {
        policy: Box::new(puppet.clone()),
        period: Span::from_nanos(1),
        refusal: Refusal::Drop,
        watches: false,
    };
    let policy = Mode::None.policy(Classifiers::default(), &Params::new(1, 64), Steering::all(1));
    let mut config = Config::new(net::stack::Config::new(MAC, SERVER, 24, [7; 16]), policy, 1);
    config.guard = Some(guard);
    let mut shard = Shard::new(config, Arc::new(Sparing));
    shard.stack().listen(80, ListenOptions::default()).unwrap();
    let mut client = Stack::new(net::stack::Config::new([2; 6], Ipv4Addr::new(10, 0, 0, 2), 24, [8; 16]));
    let (mut near, mut far) = pair(64, 1514);
    let id = client.connect(Time::ZERO, SocketAddr::new(SERVER.into(), 80), None).unwrap();
    let clock = Virtual::default();
    for _ in 0..20 {
        clock.compute(Span::from_micros(1));
        client.egress(clock.now(), &mut far);
        while client.ingress_from(clock.now(), &mut far) {}
        while let Some(event) = client.poll_event() {
            if event.kind == EventKind::Connected {
                client.send(clock.now(), id, b"12345\n").unwrap();
            }
        }
        while !matches!(shard.step(clock.now(), &mut near), Step::Idle) {}
    }
    assert_eq!(puppet.saw().last().unwrap().budget, Some(Span::from_millis(6)));
}

proptest! {
    //~ guard: G4: receiving takes no more than its share while requests wait
    /// For any sequence of work, receiving stays within its share while other work waits, apart
    /// from saved-up credit of 1 ms.
    #[test]
    fn receive_processing_stays_within_its_cpu_share(
        percent in 1_u8..=99,
        pieces in proptest::collection::vec((1_u64..2_000, 1_u64..50_000), 200..400),
    ) {
        let mut meter = TimeShare::default();
        let (mut now, mut received, mut rest) = (Time::ZERO, Span::ZERO, Span::ZERO);
        for (frame_ns, request_ns) in pieces {
            let (work, span) = match meter.is_over() {
                true => (Work::Rest, Span::from_nanos(request_ns)),
                false => (Work::Receive, Span::from_nanos(frame_ns)),
            };
            meter.at(now, percent);
            meter.begin(work);
            now += span;
            meter.at(now, percent);
            *(if work == Work::Receive { &mut received } else { &mut rest }) += span;
        }
        let all = (received + rest).as_nanos() as f64;
        let share = received.as_nanos() as f64 - all * f64::from(percent) / 100.0;
        prop_assert!(share <= 2_000.0, "{share} ns beyond {percent} percent of {all}");
    }
}
