//! Processes that no task may contain: greenwave itself and all that it depends on.
//!
//! A task's threads change class and cores, and best effort is frozen at times. Frozen with its task,
//! greenwave could not resume it, and if the shell or the service manager above it were frozen, no process
//! could end it. Kernel threads serve all processes.

use std::collections::BTreeMap;
use std::fmt;

use host::proc;

/// The protected processes of this machine, except kernel threads, which are recognised one by one.
#[derive(Clone, Debug, Default)]
pub struct Protected {
    roles: BTreeMap<u32, Role>,
}

/// Reason why a process is protected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// This process.
    This,
    /// The process that restores all settings when this one has ended.
    Guardian,
    /// A process that started this one, at any distance.
    Ancestor,
    /// The leader of this process's session, such as a login shell.
    SessionLeader,
    /// The first process.
    Init,
    /// A thread of the kernel.
    KernelThread,
}

impl fmt::Display for Role {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::This => "greenwave itself",
            Self::Guardian => "greenwave's guardian",
            Self::Ancestor => "an ancestor of greenwave",
            Self::SessionLeader => "the leader of greenwave's session",
            Self::Init => "the first process",
            Self::KernelThread => "a kernel thread",
        })
    }
}

impl Protected {
    /// The protected processes now; `guardian` is this process's guardian, if it has one.
    #[must_use]
    pub fn current(guardian: Option<u32>) -> Self {
        let this = std::process::id();
        Self::of(this, guardian, proc::session(this), proc::parent)
    }

    /// The protected processes around `this`.
    pub(crate) fn of(
        this: u32,
        guardian: Option<u32>,
        session: Option<u32>,
        parent: impl Fn(u32) -> Option<u32>,
    ) -> Self {
        let mut roles = BTreeMap::from([(this, Role::This)]);
        let mut note = |id: u32, role: Role| {
            roles.entry(id).or_insert(role);
        };
        guardian.into_iter().for_each(|id| note(id, Role::Guardian));
        note(1, Role::Init);
        // 0 is outside this PID namespace. Numbers reused during the walk may look like a ring.
        let above = |&id: &u32| parent(id).filter(|&id| id > 0);
        let ancestors = std::iter::successors(above(&this), above).take(ANCESTORS_MAX);
        ancestors.for_each(|id| note(id, Role::Ancestor));
        session.into_iter().for_each(|id| note(id, Role::SessionLeader));
        Self { roles }
    }

    /// Reason why no task may contain `process`; `None` if one may.
    #[must_use]
    pub fn role(&self, process: u32) -> Option<Role> {
        let is_kernel_thread = || proc::is_kernel_thread(process).then_some(Role::KernelThread);
        self.known_role(process).or_else(is_kernel_thread)
    }

    /// As [`role`](Self::role), for a process that is known not to be a kernel thread.
    #[must_use]
    pub fn known_role(&self, process: u32) -> Option<Role> {
        self.roles.get(&process).copied()
    }

    /// True if `process` must not be frozen. Does not recognise kernel threads, which cannot be
    /// frozen.
    #[must_use]
    pub fn contains(&self, process: u32) -> bool {
        self.roles.contains_key(&process)
    }
}

/// Longest chain of ancestors.
const ANCESTORS_MAX: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    //~ sched: no task contains greenwave, its guardian, its ancestors, the first process or a kernel thread
    #[test]
    fn greenwave_and_everything_above_it_are_protected() {
        let parent = |id: u32| [(50, 40), (40, 30), (30, 1), (1, 0)].into_iter().find(|at| at.0 == id);
        let protected = Protected::of(50, Some(60), Some(20), |id| parent(id).map(|at| at.1));
        for (id, role) in [
            (50, Role::This),
            (60, Role::Guardian),
            (40, Role::Ancestor),
            (30, Role::Ancestor),
            (1, Role::Init),
            (20, Role::SessionLeader),
        ] {
            assert_eq!(protected.role(id), Some(role), "{id}");
            assert!(protected.contains(id));
        }
        assert!(!protected.contains(70), "a sibling");
        // Process IDs that form a ring, as reuse during the walk may show them.
        assert!(Protected::of(5, None, None, |id| Some(if id == 5 { 6 } else { 5 })).contains(6));
    }

    #[test]
    fn this_process_its_parent_and_kernel_threads_are_protected() {
        let protected = Protected::current(None);
        let this = std::process::id();
        assert_eq!(protected.role(this), Some(Role::This));
        assert!(protected.contains(proc::parent(this).unwrap()) && protected.contains(1));
        if proc::sees_kernel_threads() {
            assert_eq!(protected.role(2), Some(Role::KernelThread));
        }
    }
}
