//! What the tasks of one shard share with it, and other threads with both.
//!
//! Everything that comes from outside a step comes through here: woken and
//! new tasks by the inbox, what sockets were asked for, sleeps. Each leaves
//! its word first, then says that there is something ([`Shared::stir`]) and
//! rings the bell, so that a shard that sleeps is woken and none is missed.
//! Locks are held for one operation and never two at a time; nobody is woken
//! and nothing foreign dropped while one is held.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use net::device::Waker as DeviceWaker;
use queueing::{Label, Time};
use storage::IoScheduler;

use super::control_block::{Task, UNLABELED, pack};
use super::current;
use super::executor::NOBODY;
use super::join::{JoinHandle, joined};
use super::sockets::Sockets;
use super::task_poll::PolledTask;
use super::timers::Timers;
use super::waiter::Waiter;
use crate::doorbell::Doorbell;

/// What waits to enter the run queue.
#[derive(Default)]
struct Inbox {
    tasks: Vec<Arc<Task>>,
    /// Turns that were taken elsewhere and ended their tasks. Bound: each task once.
    ran: Vec<PolledTask>,
    /// The shard is gone: nothing is taken in any more.
    ended: bool,
}

/// See the module.
pub(crate) struct Shared {
    now: AtomicU64,
    /// Woken tasks that wait to enter the run queue. Bound: each task once, and
    /// once more for each level that it was raised to.
    inbox: Mutex<Inbox>,
    pub timers: Mutex<Timers>,
    pub sockets: Mutex<Sockets>,
    /// Where requests on files wait; nowhere without a disk.
    pub files: Option<Mutex<IoScheduler<Waiter>>>,
    /// Something was left since the last step looked.
    stirred: AtomicBool,
    bell: Doorbell,
    /// Ends the shard's sleep; empty where it cannot be ended.
    wake: OnceLock<DeviceWaker>,
    /// Tasks that exist, and how many may.
    live: AtomicUsize,
    tasks_max: usize,
    refused: AtomicU64,
    /// The most urgent level at which a task waits, or [`NOBODY`].
    waiting: AtomicU8,
    /// As in the inbox, without its lock.
    ended: AtomicBool,
}

impl Shared {
    pub fn new(sockets: Sockets, files: Option<IoScheduler<Waiter>>, tasks_max: usize) -> Arc<Self> {
        Arc::new(Self {
            now: AtomicU64::new(0),
            inbox: Mutex::default(),
            timers: Mutex::default(),
            sockets: Mutex::new(sockets),
            files: files.map(Mutex::new),
            stirred: AtomicBool::new(false),
            bell: Doorbell::default(),
            wake: OnceLock::new(),
            live: AtomicUsize::new(0),
            tasks_max,
            refused: AtomicU64::new(0),
            waiting: AtomicU8::new(NOBODY),
            ended: AtomicBool::new(false),
        })
    }

    /// When the shard's latest step began.
    pub fn now(&self) -> Time {
        Time::from_nanos(self.now.load(Ordering::Relaxed))
    }

    pub fn set_now(&self, now: Time) {
        self.now.store(now.as_nanos(), Ordering::Relaxed);
    }

    /// Tasks that exist.
    pub fn live(&self) -> usize {
        self.live.load(Ordering::Relaxed)
    }

    /// Tasks and futures that were dropped because too many existed.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// A task is over.
    pub fn on_end(&self) {
        self.live.fetch_sub(1, Ordering::Relaxed);
    }

    /// Puts a woken task where the next step finds it.
    pub fn enqueue(&self, task: Arc<Task>) {
        let mut inbox = lock(&self.inbox);
        if inbox.ended {
            drop(inbox);
            // Whoever waits for it is told that there is no result.
            return drop(task.take_body());
        }
        inbox.tasks.push(task);
        drop(inbox);
        self.stir();
    }

    /// Swaps the inbox against two that are empty.
    pub fn take_inbox(&self, tasks: &mut Vec<Arc<Task>>, ran: &mut Vec<PolledTask>) {
        let mut inbox = lock(&self.inbox);
        std::mem::swap(&mut inbox.tasks, tasks);
        std::mem::swap(&mut inbox.ran, ran);
    }

    /// Leaves a turn that was taken elsewhere for the shard.
    pub fn leave(&self, ran: PolledTask) {
        let mut inbox = lock(&self.inbox);
        if inbox.ended {
            drop(inbox);
            return drop(ran);
        }
        inbox.ran.push(ran);
        drop(inbox);
        self.stir();
    }

    /// Whether the shard is gone, for whoever has just put a task's body back:
    /// either its shard drops it then, or this is seen.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Says how urgent the most urgent task is that waits.
    pub fn show_waiting(&self, level: u8) {
        if self.waiting.load(Ordering::Relaxed) != level {
            self.waiting.store(level, Ordering::Relaxed);
        }
    }

    /// What was last shown.
    pub fn waiting(&self) -> u8 {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Takes nothing in from now on.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
        lock(&self.inbox).ended = true;
    }

    /// The next step has something to look at.
    pub fn stir(&self) {
        self.stirred.store(true, Ordering::Release);
        self.bell.ring_by(|| {
            if let Some(wake) = self.wake.get() {
                wake();
            }
        });
    }

    /// Whether something was left since this was last asked.
    pub fn take_stirred(&self) -> bool {
        self.stirred.load(Ordering::Relaxed) && self.stirred.swap(false, Ordering::AcqRel)
    }

    /// Says how this shard's sleep can be ended.
    pub fn set_wake(&self, wake: DeviceWaker) {
        let _ = self.wake.set(wake);
    }

    /// Sleeps by `sleep`, unless something was left.
    pub fn sleep_by(&self, sleep: impl FnOnce()) {
        self.bell.sleep_by(|| !self.stirred.load(Ordering::Acquire), sleep);
    }

    /// A place for one more task, if there is one.
    fn admit(&self) -> bool {
        let room = |live| (live < self.tasks_max).then_some(live + 1);
        let admitted = self.live.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok();
        if !admitted {
            self.refused.fetch_add(1, Ordering::Relaxed);
        }
        admitted
    }
}

/// A lock whose holder panicked is taken all the same: what it guards is whole
/// between any two operations.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A shard's tasks and sockets, for its own tasks and for other threads.
#[derive(Clone)]
pub struct Handle(pub(crate) Arc<Shared>);

impl Handle {
    /// That of the task that runs on this thread.
    ///
    /// # Panics
    /// When this is not called from a task.
    #[must_use]
    pub fn current() -> Self {
        Self(current::shared().expect("only a task has a shard; elsewhere keep a Handle"))
    }

    /// Runs `future` as a task of its own, from any thread. It begins with the
    /// label of the task that spawns it, or the least urgent.
    ///
    /// When as many tasks exist as the shard may have ([`Config::tasks_max`])
    /// the future is dropped, that is counted, and its handle says so.
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

    /// The same with a label of its own.
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
        let (body, handle) = joined(future);
        self.0.enqueue(Task::new(self.0.clone(), label, Box::pin(body)));
        handle
    }

    /// When the shard's latest step began; in a task, when its turn did.
    #[must_use]
    pub fn now(&self) -> Time {
        self.0.now()
    }
}
