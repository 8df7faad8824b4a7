//! Requirements of runs on this machine, and their serialization: they share its cores.

use std::sync::{Mutex, MutexGuard, PoisonError};

use host::{affinity, signals};
use netlab::{NetLab, TestGroup};
use queueing::CoreId;

use crate::error::Error;

/// True if this process can keep `cores` from halting and there are any. From then on ctrl-C sets a
/// flag, so that the process can clean up.
pub fn can_keep_awake(cores: &[CoreId]) -> bool {
    let available = affinity::cores().unwrap_or_default();
    let is_subset = !cores.is_empty() && cores.iter().all(|core| available.contains(core));
    is_subset && TestGroup::unavailable().is_none() && !signals::is_set()
}

/// Checks that a run of `world` is possible here; each of `programs` needs a core. From then on ctrl-C
/// sets a flag, so that the run can clean up.
///
/// # Errors
/// The missing requirement, with `experiment` as the command to retry with more rights; or an
/// interruption.
pub fn check_possible(world: &str, experiment: &str, programs: &str) -> Result<(), Error> {
    if signals::is_set() {
        return Err(Error::interrupted(""));
    }
    if let Some(why) = NetLab::unavailable().or_else(TestGroup::unavailable) {
        let advice = format!("sudo greenwave exp run {experiment}");
        return Err(Error::new(format!("world {world}: {why}")).advice(advice));
    }
    if affinity::cores().map_or(0, |cores| cores.len()) < 2 {
        let message = format!("world {world}: {programs} need a core each, and this process may use one");
        return Err(Error::new(message).advice("a machine with two cores"));
    }
    Ok(())
}

/// Checks that `program`, of Debian's `package`, is installed for a run of `world`.
///
/// # Errors
/// The program is missing; the error has the command that installs it.
pub fn check_installed(world: &str, program: &str, package: &str) -> Result<(), Error> {
    if netlab::is_installed(program) {
        return Ok(());
    }
    let message = format!("world {world}: the program {program} is not installed");
    Err(Error::new(message).advice(format!("apt-get install {package}")))
}

/// Lock that admits one run at a time and caches values that several runs share.
pub struct HostLock<K>(Mutex<Vec<(K, f64)>>);

/// Guard of the admitted run.
pub struct HostLockGuard<'a, K>(MutexGuard<'a, Vec<(K, f64)>>);

impl<K: PartialEq> HostLock<K> {
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Waits until no other run holds the lock.
    pub fn enter(&self) -> HostLockGuard<'_, K> {
        HostLockGuard(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K: PartialEq> HostLockGuard<'_, K> {
    /// Cached value of `what`, or else the result of `measure`.
    ///
    /// # Errors
    /// The errors of `measure`; they are not cached.
    pub fn get_or_measure(
        &mut self,
        key: K,
        measure: impl FnOnce() -> Result<f64, Error>,
    ) -> Result<f64, Error> {
        if let Some((_, value)) = self.0.iter().find(|(cached, _)| *cached == key) {
            return Ok(*value);
        }
        let value = measure()?;
        self.0.push((key, value));
        Ok(value)
    }
}

/// The run with the least background CPU time, by `other`: repeats `drive` until that is at most
/// `other_max`, at most `repeats` times.
///
/// # Errors
/// The errors of `drive`.
pub fn least_disturbed<R>(
    repeats: u32,
    other_max: f64,
    other: impl Fn(&R) -> f64,
    drive: impl Fn() -> Result<R, Error>,
) -> Result<R, Error> {
    let mut best = drive()?;
    for _ in 0..repeats {
        if other(&best) <= other_max {
            break;
        }
        let candidate = drive()?;
        if other(&candidate) < other(&best) {
            best = candidate;
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cached_value_is_not_measured_again_and_a_failed_one_is() {
        let lock = HostLock::new();
        let failed = lock.enter().get_or_measure("a", || Err(Error::new("no")));
        assert!(failed.is_err());
        for (key, value, expected) in [("a", 1.0, 1.0), ("b", 2.0, 2.0), ("a", 3.0, 1.0)] {
            assert_eq!(lock.enter().get_or_measure(key, || Ok(value)), Ok(expected));
        }
    }
    #[test]
    fn a_disturbed_run_is_repeated_and_the_least_disturbed_one_counts() {
        let check = |repeats, loads: &[f64], expected: (f64, usize)| {
            let count = std::cell::Cell::new(0);
            let drive = || Ok(loads[count.replace(count.get() + 1)]);
            let best = least_disturbed(repeats, 10.0, |load: &f64| *load, drive);
            assert_eq!((best, count.get()), (Ok(expected.0), expected.1), "{loads:?}");
        };
        check(2, &[5.0], (5.0, 1));
        check(2, &[50.0, 9.0], (9.0, 2));
        check(2, &[50.0, 20.0, 30.0], (20.0, 3));
        check(0, &[50.0], (50.0, 1));
    }
}
