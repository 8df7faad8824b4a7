//! Wake-ups and sockets from other threads, without a sleep that would hide a
//! lost one.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Instant;

use net::Device;
use net::device::memory::{MemoryDevice, MemoryFrame, pair};
use net::device::{Full, Received, Waker};
use queueing::{Clock, Span, Time};
use runtime::task::{Config, TaskShard, run};
use tokio::sync::{mpsc, oneshot};

use crate::world::{World, tcp};

#[test]
fn no_wake_up_of_another_thread_is_lost() {
    let mut world = World::new();
    let (tell, mut told) = mpsc::channel(4);
    let heard = world.server.spawn(async move {
        let mut heard = 0;
        while let Some(n) = told.recv().await {
            heard += n;
        }
        heard
    });
    let teller = std::thread::spawn(move || {
        for n in 0..20_000u64 {
            tell.blocking_send(n).expect("somebody listens");
        }
    });
    let sum = loop {
        world.serve();
        if let Some(sum) = heard.try_take() {
            break sum;
        }
        std::thread::yield_now();
    };
    teller.join().expect("it told everything");
    assert_eq!(sum, Ok((0..20_000).sum()));
}

/// A device that sleeps until it is woken, however long that takes.
struct Sleeper {
    wire: MemoryDevice,
    bell: Arc<(Mutex<bool>, Condvar)>,
}

impl Device for Sleeper {
    type Frame = MemoryFrame;

    fn receive(&mut self, now: Time) -> Option<Received<MemoryFrame>> {
        self.wire.receive(now)
    }
    fn recycle(&mut self, frame: MemoryFrame) {
        self.wire.recycle(frame);
    }
    fn transmit(&mut self, now: Time, len: usize, fill: &mut dyn FnMut(&mut [u8])) -> Result<(), Full> {
        self.wire.transmit(now, len, fill)
    }
    fn wait(&mut self, _span: Span) {
        let (rung, condition) = &*self.bell;
        let mut rung = condition.wait_while(rung.lock().expect("whole"), |rung| !*rung).expect("whole");
        *rung = false;
    }
    fn waker(&self) -> Option<Waker> {
        let bell = self.bell.clone();
        Some(Arc::new(move || {
            *bell.0.lock().expect("whole") = true;
            bell.1.notify_one();
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
    let bell = Arc::default();
    let shard = TaskShard::new(Config::shared(tcp(1)));
    let handle = shard.handle();
    let (stop, clock) = (Arc::new(AtomicBool::new(false)), Arc::new(Real(Instant::now())));
    let device = Sleeper { wire, bell };
    let wake = device.waker().expect("it has one");
    let running = std::thread::spawn({
        let stop = stop.clone();
        move || run(vec![(shard, device)], clock, &stop, Span::ZERO)
    });
    for n in 0..2_000 {
        let (ask, asked) = oneshot::channel();
        let (answer, answered) = oneshot::channel();
        handle.spawn(async move { answer.send(asked.await.map(|n: u32| n + 1)) });
        // Most often it has been polled and the shard sleeps by now, sometimes not.
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
