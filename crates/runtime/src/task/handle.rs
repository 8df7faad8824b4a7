//! State shared by a shard, its tasks and other threads.
//!
//! Everything from outside a step arrives here: woken and new tasks in the inject queue, socket
//! operations, sleeps. Each caller stores its change first, then sets the flag and rings the
//! doorbell ([`Shared::notify`]), so that a sleeping shard is woken and no change is missed. A lock
//! is held for one operation, and never two at a time. No waker is called and no foreign value
//! dropped under a lock.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use net::device::Waker as DeviceWaker;
use queueing::{Label, Time};
use storage::IoScheduler;

use super::control_block::{Task, UNLABELED, pack};
use super::current;
use super::executor::NONE_WAITING;
use super::join::{JoinHandle, with_handle};
use super::sockets::Sockets;
use super::task_poll::PolledTask;
use super::timers::Timers;
use super::waiter::Waiter;
use crate::doorbell::Doorbell;

/// Tasks that wait to enter the run queue.
#[derive(Default)]
struct InjectQueue {
    tasks: Vec<Arc<Task>>,
    /// Finished tasks that other threads polled. Bound: one entry per task.
    polled: Vec<PolledTask>,
    /// True once the shard has ended: nothing is accepted any more.
    ended: bool,
}

/// Shared state of a shard; see the module.
pub(crate) struct Shared {
    now: AtomicU64,
    /// Woken tasks that wait to enter the run queue. Bound: one entry per task, and one more for
    /// each level to which it was raised.
    inject_queue: Mutex<InjectQueue>,
    pub timers: Mutex<Timers>,
    pub sockets: Mutex<Sockets>,
    /// Queue of requests on files; `None` without a disk.
    pub files: Option<Mutex<IoScheduler<Waiter>>>,
    /// True if a change was stored since the last step.
    notified: AtomicBool,
    doorbell: Doorbell,
    /// Wakes the sleeping shard; empty if that is not possible.
    wake: OnceLock<DeviceWaker>,
    /// Live tasks and their maximum.
    live: AtomicUsize,
    tasks_max: usize,
    refused: AtomicU64,
    /// Most urgent level at which a task waits, or [`NONE_WAITING`].
    waiting: AtomicU8,
    /// As in the inject queue, readable without its lock.
    ended: AtomicBool,
}

impl Shared {
    pub fn new(sockets: Sockets, files: Option<IoScheduler<Waiter>>, tasks_max: usize) -> Arc<Self> {
        Arc::new(Self {
            now: AtomicU64::new(0),
            inject_queue: Mutex::default(),
            timers: Mutex::default(),
            sockets: Mutex::new(sockets),
            files: files.map(Mutex::new),
            notified: AtomicBool::new(false),
            doorbell: Doorbell::default(),
            wake: OnceLock::new(),
            live: AtomicUsize::new(0),
            tasks_max,
            refused: AtomicU64::new(0),
            waiting: AtomicU8::new(NONE_WAITING),
            ended: AtomicBool::new(false),
        })
    }

    /// Start of the shard's latest step.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.now.load(Ordering::Relaxed))
    }

    pub fn set_now(&self, now: Time) {
        self.now.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Number of live tasks.
    pub fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Tasks and futures dropped because of the maximum.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Records the end of a task.
    pub fn on_end(&self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }

    /// Puts a woken task into the inject queue.
    pub fn enqueue(&self, task: Arc<Task>) {
        let mut inject_queue = lock(&self.inject_queue);
        if inject_queue.ended {
            drop(inject_queue);
            // Its join handle reports the missing result.
            return drop(task.take_body());
        }
        inject_queue.tasks.push(task);
        drop(inject_queue);
        self.notify();
    }

    /// Swaps the inject queue for two empty lists.
    pub fn take_injected(&self, tasks: &mut Vec<Arc<Task>>, polled: &mut Vec<PolledTask>) {
        let mut inject_queue = lock(&self.inject_queue);
        std::mem::swap(&mut inject_queue.tasks, tasks);
        std::mem::swap(&mut inject_queue.polled, polled);
    }

    /// Returns a task that another thread polled to its shard.
    pub fn return_polled(&self, polled: PolledTask) {
        let mut inject_queue = lock(&self.inject_queue);
        if inject_queue.ended {
            drop(inject_queue);
            return drop(polled);
        }
        inject_queue.polled.push(polled);
        drop(inject_queue);
        self.notify();
    }

    /// True if the shard has ended. Call it after putting a task's future back: either the shard
    /// drops the future, or the caller sees this flag.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Publishes the most urgent waiting level.
    pub fn publish_waiting(&self, level: u8) {
        if self.waiting.load(Ordering::Relaxed) != level {
            self.waiting.store(level, Ordering::Relaxed);
        }
    }

    /// Most urgent waiting level, as published.
    pub fn waiting(&self) -> u8 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Closes the inject queue.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        lock(&self.inject_queue).ended = true;
    }

    /// Sets the flag for the next step and wakes the shard.
    pub fn notify(&self) {
        self.notified.store(true, Ordering::Release);
        self.doorbell.ring_by(|| {
            if let Some(wake) = self.wake.get() {
                wake();
            }
        });
    }

    /// True if a change was stored since the last call.
    pub fn take_notified(&self) -> bool {
        self.notified.load(Ordering::Relaxed) && self.notified.swap(false, Ordering::AcqRel)
    }

    /// Sets the waker that ends this shard's sleep.
    pub fn set_wake(&self, wake: DeviceWaker) {
        let _ = self.wake.set(wake);
    }

    /// Sleeps by `sleep`, unless a change was stored.
    pub fn sleep_by(&self, sleep: impl FnOnce()) {
        self.doorbell.sleep_by(|| !self.notified.load(Ordering::Acquire), sleep);
    }

    /// Reserves one more live task; false at the maximum.
    fn admit(&self) -> bool {
        let increment = |live| (live < self.tasks_max).then_some(live + 1);
        let admitted = self.live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, increment).is_ok();
        if !admitted {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }
}

/// Locks `mutex`, even if a holder panicked: the guarded state is consistent between any two
/// operations.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Handle to a shard's tasks and sockets, for its own tasks and other threads.
#[derive(Clone)]
pub struct Handle(pub(crate) Arc<Shared>);

impl Handle {
    /// Handle of the current task's shard.
    ///
    /// # Panics
    /// If called outside a task.
    #[must_use]
    pub fn current() -> Self {
        Self(current::shared().expect("only a task has a shard; elsewhere keep a Handle"))
    }

    /// Spawns `future` as a task, from any thread. It starts with the label of the spawning task,
    /// or the least urgent one.
    ///
    /// At the shard's maximum of tasks ([`Config::tasks_max`]) the future is dropped and counted,
    /// and the join handle reports it.
    ///
    /// [`Config::tasks_max`]: super::Config::tasks_max
    pub fn spawn<T, F>(&self, future: F) -> JoinHandle<T>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        let label = current::with(|running| running.task.label()).unwrap_or(UNLABELED);
        self.spawn_packed(label, future)
    }

    /// As [`Handle::spawn`], with a label of its own.
    pub fn spawn_with<T, F>(&self, label: Label, future: F) -> JoinHandle<T>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_packed(pack(self.0.now(), label), future)
    }

    fn spawn_packed<T, F>(&self, label: u64, future: F) -> JoinHandle<T>
    where
        F: Future<Output = T> + Send + 'static,
        T: Send + 'static,
    {
        if !self.0.admit() {
            return JoinHandle::refused();
        }
        let (body, handle) = with_handle(future);
        self.0.enqueue(Task::new(self.0.clone(), label, Box::pin(body)));
        handle
    }

    /// Start of the shard's latest step; in a task, of its current poll.
    #[must_use]
    pub fn now(&self) -> Time {
        self.0.now()
    }
}
