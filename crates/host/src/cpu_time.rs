//! CPU time that a program uses, and the kernel on its behalf.
//!
//! The threads' own run time, to the nanosecond. A softirq that interrupts a
//! thread is in that thread's time (kernels account it apart only with
//! `CONFIG_IRQ_TIME_ACCOUNTING`), and the softirq thread of the core where the
//! program is pinned is added; what the kernel does on an idle core is nobody's.
//! Source: Linux, Documentation/scheduler/sched-stats.rst, `/proc/PID/schedstat`.

use std::fs;
use std::io;

use queueing::{CoreId, Span};

use crate::proc;

/// Reads the CPU time of one program.
#[derive(Clone, Debug)]
pub struct Meter {
    process: u32,
    /// The kernel's softirq thread of its core.
    softirq: Option<u32>,
}

impl Meter {
    /// For process `id`, all of whose threads run on `core`.
    #[must_use]
    pub fn new(id: u32, core: CoreId) -> Self {
        Self { process: id, softirq: kernel_thread(&format!("ksoftirqd/{}\n", core.0)) }
    }

    /// CPU time used so far.
    ///
    /// # Errors
    /// The process is gone, or the kernel keeps no such account.
    pub fn used(&self) -> io::Result<Span> {
        let mut used = process(self.process)?;
        if let Some(id) = self.softirq {
            used += Span::from_nanos(run_time_ns(&format!("/proc/{id}/schedstat"))?);
        }
        Ok(used)
    }
}

/// CPU time that all threads of process `id` have used so far, each as long as
/// it lives.
///
/// # Errors
/// The process is gone.
pub fn process(id: u32) -> io::Result<Span> {
    let mut ns = 0;
    for thread in fs::read_dir(format!("/proc/{id}/task"))? {
        // A thread that ends meanwhile takes its time with it.
        ns += run_time_ns(&format!("{}/schedstat", thread?.path().display())).unwrap_or(0);
    }
    Ok(Span::from_nanos(ns))
}

/// The thread of the kernel's whose name begins with `name`, if there is one.
#[must_use]
pub fn kernel_thread(name: &str) -> Option<u32> {
    let is_it =
        |id: &u32| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|comm| comm.starts_with(name));
    proc::processes().find(is_it)
}

/// The first figure: nanoseconds on a core.
fn run_time_ns(path: &str) -> io::Result<u64> {
    let text = fs::read_to_string(path)?;
    let first = text.split_whitespace().next().and_then(|word| word.parse().ok());
    first.ok_or_else(|| io::Error::other(format!("{path} holds {text:?}")))
}

#[cfg(test)]
mod tests {
    use queueing::Clock;

    use super::*;
    use crate::Monotonic;

    #[test]
    fn time_spent_computing_is_counted() {
        let meter = Meter::new(std::process::id(), CoreId(0));
        let before = meter.used().unwrap();
        // The kernel adds to the account of a running thread at its next tick,
        // and whatever shares the core takes part of the time, on a busy one most of it.
        let is_counted = |_| {
            Monotonic::new().compute(Span::from_millis(30));
            std::thread::yield_now();
            meter.used().unwrap() > before
        };
        assert!((0..100).any(is_counted));
    }
}
