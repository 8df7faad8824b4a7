//! Health of greenwave's mechanisms on this machine.
//!
//! Mechanisms are tried, not inferred from version numbers: in a network of two namespaces that is
//! removed afterwards, with the code that would use them. Properties that cannot be tried without harm,
//! such as the core that does a card's receive work, are read from `/proc` and `/sys` and judged by a
//! pure function.
//!
//! Not here: the benefit of a mechanism, which is measured elsewhere.

use std::fmt;

use netlab::{LabError, Namespace, NetLab, Veth};

mod cores;
mod cpu_idle;
mod devices;
mod egress;
mod files;
mod guard;
mod programs;
mod receive;

/// Health of a mechanism.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Health {
    /// Works fully.
    Works,
    /// Works with a limitation, named in the finding.
    Limited,
    /// Not available.
    Absent,
}

impl fmt::Display for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Works => "works",
            Self::Limited => "limits",
            Self::Absent => "absent",
        })
    }
}

/// Result for one mechanism.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Command that uses the mechanism: one of [`AREAS`].
    pub area: &'static str,
    /// The mechanism, or the interface.
    pub what: String,
    /// Health of the mechanism.
    pub health: Health,
    /// Observation, one line.
    pub seen: String,
    /// Alternative remedies, if any are known.
    pub remedies: Vec<String>,
}

/// Areas: the commands, and `files` for file I/O of tasks on greenwave's runtime.
pub const AREAS: [&str; 6] = ["serve", "run", "sched", "egress", "guard", "files"];

/// Checks everything in `areas`, in the order of [`AREAS`].
#[must_use]
pub fn examine(areas: &[&str]) -> Vec<Finding> {
    let asked = |area: &&'static str| areas.contains(area);
    let unavailable = NetLab::unavailable();
    // Two commands use the same devices.
    let devices = std::cell::OnceCell::new();
    let devices = || devices.get_or_init(|| devices::examine(unavailable.as_deref()));
    let probe = |area| match area {
        "serve" => devices().clone(),
        "run" => programs::examine(devices()),
        "sched" => cores::examine().into_iter().chain(cpu_idle::examine()).collect(),
        "egress" => egress::examine(unavailable.as_deref()),
        "guard" => guard::examine(unavailable.as_deref()).into_iter().chain(receive::examine()).collect(),
        _ => files::examine(),
    };
    AREAS.into_iter().filter(asked).flat_map(probe).collect()
}

/// True if command `area` can work with these `findings`: `run` needs all of its mechanisms, others any
/// one.
#[must_use]
pub fn serves(area: &str, findings: &[Finding]) -> bool {
    let mut its = findings.iter().filter(|finding| finding.area == area).peekable();
    let is_there = |finding: &Finding| finding.health != Health::Absent;
    its.peek().is_some() && if area == "run" { its.all(is_there) } else { its.any(is_there) }
}

/// Findings of `probe` for `mechanisms` in a namespace with a veth pair, `gw0`, whose peer is in
/// another; without namespaces, the reason for each mechanism.
fn tried(
    area: &'static str,
    mechanisms: &[&str],
    unavailable: Option<&str>,
    probe: impl FnOnce(&Namespace) -> Vec<Finding>,
) -> Vec<Finding> {
    let in_lab = || -> Result<_, LabError> {
        let lab = NetLab::new("doctor")?;
        let (near, far) = (lab.namespace("here")?, lab.namespace("there")?);
        lab.veth((&near, "gw0"), (&far, "gw1"), &Veth::default())?;
        Ok(probe(&near))
    };
    let (why, remedy) = match unavailable {
        Some(why) => (format!("{NOT_TESTED}{why}"), Some("run as root".to_owned())),
        None => match in_lab() {
            Ok(findings) => return findings,
            Err(e) => (e.to_string(), e.advice()),
        },
    };
    mechanisms.iter().map(|what| Finding::absent(area, what, why.clone(), remedy.clone())).collect()
}

/// Start of `seen` where a mechanism could not be tried.
const NOT_TESTED: &str = "not tested: ";

impl Finding {
    /// True unless the test itself lacked a prerequisite, such as root.
    #[must_use]
    pub fn is_tested(&self) -> bool {
        !self.seen.contains(NOT_TESTED)
    }

    fn works(area: &'static str, what: &str, seen: impl Into<String>) -> Self {
        Self { area, what: what.to_owned(), health: Health::Works, seen: seen.into(), remedies: Vec::new() }
    }

    fn limited(
        area: &'static str,
        what: &str,
        seen: impl Into<String>,
        remedies: impl IntoIterator<Item = String>,
    ) -> Self {
        let remedies = remedies.into_iter().collect();
        Self { health: Health::Limited, remedies, ..Self::works(area, what, seen) }
    }

    fn absent(
        area: &'static str,
        what: &str,
        seen: impl Into<String>,
        remedies: impl IntoIterator<Item = String>,
    ) -> Self {
        Self { health: Health::Absent, ..Self::limited(area, what, seen, remedies) }
    }
}
