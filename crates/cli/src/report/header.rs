//! Header of a result: the command that wrote it, its version, machine and date, and the arguments
//! that repeat it.
//!
//! It is one key, `greenwave`, so that the result's own keys stay free and foreign files are
//! recognised. `spec/results.md` lists the fields for other languages.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Version of the result format that this program writes; it reads no newer one.
pub const FORM: u64 = 1;

/// Key of the header in a result.
pub const KEY: &str = "greenwave";

/// Header of a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResultHeader {
    /// [`FORM`] of the program that wrote it; 0 for results that predate headers.
    pub form: u64,
    /// Kind of command, such as `experiment` or `bench-net`.
    pub kind: String,
    /// Greenwave's version.
    pub version: String,
    /// Arguments that repeat the measurement.
    pub command: Vec<String>,
    /// Date, such as 2026-11-22.
    pub date: String,
    /// `sim` or `host`.
    pub world: String,
    /// First seed, if the run is seeded.
    pub seed: Option<u64>,
    /// Machine; absent from simulations, which do not depend on it.
    pub machine: Option<String>,
    /// Mechanisms of that machine that the command uses.
    #[serde(default)]
    pub doctor: Vec<MechanismState>,
}

/// A mechanism, as `greenwave doctor` reports it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MechanismState {
    /// The command that uses the mechanism.
    pub command: String,
    /// Mechanism or interface.
    pub mechanism: String,
    /// `works`, `limits` or `absent`.
    #[serde(rename = "here")]
    pub health: String,
    /// Observation, in one line.
    #[serde(rename = "seen")]
    pub observation: String,
    /// Advice to improve the state of the mechanism.
    #[serde(rename = "try")]
    pub remedies: Vec<String>,
}

impl From<&doctor::Finding> for MechanismState {
    fn from(finding: &doctor::Finding) -> Self {
        Self {
            command: finding.area.to_owned(),
            mechanism: finding.what.clone(),
            health: finding.health.to_string(),
            observation: finding.seen.clone(),
            remedies: finding.remedies.clone(),
        }
    }
}

impl ResultHeader {
    /// Header of a simulation, which its seed replays on any machine.
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

    /// Header of a measurement on this machine.
    #[must_use]
    pub fn of_host(kind: &str, seed: Option<u64>) -> Self {
        let machine = Some(host::Machine::this().to_string());
        Self { world: "host".to_owned(), machine, ..Self::of_sim(kind, seed) }
    }

    /// Adds the doctor's report on the commands in `areas`, taken now: call it after a measurement,
    /// never during one.
    #[must_use]
    pub fn with_doctor(mut self, areas: &[&str]) -> Self {
        if !areas.is_empty() {
            self.doctor = doctor::examine(areas).iter().map(MechanismState::from).collect();
        }
        self
    }

    /// Adds this header to `body`, which is an object.
    #[must_use]
    pub fn stamp(&self, body: Value) -> Value {
        let mut all = Map::new();
        all.insert(KEY.to_owned(), json!(self));
        let Value::Object(body) = body else { unreachable!("a result is an object") };
        all.extend(body);
        Value::Object(all)
    }

    /// Shell command that repeats the run.
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
        let mut header = ResultHeader::of_sim("load", Some(7));
        header.command = ["load", "--path", "/a b", "--rate", "10", "it's"].map(str::to_owned).to_vec();
        assert_eq!(header.repeat(), r"greenwave load --path '/a b' --rate 10 'it'\''s'");
    }

    #[test]
    fn a_header_precedes_the_result_and_hides_no_key() {
        let header = ResultHeader::of_sim("load", Some(7));
        let result = header.stamp(json!({ "p99": 3 }));
        assert_eq!(result["p99"], 3);
        assert_eq!(serde_json::from_value::<ResultHeader>(result[KEY].clone()).unwrap(), header);
        assert_eq!(result.as_object().and_then(|all| all.keys().next()).map(String::as_str), Some(KEY));
    }
}
