//! Linux thread IDs, and the idle class for threads.
//!
//! Used by a runtime with long polls (`runtime::task::Quantum`).
//!
//! Source: gettid(2), sched(7).

use rustix::thread::{Pid, gettid};

use crate::sched_policy::SchedPolicy;

/// Thread ID of the calling thread.
#[must_use]
pub fn number() -> u32 {
    gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Puts thread `number` of this process into the idle class (`SCHED_IDLE`). It may lack the permission
/// to leave it. Does nothing if the thread has ended.
pub fn demote(number: u32) {
    // The call fails only if the thread has ended: entering the idle class needs no permission.
    if let thread @ Some(_) = i32::try_from(number).ok().and_then(Pid::from_raw) {
        let _ = SchedPolicy::IDLE.set(thread);
    }
}

/// As [`demote`], for the calling thread; permitted in a daemon's sandbox, too.
pub fn step_back() {
    let _ = SchedPolicy::IDLE.set(None);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demoted_thread_is_in_the_idle_class_and_others_are_not() {
        let class = |number: u32| SchedPolicy::of(Pid::from_raw(number as i32)).unwrap();
        let (ours, before) = (number(), class(number()));
        let demoted = std::thread::spawn(move || {
            demote(number());
            (number(), class(number()))
        });
        let steps_back = std::thread::spawn(move || {
            step_back();
            class(number())
        });
        let (thread_policy, seen) = demoted.join().unwrap();
        assert_eq!((seen, class(ours)), (SchedPolicy::IDLE, before));
        assert_eq!((steps_back.join().unwrap(), class(ours)), (SchedPolicy::IDLE, before));
        assert_ne!(thread_policy, ours);
        // The thread has ended.
        demote(thread_policy);
    }
}
