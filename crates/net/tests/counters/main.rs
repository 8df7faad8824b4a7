//! Tests of counters: each counter of a stack has an input that increments it.
//!
//! The names come from `Counters`, so a counter without an input fails.

//~ stack: every counter of the stack is moved by some input

#[path = "../ip/host.rs"]
#[allow(dead_code)] // Shared with the tests of IP.
mod host;
#[path = "../tcp/peer.rs"]
#[allow(dead_code)] // Shared with the tests of TCP.
mod peer;
#[path = "../tcp/world.rs"]
#[allow(dead_code)] // Shared with the tests of TCP.
mod world;

mod network;
mod transport;

use std::collections::{BTreeMap, BTreeSet};

use net::stack::Counters;
use wire::Malformed;

/// Counters that an input is for, and the function that returns the stack's counters after it.
type Case = (&'static [&'static str], fn() -> Counters);

/// Counters by name; those of malformed frames by reason.
fn by_name(counters: &Counters) -> BTreeMap<String, u64> {
    let mut all: BTreeMap<_, _> = Malformed::ALL
        .iter()
        .map(|reason| (format!("malformed: {}", reason.name()), counters.malformed[reason.index()]))
        .collect();
    // `Debug` prints all fields, one "name: value," per line.
    let text = format!("{counters:#?}");
    all.extend(text.lines().filter_map(|line| {
        let (name, value) = line.trim().trim_end_matches(',').split_once(": ")?;
        Some((name.to_owned(), value.parse().ok()?))
    }));
    all
}

#[test]
fn every_counter_counts() {
    let mut left: BTreeSet<_> = by_name(&Counters::default()).into_keys().collect();
    assert!(left.len() > 70, "{left:?}");
    let mut still = Vec::new();
    for (names, input) in transport::CASES.iter().chain(network::CASES) {
        let counted = by_name(&input());
        for name in *names {
            left.remove(*name);
            if counted.get(*name).is_none_or(|count| *count == 0) {
                let others: Vec<_> = counted.iter().filter(|(_, count)| **count > 0).collect();
                still.push(format!("{name} does not count; others: {others:?}"));
            }
        }
    }
    assert!(still.is_empty(), "{}", still.join("\n"));
    assert!(left.is_empty(), "no input is known for {left:?}");
}
