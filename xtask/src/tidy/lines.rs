//! Rules for the text of a single file.
//!
//! Patterns are assembled from pieces, so that this file passes them.

use super::Finding;

/// Folders whose Rust sources the rules cover.
const ROOMS: [&str; 3] = ["crates/", "xtask/", "workloads/"];

/// Crates that may hold unsafe blocks.
const UNSAFE_ROOMS: [&str; 8] =
    ["host", "hostbpf", "hostsched", "drivers", "shim", "netlab", "doctor", "capi"];

/// Sources that take `now` as an argument and do no I/O.
const PURE: [&str; 12] = [
    "crates/queueing/src/",
    "crates/wire/src/",
    "crates/classify/src/",
    "crates/net/src/",
    "crates/sched/src/",
    "crates/deadline/src/",
    "crates/storage/src/",
    "crates/sim/src/",
    "crates/runtime/src/shard",
    "crates/load/src/plan",
    "crates/load/src/client",
    "crates/load/src/protocol",
];

/// The one file among them that reads a clock, for the feature `tower`.
const CLOCK: &str = "crates/deadline/src/tower/clock.rs";

/// Patterns forbidden in pure sources, and the alternative.
const IMPURE: [(&str, &str); 5] = [
    (concat!("Instant", "::now"), "take `now` as an argument"),
    (concat!("System", "Time"), "take `now` as an argument"),
    (concat!("thread", "::spawn"), "return what to do; the shell has threads"),
    (concat!("std::net", "::Tcp"), "stay sans-IO; kernel sockets belong into a shell"),
    (concat!("std", "::fs"), "take the text as an argument"),
];

/// Patterns forbidden in all sources.
const NEVER: [(&str, &str); 4] = [
    (concat!("to", "do!("), "write it, or leave it out and say so in the docs"),
    (concat!("unimpl", "emented!("), "write it, or leave it out and say so in the docs"),
    (concat!("#[ig", "nore]"), "a test runs, or prints why it cannot"),
    (concat!("#[ig", "nore ="), "a test runs, or prints why it cannot"),
];

/// Patterns forbidden in tests.
const NEVER_IN_TESTS: [(&str, &str); 1] =
    [(concat!("thread", "::sleep"), "wait for what must happen, or use virtual time")];

/// Patterns tied to one machine.
const MACHINE: [(&str, &str); 6] = [
    (concat!("/wo", "rk/"), "a path relative to the repository"),
    (concat!("/ro", "ot/"), "a path relative to the repository, or $HOME"),
    (concat!("/ho", "me/"), "a path relative to the repository, or $HOME"),
    (concat!("/Us", "ers/"), "a path relative to the repository, or $HOME"),
    (concat!("replace", "-with ="), "cargo's default registry; mirrors belong into the user's configuration"),
    (concat!("index", "-url"), "the default registry; mirrors belong into the user's configuration"),
];

/// The one registry a lock file may name.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks `text`, the content of `file`, by the rules for files of its kind.
pub(super) fn check(file: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |line: usize, what: String| findings.push(Finding { file: file.to_owned(), line, what });
    for (index, line) in text.lines().enumerate() {
        for (pattern, instead) in hits(line, &MACHINE) {
            find(index + 1, format!("{pattern:?} holds on one machine only; valid: {instead}"));
        }
        if file == "Cargo.lock" && line.starts_with("source = \"registry+") && !line.contains(REGISTRY) {
            find(index + 1, format!("a package from another registry; valid: {REGISTRY}"));
        }
    }
    if file.ends_with(".rs") && ROOMS.iter().any(|room| file.starts_with(room)) {
        rust(file, text, &mut find);
    }
    findings
}

fn rust(file: &str, text: &str, find: &mut impl FnMut(usize, String)) {
    if !text.starts_with("//! ") {
        find(1, "the file does not open with its idea; valid: a first line `//! …`".to_owned());
    }
    if let Some(room) = root_of(file)
        && !UNSAFE_ROOMS.contains(&room)
        && !text.lines().any(|line| line == "#![forbid(unsafe_code)]")
    {
        find(1, format!("{room} may not be unsafe; add #![forbid(unsafe_code)]"));
    }
    let pure = file != CLOCK && PURE.iter().any(|prefix| file.starts_with(prefix));
    let mut test = file.contains("/tests/") || file.ends_with("/tests.rs");
    for (index, line) in text.lines().enumerate() {
        test |= line.trim_start().starts_with("#[cfg(test)]") && !text_follows_is_use(text, index);
        if line.trim_start().starts_with("//") {
            continue;
        }
        let at = index + 1;
        hits(line, &NEVER).for_each(|(p, instead)| find(at, format!("{p:?}; valid: {instead}")));
        if pure && !test {
            hits(line, &IMPURE)
                .for_each(|(p, instead)| find(at, format!("{p:?} in a pure room; valid: {instead}")));
        }
        if test {
            let sleeps = hits(line, &NEVER_IN_TESTS);
            sleeps.for_each(|(p, instead)| find(at, format!("{p:?} in a test; valid: {instead}")));
        }
    }
}

/// True if the `#[cfg(test)]` at line `index` guards only a `use` or a `mod x;`, so that the lines
/// after it are not a test.
fn text_follows_is_use(text: &str, index: usize) -> bool {
    let next = text.lines().skip(index + 1).map(str::trim).find(|line| !line.starts_with("#["));
    next.is_some_and(|line| line.ends_with(';'))
}

/// The crate with the root `file`.
fn root_of(file: &str) -> Option<&str> {
    match file {
        "xtask/src/main.rs" => return Some("xtask"),
        "workloads/src/lib.rs" => return Some("workloads"),
        _ if file.starts_with("workloads/src/bin/") => return Some("workloads"),
        _ => {}
    }
    let (room, path) = file.strip_prefix("crates/")?.split_once('/')?;
    matches!(path, "src/lib.rs" | "src/main.rs").then_some(room)
}

/// The patterns that `line` contains.
fn hits<'a>(
    line: &'a str,
    patterns: &'a [(&'static str, &'static str)],
) -> impl Iterator<Item = (&'static str, &'static str)> + 'a {
    patterns.iter().copied().filter(|(pattern, _)| line.contains(pattern))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines of `text` that break a rule in `file`.
    #[track_caller]
    fn found(file: &str, text: &str, expected: &[usize]) {
        let findings = check(file, text);
        let lines: Vec<usize> = findings.iter().map(|f| f.line).collect();
        assert_eq!(lines, expected, "{findings:?}");
    }

    const HEAD: &str = "//! Idea.\n";

    //~ gates: only two crates hold unsafe code; every file opens with its idea
    #[test]
    fn a_source_opens_with_its_idea() {
        found("crates/net/src/x.rs", "use std::fmt;\n", &[1]);
        found("crates/net/src/x.rs", HEAD, &[]);
        found("docs/x.rs", "use std::fmt;\n", &[]);
    }

    //~ gates: only two crates hold unsafe code; every file opens with its idea
    #[test]
    fn only_two_rooms_may_be_unsafe() {
        found("crates/net/src/lib.rs", HEAD, &[1]);
        found("crates/net/src/lib.rs", "//! Idea.\n#![forbid(unsafe_code)]\n", &[]);
        found("crates/host/src/lib.rs", HEAD, &[]);
        found("xtask/src/main.rs", HEAD, &[1]);
        found("workloads/src/lib.rs", HEAD, &[1]);
        found("workloads/src/bin/x.rs", HEAD, &[1]);
        found("crates/net/src/other.rs", HEAD, &[]);
    }

    //~ stack: crates with a pure core read no clock, socket or thread
    #[test]
    fn pure_rooms_read_no_clock() {
        for (pattern, _) in IMPURE {
            let text = format!("{HEAD}let x = {pattern}();\n// {pattern}\n");
            found("crates/queueing/src/x.rs", &text, &[2]);
            found("crates/runtime/src/shard/step.rs", &text, &[2]);
            found("crates/runtime/src/threads.rs", &text, &[]);
            found("crates/deadline/src/tower/concurrency_limit.rs", &text, &[2]);
            found("crates/deadline/src/tower/clock.rs", &text, &[]);
        }
    }

    #[test]
    fn nothing_is_left_over() {
        for (pattern, _) in NEVER {
            found("crates/cli/src/x.rs", &format!("{HEAD}{pattern}\n"), &[2]);
        }
    }

    //~ gates: tests do not sleep
    #[test]
    fn tests_do_not_sleep() {
        let (sleep, _) = NEVER_IN_TESTS[0];
        found("crates/cli/tests/x.rs", &format!("{HEAD}{sleep}(d);\n"), &[2]);
        found("crates/cli/src/x.rs", &format!("{HEAD}{sleep}(d);\n"), &[]);
        found("crates/cli/src/x.rs", &format!("{HEAD}#[cfg(test)]\nmod tests {{\n{sleep}(d);\n}}\n"), &[4]);
        found("crates/cli/src/x.rs", &format!("{HEAD}#[cfg(test)]\nmod tests;\n{sleep}(d);\n"), &[]);
    }

    #[test]
    fn no_file_knows_a_machine() {
        for (pattern, _) in &MACHINE[..4] {
            found("docs/guide.md", &format!("see\n{pattern}x\n"), &[2]);
        }
        let other = concat!("source = \"registry", "+https://mirror.example/index\"\n");
        found("Cargo.lock", other, &[1]);
        found("Cargo.lock", &format!("source = \"{REGISTRY}\"\n"), &[]);
    }
}
