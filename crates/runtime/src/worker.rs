//! A worker's end of the rings to its shard.
//!
//! [`Worker::wait`] is the event framework's epoll: it gives up the core
//! until a request of one of the given priorities is there (M7). Waiting
//! spins for a moment, because a request usually comes soon, and then parks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering, fence};

use queueing::{Clock, Priority, PrioritySet};
use rtrb::{Consumer, Producer, RingBuffer};
use sched::dispatch::WorkerId;

use crate::shard::Job;

/// Where requests come from and go to, for one worker thread.
pub struct Worker {
    id: WorkerId,
    clock: Arc<dyn Clock + Send + Sync>,
    jobs: Consumer<Job>,
    done: Producer<Job>,
    shared: Arc<Shared>,
}

/// What both ends see besides the rings.
#[derive(Default)]
struct Shared {
    /// The worker sleeps or is about to.
    parked: AtomicBool,
    /// Priorities it waits for, one bit each; none while it serves.
    wants: AtomicU8,
}

/// The shard's end.
pub(crate) struct Remote {
    /// None once stopped.
    jobs: Option<Producer<Job>>,
    done: Consumer<Job>,
    shared: Arc<Shared>,
    /// What the shard was last told.
    wants: PrioritySet,
    thread: Option<std::thread::Thread>,
}

/// One job is in flight at a time; one slot of slack.
const RING: usize = 2;
/// Looks at an empty ring before parking.
const SPINS: u32 = 5_000;

/// Both ends of a worker's rings.
pub(crate) fn pair(id: WorkerId, clock: Arc<dyn Clock + Send + Sync>) -> (Worker, Remote) {
    let (jobs_in, jobs) = RingBuffer::new(RING);
    let (done, done_out) = RingBuffer::new(RING);
    let shared = Arc::new(Shared::default());
    let worker = Worker { id, clock, jobs, done, shared: shared.clone() };
    (worker, Remote { jobs: Some(jobs_in), done: done_out, shared, wants: PrioritySet::ALL, thread: None })
}

impl Worker {
    /// Its number in its shard.
    #[must_use]
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// The clock to serve with.
    #[must_use]
    pub fn clock(&self) -> &(dyn Clock + Send + Sync) {
        &*self.clock
    }

    /// The next request among `priorities`; `None` when the server stops.
    pub fn wait(&mut self, priorities: PrioritySet) -> Option<Job> {
        self.shared.wants.store(bits(priorities), Ordering::Release);
        let mut spins = 0;
        loop {
            if let Ok(job) = self.jobs.pop() {
                return Some(job);
            }
            if self.jobs.is_abandoned() {
                return self.jobs.pop().ok();
            }
            spins += 1;
            match spins {
                0..SPINS => std::hint::spin_loop(),
                _ => self.park(),
            }
        }
    }

    /// Hands a served request back; the shard gives this worker nothing until it waits again.
    pub fn done(&mut self, job: Job) {
        self.shared.wants.store(0, Ordering::Release);
        let pushed = self.done.push(job);
        assert!(pushed.is_ok(), "a worker has one job at a time");
    }

    /// Sleeps until the shard wakes it; may return early.
    fn park(&self) {
        self.shared.parked.store(true, Ordering::SeqCst);
        // Pairs with the fence in `Remote::wake`: either the shard sees the
        // flag, or this thread sees the job.
        fence(Ordering::SeqCst);
        if self.jobs.is_empty() && !self.jobs.is_abandoned() {
            std::thread::park();
        }
        self.shared.parked.store(false, Ordering::SeqCst);
    }
}

impl Remote {
    /// Says which thread to wake.
    pub fn set_thread(&mut self, thread: std::thread::Thread) {
        self.thread = Some(thread);
    }

    /// Gives a job to the worker and wakes it if it sleeps.
    pub fn give(&mut self, job: Job) {
        let pushed = self.jobs.as_mut().is_some_and(|jobs| jobs.push(job).is_ok());
        assert!(pushed, "an idle worker's ring is empty");
        self.wake();
    }

    /// A job that the worker has served.
    pub fn take_done(&mut self) -> Option<Job> {
        self.done.pop().ok()
    }

    /// What the worker waits for, if that has changed. Ask after
    /// [`take_done`](Self::take_done), so that a job's end is never seen
    /// together with the wish that came before it.
    pub fn take_wants(&mut self) -> Option<PrioritySet> {
        let wants = set(self.shared.wants.load(Ordering::Acquire));
        (wants != self.wants).then(|| {
            self.wants = wants;
            wants
        })
    }

    /// Ends the worker's [`Worker::wait`].
    pub fn stop(&mut self) {
        self.jobs = None;
        fence(Ordering::SeqCst);
        if let Some(thread) = &self.thread {
            thread.unpark();
        }
    }

    /// Whether the worker is gone, so that nothing more comes back.
    pub fn is_gone(&self) -> bool {
        self.done.is_abandoned()
    }

    fn wake(&self) {
        fence(Ordering::SeqCst);
        if self.shared.parked.load(Ordering::SeqCst)
            && let Some(thread) = &self.thread
        {
            thread.unpark();
        }
    }
}

/// A shard that panics must not leave its workers asleep.
impl Drop for Remote {
    fn drop(&mut self) {
        self.stop();
    }
}

fn bits(priorities: PrioritySet) -> u8 {
    Priority::all().filter(|&p| priorities.contains(p)).fold(0, |bits, p| bits | 1 << p.level())
}

fn set(bits: u8) -> PrioritySet {
    Priority::all().filter(|p| bits & 1 << p.level() != 0).collect()
}
