//! What every result says about itself before it says what was found: which
//! command wrote it, of which version, where, when, and what repeats it.
//!
//! One key, `greenwave`, so that a result's own figures keep their names and a
//! file without it is seen to be somebody else's. `spec/results.md` has the
//! fields for other languages.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The form of results that this version writes; it reads none that is newer.
pub const FORM: u64 = 1;

/// The key under which a result says what it is.
pub const KEY: &str = "greenwave";

/// What a result says about itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Header {
    /// [`FORM`] of the version that wrote it; 0 for results from before there
    /// was a header.
    pub form: u64,
    /// Which command's it is, such as `experiment` or `bench-net`.
    pub kind: String,
    /// Greenwave's version.
    pub version: String,
    /// The arguments that repeat it.
    pub command: Vec<String>,
    /// The day, as 2026-11-22.
    pub date: String,
    /// `sim` or `host`.
    pub world: String,
    /// The first seed, where draws are seeded.
    pub seed: Option<u64>,
    /// What it was measured on; absent from simulations, which do not depend on it.
    pub machine: Option<String>,
    /// What works on that machine, of what the command uses.
    #[serde(default)]
    pub doctor: Vec<Finding>,
}

/// A mechanism, as `greenwave doctor` found it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The command that uses it.
    pub command: String,
    /// The mechanism, or the interface.
    pub mechanism: String,
    /// `works`, `limits` or `absent`.
    pub here: String,
    /// What was seen, in a line.
    pub seen: String,
    /// What would make it better.
    #[serde(rename = "try")]
    pub remedies: Vec<String>,
}

impl From<&host::doctor::Finding> for Finding {
    fn from(finding: &host::doctor::Finding) -> Self {
        Self {
            command: finding.area.to_owned(),
            mechanism: finding.what.clone(),
            here: finding.health.to_string(),
            seen: finding.seen.clone(),
            remedies: finding.remedies.clone(),
        }
    }
}

impl Header {
    /// Of a simulation, which its seed replays on any machine.
    #[must_use]
    pub fn of_sim(kind: &str, seed: Option<u64>) -> Self {
        let arguments = std::env::args_os().skip(1);
        Self {
            form: FORM,
            kind: kind.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: arguments.map(|argument| argument.to_string_lossy().into_owned()).collect(),
            date: host::today(),
            world: "sim".to_owned(),
            seed,
            machine: None,
            doctor: Vec::new(),
        }
    }

    /// Of a measurement on this machine.
    #[must_use]
    pub fn of_host(kind: &str, seed: Option<u64>) -> Self {
        let machine = Some(host::Machine::this().to_string());
        Self { world: "host".to_owned(), machine, ..Self::of_sim(kind, seed) }
    }

    /// With what the doctor says of the commands in `areas`, looked at now: call
    /// it after a measurement, never during one.
    #[must_use]
    pub fn examined(mut self, areas: &[&str]) -> Self {
        if !areas.is_empty() {
            self.doctor = host::doctor::examine(areas).iter().map(Finding::from).collect();
        }
        self
    }

    /// `body`, which is an object, behind this header.
    #[must_use]
    pub fn stamp(&self, body: Value) -> Value {
        let mut all = Map::new();
        all.insert(KEY.to_owned(), json!(self));
        let Value::Object(body) = body else { unreachable!("a result is an object") };
        all.extend(body);
        Value::Object(all)
    }

    /// The command that repeats it, for a shell.
    #[must_use]
    pub fn repeat(&self) -> String {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
        let quoted = |argument: &String| match argument.chars().all(plain) && !argument.is_empty() {
            true => format!(" {argument}"),
            false => format!(" '{}'", argument.replace('\'', "'\\''")),
        };
        format!("greenwave{}", self.command.iter().map(quoted).collect::<String>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_that_repeats_a_run_survives_a_shell() {
        let mut header = Header::of_sim("load", Some(7));
        header.command = ["load", "--path", "/a b", "--rate", "10", "it's"].map(str::to_owned).to_vec();
        assert_eq!(header.repeat(), r"greenwave load --path '/a b' --rate 10 'it'\''s'");
    }

    #[test]
    fn a_header_stands_before_what_was_found_and_hides_nothing() {
        let header = Header::of_sim("load", Some(7));
        let result = header.stamp(json!({ "p99": 3 }));
        assert_eq!(result["p99"], 3);
        assert_eq!(serde_json::from_value::<Header>(result[KEY].clone()).unwrap(), header);
        assert_eq!(result.as_object().and_then(|all| all.keys().next()).map(String::as_str), Some(KEY));
    }
}
