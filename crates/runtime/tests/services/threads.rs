//! Wake-ups and sockets from other threads, without a sleep that would hide a lost one.

//~ tasks: worker threads park and unpark on request

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use net::Device;
use net::device::memory::{MemoryDevice, MemoryFrame, pair};
use net::device::{Full, ReceivedFrame, Waker};
use queueing::{Clock, CoreId, Span, Time};
use runtime::task::{Config, Counters, Quantum, TaskShard, WorkerOptions, run, yield_now};
use sched::cores::worker_signals::{SignalMemory, SignalPage, WorkerSignals};
use tokio::sync::{mpsc, oneshot};

use crate::world::{World, tcp};

#[test]
fn no_wake_up_of_another_thread_is_lost() {
    let mut world = World::new();
    let (sender, mut receiver) = mpsc::channel(4);
    let service = world.server.spawn(async move {
        let mut received = 0;
        while let Some(n) = receiver.recv().await {
            received += n;
        }
        received
    });
    let teller = std::thread::spawn(move || {
        for n in 0..20_000u64 {
            sender.blocking_send(n).expect("an open receiver");
        }
    });
    let sum = loop {
        world.serve();
        if let Some(sum) = service.try_take() {
            break sum;
        }
        std::thread::yield_now();
    };
    teller.join().expect("it sent everything");
    assert_eq!(sum, Ok((0..20_000).sum()));
}

/// A device that sleeps until it is woken, however long that takes.
struct Sleeper {
    wire: MemoryDevice,
    signal: Arc<(Mutex<bool>, Condvar)>,
}

impl Device for Sleeper {
    type Frame = MemoryFrame;

    fn receive(&mut self, now: Time) -> Option<ReceivedFrame<MemoryFrame>> {
        self.wire.receive(now)
    }
    fn recycle(&mut self, frame: MemoryFrame) {
        self.wire.recycle(frame);
    }
    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        self.wire.transmit(now, len, fill)
    }
    fn wait(&mut self, _span: Span) {
        let (rung, condition) = &*self.signal;
        let mut rung = condition.wait_while(rung.lock().expect("whole"), |rung| !*rung).expect("whole");
        *rung = false;
    }
    fn waker(&self) -> Option<Waker> {
        let signal = self.signal.clone();
        Some(Arc::new(move || {
            *signal.0.lock().expect("whole") = true;
            signal.1.notify_one();
        }))
    }
}

struct Real(Instant);

impl Clock for Real {
    fn now(&self) -> Time {
        Time::from_nanos(self.0.elapsed().as_nanos() as u64)
    }
    fn compute(&self, _span: Span) {}
}

#[test]
fn a_shard_that_sleeps_is_woken_for_every_task_and_message() {
    let (wire, _far) = pair(8, 1514);
    let signal = Arc::default();
    let shard = TaskShard::new(Config::shared(tcp(1)));
    let handle = shard.handle();
    let (stop, clock) = (Arc::new(AtomicBool::new(false)), Arc::new(Real(Instant::now())));
    let device = Sleeper { wire, signal };
    let wake = device.waker().expect("it has one");
    let running = std::thread::spawn({
        let stop = stop.clone();
        move || run(vec![(shard, device)], clock, &stop, &WorkerOptions::new(Span::ZERO))
    });
    for n in 0..2_000 {
        let (ask, asked) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        handle.spawn(async move { answer.send(asked.await.map(|n: u32| n + 1)) });
        // Usually it has been polled and the shard sleeps by now, sometimes not.
        if n % 2 == 0 {
            std::thread::yield_now();
        }
        ask.send(n).expect("it waits");
        assert_eq!(answered.blocking_recv(), Ok(Ok(n + 1)));
    }
    stop.store(true, Ordering::Relaxed);
    wake();
    let counters = running.join().expect("it stops");
    assert_eq!((counters[0].started, counters[0].ended), (2_000, 2_000));
}

/// True if `flag` is set within 20 s.
fn becomes_true(flag: &AtomicBool) -> bool {
    let end = Instant::now() + std::time::Duration::from_secs(20);
    while !flag.load(Ordering::Relaxed) && Instant::now() < end {
        std::thread::yield_now();
    }
    flag.load(Ordering::Relaxed)
}

/// Runs `tasks` on the first of `shards` shards with the options `options`, until `over` returns.
fn run_until(
    shards: usize,
    options: WorkerOptions,
    tasks: impl FnOnce(&TaskShard<MemoryDevice>),
    over: impl FnOnce(),
) -> Vec<Counters> {
    let mut ends = Vec::new();
    let shards: Vec<_> = (0..shards)
        .map(|n| {
            let (wire, far) = pair(8, 1514);
            ends.push(far);
            (TaskShard::new(Config::shared(tcp(n as u8 + 1))), wire)
        })
        .collect();
    tasks(&shards[0].0);
    let (stop, clock) = (AtomicBool::new(false), Arc::new(Real(Instant::now())));
    std::thread::scope(|scope| {
        let running = scope.spawn(|| run(shards, clock, &stop, &options));
        // Stops also when `over` fails: the scope would otherwise wait for ever.
        let failed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(over)).err();
        stop.store(true, Ordering::Relaxed);
        let ran = running.join().expect("it stops");
        failed.map_or(ran, |why| std::panic::resume_unwind(why))
    })
}

/// Runs a task that computes until another one has run; returns whether it did, and the counters.
fn busy_until_another_task_has_run(shards: usize, options: WorkerOptions) -> (bool, Counters) {
    let (ran, seen, over) = <[Arc<AtomicBool>; 3]>::default().into();
    let done = over.clone();
    let counters = run_until(
        shards,
        options,
        |shard| {
            let (flag, was_set) = (ran.clone(), seen.clone());
            shard.spawn(async move {
                was_set.store(becomes_true(&flag), Ordering::Relaxed);
                over.store(true, Ordering::Relaxed);
            });
            shard.spawn(async move { ran.store(true, Ordering::Relaxed) });
        },
        || assert!(becomes_true(&done), "it has come to its end"),
    );
    (seen.load(Ordering::Relaxed), counters[0])
}

//~ tasks: a handler that computes for long does not block others
#[test]
fn a_handler_that_computes_for_long_does_not_block_the_others() {
    let quantum = Quantum {
        thread: || 77,
        demote: |n| DEMOTED.store(n == 77, Ordering::Relaxed),
        ..Quantum::default()
    };
    let options =
        WorkerOptions { quantum: Some(quantum), steal_after: None, ..WorkerOptions::new(Span::ZERO) };
    let (seen, counters) = busy_until_another_task_has_run(1, options);
    assert!(seen, "the other ran meanwhile");
    assert!(counters.handed_over >= 1 && DEMOTED.load(Ordering::Relaxed));
    assert_eq!((counters.started, counters.ended), (2, 2));
}

static DEMOTED: AtomicBool = AtomicBool::new(false);

//~ tasks: work stealing takes the most urgent task
#[test]
fn an_idle_thread_steals_polls_of_another_shards_tasks() {
    let options = WorkerOptions { quantum: None, ..WorkerOptions::new(Span::ZERO) };
    let (seen, counters) = busy_until_another_task_has_run(2, options);
    assert!(seen, "the other ran meanwhile");
    assert_eq!((counters.stolen >= 1, counters.ended, counters.handed_over), (true, 2, 0));
}

/// Signal memory in this process.
struct Local {
    page: SignalPage,
    asleep: (Mutex<()>, Condvar),
}

impl SignalMemory for Local {
    fn page(&self) -> &SignalPage {
        &self.page
    }
    fn wait(&self, word: &AtomicU32, value: u32, span: std::time::Duration) {
        let (lock, condition) = &self.asleep;
        let guard = lock.lock().expect("whole");
        if word.load(Ordering::Relaxed) == value {
            drop(condition.wait_timeout(guard, span).expect("whole"));
        }
    }
    fn wake(&self, _word: &AtomicU32) {
        drop(self.asleep.0.lock().expect("whole"));
        self.asleep.1.notify_all();
    }
}

#[test]
fn a_worker_parks_on_request_and_publishes_its_waiting_work() {
    let signal_page = Arc::new(Local { page: SignalPage::new(1), asleep: Default::default() });
    let options = WorkerOptions { signal_page: Some(signal_page.clone()), ..WorkerOptions::new(Span::ZERO) };
    let mut ran = None;
    signal_page.page.set_lease(Some(Time::MAX));
    assert!(signal_page.request_park(0, true));
    let lane = &signal_page.page.slots()[0];
    let until = |what: &dyn Fn(&WorkerSignals) -> bool| {
        let end = Instant::now() + std::time::Duration::from_secs(20);
        while Instant::now() < end {
            if lane.park.is_done() && lane.read().is_some_and(|signals| what(&signals)) {
                return true;
            }
            std::thread::yield_now();
        }
        false
    };
    let handle = &mut ran;
    let counters = run_until(
        1,
        options,
        |shard| *handle = Some(shard.spawn(async { 5 })),
        || {
            assert!(
                until(&|signals| signals.runnable == 1 && signals.tasks.is_some()),
                "it publishes the task"
            );
            assert!(signal_page.request_park(0, false));
            assert!(until(&|signals| signals.runnable == 0 && signals.sleeping), "it continues, and sleeps");
        },
    );
    assert_eq!(ran.and_then(|task| task.try_take()), Some(Ok(5)));
    assert_eq!((counters[0].polls, signal_page.page.signals(Time::ZERO).runnable), (1, 0));
}

//~ sched: a program on the runtime continues when its scheduler ends, hangs or is killed
#[test]
fn a_worker_continues_without_its_scheduler() {
    let signal_page = Arc::new(Local { page: SignalPage::new(1), asleep: Default::default() });
    let options = WorkerOptions {
        signal_page: Some(signal_page.clone()),
        current_core: Some(|| Some(CoreId(3))),
        ..WorkerOptions::new(Span::ZERO)
    };
    signal_page.page.set_lease(Some(Time::MAX));
    assert!(signal_page.request_park(0, true));
    let lane = &signal_page.page.slots()[0];
    let tells = |what: &dyn Fn(&WorkerSignals) -> bool| {
        let end = Instant::now() + std::time::Duration::from_secs(20);
        let mut holds = false;
        while !holds && Instant::now() < end {
            std::thread::yield_now();
            holds = lane.park.is_done() && lane.read().is_some_and(|signals| what(&signals));
        }
        holds
    };
    let began = Arc::new(AtomicBool::new(false));
    let (begins, mut seen) = (began.clone(), [false; 3]);
    run_until(
        1,
        options,
        |shard| {
            drop(shard.spawn(async move {
                loop {
                    begins.store(true, Ordering::Relaxed);
                    yield_now().await;
                }
            }));
        },
        || {
            seen[0] = tells(&|signals| signals.runnable == 1);
            seen[1] = !began.load(Ordering::Relaxed);
            // The park request is never withdrawn; its lease has expired.
            signal_page.page.set_lease(Some(Time::ZERO));
            seen[2] = tells(&|signals| signals.request.is_some() && signals.core == Some(CoreId(3)));
        },
    );
    assert_eq!(seen, [true; 3], "it publishes the waiting task, has not started it, and continues");
}
