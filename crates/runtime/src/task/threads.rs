//! The shell: threads and a clock around shards of tasks.
//!
//! A shard and its device stand at a [`Post`], behind a lock that whoever works
//! there lets go of only while a task's turn is being taken. So meanwhile
//! another thread may take another of its turns (it steals it), and should the turn
//! be a long one, a spare thread is given the post and goes on where the first
//! has stopped; the first, demoted, leaves what it has when it is done, and ends.
//! At most [`LONG_MAX`] turns of a shard are long at a time; the next one waits.
//!
//! What to do is `TaskShard`'s to say, when a turn is long `watch`'s, and how to do
//! nothing `idle`'s. A thread that sleeps is woken by the device's waker, or
//! looks again after [`GLANCE`] where a device has none.

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

/// The longest sleep on a device that cannot be woken, or not by the disk.
const GLANCE: Span = Span::from_micros(50);
/// How often a parked thread takes in what has come, so that the core scheduler
/// learns of it.
const PARKED: Duration = Duration::from_millis(1);
/// Long turns of one shard at a time, each on a thread of its own.
const LONG_MAX: u32 = 16;

/// Runs the shards' tasks until `stop` is set, each shard on a thread of its
/// own; returns what each has counted. Tasks that are not over when it stops are
/// dropped; a turn that is being taken is waited for.
///
/// # Panics
/// When a shard panics, or a quantum is below 1 µs; a task's panic is caught and
/// ends that task.
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

/// Everything that the threads share.
struct Shop<'a, D: Device> {
    posts: Vec<Post<D>>,
    clock: SharedClock,
    stop: &'a AtomicBool,
    crew: &'a WorkerOptions,
}

/// Where one shard is worked.
struct Post<D: Device> {
    core: CoreId,
    work: Mutex<Work<D>>,
    home: Arc<Shared>,
    /// The thread that works here; changes under the lock of `work`.
    owner: AtomicU32,
    /// That thread sleeps, for want of work.
    resting: AtomicBool,
    /// Threads that take long turns.
    long: AtomicU32,
}

/// What is worked on.
struct Work<D: Device> {
    shard: TaskShard<D>,
    device: D,
    /// The device can be woken.
    wakes: bool,
    patience: AdaptiveSpin,
    /// When the turn began that the owner takes.
    turn: Option<Time>,
    /// The owner, as the kernel calls it.
    thread: u32,
    teller: Option<SignalPublisher>,
}

/// The thread that a post begins with; spare ones are counted on from it.
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

    /// The work, unless its owner is at it.
    fn look(&self) -> Option<MutexGuard<'_, Work<D>>> {
        match self.work.try_lock() {
            Ok(work) => Some(work),
            Err(TryLockError::Poisoned(work)) => Some(work.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

impl<D: Device> Work<D> {
    /// Tells the core scheduler what waits here; `request`: when the turn began
    /// that is being taken, `long`: how many of them are long and taken elsewhere.
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

    /// What thread `me` of post `at` does, until it stops or has lost the post.
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

    /// Takes `turn`, with the post open; `None` when it was given away meanwhile.
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
                // The owner may rest, and is to tell that a long turn is over.
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

    /// A turn of another shard's most urgent task.
    fn steal(&self, at: usize, now: Time) -> Option<TaskPoll> {
        self.crew.steal_after?;
        let others = (1..self.posts.len()).map(|n| &self.posts[(at + n) % self.posts.len()]);
        let busiest = others.map(|post| (post.home.waiting(), post)).min_by_key(|(level, _)| *level);
        let (_, post) = busiest.filter(|(level, _)| *level < NOBODY)?;
        post.look()?.shard.spare(now)
    }

    /// Wakes one that rests, since tasks wait here.
    fn call_help(&self, at: usize) {
        let others = (1..self.posts.len()).map(|n| &self.posts[(at + n) % self.posts.len()]);
        if let Some(other) = others.into_iter().find(|post| post.resting.load(Ordering::Relaxed)) {
            other.home.stir();
        }
    }

    /// There is nothing to do.
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

    /// Leaves the core while the core scheduler asks for it, and lives. What waits may be
    /// taken by others; what comes is taken in now and then, to be told.
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

    /// Gives posts to spare threads where turns take long.
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

    /// What spare thread `me` of post `at` does: waits until the post is its own.
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
