//! What stands in for the programs where they are not built in: nothing can be
//! loaded, and callers need not ask how they were built.

use std::os::fd::OwnedFd;

use super::error::GuardError;
use super::maps::Maps;
use super::{Cost, WaitEnd};

/// Programs and maps; without the feature there are none.
pub struct Loaded {
    /// For an interface.
    pub program: OwnedFd,
    /// Reads accept queues.
    pub look: OwnedFd,
    /// Counts those that wait for an answer.
    pub waits: Option<OwnedFd>,
    /// Of all.
    pub maps: Maps,
}

/// Loads nothing.
///
/// # Errors
/// Always [`GuardError::NotBuilt`].
pub fn load(_until: WaitEnd) -> Result<Loaded, GuardError> {
    Err(GuardError::NotBuilt)
}

/// Measures nothing.
///
/// # Errors
/// Always [`GuardError::NotBuilt`].
pub fn costs() -> Result<Vec<Cost>, GuardError> {
    Err(GuardError::NotBuilt)
}
