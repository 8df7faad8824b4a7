//! Ends of tasks: alone, in time, and within bounds.

//~ tasks: a panic ends its task only; sleeps and timeouts are on time; tokio's mutexes and channels work

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use queueing::{Span, Time};
use runtime::task::{Elapsed, Handle, JoinError, sleep, sleep_until, spawn, timeout, yield_now};
use tokio::sync::{Mutex, Notify, mpsc, oneshot};

use crate::world::{World, strict};

#[test]
fn a_panic_ends_only_its_task_and_is_counted() {
    let mut world = World::new();
    let broken = world.server.spawn(async {
        yield_now().await;
        panic!("a bug in a handler")
    });
    let completed = world.server.spawn(async {
        yield_now().await;
        yield_now().await;
        7
    });
    let task = world.server.spawn(broken);
    assert_eq!(world.finish(&completed), 7);
    assert_eq!(world.finish(&task), Err::<(), _>(JoinError::Panicked));
    let counters = world.server.counters();
    assert_eq!((counters.started, counters.ended, counters.panicked), (3, 3, 1));
}

#[test]
fn a_panic_in_a_tasks_drop_ends_only_that_task() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a bug in a destructor");
        }
    }
    let mut world = World::new();
    // It panics when its own state is dropped.
    let held = world.server.spawn(async {
        let _bomb = Bomb;
        std::future::pending::<()>().await;
    });
    world.settle();
    let World { server, .. } = world;
    drop(server);
    assert_eq!(held.try_take(), Some(Err(JoinError::Panicked)));
}

#[test]
fn live_tasks_stay_within_the_maximum() {
    let mut config = strict(1);
    config.tasks_max = 2;
    let mut world = World::with(config, strict(2));
    let (one, two, three) = (
        world.server.spawn(async { sleep(Span::from_millis(1)).await }),
        world.server.spawn(async {}),
        world.server.spawn(async {}),
    );
    assert_eq!(three.try_take(), Some(Err(JoinError::Refused)));
    world.finish(&two);
    let four = world.server.spawn(async {});
    world.finish(&four);
    world.finish(&one);
    assert_eq!((world.server.counters().refused, world.server.tasks()), (1, 0));
}

#[test]
fn tasks_that_outlive_their_shard_are_dropped_and_their_handles_report_it() {
    let mut world = World::new();
    let dropped = Arc::new(AtomicUsize::new(0));
    struct Count(Arc<AtomicUsize>);
    impl Drop for Count {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let count = Count(dropped.clone());
    let waiting = world.server.spawn(async move {
        let _count = count;
        std::future::pending::<()>().await;
    });
    world.settle();
    let count = Count(dropped.clone());
    let unseen = world.server.spawn(async move { drop(count) });
    let handle = world.server.handle();
    drop(world);
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
    assert_eq!(waiting.try_take(), Some(Err(JoinError::Ended)));
    assert_eq!(unseen.try_take(), Some(Err(JoinError::Ended)));
    let late = handle.spawn(async {});
    assert_eq!(late.try_take(), Some(Err(JoinError::Ended)), "no shard would run it");
}

#[test]
fn a_sleep_ends_at_its_time_and_not_before() {
    let mut world = World::new();
    let begun = world.now;
    let slept = world.server.spawn(async {
        let mut ends = Vec::new();
        for span in [0, 1, 999, 5_000, 70_000_000] {
            let (span, before) = (Span::from_micros(span), Handle::current().now());
            sleep(span).await;
            ends.push(Handle::current().now().since(before).saturating_sub(span));
        }
        sleep_until(Time::ZERO).await;
        ends
    });
    for _ in 0..80_000 {
        world.pass(Span::from_millis(1));
        if world.server.tasks() == 0 {
            break;
        }
    }
    let late = slept.try_take().expect("it is over").expect("it has a result");
    assert!(late.iter().all(|late| *late <= Span::from_micros(8)), "late by {late:?}");
    assert!(world.now.since(begun) >= Span::from_micros(70_006_000));
}

#[test]
fn a_timeout_drops_its_future() {
    let mut world = World::new();
    let tried = world.server.spawn(async {
        let slow = timeout(Span::from_millis(2), sleep(Span::from_millis(3))).await;
        let fast = timeout(Span::from_millis(2), async { 5 }).await;
        (slow, fast)
    });
    assert_eq!(world.finish(&tried), (Err(Elapsed), Ok(5)));
    world.pass(Span::from_millis(10));
    assert_eq!(world.server.poll_timeout(), None, "a sleep given up leaves no timer");
}

#[test]
fn tokios_mutexes_channels_and_notifications_work() {
    let mut world = World::new();
    let sums = world.server.spawn(async {
        let (sum, begin) = (Arc::new(Mutex::new(0)), Arc::new(Notify::new()));
        let (sender, mut receiver) = mpsc::channel(2);
        let tasks: Vec<_> = (1..=100)
            .map(|n| {
                let (sum, begin, tell) = (sum.clone(), begin.clone(), sender.clone());
                spawn(async move {
                    begin.notified().await;
                    let mut sum = sum.lock().await;
                    yield_now().await;
                    *sum += n;
                    drop(sum);
                    tell.send(n).await.expect("an open receiver");
                })
            })
            .collect();
        drop(sender);
        yield_now().await;
        begin.notify_waiters();
        let mut sum_received = 0;
        while let Some(n) = receiver.recv().await {
            sum_received += n;
        }
        for task in tasks {
            task.await.expect("it is over");
        }
        let (answer, question) = oneshot::channel();
        spawn(async move { answer.send(sum_received) });
        (*sum.lock().await, question.await.expect("an answer"))
    });
    assert_eq!(world.finish(&sums), (5050, 5050));
}
