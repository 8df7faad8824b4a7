//! The shell: threads, rings and a clock around the pure shards.
//!
//! One thread per shard spins on [`Shard::step`]; each of its workers is a
//! thread behind a pair of rings, or the shard's thread serves requests
//! itself, one per round, where cores are few. No opinions here: what to do
//! next is the shard's to say.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use net::Device;
use queueing::{Clock, CoreId, PrioritySet, Span, Time};
use sched::dispatch::WorkerId;

use crate::app::App;
use crate::shard::{Budget, Shard, Stats, Step};
use crate::worker::{Remote, Worker, pair};

/// A clock that threads share.
pub type SharedClock = Arc<dyn Clock + Send + Sync>;

/// Who serves the requests.
#[derive(Clone)]
pub enum Workers {
    /// A thread per worker of the shard, each taking every priority.
    Threads,
    /// The shard's own thread, one request per round.
    Inline,
    /// A thread per worker that runs this loop: [`Worker::wait`] for the
    /// priorities it likes, serve, [`Worker::done`]; return when `wait` gives
    /// `None`.
    Custom(Arc<dyn Fn(&mut Worker) + Send + Sync>),
}

/// Looks without work before the shard's thread lets others have the core: a
/// few microseconds, since a frame usually comes soon; hardly any where
/// threads are more than cores and the frame may wait for the core we hold.
const IDLE_LOOKS: u32 = 200;
const IDLE_LOOKS_CROWDED: u32 = 4;
/// How long a shard that serves requests itself gathers responses, while more
/// requests wait: a handful of short ones.
const HOLD: Span = Span::from_micros(10);
/// The longest sleep, so that a stop is noticed.
const SLEEP_MAX: Span = Span::from_millis(1);

/// Serves until `stop` is set; returns each shard's statistics.
///
/// `pin` is called in each thread with the core it should run on: shards
/// first, then workers, counted through the cores there are. A worker ends
/// after the request it serves when the server stops.
///
/// # Panics
/// When a shard or a custom loop panics; an application's panic is caught and
/// costs its connection only.
pub fn serve<D, A>(
    shards: Vec<(Shard<D, A>, D)>,
    clock: SharedClock,
    stop: Arc<AtomicBool>,
    workers: Workers,
    pin: Option<fn(CoreId)>,
) -> Vec<Stats>
where
    D: Device + Send,
    D::Frame: Send,
    A: App,
{
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut core = (0..cores).map(|core| CoreId(core as u16)).cycle();
    let looks = if threads(&shards, &workers) > cores { IDLE_LOOKS_CROWDED } else { IDLE_LOOKS };
    let cores: Vec<CoreId> = core.by_ref().take(shards.len()).collect();
    std::thread::scope(|scope| {
        let mut running = Vec::new();
        for ((shard, device), at) in shards.into_iter().zip(cores) {
            let app = shard.app();
            let mut remotes = Vec::new();
            let threads = if matches!(workers, Workers::Inline) { 0 } else { shard.workers() };
            for id in 0..threads {
                let (mut worker, mut remote) = pair(WorkerId(id as u8), clock.clone());
                let (app, workers, at) = (app.clone(), workers.clone(), core.next());
                let thread = scope.spawn(move || {
                    pinned(pin, at);
                    match workers {
                        Workers::Custom(work) => work(&mut worker),
                        _ => work(&mut worker, &*app),
                    }
                });
                remote.set_thread(thread.thread().clone());
                remotes.push(remote);
            }
            let (clock, stop) = (clock.clone(), stop.clone());
            running.push(scope.spawn(move || {
                pinned(pin, Some(at));
                let patience = Patience { looks: 0, looks_max: looks };
                match remotes.is_empty() {
                    true => run_inline(shard, device, patience, &clock, &stop),
                    false => run(shard, device, remotes, patience, &clock, &stop),
                }
            }));
        }
        running.into_iter().map(|shard| shard.join().expect("a shard panicked")).collect()
    })
}

/// Threads that will want a core.
fn threads<D: Device, A: App>(shards: &[(Shard<D, A>, D)], workers: &Workers) -> usize {
    let inline = matches!(workers, Workers::Inline);
    shards.iter().map(|(shard, _)| 1 + if inline { 0 } else { shard.workers() }).sum()
}

fn pinned(pin: Option<fn(CoreId)>, core: Option<CoreId>) {
    if let (Some(pin), Some(core)) = (pin, core) {
        pin(core);
    }
}

/// The loop of an ordinary worker.
fn work<A: App>(worker: &mut Worker, app: &A) {
    while let Some(mut job) = worker.wait(PrioritySet::ALL) {
        job.serve(app, worker.clock());
        worker.done(job);
    }
}

/// A shard whose workers are threads.
fn run<D: Device, A: App>(
    mut shard: Shard<D, A>,
    mut device: D,
    mut remotes: Vec<Remote>,
    mut patience: Patience,
    clock: &SharedClock,
    stop: &AtomicBool,
) -> Stats {
    while !stop.load(Ordering::Relaxed) {
        let now = clock.now();
        for (id, remote) in remotes.iter_mut().enumerate() {
            if let Some(job) = remote.take_done() {
                shard.complete(now, job);
                patience.reset();
            }
            if let Some(wants) = remote.take_wants() {
                shard.wants(WorkerId(id as u8), wants);
            }
        }
        match shard.step(now, &mut device) {
            Step::Assign(job) => {
                remotes[usize::from(job.worker.0)].give(job);
                patience.reset();
            }
            Step::Idle => {
                let serving = shard.idle().len() < shard.workers();
                patience.rest(now, shard.poll_timeout(), (!serving).then_some(&mut device));
            }
            _ => patience.reset(),
        }
    }
    remotes.iter_mut().for_each(Remote::stop);
    for remote in &mut remotes {
        while !remote.is_gone() {
            std::thread::yield_now();
        }
        if let Some(job) = remote.take_done() {
            shard.complete(clock.now(), job);
        }
    }
    send_rest(&mut shard, &mut device, clock);
    shard.stats().clone()
}

/// A shard that serves its requests itself.
fn run_inline<D: Device, A: App>(
    mut shard: Shard<D, A>,
    mut device: D,
    mut patience: Patience,
    clock: &SharedClock,
    stop: &AtomicBool,
) -> Stats {
    let app = shard.app();
    shard.set_budget(Budget { transport: 8, assign: 1, hold: HOLD, ..Budget::default() });
    while !stop.load(Ordering::Relaxed) {
        let now = clock.now();
        match shard.step(now, &mut device) {
            Step::Assign(mut job) => {
                job.serve(&*app, &**clock);
                shard.complete(clock.now(), job);
                patience.reset();
            }
            Step::Idle => patience.rest(now, shard.poll_timeout(), Some(&mut device)),
            _ => patience.reset(),
        }
    }
    send_rest(&mut shard, &mut device, clock);
    shard.stats().clone()
}

/// Sends what TCP has ready; a full device keeps it.
fn send_rest<D: Device, A: App>(shard: &mut Shard<D, A>, device: &mut D, clock: &SharedClock) {
    if shard.stack().wants_egress() {
        shard.stack().egress(clock.now(), device);
    }
}

/// How long nothing was to do.
struct Patience {
    looks: u32,
    looks_max: u32,
}

impl Patience {
    fn reset(&mut self) {
        self.looks = 0;
    }

    /// Spins for a while, then lets others run, or sleeps on `device` until
    /// `timer` if it is given.
    fn rest<D: Device>(&mut self, now: Time, timer: Option<Time>, device: Option<&mut D>) {
        self.looks += 1;
        if self.looks < self.looks_max {
            return std::hint::spin_loop();
        }
        if let Some(device) = device {
            device.wait(timer.map_or(SLEEP_MAX, |at| at.since(now).min(SLEEP_MAX)));
        }
        std::thread::yield_now();
    }
}

#[cfg(test)]
mod tests;
