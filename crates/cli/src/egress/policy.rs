//! Egress policy files: those of users, and three built-in ones.

use std::collections::BTreeMap;
use std::path::Path;

use hostbpf::egress::{BadPolicy, Policy};
use queueing::{Priority, Span};
use serde::Deserialize;

use crate::error::Error;
use crate::toml_error;

/// The built-in policies, by name.
const POLICIES: [(&str, &str); 3] = [
    ("fish", include_str!("fish.toml")),
    ("pias", include_str!("pias.toml")),
    ("fifo", include_str!("fifo.toml")),
];

/// Names of the built-in policies.
pub const NAMES: [&str; 3] = [POLICIES[0].0, POLICIES[1].0, POLICIES[2].0];

/// A policy file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    thresholds: Vec<u64>,
    buckets: u16,
    #[serde(default = "queue")]
    queue: u32,
    #[serde(default = "idle")]
    idle: String,
    #[serde(default = "flows")]
    flows: u32,
    #[serde(default)]
    guaranteed: f64,
    #[serde(default)]
    dscp: Vec<u8>,
    #[serde(default)]
    pin: Pins,
}

/// Levels set by the sender: value and level.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Pins {
    #[serde(default)]
    priority: BTreeMap<String, u8>,
    #[serde(default)]
    dscp: BTreeMap<String, u8>,
}

fn queue() -> u32 {
    240
}

fn idle() -> String {
    "100ms".to_owned()
}

fn flows() -> u32 {
    65_536
}

/// The policy called `name`: a built-in one, or a file.
///
/// # Errors
/// A file that cannot be read, or an invalid value in it with the valid ones.
pub fn named(name: &str) -> Result<Policy, Error> {
    parse(name, &text(name)?)
}

/// The text of the policy called `name`, after validation.
///
/// # Errors
/// The errors of [`named`].
pub fn text(name: &str) -> Result<String, Error> {
    if let Some((_, text)) = POLICIES.iter().find(|(known, _)| *known == name) {
        return Ok((*text).to_owned());
    }
    let text = std::fs::read_to_string(name).map_err(|e| {
        let names: Vec<_> = POLICIES.iter().map(|(name, _)| *name).collect();
        let start = "greenwave egress policy fish >fish.toml, for a template";
        Error::file(Path::new(name), &e).advice(format!("{start}, or one of {}", names.join(", ")))
    })?;
    parse(name, &text)?;
    Ok(text)
}

/// Advice for a valid file.
const RIGHT: &str = "greenwave egress policy fish, for a valid one";

/// Parses `text`; `name` is its file or built-in name.
///
/// # Errors
/// An invalid value, with the valid ones.
pub fn parse(name: &str, text: &str) -> Result<Policy, Error> {
    let wrong = |what: String| Error::new(format!("{name}: {what}")).advice(RIGHT);
    let file: File = toml::from_str(text).map_err(|e| {
        toml_error::of(text, &e, |line| format!("{name}:{line}")).or_advice(|| RIGHT.to_owned())
    })?;
    let level = |level: u8| {
        Priority::new(level)
            .ok_or_else(|| wrong(format!("level {level} is outside 0..={}", Priority::LOWEST)))
    };
    let mut policy = Policy {
        name: Path::new(name).file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        thresholds: file.thresholds,
        buckets: file.buckets,
        queue: file.queue,
        idle: file.idle.parse::<Span>().map_err(|e| wrong(format!("idle: {e}")))?,
        flows: file.flows,
        guaranteed: file.guaranteed,
        pin_priority: Vec::new(),
        pin_dscp: Vec::new(),
        dscp: file.dscp,
    };
    for (key, at) in &file.pin.priority {
        let value =
            key.parse().map_err(|_| wrong(format!("pin.priority {key:?} is outside 0..=4294967295")))?;
        policy.pin_priority.push((value, level(*at)?));
    }
    for (key, at) in &file.pin.dscp {
        let value = key.parse().map_err(|_| wrong(format!("pin.dscp {key:?} is outside 0..=63")))?;
        policy.pin_dscp.push((value, level(*at)?));
    }
    policy.check().map_err(|e: BadPolicy| wrong(e.to_string()))?;
    Ok(policy)
}

//~ egress: invalid policies and rates are refused with value and remedy
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_policies_are_valid_and_differ_as_documented() {
        let [fish, pias, fifo] = POLICIES.map(|(name, _)| named(name).expect(name));
        assert_eq!((fish.levels(), fish.buckets > 1), (8, true));
        assert_eq!(Policy { name: pias.name.clone(), buckets: 1, queue: pias.queue, ..fish }, pias);
        assert_eq!((fifo.levels(), fifo.buckets), (1, 1));
    }

    #[test]
    fn pins_and_marks_are_read() {
        let text = "thresholds = [1000]\nbuckets = 2\ndscp = [46, 8]\n[pin]\npriority = { 6 = 0 }\ndscp = { 46 = 0, 8 = 1 }";
        let policy = parse("mine.toml", text).unwrap();
        assert_eq!(policy.name, "mine");
        assert_eq!(policy.pin_priority, [(6, Priority::HIGHEST)]);
        assert_eq!(
            policy.pin_dscp.iter().map(|pin| (pin.0, pin.1.level())).collect::<Vec<_>>(),
            [(46, 0), (8, 1)]
        );
        assert_eq!((policy.dscp.as_slice(), policy.idle), (&[46, 8][..], Span::from_millis(100)));
    }

    #[test]
    fn invalid_settings_are_reported_with_value_and_remedy() {
        let check = |text: &str, says: &str| {
            let error = parse("fish.toml", text).expect_err(text).to_string();
            assert!(
                error.starts_with("error: fish.toml:") && error.contains(says),
                "{says:?} is not in {error:?}"
            );
            assert!(error.contains("\n  try: "), "{error}");
        };
        check("thresholds = [2, 1]\nbuckets = 2", "threshold 1 is not above the previous one");
        check("thresholds = []\nbuckets = 2\nbucket = 3", ":3: unknown field `bucket`");
        check("thresholds = []", "missing field `buckets`");
        check("thresholds = []\nbuckets = 0", "buckets 0 is outside 1..=256");
        check("thresholds = [-1]\nbuckets = 1", ":1: ");
        check("thresholds = []\nbuckets = 1\nidle = \"soon\"", "span \"soon\"");
        check("thresholds = []\nbuckets = 1\npin.dscp = { x = 0 }", "pin.dscp \"x\" is outside 0..=63");
        check("thresholds = []\nbuckets = 1\npin.dscp = { 46 = 9 }", "level 9 is outside 0..=7");
        check("thresholds = []\nbuckets = 1\npin.dscp = { 46 = 1 }", "level 1, to which 46 is pinned");
        check("thresholds =", ":1: ");
    }
}
