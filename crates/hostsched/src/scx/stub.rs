//! Stub of the scheduler for builds without it: loading always fails, so callers need no conditional
//! code.

use super::Kernel;
use crate::CoresError;

/// Loads nothing.
///
/// # Errors
/// Always.
pub fn load(_in_place: bool) -> Result<Box<dyn Kernel>, CoresError> {
    Err(CoresError {
        what: "scx: this greenwave was built without BPF programs (no clang or libelf at build time)"
            .to_owned(),
        advice: Some(
            "apt-get install clang libelf-dev zlib1g-dev pkg-config make gcc, then make build".to_owned(),
        ),
    })
}
