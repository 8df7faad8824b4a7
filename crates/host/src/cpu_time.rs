//! CPU time used by a program, and by the kernel on its behalf.
//!
//! The threads' own run time, to the nanosecond. A softirq that interrupts a thread counts as that
//! thread's time (kernels account it separately only with `CONFIG_IRQ_TIME_ACCOUNTING`), and the
//! softirq thread of the program's core is added. The kernel's work on an idle core is not included.
//!
//! Source: Linux, Documentation/scheduler/sched-stats.rst, `/proc/PID/schedstat`.

use std::fs;
use std::io;

use queueing::{CoreId, Span};

use crate::proc;

/// Meter of a program's CPU time.
#[derive(Clone, Debug)]
pub struct CpuTimeMeter {
    process: u32,
    /// Softirq thread of its core.
    softirq: Option<u32>,
}

impl CpuTimeMeter {
    /// Meter of process `id`, all of whose threads run on `core`.
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

/// CPU time used so far by all live threads of process `id`.
///
/// # Errors
/// The process is gone.
pub fn process(id: u32) -> io::Result<Span> {
    let mut ns = 0;
    for thread in fs::read_dir(format!("/proc/{id}/task"))? {
        // The time of a thread that ends meanwhile is lost.
        ns += run_time_ns(&format!("{}/schedstat", thread?.path().display())).unwrap_or(0);
    }
    Ok(Span::from_nanos(ns))
}

/// Kernel thread whose name begins with `name`, if there is one.
#[must_use]
pub fn kernel_thread(name: &str) -> Option<u32> {
    let is_it =
        |id: &u32| fs::read_to_string(format!("/proc/{id}/comm")).is_ok_and(|comm| comm.starts_with(name));
    proc::processes().find(is_it)
}

/// The first value: nanoseconds on a core.
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
        let meter = CpuTimeMeter::new(std::process::id(), CoreId(0));
        let before = meter.used().unwrap();
        // The kernel updates the account of a running thread at its next tick, and other programs take
        // part of the time, on a busy core most of it.
        let is_counted = |_| {
            Monotonic::new().compute(Span::from_millis(30));
            std::thread::yield_now();
            meter.used().unwrap() > before
        };
        assert!((0..100).any(is_counted));
    }
}
