//! CPU affinity of threads.

use std::io;

use queueing::CoreId;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};

/// Cores the current thread may run on, ascending.
///
/// # Errors
/// The kernel's error.
pub fn cores() -> io::Result<Vec<CoreId>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| set.is_set(core)).map(|core| CoreId(core as u16)).collect())
}

/// Core of the current thread, which may have changed by the time this is read.
#[must_use]
pub fn current_core() -> Option<CoreId> {
    u16::try_from(sched_getcpu()).ok().map(CoreId)
}

/// Pins the current thread, and threads it starts from now on, to `core`.
///
/// # Errors
/// `InvalidInput` if this machine has no such core or forbids it.
pub fn pin(core: CoreId) -> io::Result<()> {
    confine(&[core])
}

/// Restricts the current thread, and threads it starts from now on, to `cores`.
///
/// # Errors
/// The errors of [`pin`].
pub fn confine(cores: &[CoreId]) -> io::Result<()> {
    Ok(sched_setaffinity(None, &only(cores)?)?)
}

fn only(cores: &[CoreId]) -> io::Result<CpuSet> {
    let mut set = CpuSet::new();
    for index in cores.iter().map(|core| usize::from(core.0)) {
        if index >= CpuSet::MAX_CPU {
            let text = format!("core {index} is outside 0..{}", CpuSet::MAX_CPU);
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        set.set(index);
    }
    Ok(set)
}

/// Pins the only thread of process `id`, such as a kernel thread, to `core`.
///
/// # Errors
/// The errors of [`pin`], or the process does not exist.
pub fn pin_process(id: u32, core: CoreId) -> io::Result<()> {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    Ok(sched_setaffinity(Some(pid.ok_or(io::ErrorKind::NotFound)?), &only(&[core])?)?)
}

/// As [`pin`], to the core at position `nth` of those the current thread may run on, so that a
/// restricted process counts its cores from 0.
///
/// # Errors
/// The errors of [`pin`].
pub fn pin_nth(nth: CoreId) -> io::Result<()> {
    let cores = cores()?;
    let Some(&core) = cores.get(usize::from(nth.0)) else {
        let text = format!("core {} is outside the {} allowed cores", nth.0, cores.len());
        return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    };
    pin(core)
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ runtime: a pinned thread runs on its core only
    #[test]
    fn a_pinned_thread_may_run_on_its_core_only() {
        let core = cores().unwrap()[0];
        // On a thread of its own: the test harness keeps its cores.
        let seen = std::thread::spawn(move || pin(core).and_then(|()| cores())).join().unwrap();
        assert_eq!(seen.unwrap(), [core]);
    }

    #[test]
    fn cores_are_counted_among_those_the_thread_may_use() {
        let last = *cores().unwrap().last().unwrap();
        let confined = move || {
            pin(last)?;
            pin_nth(CoreId(0))?;
            Ok::<_, io::Error>((cores()?, pin_nth(CoreId(1)).is_err()))
        };
        let seen = std::thread::spawn(confined).join().unwrap();
        assert_eq!(seen.unwrap(), (vec![last], true));
    }

    #[test]
    fn a_core_that_does_not_exist_is_refused() {
        assert_eq!(pin(CoreId(u16::MAX)).unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
