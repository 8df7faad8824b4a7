//! Metadata of an attached guard, in the program's maps: it exists as long as the program, whichever
//! process attached it. There is no file.

use queueing::Span;
use serde_json::{Value, json};

use super::error::GuardError;
use super::map_layout::NOTES_LEN;
use super::maps::{Maps, refused};
use super::{Options, Refusal, WaitEnd};
use crate::xdp::Mode;

/// Configuration of an attached guard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuardAttachment {
    /// The policy's name.
    pub policy: String,
    /// Target delay of a connection.
    pub target: Span,
    /// XDP mode of the program.
    pub mode: Mode,
    /// Guarded ports.
    pub ports: Vec<u16>,
    /// Rules of each class, as text; the last class has all other connections.
    pub classes: Vec<String>,
    /// End of a connection's wait.
    pub until: WaitEnd,
    /// True if no connection is shed.
    pub watching: bool,
    /// Response to a shed SYN.
    pub refusal: Refusal,
    /// Process of the controller.
    pub process: u32,
}

impl GuardAttachment {
    pub(super) fn new(options: &Options) -> Self {
        let name =
            |rules: &Vec<super::Rule>| rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let mut classes: Vec<String> = options.classes.0.iter().map(name).collect();
        classes.push("all others".to_owned());
        Self {
            policy: options.policy.clone(),
            target: options.target,
            mode: options.mode.unwrap_or(Mode::Native),
            ports: options.ports.clone(),
            classes,
            until: options.until,
            watching: options.watching,
            refusal: options.refusal,
            process: std::process::id(),
        }
    }

    /// Metadata of the attached program `id`.
    pub(super) fn attached(id: u32) -> Result<Self, GuardError> {
        let settings = Maps::attached(id)?.settings().map_err(refused("a read of the guard's maps"))?;
        Self::read(&settings.notes)
    }

    /// One line: `queue-delay on port 80, by process 77`.
    #[must_use]
    pub fn name(&self) -> String {
        let ports = self.ports.iter().map(u16::to_string).collect::<Vec<_>>().join(", ");
        let plural = if self.ports.len() == 1 { "port" } else { "ports" };
        format!("{} on {plural} {ports}, by process {}", self.policy, self.process)
    }

    /// Encoding as the map's value. Class names that are too long are cut.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let text = |classes: &[String]| {
            json!({
                "policy": self.policy, "target_ns": self.target.as_nanos(), "native": self.mode == Mode::Native,
                "ports": self.ports, "classes": classes, "watching": self.watching, "process": self.process,
                "resets": self.refusal == Refusal::Reset, "answers": self.until == WaitEnd::Answer,
            })
            .to_string()
        };
        let mut bytes = text(&self.classes);
        if bytes.len() > NOTES_LEN {
            let cut = |name: &String| name.chars().take(40).collect::<String>() + "…";
            bytes = text(&self.classes.iter().map(cut).collect::<Vec<_>>());
        }
        bytes.into_bytes()
    }

    pub(super) fn read(bytes: &[u8]) -> Result<Self, GuardError> {
        let read = || {
            let value: Value = serde_json::from_slice(bytes).ok()?;
            let number = |key: &str| value.get(key)?.as_u64();
            let list = |key: &str| Some(value.get(key)?.as_array()?.iter());
            Some(Self {
                policy: value.get("policy")?.as_str()?.to_owned(),
                target: Span::from_nanos(number("target_ns")?),
                mode: if value.get("native")?.as_bool()? { Mode::Native } else { Mode::Generic },
                ports: list("ports")?
                    .filter_map(Value::as_u64)
                    .filter_map(|port| port.try_into().ok())
                    .collect(),
                classes: list("classes")?.filter_map(Value::as_str).map(str::to_owned).collect(),
                until: if value.get("answers")?.as_bool()? { WaitEnd::Answer } else { WaitEnd::Accept },
                watching: value.get("watching")?.as_bool()?,
                refusal: if value.get("resets")?.as_bool()? { Refusal::Reset } else { Refusal::Silence },
                process: number("process")?.try_into().ok()?,
            })
        };
        read().ok_or_else(|| GuardError::Unreadable("the attached guard's metadata is unreadable".to_owned()))
    }
}
