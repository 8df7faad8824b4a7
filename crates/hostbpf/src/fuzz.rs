//! Fuzz targets of this crate: maps and messages of the kernel.
//!
//! Built for tests, and by fuzzers (`cfg(fuzzing)`). Each body is next to the private code that it
//! exercises.

#[cfg(test)]
#[path = "../../net/tests/fuzz/corpus.rs"]
mod corpus;

/// A target: it panics if a property is violated.
pub type Target = fn(&[u8]);

/// All targets of this crate by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("guard_maps", crate::guard::fuzz::maps),
    ("fabric_notes", crate::egress::fuzz::notes),
    ("netlink", netlink),
    ("system_load", crate::guard::fuzz::machine),
];

/// Netlink replies of the kernel.
fn netlink(data: &[u8]) {
    crate::guard::fuzz::listeners(data);
    crate::xdp::fuzz::links(data);
}

#[cfg(test)]
mod tests {
    use super::corpus;

    #[test]
    fn seeds_and_what_is_bred_from_them_break_nothing() {
        for (name, target) in super::TARGETS {
            corpus::run(name, *target, 500);
        }
    }
}
