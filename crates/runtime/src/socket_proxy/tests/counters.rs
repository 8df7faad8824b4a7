//! Coverage of the socket proxy's counters: for each there is an input that moves it.

use std::collections::{BTreeMap, BTreeSet};

use classify::Verdict;
use net::stack::{ListenOptions, UdpOptions};
use sched::dispatch::{Params, Steering};

use super::*;
use crate::mode::{Classifiers, Mode};
use crate::pipeline::DriverCountersMut;

/// Counts after an input, with the counters that the input is for.
type Case = (&'static [&'static str], fn() -> Counters);

const CASES: &[Case] = &[
    (&["offered", "bytes_in", "bytes_out", "driver: frames"], || {
        let mut world = World::new(1000);
        world.ask(0, b"request");
        world.answer(0, b"response");
        world.proxy.counters
    }),
    (&["ended"], || {
        let mut world = World::new(1000);
        world.leave(0);
        world.proxy.counters
    }),
    (&["reset"], || {
        let mut world = World::new(1000);
        world.ask(0, b"request");
        world.end(0).borrow_mut().unread = true;
        world.leave(0);
        world.proxy.counters
    }),
    (&["unaccepted"], || {
        let mut world = World::without(100);
        world.proxy.programs.refuses = true;
        world.connect();
        world.proxy.counters
    }),
    (&["opened"], || {
        let mut world = World::without(1000);
        world.client.listen(90, ListenOptions::default()).unwrap();
        world.open();
        world.settle();
        world.proxy.counters
    }),
    (&["connects_failed"], || {
        let mut world = World::without(100);
        world.open();
        world.settle();
        world.proxy.counters
    }),
    (&["bytes_discarded"], || {
        let mut world = World::new(100);
        world.end(0).borrow_mut().read_shut = true;
        world.ask(0, b"hello");
        world.proxy.counters
    }),
    (&["datagrams_in", "datagrams_out"], || {
        let (mut world, id) = World::with_mail(10);
        world.post(id, b"question");
        world.settle();
        world.send_mail(1, datagrams::CLIENT, b"answer");
        world.settle();
        world.proxy.counters
    }),
    (&["datagrams_lost"], || {
        let (mut world, id) = World::with_mail(1);
        world.proxy.programs.mail.shared = true;
        (0..3).for_each(|_| world.post(id, b"more"));
        world.settle();
        world.proxy.counters
    }),
    (&["datagrams_unmatched"], || {
        let (mut world, id) = World::with_mail(1);
        world.proxy.programs.mail.unwanted = true;
        world.post(id, b"question");
        world.settle();
        world.proxy.counters
    }),
    (&["datagrams_unsent"], || {
        let (mut world, _) = World::with_mail(1);
        world.send_mail(1, "192.0.2.1:8", b"no way leads there");
        world.settle();
        world.proxy.counters
    }),
    (&["driver: classified", "driver: dropped_by_verdict"], || driven(|_| Verdict::Drop)),
    (&["driver: out_of_range"], || driven(|_| Verdict::Level(8))),
    (&["driver: panics"], || driven(|_| panic!("a classifier of this test"))),
    (&["driver: dropped_full"], || {
        let mut world = World::new(1000);
        let policy = Mode::Adps.policy(Classifiers::default(), &Params::new(1, 64), Steering::all(1));
        world.proxy.front = Pipeline::new(Setup {
            rx_order: policy.rx_order,
            rx_frames_max: 4,
            classifier: None,
            guard: None,
            budget: WorkBudget::default(),
        });
        let (port, to) = (7, "10.0.0.1:9".parse().unwrap());
        let id = world.client.bind_udp(port, UdpOptions::default()).unwrap();
        // More frames than the receive buffer holds, with none processed meanwhile.
        for _ in 0..9 {
            let _ = world.client.send_to(world.now, id, to, b"x");
            world.client.egress(world.now, &mut world.far);
            let counted = DriverCountersMut {
                driver: &mut world.proxy.counters.driver,
                guard: &mut world.proxy.counters.guard,
            };
            world.proxy.front.receive_batch(world.now, &mut world.near, &mut world.proxy.stack, 0, counted);
        }
        world.proxy.counters
    }),
    (&["guard: seen", "guard: by_presence"], || guarded(guard::Limit::Concurrency { max: 1 })),
    (&["guard: by_closing"], || guarded(guard::Limit::Closed)),
    (&["guard: by_rate"], || guarded(guard::Limit::Rate { per_s: 1e-9, burst: 1.0 })),
];

/// Counts after a request that the driver's classifier has seen.
fn driven(verdict: fn(&classify::PacketView<'_>) -> Verdict) -> Counters {
    let mut world = World::new(1000);
    let driver = Some(std::sync::Arc::new(move |view: &classify::PacketView<'_>| verdict(view)) as _);
    world.proxy.set_classifiers(Classifiers { driver, ..Classifiers::default() });
    world.send(0, b"request");
    for _ in 0..5 {
        world.client_turn();
        world.proxy.step(world.now, &mut world.near);
    }
    world.proxy.counters
}

/// Counts after two connections behind a guard with this limit.
fn guarded(limit: guard::Limit) -> Counters {
    let mut world = World::new(1000);
    let guard = crate::shard::ShardGuard {
        policy: Box::new(crate::pipeline::tests::Says(limit)),
        period: Span::from_micros(1),
        refusal: crate::shard::Refusal::Reset,
        watches: false,
    };
    world.proxy.set_guard(Some(guard), WaitEnd::Accept);
    world.settle();
    (0..2).for_each(|_| world.connect());
    world.proxy.counters
}

/// Counters by name; those of the driver and the guard with a prefix.
fn by_name(counters: &Counters) -> BTreeMap<String, u64> {
    let mut all = BTreeMap::new();
    let mut add = |prefix: &str, text: String| {
        // `Debug` lists all fields; a line is "name: value,".
        for line in text.lines().filter(|line| line.starts_with("    ") && !line.starts_with("     ")) {
            let Some((name, value)) = line.trim().trim_end_matches(',').split_once(": ") else { continue };
            if let Ok(value) = value.parse::<u64>() {
                *all.entry(format!("{prefix}{name}")).or_default() += value;
            }
        }
    };
    add("", format!("{counters:#?}"));
    add("driver: ", format!("{:#?}", counters.driver));
    counters.guard.iter().for_each(|shed| add("guard: ", format!("{shed:#?}")));
    all
}

#[test]
fn every_counter_counts() {
    let mut left: BTreeSet<_> = by_name(&Counters::default()).into_keys().collect();
    assert!(left.len() >= 24, "{left:?}");
    let mut still = Vec::new();
    for (names, input) in CASES {
        let counted = by_name(&input());
        for name in *names {
            left.remove(*name);
            if counted.get(*name).is_none_or(|count| *count == 0) {
                still.push(format!("{name} does not count: {counted:?}"));
            }
        }
    }
    assert!(still.is_empty(), "{}", still.join("\n"));
    assert!(left.is_empty(), "no input covers {left:?}");
}
