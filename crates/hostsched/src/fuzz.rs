//! Fuzz targets of this crate: memory shared with the scheduler in the kernel, and journals left by a crash.
//!
//! Built for tests, and by fuzzers (`cfg(fuzzing)`). Each body is next to the private code that it
//! exercises.

#[allow(dead_code, reason = "shared with other crates")]
#[path = "../../net/tests/fuzz/targets/input.rs"]
pub(crate) mod input;

#[cfg(test)]
#[allow(dead_code, reason = "shared with other crates")]
#[path = "../../net/tests/fuzz/corpus.rs"]
mod corpus;

/// A target: it panics if a property is violated.
pub type Target = fn(&[u8]);

/// All targets of this crate by name.
pub const TARGETS: &[(&str, Target)] =
    &[("scheduler_words", crate::scx::fuzz::words), ("journal", crate::undo_log::fuzz::journal)];

#[cfg(test)]
mod tests {
    use super::corpus;

    #[test]
    fn seeds_and_what_is_bred_from_them_break_nothing() {
        for (name, target) in super::TARGETS {
            let count = if *name == "scheduler_words" { 60 } else { 500 };
            corpus::run(name, *target, count);
        }
    }
}
