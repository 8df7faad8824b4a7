//! An idle thread sleeps for any time; completions of its ring wake it.

//~ tasks: a sleeping thread is woken by completions of its ring

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use host::Monotonic;
use host::disk::{PAGE, Ring};
use net::Device;
use net::device::memory::{MemoryDevice, MemoryFrame};
use net::device::{Full, ReceivedFrame, Waker};
use runtime::task::{self, FileBuffer, FileOptions, WorkerOptions};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};

use super::*;

/// A device that sleeps until it is woken or its ring has a completion; a sleep of 20 s was ended
/// by neither.
struct Sleeper {
    wire: MemoryDevice,
    ready: OwnedFd,
    wakeup: Arc<OwnedFd>,
    sleeps: Arc<AtomicU32>,
    forgotten: Arc<AtomicBool>,
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
        let timeout = Timespec { tv_sec: 20, tv_nsec: 0 };
        let mut fds = [PollFd::new(&self.ready, PollFlags::IN), PollFd::new(&*self.wakeup, PollFlags::IN)];
        self.sleeps.fetch_add(1, Ordering::Relaxed);
        if poll(&mut fds, Some(&timeout)) == Ok(0) {
            self.forgotten.store(true, Ordering::Relaxed);
        }
        if !fds[1].revents().is_empty() {
            let _ = rustix::io::read(&*self.wakeup, &mut [0; 8]);
        }
    }
    fn waker(&self) -> Option<Waker> {
        let wakeup = self.wakeup.clone();
        Some(Arc::new(move || {
            let _ = rustix::io::write(&*wakeup, &1u64.to_ne_bytes());
        }))
    }
}

#[test]
fn a_thread_that_sleeps_is_woken_by_its_ring() {
    let mut ring = match Ring::new(4, 4, PAGE) {
        Ok(ring) => ring,
        Err(e) => {
            let why = format!("skipped: a_thread_that_sleeps_is_woken_by_its_ring: {e}\n");
            let _ = std::io::Write::write_all(&mut std::io::stderr(), why.as_bytes());
            return;
        }
    };
    let folder = TempDir::new("asleep").unwrap();
    let (sleeps, forgotten) = <(Arc<AtomicU32>, Arc<AtomicBool>)>::default();
    let wakeup = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
    let device = Sleeper {
        wire: pair(8, 1514).0,
        ready: ring.readiness().unwrap(),
        wakeup,
        sleeps: sleeps.clone(),
        forgotten: forgotten.clone(),
    };
    let wake = device.waker().unwrap();
    let tcp = net::stack::Config::new([2, 0, 0, 0, 0, 1], [10, 0, 0, 1].into(), 24, [1; 16]);
    let shard = TaskShard::new(Config { disk: Some(Box::new(ring)), ..Config::shared(tcp) });
    let options = FileOptions { write: true, create: true, direct: false };
    let file = shard.handle().open_file(folder.path().join("file"), &options).unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let over = stop.clone();
    let done = shard.spawn(async move {
        let mut sum = 0;
        for n in 0..60u8 {
            let mut buffer = FileBuffer::new(1).await?;
            buffer[0] = n;
            file.write_at(n.into(), buffer).await?;
            // Long enough for the thread to fall asleep.
            file.sync().await?;
            sum += u32::from(file.read_at(n.into(), 1).await?[0]);
        }
        over.store(true, Ordering::Relaxed);
        wake();
        std::io::Result::Ok(sum)
    });
    task::run(vec![(shard, device)], Arc::new(Monotonic::new()), &stop, &WorkerOptions::new(Span::ZERO));
    assert_eq!(done.try_take().expect("it is over").unwrap().unwrap(), (0..60).sum::<u32>());
    assert!(!forgotten.load(Ordering::Relaxed), "a sleep had no end");
    assert!(sleeps.load(Ordering::Relaxed) > 0, "it has slept");
}
