//! Requirements of runs on this machine, and their serialization: they share its cores.

use std::sync::{Mutex, MutexGuard, PoisonError};

use host::{affinity, signals};
use netlab::{NetLab, TestGroup};
use queueing::CoreId;

use crate::error::Error;

/// True if this process can keep `cores` from halting and there are any. From then on ctrl-C sets a
/// flag, so that the process can clean up.
pub fn can_keep_awake(cores: &[CoreId]) -> bool {
    let has = affinity::cores().unwrap_or_default();
    let can = !cores.is_empty() && cores.iter().all(|core| has.contains(core));
    can && TestGroup::unavailable().is_none() && !signals::is_set()
}

/// Checks that a run of `world` is possible here; each of `who` needs a core. From then on ctrl-C
/// sets a flag, so that the run can clean up.
///
/// # Errors
/// The missing requirement, with `experiment` as the command to retry with more rights; or an
/// interruption.
pub fn unless_possible(world: &str, experiment: &str, who: &str) -> Result<(), Error> {
    if signals::is_set() {
        return Err(Error::interrupted(""));
    }
    if let Some(why) = NetLab::unavailable().or_else(TestGroup::unavailable) {
        let advice = format!("sudo greenwave exp run {experiment}");
        return Err(Error::new(format!("world {world}: {why}")).advice(advice));
    }
    if affinity::cores().map_or(0, |cores| cores.len()) < 2 {
        let what = format!("world {world}: {who} need a core each, and this process may use one");
        return Err(Error::new(what).advice("a machine with two cores"));
    }
    Ok(())
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
    /// Those of `measure`; they are not cached.
    pub fn known(&mut self, what: K, measure: impl FnOnce() -> Result<f64, Error>) -> Result<f64, Error> {
        if let Some((_, value)) = self.0.iter().find(|(known, _)| *known == what) {
            return Ok(*value);
        }
        let value = measure()?;
        self.0.push((what, value));
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_is_not_measured_again_and_what_failed_is() {
        let alone = HostLock::new();
        let failed = alone.enter().known("a", || Err(Error::new("no")));
        assert!(failed.is_err());
        for (what, value, known) in [("a", 1.0, 1.0), ("b", 2.0, 2.0), ("a", 3.0, 1.0)] {
            assert_eq!(alone.enter().known(what, || Ok(value)), Ok(known));
        }
    }
}
