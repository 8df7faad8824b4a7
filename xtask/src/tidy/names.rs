//! Rule of unique names: a public type has one meaning in the workspace.
//!
//! Looks at the definitions outside tests, private modules included. A name that several modules
//! share is listed here with the reason, and the number of its definitions does not grow.

use std::collections::BTreeMap;

use super::Finding;

/// Names that any module may define, since the module says of what: `stack::Config`.
const GENERAL: [&str; 6] = ["Args", "Config", "Counters", "Error", "Options", "Outcome"];

/// Other names with several definitions: number and reason.
const SHARED: [(&str, usize, &str); 41] = [
    ("Cause", 2, "of a failed request; in an ICMP message"),
    ("Choice", 2, "made at the start by the module"),
    ("Class", 2, "of requests at a guard, of tasks in `sched`"),
    ("Clock", 2, "virtual or real; monotonic, for tower layers"),
    ("Counts", 3, "of the guard, in the kernel and in a program"),
    ("Dpdk", 2, "with and without the feature"),
    ("Event", 2, "on a connection; of perf(1)"),
    ("Flags", 5, "command-line flags of the module; control bits of TCP"),
    ("Frame", 3, "of Ethernet; of the device, by feature"),
    ("Framer", 2, "of responses of the protocol of the module"),
    ("Group", 2, "of request types in DARC; control group"),
    ("Guard", 2, "in XDP; tower service"),
    ("Header", 3, "of the protocol that the module writes"),
    ("Kind", 2, "of the main type of the module"),
    ("Label", 2, "of a request; position in BPF code"),
    ("Limit", 2, "on arrivals; on bandwidth"),
    ("Loaded", 2, "with and without the feature"),
    ("Make", 2, "constructor of a policy of the module"),
    ("Memory", 2, "of frames; policy by memory use"),
    ("Message", 4, "of the protocol that the module parses"),
    ("Mode", 2, "of a server; of XDP"),
    ("Model", 2, "reference model of the BPF program of the module"),
    ("Move", 2, "of a core, planned or shown"),
    ("Packet", 5, "of the protocol that the module parses; of the simulated fabric"),
    ("Params", 2, "of the policies of the module"),
    ("Plan", 2, "of a load; of a scheduler"),
    ("Policy", 4, "of the decision that the crate is about"),
    ("PolicyEntry", 2, "of the table `POLICIES` of the module"),
    ("Queue", 2, "accept queue of a listener; inside a tower layer"),
    ("Reason", 2, "of shedding, of SYNs and of requests"),
    ("Refusal", 3, "of SYNs, in the kernel and in the stack; of a BPF program by the verifier"),
    ("Rule", 3, "of the policy that the module parses"),
    ("Settings", 3, "of the main type of the module"),
    ("Share", 2, "of a request type; of classes at a guard"),
    ("Signals", 2, "input of a policy of the module"),
    ("State", 2, "of a connection; of the scheduler in the kernel"),
    ("Status", 3, "of the program that the module is about"),
    ("Target", 4, "of the fuzz targets of the crate"),
    ("Task", 3, "queued request in `dispatch`; program in `cores`"),
    ("Topology", 2, "of a machine; of a network"),
    ("Verdict", 3, "on a frame or packet, by the program of the module"),
];

/// Folders whose definitions count.
const FOLDERS: [&str; 4] = ["crates/", "workloads/", "examples/", "xtask/"];

/// Checks the definitions in `tree`, pairs of file and text.
pub(super) fn check<'a>(tree: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Finding> {
    against(tree, &SHARED)
}

fn against<'a>(
    tree: impl Iterator<Item = (&'a str, &'a str)>,
    shared: &[(&str, usize, &str)],
) -> Vec<Finding> {
    let mut names: BTreeMap<&str, Vec<(&str, usize)>> = BTreeMap::new();
    for (file, text) in tree.filter(|(file, _)| is_covered(file)) {
        for (index, line) in product(text).lines().enumerate() {
            if let Some(name) = defined(line) {
                names.entry(name).or_default().push((file, index + 1));
            }
        }
    }
    let mut findings = Vec::new();
    for (name, definitions) in &names {
        let allowed = shared.iter().find(|(known, ..)| known == name).map_or(1, |(_, count, _)| *count);
        if GENERAL.contains(name) || definitions.len() <= allowed {
            continue;
        }
        for (file, line) in definitions {
            let what = format!(
                "{} public types are called {name}; valid: names that differ, or an entry in {}",
                definitions.len(),
                "xtask/src/tidy/names.rs"
            );
            findings.push(Finding { file: (*file).to_owned(), line: *line, what });
        }
    }
    for (name, count, _) in shared {
        let found = names.get(name).map_or(0, Vec::len);
        if found < *count {
            let what =
                format!("{name} is listed {count} times and defined {found} times; valid: that number");
            findings.push(Finding { file: "xtask/src/tidy/names.rs".to_owned(), line: 1, what });
        }
    }
    findings
}

fn is_covered(file: &str) -> bool {
    let is_test = file.contains("/tests/") || file.ends_with("/tests.rs") || file.contains("/benches/");
    file.ends_with(".rs") && !is_test && FOLDERS.iter().any(|folder| file.starts_with(folder))
}

/// `text` without a module of tests at its end.
fn product(text: &str) -> &str {
    text.split_once("\n#[cfg(test)]\nmod tests {").map_or(text, |(product, _)| product)
}

/// The public type that `line` defines, if it defines one.
fn defined(line: &str) -> Option<&str> {
    let rest = line.trim_start().strip_prefix("pub ")?;
    let rest = rest.strip_prefix("unsafe ").unwrap_or(rest);
    let (keyword, rest) = rest.split_once(' ')?;
    if !["struct", "enum", "trait", "type", "union"].contains(&keyword) {
        return None;
    }
    rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines at which `files` break the rule, with `Window` defined twice for a reason.
    #[track_caller]
    fn found(files: &[(&str, &str)], expected: &[(&str, usize)]) {
        let shared = [("Window", 2, "an example")];
        let window = "pub struct Window;\n";
        let base = [("crates/x/src/w.rs", window), ("crates/y/src/w.rs", window)];
        let found = against(base.iter().chain(files).copied(), &shared);
        let found_at: Vec<_> = found.iter().map(|f| (f.file.as_str(), f.line)).collect();
        assert_eq!(found_at, expected, "{found:?}");
    }

    //~ gates: a public type's name is defined once in the workspace, or listed with a reason
    #[test]
    fn a_name_defined_twice_is_found_at_both_places() {
        let twice =
            [("crates/a/src/x.rs", "\npub struct Queue<T>(T);"), ("crates/b/src/y.rs", "pub enum Queue {}")];
        found(&twice, &[("crates/a/src/x.rs", 2), ("crates/b/src/y.rs", 1)]);
        found(&twice[..1], &[]);
        let private = [("crates/a/src/x.rs", "pub struct Queue;"), ("crates/b/src/y.rs", "struct Queue;")];
        found(&private, &[]);
        let in_tests =
            [("crates/a/src/x.rs", "pub struct Queue;"), ("crates/a/tests/y.rs", "pub struct Queue;")];
        found(&in_tests, &[]);
        found(
            &[("crates/a/src/x.rs", "pub type Config = u8;"), ("crates/b/src/x.rs", "pub struct Config;")],
            &[],
        );
    }

    //~ gates: a public type's name is defined once in the workspace, or listed with a reason
    #[test]
    fn a_listed_name_does_not_spread_and_an_unused_entry_is_found() {
        let third = [("crates/z/src/w.rs", "pub struct Window;")];
        let all = ["crates/x/src/w.rs", "crates/y/src/w.rs", "crates/z/src/w.rs"];
        found(&third, &all.map(|file| (file, 1)));
        assert_eq!(against([].into_iter(), &[("Window", 2, "an example")]).len(), 1, "unused");
    }
}
