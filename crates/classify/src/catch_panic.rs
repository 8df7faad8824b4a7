//! Calls into user-defined code that may panic, with the panics caught and counted.

use std::panic::{AssertUnwindSafe, catch_unwind};

use queueing::{Label, Priority};

use super::Verdict;

/// Result of `call`; `None` if it panics, which is counted in `panics`.
#[inline]
pub fn catch<T>(panics: &mut u64, call: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(call)).map_err(|panic| dropped(panics, panic)).ok()
}

#[cold]
fn dropped(panics: &mut u64, panic: Box<dyn std::any::Any + Send>) {
    *panics += 1;
    // The payload of a panic may itself panic when it is dropped.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(panic))) {
        std::mem::forget(again);
    }
}

/// Label of a packet that has the label `label`, after `verdict`; `None` if the packet is dropped.
///
/// A level out of range is counted in `out_of_range`.
#[inline]
pub fn apply_verdict(out_of_range: &mut u64, label: Label, verdict: Option<Verdict>) -> Option<Label> {
    match verdict {
        None | Some(Verdict::NoVerdict) => Some(label),
        Some(Verdict::Drop) => None,
        Some(Verdict::Level(level) | Verdict::Default(level)) => match Priority::new(level) {
            Some(priority) => Some(Label::new(priority)),
            None => {
                *out_of_range += 1;
                Some(label)
            }
        },
    }
}
