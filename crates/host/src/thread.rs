//! Threads as the kernel knows them: their numbers, and who of them steps back.
//!
//! What a runtime needs for turns that take long (`runtime::task::Quantum`).
//! Source: gettid(2), sched(7).

use rustix::thread::gettid;

/// The kernel's number of the calling thread.
#[must_use]
pub fn number() -> u32 {
    gettid().as_raw_nonzero().get().unsigned_abs()
}

/// Lets thread `number` of this process run only where nobody else wants to
/// (`SCHED_IDLE`). It may not be able to come back. Nothing happens when it has
/// ended.
pub fn demote(number: u32) {
    let param = libc::sched_param { sched_priority: 0 };
    // SAFETY: a plain system call; `param` lives through it.
    unsafe { libc::sched_setscheduler(number as i32, libc::SCHED_IDLE, &raw const param) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_demoted_thread_is_in_the_idle_class_and_others_are_not() {
        let class = |number: u32| {
            // SAFETY: a plain system call.
            unsafe { libc::sched_getscheduler(number as i32) }
        };
        let (ours, before) = (number(), class(number()));
        let demoted = std::thread::spawn(move || {
            demote(number());
            (number(), class(number()))
        });
        let (theirs, seen) = demoted.join().unwrap();
        assert_eq!((seen, class(ours)), (libc::SCHED_IDLE, before));
        assert_ne!(theirs, ours);
        // It has ended.
        demote(theirs);
    }
}
