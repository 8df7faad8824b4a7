//! Order of tasks: by label of the arriving data, within a bound.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use net::device::memory;
use queueing::{Label, Span, StarvationBound, Time};
use runtime::task::{
    Config, Oldest, TaskShard, TaskStep, TcpListener, TcpStream, label, set_label, sleep, spawn, yield_now,
};
use sched::dispatch::{Params, by_name};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;

use crate::world::{PORT, World, address, level, strict, tcp};

fn urgent(n: u8) -> Label {
    Label::new(level(n))
}

#[test]
fn an_urgent_task_that_becomes_runnable_later_runs_first() {
    let mut world = World::new();
    for n in [7, 5, 7, 0, 3] {
        world.server.handle().spawn_with(urgent(n), async {});
    }
    assert_eq!(world.serve(), [0, 3, 5, 7, 7]);
}

#[test]
fn under_fcfs_the_order_is_that_of_wake_ups() {
    let mut config = strict(1);
    config.dispatch = by_name("fcfs", &Params::new(1, 64)).expect("a policy");
    let mut world = World::with(config, strict(2));
    for n in [7, 5, 7, 0, 3] {
        world.server.handle().spawn_with(urgent(n), async {});
    }
    assert_eq!(world.serve(), [7, 5, 7, 0, 3]);
}

#[test]
fn a_run_queue_that_is_full_loses_no_task() {
    let mut config = strict(1);
    config.dispatch = by_name("strict", &Params::new(1, 2)).expect("a policy");
    let mut world = World::with(config, strict(2));
    for n in [7, 6, 5, 4, 0, 1] {
        world.server.handle().spawn_with(urgent(n), async {});
    }
    let mut turns = world.serve();
    assert_eq!(turns[..2], [6, 0], "the queued ones by level, then the most urgent of the others");
    turns.sort_unstable();
    assert_eq!(turns, [0, 1, 4, 5, 6, 7]);
}

#[test]
fn a_task_that_found_the_run_queue_full_keeps_its_deadline() {
    let mut config = strict(1);
    config.dispatch = by_name("edf", &Params::new(1, 2)).expect("a policy");
    let mut world = World::with(config, strict(2));
    let ran = Arc::new(Mutex::new(Vec::new()));
    for left_ms in [0, 50, 1] {
        let ran = ran.clone();
        let label = Label { priority: level(7), deadline: Some(Span::from_millis(left_ms)) };
        world.server.handle().spawn_with(label, async move { ran.lock().expect("whole").push(left_ms) });
    }
    world.serve();
    assert_eq!(*ran.lock().expect("whole"), [0, 1, 50], "there was no room for the last at first");
}

#[test]
fn a_handler_runs_and_spawns_with_the_label_of_what_it_read_until_it_changes_it() {
    let mut world = World::new();
    let seen = world.server.spawn(async {
        let (mut stream, _) = TcpListener::bind(PORT).expect("a free port").accept().await;
        let mut seen = Vec::new();
        for _ in 0..3 {
            let _ = stream.read(&mut [0; 64]).await.expect("a request");
            let child = spawn(async { label().priority.level() });
            seen.push((label().priority.level(), child.await.expect("a child")));
        }
        set_label(urgent(2));
        yield_now().await;
        seen.push((label().priority.level(), 9));
        seen
    });
    world.client.spawn(async {
        let mut stream = TcpStream::connect(address()).await.expect("a server");
        for request in ["6 report", "0 payment", "nobody knows"] {
            stream.write_all(request.as_bytes()).await.expect("room");
            sleep(Span::from_millis(1)).await;
        }
    });
    assert_eq!(world.finish(&seen), [(6, 6), (0, 0), (7, 7), (2, 9)]);
}

//~ tasks: a task keeps the label of the request it handles over calls to other services
#[test]
fn a_call_and_its_response_have_the_label_of_the_request_in_hand() {
    let mut world = World::new();
    let reached = world.client.spawn(async {
        let mut listener = TcpListener::bind(PORT).expect("a free port");
        let (mut stream, _) = listener.accept().await;
        let mut seen = Vec::new();
        while stream.read(&mut [0; 64]).await.is_ok_and(|n| n > 0) {
            seen.push(label().priority.level());
            stream.write_all(b"7 response").await.expect("room");
        }
        seen
    });
    let kept = world.server.spawn(async {
        set_label(Label { deadline: Some(Span::from_secs(9)), ..urgent(3) });
        let mut next = TcpStream::connect(SocketAddr::from(([10, 0, 0, 2], PORT))).await.expect("a service");
        let mut seen = Vec::new();
        for n in [3, 0, 5] {
            set_label(Label { deadline: Some(Span::from_secs(9)), ..urgent(n) });
            next.write_all(format!("{n} request").as_bytes()).await.expect("room");
            let _ = next.read(&mut [0; 64]).await.expect("a response");
            seen.push((label().priority.level(), label().deadline.is_some()));
        }
        seen
    });
    assert_eq!(world.finish(&kept), [(3, true), (0, true), (5, true)]);
    drop(kept);
    assert_eq!(world.finish(&reached), [3, 0, 5]);
}

/// Levels of the server's polls after the client has sent each of `sent` on its own connection.
fn turns_after(world: &mut World, sent: &'static [&'static str]) -> Vec<u8> {
    world.server.spawn(async {
        let mut listener = TcpListener::bind(PORT).expect("a free port");
        loop {
            let (mut stream, _) = listener.accept().await;
            spawn(async move { while stream.read(&mut [0; 64]).await.is_ok_and(|n| n > 0) {} });
        }
    });
    let go = Arc::new(Notify::new());
    for request in sent {
        let go = go.clone();
        world.client.spawn(async move {
            let mut stream = TcpStream::connect(address()).await.expect("a server");
            go.notified().await;
            for part in request.split('|') {
                stream.write_all(part.as_bytes()).await.expect("room");
                yield_now().await;
            }
            std::future::pending::<()>().await;
        });
    }
    world.settle();
    go.notify_waiters();
    // All of it is in flight before the server steps.
    while world.ask() {}
    world.serve()
}

#[test]
fn connections_are_polled_in_the_order_of_their_requests_labels() {
    let turns = turns_after(&mut World::new(), &["7", "7", "4", "7", "0", "2"]);
    // Eight frames go through TCP before the first poll: all of these.
    assert_eq!(turns, [0, 2, 4, 7, 7, 7]);
}

#[test]
fn more_urgent_data_raises_a_queued_task() {
    let turns = turns_after(&mut World::new(), &["5", "6|1"]);
    assert_eq!(turns, [1, 5], "the second connection's task goes first, once");
}

#[test]
fn the_age_of_the_longest_wait_is_reported() {
    let (mut device, mut far) = memory::pair(8, 1514);
    let mut shard = TaskShard::new(strict(1));
    let at = |us: u64| Time::from_nanos(us * 1000);
    shard.handle().spawn_with(urgent(3), async {});
    shard.handle().spawn_with(urgent(5), async {});
    assert_eq!(shard.oldest().tasks, None, "they are not in the run queue yet");
    assert!(matches!(shard.step(at(10), &mut device), TaskStep::Poll { .. }));
    assert_eq!((shard.oldest().tasks, shard.oldest().frames), (Some(at(10)), None));
    for _ in 0..2 {
        net::Device::transmit(&mut far, at(12), 60, &mut |frame| frame.fill(0)).expect("room");
    }
    assert!(matches!(shard.step(at(13), &mut device), TaskStep::Drive { .. }));
    assert!(shard.oldest().frames.is_some());
    while shard.step(at(20), &mut device) != TaskStep::Idle {}
    assert_eq!(shard.oldest(), Oldest::default());
}

#[test]
fn the_least_urgent_task_runs_within_the_policys_bound() {
    const URGENT: usize = 8;
    const POLL: Span = Span::from_micros(100);
    for policy in ["weighted", "edf", "fcfs"] {
        let mut config = Config::shared(tcp(1));
        config.dispatch = by_name(policy, &Params::new(1, 72)).expect("a policy");
        let bound = config.dispatch.starvation();
        let (mut device, _far) = memory::pair(8, 1514);
        let mut shard = TaskShard::new(config);
        let ran = Arc::new(Mutex::new(false));
        for _ in 0..URGENT {
            shard.handle().spawn_with(urgent(0), async {
                loop {
                    yield_now().await;
                }
            });
        }
        shard.handle().spawn_with(urgent(7), {
            let ran = ran.clone();
            async move { *ran.lock().expect("whole") = true }
        });
        let (mut now, mut before) = (Time::ZERO, 0);
        while !*ran.lock().expect("whole") {
            if let TaskStep::Poll { priority } = shard.step(now, &mut device) {
                before += u64::from(priority.level() == 0);
                now += POLL;
            }
            assert!(before < 100_000, "{policy}: it starves");
        }
        let turns = |span: Span| span.as_nanos() / POLL.as_nanos();
        let most = match bound {
            StarvationBound::Bounded { entries } => entries,
            StarvationBound::Window { span } => turns(span) + URGENT as u64,
            StarvationBound::Aged { span, entries } => turns(span) + entries,
            StarvationBound::Unbounded { .. } => panic!("{policy} has no bound"),
        };
        assert!(before <= most, "{policy}: {before} polls came first, the bound is {most}");
    }
}
