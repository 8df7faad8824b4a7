//! Worker side and shard side of the rings between them.
//!
//! [`Worker::wait`] is the event framework's epoll: it blocks until a request of one of the given
//! priorities arrives (M7). It spins for a moment, because a request usually comes soon, and then
//! parks.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use queueing::{Clock, Priority, PrioritySet};
use rtrb::{Consumer, Producer, RingBuffer};
use sched::dispatch::WorkerId;

use crate::doorbell::Doorbell;
use crate::shard::Job;

/// Worker side of the rings, for one thread.
pub struct Worker {
    id: WorkerId,
    clock: Arc<dyn Clock + Send + Sync>,
    jobs: Consumer<Job>,
    done: Producer<Job>,
    shared: Arc<Shared>,
}

/// State shared by both sides besides the rings.
#[derive(Default)]
struct Shared {
    /// Wakes the worker.
    doorbell: Doorbell,
    /// Priorities the worker waits for, one bit each; 0 while it serves.
    wants: AtomicU8,
}

/// Shard side of the rings.
pub(crate) struct Remote {
    /// `None` once stopped.
    jobs: Option<Producer<Job>>,
    done: Consumer<Job>,
    shared: Arc<Shared>,
    /// Priorities last reported to the shard.
    wants: PrioritySet,
    thread: Option<std::thread::Thread>,
}

/// Ring capacity: one job is in flight at a time, one slot is slack.
const RING_LEN: usize = 2;
/// Number of polls of an empty ring before parking.
const SPINS: u32 = 5_000;

/// Both sides of a worker's rings.
pub(crate) fn pair(id: WorkerId, clock: Arc<dyn Clock + Send + Sync>) -> (Worker, Remote) {
    let (jobs_in, jobs) = RingBuffer::new(RING_LEN);
    let (done, done_out) = RingBuffer::new(RING_LEN);
    let shared = Arc::new(Shared::default());
    let worker = Worker { id, clock, jobs, done, shared: shared.clone() };
    (worker, Remote { jobs: Some(jobs_in), done: done_out, shared, wants: PrioritySet::ALL, thread: None })
}

impl Worker {
    /// Number of the worker in its shard.
    #[must_use]
    pub fn id(&self) -> WorkerId {
        self.id
    }

    /// Clock to serve with.
    #[must_use]
    pub fn clock(&self) -> &(dyn Clock + Send + Sync) {
        &*self.clock
    }

    /// Next request among `priorities`; `None` when the server stops.
    ///
    /// The priorities may differ on each call. Steering still applies: the worker gets no request
    /// that its shard steers elsewhere.
    ///
    /// ```
    /// use std::sync::Arc;
    /// # use std::sync::atomic::{AtomicBool, Ordering};
    /// # use classify::Verdict;
    /// # use net::stack::{Config as Tcp, EventKind, ListenOptions};
    /// # use net::{Device, Stack};
    /// # use queueing::{Clock, Span, Time};
    /// # use runtime::mode::Classifiers;
    /// # use runtime::shard::Config;
    /// # use runtime::{Mode, Shard};
    /// # use sched::dispatch::{Params, Steering};
    /// use queueing::{Priority, PrioritySet};
    /// use runtime::app::Echo;
    /// use runtime::threads::{ThreadSettings, WorkerThreads};
    /// use runtime::{Worker, serve};
    /// # struct Real(std::time::Instant);
    /// # impl Clock for Real {
    /// #     fn now(&self) -> Time {
    /// #         Time::from_nanos(self.0.elapsed().as_nanos() as u64)
    /// #     }
    /// #     fn compute(&self, _: Span) {}
    /// # }
    /// # let policy = Mode::Adps.policy(Classifiers {
    /// #     transport: Some(Arc::new(|flow| Verdict::Level(flow.payload[0] - b'0'))),
    /// #     ..Classifiers::default()
    /// # }, &Params::new(2, 64), Steering::all(2));
    /// # let tcp = |host| Tcp::new([2, 0, 0, 0, 0, host], [10, 0, 0, host].into(), 24, [host; 16]);
    /// # let mut shard = Shard::new(Config::new(tcp(1), policy, 2), Arc::new(Echo));
    /// # shard.stack().listen(80, ListenOptions::default()).unwrap();
    /// # let (near, mut far) = net::device::memory::pair(64, 1514);
    /// # let clock: runtime::threads::SharedClock = Arc::new(Real(std::time::Instant::now()));
    /// # let stop = Arc::new(AtomicBool::new(false));
    ///
    /// // Worker 0 is kept for the most urgent requests; the others take all.
    /// let work = |worker: &mut Worker| {
    ///     let urgent = PrioritySet::NONE.with(Priority::HIGHEST);
    ///     let mine = if worker.id().0 == 0 { urgent } else { PrioritySet::ALL };
    ///     while let Some(mut job) = worker.wait(mine) {
    ///         assert!(mine.contains(job.label.priority));
    ///         job.serve(&Echo, worker.clock());
    ///         worker.done(job);
    ///     }
    /// };
    /// # let server = std::thread::spawn({
    /// #     let (clock, stop) = (clock.clone(), stop.clone());
    /// #     move || {
    /// let threads = ThreadSettings::new(WorkerThreads::Custom(Arc::new(work)));
    /// let stats = serve(vec![(shard, near)], clock, stop, threads);
    /// #         stats
    /// #     }
    /// # });
    /// # let mut client = Stack::new(tcp(2));
    /// # let id = client.connect(clock.now(), "10.0.0.1:80".parse().unwrap(), None).unwrap();
    /// # let mut requests = ["7 report", "0 payment"].iter();
    /// # while !stop.load(Ordering::Relaxed) {
    /// #     let now = clock.now();
    /// #     while client.ingress_from(now, &mut far) {}
    /// #     client.handle_timeout(now);
    /// #     while let Some(event) = client.poll_event() {
    /// #         let len = client.received(id).len();
    /// #         client.consume(now, id, len);
    /// #         if matches!(event.kind, EventKind::Connected | EventKind::Readable { .. }) {
    /// #             match requests.next() {
    /// #                 Some(request) => { client.send(now, id, request.as_bytes()).unwrap(); }
    /// #                 None => stop.store(true, Ordering::Relaxed),
    /// #             }
    /// #         }
    /// #     }
    /// #     client.egress(now, &mut far);
    /// #     std::thread::yield_now();
    /// # }
    /// # assert_eq!(server.join().unwrap()[0].counters.responses, 2);
    /// ```
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
                _ => self.shared.doorbell.sleep(|| self.jobs.is_empty() && !self.jobs.is_abandoned()),
            }
        }
    }

    /// Returns a served request; the shard assigns this worker nothing until it waits again.
    pub fn done(&mut self, job: Job) {
        self.shared.wants.store(0, Ordering::Release);
        let pushed = self.done.push(job);
        assert!(pushed.is_ok(), "a worker has one job at a time");
    }
}

impl Remote {
    /// Sets the thread to wake.
    pub fn set_thread(&mut self, thread: std::thread::Thread) {
        self.thread = Some(thread);
    }

    /// Passes a job to the worker and wakes it if it sleeps.
    pub fn give(&mut self, job: Job) {
        let pushed = self.jobs.as_mut().is_some_and(|jobs| jobs.push(job).is_ok());
        assert!(pushed, "an idle worker's ring is empty");
        self.wake();
    }

    /// Next job that the worker has served.
    pub fn take_done(&mut self) -> Option<Job> {
        self.done.pop().ok()
    }

    /// Priorities the worker waits for, if they changed. Call it after
    /// [`take_done`](Self::take_done): a job's end is then never combined with the priorities that
    /// preceded it.
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
        self.wake();
    }

    /// True if the worker has ended and returns no more jobs.
    pub fn has_ended(&self) -> bool {
        self.done.is_abandoned()
    }

    fn wake(&self) {
        if let Some(thread) = &self.thread {
            self.shared.doorbell.ring(thread);
        }
    }
}

/// Wakes the workers of a shard that panics.
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
