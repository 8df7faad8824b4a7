//! Idle inhibitor: keeps a core from halting.
//!
//! An idle core halts. The next wake-up of a virtual one waits for the hypervisor and starts cold,
//! perhaps on another core of the host, and no account of the guest shows it. Where speed is measured
//! on a core that is sometimes idle, a thread of the idle class therefore computes on it and yields to
//! all others, in a control group with minimal weight where threads can have one of their own.
//!
//! Source: Linux, Documentation/virt/guest-halt-polling.rst; sched(7).

use std::hint::black_box;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::thread::{Builder, JoinHandle};

use queueing::CoreId;

use super::{LabError, TestGroup};
use host::affinity;
use host::sched_policy::SchedPolicy;

/// Keeps a core from halting until it is dropped.
#[derive(Debug)]
pub struct IdleInhibitor {
    stop: Arc<AtomicBool>,
    /// Returns its group, which is removed when empty.
    thread: Option<JoinHandle<TestGroup>>,
}

impl IdleInhibitor {
    /// Keeps `core` from halting.
    ///
    /// # Errors
    /// The errors of [`TestGroup::new`], or this process may not use the core, or cannot start a thread.
    pub fn keep(core: CoreId) -> Result<Self, LabError> {
        let failed = |e: io::Error| LabError::Program { program: NAME.to_owned(), why: e.to_string() };
        let group = TestGroup::new(NAME)?;
        group.yields()?;
        let stop = Arc::new(AtomicBool::new(false));
        let (sender, ready) = channel();
        let until = stop.clone();
        let computes = move || {
            let can = group.join().and_then(|()| {
                affinity::pin(core).and_then(|()| SchedPolicy::IDLE.set(None)).map_err(failed)
            });
            let goes_on = can.is_ok();
            // The starter waits for it.
            let _ = sender.send(can);
            // No spin-loop hint: a processor may report such a loop to the hypervisor, which then runs
            // another guest.
            let mut number = 0_u64;
            while goes_on && !until.load(Ordering::Relaxed) {
                number = black_box(number.wrapping_add(1));
            }
            group
        };
        let thread = Builder::new().name(NAME.to_owned()).spawn(computes).map_err(failed)?;
        let awake = Self { stop, thread: Some(thread) };
        let gone = |_| Err(failed(io::Error::other("it ended")));
        ready.recv().unwrap_or_else(gone).map(|()| awake)
    }
}

impl Drop for IdleInhibitor {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread only counts, and does not panic.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

const NAME: &str = "awake";

//~ guard: idle cores are kept awake during an experiment
#[cfg(test)]
mod tests {
    use super::*;
    use crate::soon::soon;
    use host::proc;

    #[test]
    fn an_idle_inhibitor_yields_to_all_and_ends_with_its_handle() {
        if let Some(why) = TestGroup::unavailable() {
            return println!("skipped: an_idle_inhibitor_yields_to_all_and_ends_with_its_handle: {why}");
        }
        let ours = std::process::id();
        let found = || {
            let named = |thread: &u32| {
                let name = std::fs::read_to_string(format!("/proc/{ours}/task/{thread}/comm"));
                name.is_ok_and(|name| name.trim() == NAME)
            };
            proc::threads(ours).into_iter().find(named)
        };
        let awake = IdleInhibitor::keep(CoreId(0)).unwrap();
        let thread = found().expect("the thread runs");
        let class = SchedPolicy::of(rustix::process::Pid::from_raw(thread as i32)).unwrap();
        assert_eq!(class, SchedPolicy::IDLE);
        assert!(proc::is_runnable(ours, thread), "it waits for nothing but the core");
        drop(awake);
        // An ended thread may be visible for a moment more.
        soon(|| found().is_none());
    }
}
