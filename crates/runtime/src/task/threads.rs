//! The shell: a thread and a clock around each shard of tasks.
//!
//! One thread per shard loops on [`TaskShard::step`]; it polls the tasks, too.
//! Wakes from other threads end its sleep by the device's waker, or are seen
//! after [`GLANCE`] where a device has none.

use std::sync::atomic::{AtomicBool, Ordering};

use net::Device;
use queueing::Span;

use super::{Counters, Step, TaskShard};
use crate::idle::{Patience, Rest};
use crate::threads::{SLEEP_MAX, SharedClock, carry_out};

/// The longest sleep on a device that cannot be woken.
const GLANCE: Span = Span::from_micros(50);

/// Runs the shards' tasks until `stop` is set, each shard on a thread of its
/// own; returns what each has counted. A thread without work looks for more for
/// `spin` before it sleeps. Tasks that are not over when it stops are dropped.
///
/// # Panics
/// When a shard panics; a task's panic is caught and ends that task.
pub fn run<D>(
    shards: Vec<(TaskShard<D>, D)>,
    clock: SharedClock,
    stop: &AtomicBool,
    spin: Span,
) -> Vec<Counters>
where
    D: Device + Send,
    D::Frame: Send,
{
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let spin = if shards.len() > cores { Span::ZERO } else { spin };
    std::thread::scope(|scope| {
        let running: Vec<_> = shards
            .into_iter()
            .map(|(shard, device)| {
                let clock = clock.clone();
                scope.spawn(move || run_one(shard, device, spin, &clock, stop))
            })
            .collect();
        running.into_iter().map(|shard| shard.join().expect("a shard panicked")).collect()
    })
}

fn run_one<D: Device>(
    mut shard: TaskShard<D>,
    mut device: D,
    spin: Span,
    clock: &SharedClock,
    stop: &AtomicBool,
) -> Counters {
    let waker = device.waker();
    let wakes = waker.is_some();
    let mut patience = Patience::new(spin, if wakes { SLEEP_MAX } else { GLANCE });
    let home = shard.handle().0;
    if let Some(waker) = waker {
        home.set_wake(waker);
    }
    while !stop.load(Ordering::Relaxed) {
        let now = clock.now();
        match shard.step(now, &mut device) {
            Step::Idle => match patience.rest(now, shard.poll_timeout()) {
                Rest::Look => std::hint::spin_loop(),
                rest => home.sleep_by(|| carry_out(rest, Some(&mut device), wakes)),
            },
            _ => patience.on_work(now),
        }
    }
    shard.finish(clock.now(), &mut device);
    shard.counters()
}
