//! Linux scheduling class of a thread.
//!
//! BE runs in `SCHED_IDLE`: a thread of another class that wakes up takes the core, in the kernel, at
//! the cost of one wake-up. A thread of the fair class may wait for that until the next tick; one of a
//! real-time class does not.
//!
//! Source: sched(7), sched_setscheduler(2).

use std::io;

use rustix::process::Pid;

/// Class and priority, in the kernel's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SchedPolicy {
    /// `SCHED_OTHER` and so on, with `SCHED_RESET_ON_FORK` if it is set.
    pub policy: i32,
    /// 1 to 99 in the real-time classes, else 0.
    pub priority: i32,
}

impl SchedPolicy {
    /// Runs only when no other class wants the core.
    pub const IDLE: Self = Self { policy: libc::SCHED_IDLE, priority: 0 };
    /// Default class of programs.
    pub const OTHER: Self = Self { policy: libc::SCHED_OTHER, priority: 0 };
    /// Class of a scheduler loaded into the kernel; the fair class while there is none.
    pub const EXT: Self = Self { policy: 7, priority: 0 };
    /// Runs before all threads that are not real-time, the kernel's own included.
    pub const URGENT: Self = Self { policy: libc::SCHED_RR, priority: 1 };
    /// Runs before [`URGENT`](Self::URGENT) too; for the core manager; its children do not inherit
    /// it.
    pub const FIRST: Self = Self { policy: libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, priority: 2 };

    /// Class of `thread`; `None` is the calling one.
    ///
    /// # Errors
    /// No such thread.
    pub fn of(thread: Option<Pid>) -> io::Result<Self> {
        let id = Pid::as_raw(thread);
        // SAFETY: two plain system calls; `param` lives through the second, which fills it.
        let (policy, read, param) = unsafe {
            let mut param: libc::sched_param = std::mem::zeroed();
            let policy = libc::sched_getscheduler(id);
            (policy, libc::sched_getparam(id, &raw mut param), param)
        };
        if policy < 0 || read < 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { policy, priority: param.sched_priority })
    }

    /// Puts `thread` into the class.
    ///
    /// # Errors
    /// No such thread; no permission.
    pub fn set(self, thread: Option<Pid>) -> io::Result<()> {
        // SAFETY: all-zero bytes are a valid `sched_param`.
        let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
        param.sched_priority = self.priority;
        // SAFETY: a plain system call; `param` lives through it.
        match unsafe { libc::sched_setscheduler(Pid::as_raw(thread), self.policy, &raw const param) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Class that a child of such a thread starts in.
    #[must_use]
    pub const fn child(self) -> Self {
        let policy = self.policy & !libc::SCHED_RESET_ON_FORK;
        match policy {
            libc::SCHED_DEADLINE => Self::OTHER,
            libc::SCHED_FIFO | libc::SCHED_RR if policy != self.policy => Self::OTHER,
            _ => Self { policy, priority: self.priority },
        }
    }

    /// True for `SCHED_DEADLINE`, which a thread requests for itself: the calls above can change
    /// neither its class nor its cores.
    #[must_use]
    pub const fn is_deadline(self) -> bool {
        self.policy & !libc::SCHED_RESET_ON_FORK == libc::SCHED_DEADLINE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_became_idle_says_so() {
        // On a thread of its own that ends: leaving the class requires privileges.
        let both = || {
            Ok::<_, io::Error>((SchedPolicy::of(None)?, SchedPolicy::IDLE.set(None), SchedPolicy::of(None)?))
        };
        let (before, set, after) = std::thread::spawn(both).join().unwrap().unwrap();
        set.unwrap();
        assert_ne!(before, SchedPolicy::IDLE);
        assert_eq!(after, SchedPolicy::IDLE);
    }

    #[test]
    fn what_a_thread_starts_has_its_class_unless_it_keeps_that_to_itself() {
        let reset =
            |class: SchedPolicy| SchedPolicy { policy: class.policy | libc::SCHED_RESET_ON_FORK, ..class };
        for class in [SchedPolicy::OTHER, SchedPolicy::IDLE, SchedPolicy::URGENT] {
            assert_eq!(class.child(), class);
        }
        assert_eq!(
            [reset(SchedPolicy::IDLE), reset(SchedPolicy::URGENT)].map(SchedPolicy::child),
            [SchedPolicy::IDLE, SchedPolicy::OTHER]
        );
        assert_eq!(SchedPolicy::FIRST.child(), SchedPolicy::OTHER);
        let deadline = SchedPolicy { policy: libc::SCHED_DEADLINE, priority: 0 };
        assert_eq!(deadline.child(), SchedPolicy::OTHER, "such a thread can fork with the flag only");
    }

    #[test]
    fn a_missing_thread_has_no_class() {
        let none = Pid::from_raw(i32::MAX);
        assert!(SchedPolicy::of(none).is_err() && SchedPolicy::IDLE.set(none).is_err());
    }
}
