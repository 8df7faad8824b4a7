//! Thread shell: threads and a clock around task shards.
//!
//! A shard and its device are in a [`Post`] behind a lock, which the owning thread releases only
//! while it runs a task's poll. Meanwhile another thread may steal one of the shard's polls. If a
//! poll is long, a spare thread becomes the owner and goes on. The previous owner, demoted, returns
//! its result when the poll ends, and exits. At most [`LONG_MAX`] polls of a shard are long at a
//! time; the next one waits.
//!
//! Makes no decisions: `TaskShard` selects the work, `long_poll_detector` detects long polls,
//! `idle` decides how to wait. A sleeping thread is woken by the device's waker, or polls after
//! [`GLANCE`] where a device has none.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::thread::{Scope, Thread};
use std::time::Duration;

use net::Device;
use queueing::{CoreId, Span, Time};
use sched::cores::worker_signals::WorkerSignals;

use super::executor::NOBODY;
use super::handle::{Shared, lock};
use super::long_poll_detector::{LongPollDetector, PollVerdict};
use super::signal_publisher::SignalPublisher;
use super::task_poll::TaskPoll;
use super::{Counters, Next, Quantum, Step, TaskShard, WorkerOptions};
use crate::idle::{AdaptiveSpin, IdleAction};
use crate::threads::{SLEEP_MAX, SharedClock, carry_out};

/// Longest sleep on a device that cannot be woken, or not by the disk.
const GLANCE: Span = Span::from_micros(50);
/// Interval at which a parked thread receives frames, so that the core scheduler learns of them.
const PARKED: Duration = Duration::from_millis(1);
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
    crew: &WorkerOptions,
) -> Vec<Counters>
where
    D: Device + Send,
    D::Frame: Send,
{
    let least = Span::from_micros(1);
    assert!(crew.quantum.is_none_or(|quantum| quantum.span >= least), "a quantum is at least {least}");
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let spin = if shards.len() > cores { Span::ZERO } else { crew.spin };
    let posts = shards.into_iter().enumerate();
    let posts = posts.map(|(at, (shard, device))| Post::new(at, cores, shard, device, spin, crew)).collect();
    let shop = Shop { posts, clock, stop, crew };
    std::thread::scope(|scope| {
        for at in 0..shop.posts.len() {
            let shop = &shop;
            scope.spawn(move || shop.work(at, FIRST));
        }
        if let Some(quantum) = &crew.quantum {
            let shop = &shop;
            scope.spawn(move || shop.watch(scope, quantum));
        }
    });
    let now = shop.clock.now();
    let over = shop.posts.into_iter().map(|post| {
        let mut work = post.work.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        work.shard.finish(now, &mut work.device);
        work.shard.counters()
    });
    over.collect()
}

/// State shared by the threads.
struct Shop<'a, D: Device> {
    posts: Vec<Post<D>>,
    clock: SharedClock,
    stop: &'a AtomicBool,
    crew: &'a WorkerOptions,
}

/// A shard with its owner thread.
struct Post<D: Device> {
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

/// State under a post's lock.
struct Work<D: Device> {
    shard: TaskShard<D>,
    device: D,
    /// True if the device can be woken.
    wakes: bool,
    patience: AdaptiveSpin,
    /// Start of the owner's current poll.
    turn: Option<Time>,
    /// Kernel thread id of the owner.
    thread: u32,
    teller: Option<SignalPublisher>,
}

/// Number of a post's first thread; spare ones count up from it.
const FIRST: u32 = 0;

impl<D: Device> Post<D> {
    fn new(
        at: usize,
        cores: usize,
        shard: TaskShard<D>,
        device: D,
        spin: Span,
        crew: &WorkerOptions,
    ) -> Self {
        let home = shard.handle().0;
        let waker = device.waker();
        let wakes = waker.is_some();
        if let Some(waker) = waker {
            home.set_wake(waker);
        }
        let patience = AdaptiveSpin::new(spin, if wakes { SLEEP_MAX } else { GLANCE });
        let teller = crew.board.clone().and_then(|board| SignalPublisher::new(board, at, crew.here));
        Self {
            core: CoreId((at % cores) as u16),
            work: Mutex::new(Work { shard, device, wakes, patience, turn: None, thread: 0, teller }),
            home,
            owner: AtomicU32::new(FIRST),
            resting: AtomicBool::new(false),
            long: AtomicU32::new(0),
        }
    }

    /// State of the post, unless its owner holds the lock.
    fn look(&self) -> Option<MutexGuard<'_, Work<D>>> {
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
    fn tell(&mut self, now: Time, request: Option<Time>, resting: bool, long: &AtomicU32) {
        if let Some(teller) = &mut self.teller {
            let long = long.load(Ordering::Relaxed);
            teller.tell(now, WorkerSignals { sleeping: resting, long, ..self.shard.pulse(request) });
        }
    }
}

impl<D: Device + Send> Shop<'_, D>
where
    D::Frame: Send,
{
    fn stops(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }

    /// Loop of thread `me` of post `at`, until a stop or the loss of the post.
    fn work(&self, at: usize, me: u32) {
        let post = &self.posts[at];
        if let Some(pin) = self.crew.pin {
            pin(post.core);
        }
        let mut work = lock(&post.work);
        if let Some(quantum) = self.crew.quantum {
            work.thread = (quantum.thread)();
        }
        while !self.stops() && post.owner.load(Ordering::Relaxed) == me {
            if work.teller.is_some() {
                work = self.park(post, work);
            }
            let now = self.clock.now();
            let Work { shard, device, .. } = &mut *work;
            match shard.next(now, device) {
                Next::Turn(turn) => {
                    work.patience.on_work(now);
                    match self.take(at, me, now, work, turn) {
                        Some(again) => work = again,
                        None => return,
                    }
                }
                Next::Done(Step::Idle) => match self.steal(at, now) {
                    Some(turn) => match self.take(at, me, now, work, turn) {
                        Some(again) => work = again,
                        None => return,
                    },
                    None => self.rest(post, &mut work, now),
                },
                Next::Done(_) => {
                    work.patience.on_work(now);
                    work.tell(now, None, false, &post.long);
                }
            }
        }
    }

    /// Runs `turn` with the post unlocked; `None` if the post has another owner afterwards.
    fn take<'p>(
        &'p self,
        at: usize,
        me: u32,
        now: Time,
        mut work: MutexGuard<'p, Work<D>>,
        turn: TaskPoll,
    ) -> Option<MutexGuard<'p, Work<D>>> {
        let post = &self.posts[at];
        work.turn = Some(now);
        work.tell(now, Some(now), false, &post.long);
        let late = self.crew.steal_after.is_some_and(|after| work.shard.waits_since(now) >= after);
        drop(work);
        if late {
            self.call_help(at);
        }
        let own = turn.is_of(&post.home);
        let ran = turn.take();
        let mut work = lock(&post.work);
        if post.owner.load(Ordering::Relaxed) != me {
            drop(work);
            post.long.fetch_sub(1, Ordering::Relaxed);
            ran.leave();
            if self.crew.board.is_some() {
                // Lets a sleeping owner publish the end of the long poll.
                post.home.stir();
            }
            return None;
        }
        work.turn = None;
        match own {
            true => work.shard.take_back(ran),
            false => ran.leave(),
        }
        Some(work)
    }

    /// Poll of the most urgent waiting task among the other shards.
    fn steal(&self, at: usize, now: Time) -> Option<TaskPoll> {
        self.crew.steal_after?;
        let others = (1..self.posts.len()).map(|n| &self.posts[(at + n) % self.posts.len()]);
        let busiest = others.map(|post| (post.home.waiting(), post)).min_by_key(|(level, _)| *level);
        let (_, post) = busiest.filter(|(level, _)| *level < NOBODY)?;
        post.look()?.shard.spare(now)
    }

    /// Wakes an idle shard's thread to steal tasks from here.
    fn call_help(&self, at: usize) {
        let others = (1..self.posts.len()).map(|n| &self.posts[(at + n) % self.posts.len()]);
        if let Some(other) = others.into_iter().find(|post| post.resting.load(Ordering::Relaxed)) {
            other.home.stir();
        }
    }

    /// Waits, as there is no work.
    fn rest(&self, post: &Post<D>, work: &mut Work<D>, now: Time) {
        let timer = work.shard.poll_timeout();
        let mut rest = work.patience.rest(now, timer);
        if let IdleAction::Sleep(span) = &mut rest
            && work.shard.must_look()
        {
            *span = GLANCE.min(*span);
        }
        if rest == IdleAction::Look {
            return std::hint::spin_loop();
        }
        work.tell(now, None, true, &post.long);
        post.resting.store(true, Ordering::Relaxed);
        post.home.sleep_by(|| carry_out(rest, Some(&mut work.device), work.wakes));
        post.resting.store(false, Ordering::Relaxed);
    }

    /// Gives up the core while a live core scheduler requests it. Other threads may steal waiting
    /// tasks; frames are received now and then, for the signals.
    fn park<'p>(&self, post: &'p Post<D>, mut work: MutexGuard<'p, Work<D>>) -> MutexGuard<'p, Work<D>> {
        while !self.stops() {
            let Some(teller) = &work.teller else { break };
            let Some(wish) = teller.lane().and_then(|lane| lane.park.acknowledge()) else { break };
            let (board, lane) = teller.place();
            let at = self.clock.now();
            if !board.page().is_leased(at) {
                break;
            }
            let Work { shard, device, .. } = &mut *work;
            shard.glance(at, device);
            work.tell(at, None, false, &post.long);
            drop(work);
            if let Some(lane) = board.page().slots().get(lane) {
                board.wait(lane.park.word(), wish, PARKED);
            }
            work = lock(&post.work);
        }
        work
    }

    /// Hands posts to spare threads during long polls.
    fn watch<'scope>(&'scope self, scope: &'scope Scope<'scope, '_>, quantum: &Quantum) {
        let spare = |at: usize, id: u32| scope.spawn(move || self.wait_for(at, id)).thread().clone();
        let mut watches = vec![LongPollDetector::new(quantum.span); self.posts.len()];
        let mut spares: Vec<(u32, Thread)> =
            (0..self.posts.len()).map(|at| (FIRST + 1, spare(at, FIRST + 1))).collect();
        while !self.stops() {
            let mut again = SLEEP_MAX;
            for (at, post) in self.posts.iter().enumerate() {
                let mut work = post.look();
                let turn = work.as_ref().and_then(|work| work.turn);
                match (watches[at].look(self.clock.now(), turn), &mut work) {
                    (PollVerdict::HandOver, Some(work)) if post.long.load(Ordering::Relaxed) < LONG_MAX => {
                        let (id, thread) = &mut spares[at];
                        post.long.fetch_add(1, Ordering::Relaxed);
                        post.owner.store(*id, Ordering::Release);
                        work.turn = None;
                        work.shard.on_handed_over();
                        (quantum.demote)(work.thread);
                        thread.unpark();
                        let next = id.wrapping_add(1);
                        spares[at] = (next, spare(at, next));
                        again = again.min(quantum.span);
                    }
                    (PollVerdict::HandOver, _) => again = again.min(quantum.span),
                    (PollVerdict::Again(span), _) => again = again.min(span),
                }
            }
            std::thread::sleep(Duration::from(again));
        }
        spares.iter().for_each(|(_, thread)| thread.unpark());
    }

    /// Loop of spare thread `me` of post `at`: waits until it owns the post.
    fn wait_for(&self, at: usize, me: u32) {
        while self.posts[at].owner.load(Ordering::Acquire) != me {
            if self.stops() {
                return;
            }
            std::thread::park();
        }
        self.work(at, me);
    }
}
