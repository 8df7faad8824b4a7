//! Fuzz targets of this crate: bytes from programs, the kernel or a crash. Built for tests, and by
//! fuzzers (`cfg(fuzzing)`).
//!
//! Each body is next to the private code that it exercises.

#[path = "../../net/tests/fuzz/targets/input.rs"]
pub(crate) mod input;

#[cfg(test)]
#[path = "../../net/tests/fuzz/corpus.rs"]
mod corpus;

/// A target: it panics if a property is violated.
pub type Target = fn(&[u8]);

/// All targets of this crate by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("seam_messages", crate::shim::fuzz::messages),
    ("seam_desk", crate::shim::fuzz::desk),
    ("guard_maps", crate::guard::fuzz::maps),
    ("fabric_notes", crate::egress::fuzz::notes),
    ("scheduler_words", crate::cores::scx::fuzz::words),
    ("journal", crate::cores::undo_log::fuzz::journal),
    ("netlink", netlink),
    ("proc", proc),
];

/// Netlink replies of the kernel.
fn netlink(data: &[u8]) {
    crate::guard::fuzz::listeners(data);
    crate::xdp::fuzz::links(data);
}

/// Text of `/proc`.
fn proc(data: &[u8]) {
    crate::proc::fuzz::threads(data);
    crate::guard::fuzz::machine(data);
}

#[cfg(test)]
mod tests {
    use super::corpus;

    //~ fuzzing: messages of programs, BPF map values, netlink replies and journals survive seeds and bred inputs
    #[test]
    fn seeds_and_what_is_bred_from_them_break_nothing() {
        for (name, target) in super::TARGETS {
            let count = match *name {
                "seam_desk" => 30,
                "scheduler_words" => 60,
                _ => 500,
            };
            corpus::run(name, *target, count);
        }
    }
}
