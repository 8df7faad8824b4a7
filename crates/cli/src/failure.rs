//! Failures that do not end a command, such as a file that can no longer be written: reported at
//! once, and by the exit status at the end.

use std::fmt::Display;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

static ANY: AtomicBool = AtomicBool::new(false);

/// Reports `what` in a line on stderr; the exit status will be 2.
pub fn note(what: impl Display) {
    ANY.store(true, Ordering::Relaxed);
    errln!("error: {what}");
}

/// `code`, or 2 if there was a failure.
pub fn or(code: ExitCode) -> ExitCode {
    if ANY.load(Ordering::Relaxed) { ExitCode::from(2) } else { code }
}
