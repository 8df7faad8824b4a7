//! What runs on this machine have in common: what they need, and that they go
//! one after the other, as they share its processors.

use std::sync::{Mutex, MutexGuard, PoisonError};

use host::netlab::{Group, NetLab};
use host::{affinity, signals};
use queueing::CoreId;

use crate::error::Error;

/// Whether this process can keep `cores` from halting, where there are any; from now on ctrl-C
/// ends it in order, if so.
pub fn can_keep_awake(cores: &[CoreId]) -> bool {
    let has = affinity::cores().unwrap_or_default();
    let can = !cores.is_empty() && cores.iter().all(|core| has.contains(core));
    can && Group::unavailable().is_none() && !signals::is_set()
}

/// Refuses a run of `world` where it needs what is not here; `who` need a core each. From now on
/// ctrl-C is a flag, so that nothing that is made for the run is left behind.
///
/// # Errors
/// What is missing; to be tried with more rights is `experiment`. It was interrupted.
pub fn unless_possible(world: &str, experiment: &str, who: &str) -> Result<(), Error> {
    if signals::is_set() {
        return Err(Error::interrupted(""));
    }
    if let Some(why) = NetLab::unavailable().or_else(Group::unavailable) {
        let advice = format!("sudo greenwave exp run {experiment}");
        return Err(Error::new(format!("world {world}: {why}")).advice(advice));
    }
    if affinity::cores().map_or(0, |cores| cores.len()) < 2 {
        let what = format!("world {world}: {who} need a core each, and this process may use one");
        return Err(Error::new(what).advice("a machine with two cores"));
    }
    Ok(())
}

/// Lets one run in at a time, and knows what was measured once for several.
pub struct HostLock<K>(Mutex<Vec<(K, f64)>>);

/// The run that is in.
pub struct HostLockGuard<'a, K>(MutexGuard<'a, Vec<(K, f64)>>);

impl<K: PartialEq> HostLock<K> {
    pub const fn new() -> Self {
        Self(Mutex::new(Vec::new()))
    }

    /// Waits until nobody else runs.
    pub fn enter(&self) -> HostLockGuard<'_, K> {
        HostLockGuard(self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<K: PartialEq> HostLockGuard<'_, K> {
    /// The measure of `what`: by `measure`, unless it is known.
    ///
    /// # Errors
    /// Those of `measure`; it is then asked again.
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
