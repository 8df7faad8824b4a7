//! Stub of the BPF programs for builds without them: loading always fails, so callers need no
//! conditional code.

use std::os::fd::OwnedFd;

use super::error::GuardError;
use super::maps::Maps;
use super::{Cost, WaitEnd};

/// Programs and maps; empty without the feature.
pub struct Loaded {
    /// XDP program.
    pub program: OwnedFd,
    /// Reads accept queues.
    pub look: OwnedFd,
    /// Counts connections that wait for a response.
    pub waits: Option<OwnedFd>,
    /// Maps of all programs.
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
