//! Polls on other threads: of the shard's spare thread, or of another shard's.

//~ tasks: a handler that computes past the quantum hands its shard to a spare thread

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;

use net::device::memory;
use queueing::{Label, Time};
use runtime::task::{JoinError, Next, TaskPoll, TaskShard, TaskStep, yield_now};

use crate::world::{World, level, strict};

fn at(us: u64) -> Time {
    Time::from_nanos(us * 1000)
}

fn urgent(n: u8) -> Label {
    Label::new(level(n))
}

/// Next poll of the server's tasks, for the caller.
fn turn(world: &mut World) -> TaskPoll {
    loop {
        match world.turn() {
            Next::Poll(poll) => return poll,
            Next::Done(TaskStep::Idle) => panic!("it has nothing to do"),
            Next::Done(_) => {}
        }
    }
}

#[test]
fn a_shard_continues_during_a_long_poll() {
    let mut world = World::new();
    let ran = Arc::new(AtomicUsize::new(0));
    let count = ran.clone();
    let long = world.server.handle().spawn_with(urgent(0), async move { count.load(Ordering::Relaxed) });
    let count = ran.clone();
    let other =
        world.server.handle().spawn_with(urgent(7), async move { count.fetch_add(1, Ordering::Relaxed) });
    let taken = turn(&mut world);
    assert_eq!(taken.priority(), level(0));
    world.settle();
    assert_eq!(other.try_take(), Some(Ok(0)), "it does not wait for the long poll");
    assert_eq!((long.try_take(), world.server.counters().ended), (None, 1));
    taken.run().return_home();
    world.settle();
    assert_eq!(long.try_take(), Some(Ok(1)));
    let counters = world.server.counters();
    assert_eq!((counters.started, counters.ended, counters.polls, world.server.tasks()), (2, 2, 2, 0));
}

#[test]
fn a_stolen_task_returns_to_its_shard_after_the_poll() {
    let mut world = World::new();
    let task = world.server.spawn(async {
        yield_now().await;
        5
    });
    let taken = turn(&mut world);
    // Woken during its poll, it is queued only after the poll.
    assert!(world.serve().is_empty());
    taken.run().return_home();
    assert_eq!(world.finish(&task), 5);
}

//~ tasks: work stealing takes the most urgent task
#[test]
fn the_stolen_task_is_the_shards_most_urgent() {
    let (mut device, _far) = memory::pair(8, 1514);
    let mut shard = TaskShard::new(strict(1));
    for n in [7, 3, 0, 5] {
        drop(shard.handle().spawn_with(urgent(n), async {}));
    }
    let mut levels = Vec::new();
    while let Some(turn) = shard.steal(at(1)) {
        levels.push(turn.priority().level());
        turn.run().return_home();
    }
    assert_eq!(levels, [0, 3, 5, 7]);
    assert_eq!(shard.step(at(2), &mut device), TaskStep::Idle);
    let counters = shard.counters();
    assert_eq!((counters.stolen, counters.ended, shard.tasks()), (4, 4, 0));
}

#[test]
fn a_task_whose_poll_outlives_its_shard_is_dropped_afterwards() {
    let mut world = World::new();
    let (begins, begun) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let waits = world.server.spawn(async move {
        begins.send(()).expect("an open receiver");
        ends.recv().expect("an open sender");
        std::future::pending::<()>().await;
    });
    let handle = world.server.handle();
    let taken = turn(&mut world);
    let elsewhere = std::thread::spawn(move || taken.run().return_home());
    begun.recv().expect("it begins");
    drop(world);
    assert_eq!(waits.try_take(), None, "its poll has not ended");
    end.send(()).expect("an open receiver");
    elsewhere.join().expect("it is over");
    assert_eq!(waits.try_take(), Some(Err(JoinError::Ended)));
    assert_eq!(handle.spawn(async {}).try_take(), Some(Err(JoinError::Ended)));
}

#[test]
fn a_panic_in_a_stolen_poll_is_counted_by_the_home_shard() {
    let mut world = World::new();
    let broken = world.server.spawn(async { panic!("a bug in a handler") });
    let taken = turn(&mut world);
    let elsewhere = std::thread::spawn(move || taken.run().return_home());
    elsewhere.join().expect("it is caught");
    world.settle();
    assert_eq!(broken.try_take(), Some(Err::<(), _>(JoinError::Panicked)));
    assert_eq!(world.server.counters().panicked, 1);
}
