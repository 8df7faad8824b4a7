//! Fuzz targets of this crate: text of the kernel.
//!
//! Built for tests, and by fuzzers (`cfg(fuzzing)`). Each body is next to the private code that it
//! exercises.

#[cfg(test)]
#[path = "../../net/tests/fuzz/corpus.rs"]
mod corpus;

/// A target: it panics if a property is violated.
pub type Target = fn(&[u8]);

/// All targets of this crate by name.
pub const TARGETS: &[(&str, Target)] = &[("proc", crate::proc::fuzz::threads)];

#[cfg(test)]
mod tests {
    use super::corpus;

    //~ fuzzing: messages of programs, BPF map values, netlink replies and journals survive seeds and bred inputs
    #[test]
    fn seeds_and_what_is_bred_from_them_break_nothing() {
        for (name, target) in super::TARGETS {
            corpus::run(name, *target, 500);
        }
    }
}
