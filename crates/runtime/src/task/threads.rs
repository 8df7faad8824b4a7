//! Thread shell: threads and a clock around task shards.
//!
//! A shard and its device are in a [`ShardSlot`] behind a lock, which the owning thread releases only
//! while it runs a task's poll. Meanwhile another thread may steal one of the shard's polls. If a
//! poll is long ([`Quantum`]), a spare thread becomes the owner and goes on. The previous owner,
//! demoted, returns its result when the poll ends, and exits. At most [`LONG_MAX`] polls of a shard are long at a
//! time; the next one waits.
//!
//! Makes no decisions: `TaskShard` selects the work, `long_poll_detector` detects long polls,
//! `idle` decides how to wait. A sleeping thread is woken by the device's waker, or polls after
//! [`POLL_INTERVAL`] where a device has none.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::{Scope, Thread};
use std::time::Duration;

use net::Device;
use queueing::{CoreId, Span, Time};
use sched::cores::worker_signals::WorkerSignals;

use super::executor::NONE_WAITING;
use super::handle::{Shared, lock};
use super::long_poll_detector::{LongPollDetector, PollVerdict};
use super::signal_publisher::SignalPublisher;
use super::task_poll::TaskPoll;
use super::{Counters, Next, Quantum, TaskShard, TaskStep, WorkerOptions};
use crate::idle::{AdaptiveSpin, IdleAction};
use crate::threads::{SLEEP_MAX, SharedClock, carry_out};

/// Longest sleep on a device that cannot be woken, or not by the disk.
const POLL_INTERVAL: Span = Span::from_micros(50);
/// Interval at which a parked thread receives frames, so that the core scheduler learns of them.
const PARKED_POLL_INTERVAL: Duration = Duration::from_millis(1);
/// Maximum of long polls of one shard at a time, each on its own thread.
const LONG_MAX: u32 = 16;

/// Runs the shards' tasks until `stop` is set, each shard on its own thread; returns each shard's
/// counters. On a stop, unfinished tasks are dropped after their current poll.
///
/// # Panics
/// If a shard panics, or the quantum is below 1 µs. A task's panic is caught and ends that task.
pub fn run<D>(
    shards: Vec<(TaskShard<D>, D)>,
    clock: SharedClock,
    stop: &AtomicBool,
    options: &WorkerOptions,
) -> Vec<Counters>
where
    D: Device + Send,
    D::Frame: Send,
{
    let least = Span::from_micros(1);
    assert!(options.quantum.is_none_or(|quantum| quantum.span >= least), "a quantum is at least {least}");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let spin = if shards.len() > cores { Span::ZERO } else { options.spin };
    let slots = shards.into_iter().enumerate();
    let slots =
        slots.map(|(at, (shard, device))| ShardSlot::new(at, cores, shard, device, spin, options)).collect();
    let pool = Pool { slots, clock, stop, options };
    std::thread::scope(|scope| {
        for at in 0..pool.slots.len() {
            let pool = &pool;
            scope.spawn(move || pool.work(at, FIRST));
        }
        if let Some(quantum) = &options.quantum {
            let pool = &pool;
            scope.spawn(move || pool.detect_long_polls(scope, quantum));
        }
    });
    let now = pool.clock.now();
    let counters = pool.slots.into_iter().map(|slot| {
        let mut work = slot.work.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        work.shard.finish(now, &mut work.device);
        work.shard.counters()
    });
    counters.collect()
}

/// State shared by the threads.
struct Pool<'a, D: Device> {
    slots: Vec<ShardSlot<D>>,
    clock: SharedClock,
    stop: &'a AtomicBool,
    options: &'a WorkerOptions,
}

/// A shard with its owner thread.
struct ShardSlot<D: Device> {
    core: CoreId,
    work: Mutex<Work<D>>,
    home: Arc<Shared>,
    /// Owner thread; changes under the lock of `work`.
    owner: AtomicU32,
    /// True while the owner sleeps without work.
    resting: AtomicBool,
    /// Threads that run long polls.
    long: AtomicU32,
}

/// State under a slot's lock.
struct Work<D: Device> {
    shard: TaskShard<D>,
    device: D,
    /// True if the device can be woken.
    wakes: bool,
    idle: AdaptiveSpin,
    /// Start of the owner's current poll.
    poll_start: Option<Time>,
    /// Kernel thread id of the owner.
    thread: u32,
    publisher: Option<SignalPublisher>,
}

/// Number of a slot's first owner thread; each spare thread gets the next number.
const FIRST: u32 = 0;

impl<D: Device> ShardSlot<D> {
    fn new(
        at: usize,
        cores: usize,
        shard: TaskShard<D>,
        device: D,
        spin: Span,
        options: &WorkerOptions,
    ) -> Self {
        let home = shard.handle().0;
        let waker = device.waker();
        let wakes = waker.is_some();
        if let Some(waker) = waker {
            home.set_wake(waker);
        }
        let idle = AdaptiveSpin::new(spin, if wakes { SLEEP_MAX } else { POLL_INTERVAL });
        let publisher = options
            .signal_page
            .clone()
            .and_then(|signal_page| SignalPublisher::new(signal_page, at, options.current_core));
        Self {
            core: CoreId((at % cores) as u16),
            work: Mutex::new(Work { shard, device, wakes, idle, poll_start: None, thread: 0, publisher }),
            home,
            owner: AtomicU32::new(FIRST),
            resting: AtomicBool::new(false),
            long: AtomicU32::new(0),
        }
    }

    /// State of the slot, unless its owner holds the lock.
    fn try_lock(&self) -> Option<MutexGuard<'_, Work<D>>> {
        match self.work.try_lock() {
            Ok(work) => Some(work),
            Err(TryLockError::Poisoned(work)) => Some(work.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<D: Device> Work<D> {
    /// Publishes signals for the core scheduler; `request`: start of the current poll, `long`:
    /// number of long polls on other threads.
    fn publish(&mut self, now: Time, request: Option<Time>, resting: bool, long: &AtomicU32) {
        if let Some(publisher) = &mut self.publisher {
            let long = long.load(Ordering::Relaxed);
            publisher.publish(now, WorkerSignals { sleeping: resting, long, ..self.shard.signals(request) });
        }
    }
}

impl<D: Device + Send> Pool<'_, D>
where
    D::Frame: Send,
{
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Loop of thread `me` of slot `at`, until a stop or the loss of the slot.
    fn work(&self, at: usize, me: u32) {
        let slot = &self.slots[at];
        if let Some(pin) = self.options.pin {
            pin(slot.core);
        }
        let mut work = lock(&slot.work);
        if let Some(quantum) = self.options.quantum {
            work.thread = (quantum.thread)();
        }
        while !self.stops() && slot.owner.load(Ordering::Relaxed) == me {
            if work.publisher.is_some() {
                work = self.park(slot, work);
            }
            let now = self.clock.now();
            let Work { shard, device, .. } = &mut *work;
            match shard.next(now, device) {
                Next::Poll(poll) => {
                    work.idle.on_work(now);
                    match self.run_poll(at, me, now, work, poll) {
                        Some(guard) => work = guard,
                        None => return,
                    }
                }
                Next::Done(TaskStep::Idle) => match self.steal(at, now) {
                    Some(poll) => match self.run_poll(at, me, now, work, poll) {
                        Some(guard) => work = guard,
                        None => return,
                    },
                    None => self.wait_idle(slot, &mut work, now),
                },
                Next::Done(_) => {
                    work.idle.on_work(now);
                    work.publish(now, None, false, &slot.long);
                }
            }
        }
    }

    /// Runs `poll` with the slot unlocked; `None` if the slot has another owner afterwards.
    fn run_poll<'p>(
        &'p self,
        at: usize,
        me: u32,
        now: Time,
        mut work: MutexGuard<'p, Work<D>>,
        poll: TaskPoll,
    ) -> Option<MutexGuard<'p, Work<D>>> {
        let slot = &self.slots[at];
        work.poll_start = Some(now);
        work.publish(now, Some(now), false, &slot.long);
        let late = self.options.steal_after.is_some_and(|after| work.shard.longest_wait(now) >= after);
        drop(work);
        if late {
            self.wake_stealer(at);
        }
        let is_own = poll.is_of(&slot.home);
        let polled = poll.run();
        let mut work = lock(&slot.work);
        if slot.owner.load(Ordering::Relaxed) != me {
            drop(work);
            slot.long.fetch_sub(1, Ordering::Relaxed);
            polled.return_home();
            if self.options.signal_page.is_some() {
                // Lets a sleeping owner publish the end of the long poll.
                slot.home.notify();
            }
            return None;
        }
        work.poll_start = None;
        match is_own {
            true => work.shard.finish_poll(polled),
            false => polled.return_home(),
        }
        Some(work)
    }

    /// Poll of the most urgent waiting task among the other shards.
    fn steal(&self, at: usize, now: Time) -> Option<TaskPoll> {
        self.options.steal_after?;
        let other_slots = (1..self.slots.len()).map(|n| &self.slots[(at + n) % self.slots.len()]);
        let busiest = other_slots.map(|slot| (slot.home.waiting(), slot)).min_by_key(|(level, _)| *level);
        let (_, slot) = busiest.filter(|(level, _)| *level < NONE_WAITING)?;
        slot.try_lock()?.shard.steal(now)
    }

    /// Wakes an idle shard's thread to steal tasks from here.
    fn wake_stealer(&self, at: usize) {
        let other_slots = (1..self.slots.len()).map(|n| &self.slots[(at + n) % self.slots.len()]);
        if let Some(other) = other_slots.into_iter().find(|slot| slot.resting.load(Ordering::Relaxed)) {
            other.home.notify();
        }
    }

    /// Waits, as there is no work.
    fn wait_idle(&self, slot: &ShardSlot<D>, work: &mut Work<D>, now: Time) {
        let timer = work.shard.poll_timeout();
        let mut action = work.idle.action(now, timer);
        if let IdleAction::Sleep(span) = &mut action
            && work.shard.must_poll()
        {
            *span = POLL_INTERVAL.min(*span);
        }
        if action == IdleAction::Poll {
            return std::hint::spin_loop();
        }
        work.publish(now, None, true, &slot.long);
        slot.resting.store(true, Ordering::Relaxed);
        slot.home.sleep_by(|| carry_out(action, Some(&mut work.device), work.wakes));
        slot.resting.store(false, Ordering::Relaxed);
    }

    /// Gives up the core while a live core scheduler requests it. Other threads may steal waiting
    /// tasks; frames are received now and then, for the signals.
    fn park<'p>(&self, slot: &'p ShardSlot<D>, mut work: MutexGuard<'p, Work<D>>) -> MutexGuard<'p, Work<D>> {
        while !self.stops() {
            let Some(publisher) = &work.publisher else { break };
            let Some(requested) =
                publisher.worker_slot().and_then(|worker_slot| worker_slot.park.acknowledge())
            else {
                break;
            };
            let (signal_page, worker_slot) = publisher.memory_and_slot();
            let at = self.clock.now();
            if !signal_page.page().is_leased(at) {
                break;
            }
            let Work { shard, device, .. } = &mut *work;
            shard.receive_only(at, device);
            work.publish(at, None, false, &slot.long);
            drop(work);
            if let Some(worker_slot) = signal_page.page().slots().get(worker_slot) {
                signal_page.wait(worker_slot.park.word(), requested, PARKED_POLL_INTERVAL);
            }
            work = lock(&slot.work);
        }
        work
    }

    /// Hands slots to spare threads during long polls.
    fn detect_long_polls<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, quantum: &Quantum) {
        let spare = |at: usize, id: u32| scope.spawn(move || self.await_ownership(at, id)).thread().clone();
        let mut detectors = vec![LongPollDetector::new(quantum.span); self.slots.len()];
        let mut spares: Vec<(u32, Thread)> =
            (0..self.slots.len()).map(|at| (FIRST + 1, spare(at, FIRST + 1))).collect();
        while !self.stops() {
            let mut check_after = SLEEP_MAX;
            for (at, slot) in self.slots.iter().enumerate() {
                let mut work = slot.try_lock();
                let poll = work.as_ref().and_then(|work| work.poll_start);
                match (detectors[at].check(self.clock.now(), poll), &mut work) {
                    (PollVerdict::HandOver, Some(work)) if slot.long.load(Ordering::Relaxed) < LONG_MAX => {
                        let (id, thread) = &mut spares[at];
                        slot.long.fetch_add(1, Ordering::Relaxed);
                        slot.owner.store(*id, Ordering::Release);
                        work.poll_start = None;
                        work.shard.on_handed_over();
                        (quantum.demote)(work.thread);
                        thread.unpark();
                        let next = id.wrapping_add(1);
                        spares[at] = (next, spare(at, next));
                        check_after = check_after.min(quantum.span);
                    }
                    (PollVerdict::HandOver, _) => check_after = check_after.min(quantum.span),
                    (PollVerdict::Again(span), _) => check_after = check_after.min(span),
                }
            }
            std::thread::sleep(Duration::from(check_after));
        }
        spares.iter().for_each(|(_, thread)| thread.unpark());
    }

    /// Loop of spare thread `me` of slot `at`: waits until it owns the slot.
    fn await_ownership(&self, at: usize, me: u32) {
        while self.slots[at].owner.load(Ordering::Acquire) != me {
            if self.stops() {
                return;
            }
            std::thread::park();
        }
        self.work(at, me);
    }
}
