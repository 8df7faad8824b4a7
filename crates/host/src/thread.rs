//! Threads as the kernel knows them: their numbers, and who of them steps back.
//!
//! What a runtime needs for turns that take long (`runtime::task::Quantum`).
//! Source: gettid(2), sched(7).

use rustix::thread::{Pid, gettid};

use crate::cores::sched_policy::SchedPolicy;

/// The kernel's number of the calling thread.
#[must_use]
pub fn number() -> u32 {
    gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Lets thread `number` of this process run only where nobody else wants to
/// (`SCHED_IDLE`). It may not be able to come back. Nothing happens when it has
/// ended.
pub fn demote(number: u32) {
    // It has ended by now, or it may step back: there is no other answer.
    if let thread @ Some(_) = i32::try_from(number).ok().and_then(Pid::from_raw) {
        let _ = SchedPolicy::IDLE.set(thread);
    }
}

/// As [`demote`], of the calling thread; a daemon in its sandbox may do so, too.
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
        let (theirs, seen) = demoted.join().unwrap();
        assert_eq!((seen, class(ours)), (SchedPolicy::IDLE, before));
        assert_eq!((steps_back.join().unwrap(), class(ours)), (SchedPolicy::IDLE, before));
        assert_ne!(theirs, ours);
        // It has ended.
        demote(theirs);
    }
}
