//! Fuzz targets: requests and datagrams of programs, and the memory shared with them.
//!
//! Built for tests, and by fuzzers (`cfg(fuzzing)`). Each body is next to the private code that it
//! exercises.

mod messages;
mod socket_server;

#[path = "../../net/tests/fuzz/targets/input.rs"]
pub(crate) mod input;

#[cfg(test)]
#[path = "../../net/tests/fuzz/corpus.rs"]
mod corpus;

/// A target: it panics if a property is violated.
pub type Target = fn(&[u8]);

/// All targets of this crate by name.
pub const TARGETS: &[(&str, Target)] =
    &[("shim_messages", messages::messages), ("socket_server", socket_server::requests)];

#[cfg(test)]
mod tests {
    use super::corpus;

    #[test]
    fn seeds_and_what_is_bred_from_them_break_nothing() {
        for (name, target) in super::TARGETS {
            let count = if *name == "socket_server" { 30 } else { 500 };
            corpus::run(name, *target, count);
        }
    }
}
