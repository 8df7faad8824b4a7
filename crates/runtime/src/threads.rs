//! Thread shell: threads, rings and a clock around the pure shards.
//!
//! One thread per shard loops on [`Shard::step`]. Each worker is a thread behind a pair of rings;
//! where cores are few, the shard's thread serves requests itself, one per round. Makes no
//! decisions: the shard decides what is next, `idle` how to wait.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use net::Device;
use queueing::{Clock, CoreId, PrioritySet, Span};
use sched::dispatch::WorkerId;

use crate::app::App;
use crate::idle::{AdaptiveSpin, IdleAction};
use crate::mode::Classifiers;
use crate::shard::{Shard, ShardSnapshot, Stats, Step, WorkBudget};
use crate::snapshot_exchange::SnapshotExchange;
use crate::worker::{Remote, Worker, pair};

/// Clock shared by threads.
pub type SharedClock = Arc<dyn Clock + Send + Sync>;

/// Threads that serve the requests.
#[derive(Clone)]
pub enum WorkerThreads {
    /// One thread per worker of the shard; each serves every priority.
    Threads,
    /// The shard's own thread, one request per round.
    Inline,
    /// One thread per worker, running this loop: [`Worker::wait`] for its priorities, serve,
    /// [`Worker::done`]; return when `wait` gives `None`.
    Custom(Arc<dyn Fn(&mut Worker) + Send + Sync>),
}

/// Settings of the threads.
#[derive(Clone)]
pub struct ThreadSettings {
    /// Threads that serve the requests.
    pub workers: WorkerThreads,
    /// Called in each thread with the core it should run on: shards first, then workers, round
    /// robin over the cores.
    pub pin: Option<fn(CoreId)>,
    /// Longest busy-polling of a shard's idle thread before it sleeps, at most
    /// [`ThreadSettings::SPIN_MAX`]. It polls only where work usually arrives sooner than that. A longer
    /// span answers some microseconds sooner and uses more of a core. With more threads than cores
    /// no thread polls: the work may be waiting for the core that polling would hold.
    pub spin: Span,
    /// Longest time that a shard with [`WorkerThreads::Inline`] coalesces responses while more requests
    /// wait, at most [`ThreadSettings::HOLD_MAX`]. One system call and one interrupt of another core then
    /// cover all of them. A response waits that much longer, plus the service time of the current
    /// request.
    pub hold: Span,
    /// Snapshot exchange of each shard's counters, in order; shards beyond these are not observed.
    pub snapshots: Vec<Arc<SnapshotExchange<ShardSnapshot>>>,
    /// Exchange of new classifiers for each shard, in order; the shard takes them between two
    /// steps.
    pub classifiers: Vec<Arc<SnapshotExchange<Classifiers>>>,
}

impl ThreadSettings {
    /// Default of [`spin`](Self::spin): about twice the cost of a sleep and a wake-up.
    pub const SPIN: Span = Span::from_micros(20);
    /// Maximum of [`spin`](Self::spin): a thread practically never sleeps.
    pub const SPIN_MAX: Span = Span::from_secs(1);
    /// Default of [`hold`](Self::hold): a few times the cost of a system call and an interrupt in a
    /// virtual machine; short compared with a queued request's wait.
    pub const HOLD: Span = Span::from_micros(30);
    /// Maximum of [`hold`](Self::hold): a longer one gains nothing.
    pub const HOLD_MAX: Span = Span::from_millis(1);

    /// Threads without pinning.
    #[must_use]
    pub const fn new(workers: WorkerThreads) -> Self {
        let (spin, hold) = (Self::SPIN, Self::HOLD);
        Self { workers, pin: None, spin, hold, snapshots: Vec::new(), classifiers: Vec::new() }
    }
}

/// Longest sleep of a shard, which bounds the delay of a stop; with worker threads, it also bounds
/// the delay of changed priorities.
pub(crate) const SLEEP_MAX: Span = Span::from_millis(20);
const SLEEP_MAX_WORKERS: Span = Span::from_millis(1);

/// Serves until `stop` is set; returns each shard's statistics.
///
/// On a stop, each worker finishes its current request. A thread that panics stops the server,
/// because no other thread would answer its flows.
///
/// # Panics
/// If a shard or a custom loop panics, once all other threads have stopped. An application's panic
/// is caught and resets only its connection.
pub fn serve<D, A>(
    shards: Vec<(Shard<D, A>, D)>,
    clock: SharedClock,
    stop: Arc<AtomicBool>,
    threads: ThreadSettings,
) -> Vec<Stats>
where
    D: Device + Send,
    D::Frame: Send,
    A: App,
{
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut core = (0..cores).map(|core| CoreId(core as u16)).cycle();
    let ThreadSettings { workers, pin, spin, hold, snapshots, classifiers } = threads;
    let crowded = count(&shards, &workers) > cores;
    let spin = if crowded { Span::ZERO } else { spin.min(ThreadSettings::SPIN_MAX) };
    let hold = hold.min(ThreadSettings::HOLD_MAX);
    let cores: Vec<CoreId> = core.by_ref().take(shards.len()).collect();
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        let (mut snapshots, mut classifiers) = (snapshots.into_iter(), classifiers.into_iter());
        for ((shard, device), at) in shards.into_iter().zip(cores) {
            let app = shard.app();
            let mut remotes = Vec::new();
            let threads = if matches!(workers, WorkerThreads::Inline) { 0 } else { shard.workers() };
            for id in 0..threads {
                let (mut worker, mut remote) = pair(WorkerId(id as u8), clock.clone());
                let (app, workers, at) = (app.clone(), workers.clone(), core.next());
                let stop_on_panic = StopOnPanic(stop.clone());
                let thread = scope.spawn(move || {
                    let _together = stop_on_panic;
                    pinned(pin, at);
                    match workers {
                        WorkerThreads::Custom(work) => work(&mut worker),
                        _ => work(&mut worker, &*app),
                    }
                });
                remote.set_thread(thread.thread().clone());
                remotes.push(remote);
            }
            let (clock, stop) = (clock.clone(), stop.clone());
            let sleep_max = if remotes.is_empty() { SLEEP_MAX } else { SLEEP_MAX_WORKERS };
            let idle = AdaptiveSpin::new(spin, sleep_max);
            let stop_on_panic = StopOnPanic(stop.clone());
            let inputs = ShardInputs { stop, snapshot: snapshots.next(), classifiers: classifiers.next() };
            running.push(scope.spawn(move || {
                let _together = stop_on_panic;
                pinned(pin, Some(at));
                match remotes.is_empty() {
                    true => run_inline(shard, device, idle, hold, &clock, &inputs),
                    false => run(shard, device, remotes, idle, &clock, &inputs),
                }
            }));
        }
        // Passes on the shard's panic message.
        let ended = running.into_iter().map(|shard| shard.join().unwrap_or_else(|why| resume_unwind(why)));
        ended.collect()
    })
}

/// Stops the server when the thread that holds this panics.
struct StopOnPanic(Arc<AtomicBool>);

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.store(true, Ordering::Relaxed);
        }
    }
}

/// Number of threads that need a core.
fn count<D: Device, A: App>(shards: &[(Shard<D, A>, D)], workers: &WorkerThreads) -> usize {
    let inline = matches!(workers, WorkerThreads::Inline);
    shards.iter().map(|(shard, _)| 1 + if inline { 0 } else { shard.workers() }).sum()
}

fn pinned(pin: Option<fn(CoreId)>, core: Option<CoreId>) {
    if let (Some(pin), Some(core)) = (pin, core) {
        pin(core);
    }
}

/// Loop of an ordinary worker.
fn work<A: App>(worker: &mut Worker, app: &A) {
    while let Some(mut job) = worker.wait(PrioritySet::ALL) {
        job.serve(app, worker.clock());
        worker.done(job);
    }
}

/// Inputs of a shard's thread from outside.
struct ShardInputs {
    stop: Arc<AtomicBool>,
    snapshot: Option<Arc<SnapshotExchange<ShardSnapshot>>>,
    classifiers: Option<Arc<SnapshotExchange<Classifiers>>>,
}

impl ShardInputs {
    /// Fills a requested snapshot of `shard` and applies posted classifiers; true unless stopped.
    fn update<D: Device, A: App>(&self, shard: &mut Shard<D, A>) -> bool {
        if let Some(snapshot) = &self.snapshot {
            snapshot.fill_if_requested(|seen| shard.show(seen));
        }
        if let Some(snapshot) = &self.classifiers {
            snapshot.fill_if_requested(|next| shard.set_classifiers(std::mem::take(next)));
        }
        !self.stop.load(Ordering::Relaxed)
    }
}

/// Loop of a shard whose workers are threads.
fn run<D: Device, A: App>(
    mut shard: Shard<D, A>,
    mut device: D,
    mut remotes: Vec<Remote>,
    mut idle: AdaptiveSpin,
    clock: &SharedClock,
    inputs: &ShardInputs,
) -> Stats {
    let wakes = device.waker().is_some();
    while inputs.update(&mut shard) {
        let now = clock.now();
        for (id, remote) in remotes.iter_mut().enumerate() {
            if let Some(job) = remote.take_done() {
                shard.complete(now, job);
                idle.on_work(now);
            }
            if let Some(wants) = remote.take_wants() {
                shard.wants(WorkerId(id as u8), wants);
            }
        }
        match shard.step(now, &mut device) {
            Step::Assign(job) => {
                remotes[usize::from(job.worker.0)].give(job);
                idle.on_work(now);
            }
            Step::Idle => {
                let serving = shard.idle().len() < shard.workers();
                let action = idle.action(now, shard.poll_timeout());
                carry_out(action, (!serving).then_some(&mut device), wakes);
            }
            _ => idle.on_work(now),
        }
    }
    remotes.iter_mut().for_each(Remote::stop);
    for remote in &mut remotes {
        while !remote.has_ended() {
            std::thread::yield_now();
        }
        if let Some(job) = remote.take_done() {
            shard.complete(clock.now(), job);
        }
    }
    send_rest(&mut shard, &mut device, clock);
    shard.into_stats()
}

/// Loop of a shard that serves its requests itself.
fn run_inline<D: Device, A: App>(
    mut shard: Shard<D, A>,
    mut device: D,
    mut idle: AdaptiveSpin,
    hold: Span,
    clock: &SharedClock,
    inputs: &ShardInputs,
) -> Stats {
    let app = shard.app();
    let wakes = device.waker().is_some();
    shard.set_budget(WorkBudget {
        receive_percent: shard.budget().receive_percent,
        ..WorkBudget::inline(hold)
    });
    while inputs.update(&mut shard) {
        let now = clock.now();
        match shard.step(now, &mut device) {
            Step::Assign(mut job) => {
                job.serve(&*app, &**clock);
                shard.complete(clock.now(), job);
                idle.on_work(now);
            }
            Step::Idle => {
                carry_out(idle.action(now, shard.poll_timeout()), Some(&mut device), wakes);
            }
            _ => idle.on_work(now),
        }
    }
    send_rest(&mut shard, &mut device, clock);
    shard.into_stats()
}

/// Sends TCP's ready segments, as far as the device has space.
fn send_rest<D: Device, A: App>(shard: &mut Shard<D, A>, device: &mut D, clock: &SharedClock) {
    if shard.stack().wants_egress() {
        shard.stack().egress(clock.now(), device);
    }
}

/// Carries out an idle action: sleeps on `device` if given and `wakes`, otherwise yields too.
pub(crate) fn carry_out<D: Device>(action: IdleAction, device: Option<&mut D>, wakes: bool) {
    let IdleAction::Sleep(span) = action else { return std::hint::spin_loop() };
    let slept = device.is_some() && wakes;
    if let Some(device) = device {
        device.wait(span);
    }
    if !slept {
        // The wait may have returned at once; other threads may need the core.
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests;
