//! What stands in for the scheduler where it is not built in: nothing can be
//! loaded, and callers need not ask how they were built.

use super::Kernel;
use crate::cores::CoresError;

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
