//! Table of core policies: name, description, constructor.

use super::{
    Caladan, CoreAssignment, CoresConfigError, Elfen, Linux, Parties, Policy, Settings, Shenango, Static,
};

/// Constructor of a policy for an assignment's machine and tasks.
pub type Make = fn(&Settings, &CoreAssignment) -> Result<Box<dyn Policy>, CoresConfigError>;

/// Entry of [`POLICIES`].
#[derive(Clone, Copy)]
pub struct PolicyEntry {
    /// Name in the configuration.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Constructor.
    pub new: Make,
}

/// Every policy, for the command line, the guide and the tests.
pub const POLICIES: &[PolicyEntry] = &[
    PolicyEntry {
        name: "caladan",
        about: "cores by queueing delay, DRAM bandwidth and long requests (Caladan)",
        new: |settings, assignment| Ok(Box::new(Caladan::new(settings, assignment))),
    },
    PolicyEntry {
        name: "caladan-no-bandwidth",
        about: "the same without the bandwidth controller",
        new: |settings, assignment| Ok(Box::new(Caladan::new(settings, assignment).without_bandwidth())),
    },
    PolicyEntry {
        name: "caladan-no-hyperthread",
        about: "the same without the hyperthread controller",
        new: |settings, assignment| Ok(Box::new(Caladan::new(settings, assignment).without_hyperthread())),
    },
    PolicyEntry {
        name: "caladan-top",
        about: "the same with neither: its choice of cores alone",
        new: |settings, assignment| {
            Ok(Box::new(Caladan::new(settings, assignment).without_bandwidth().without_hyperthread()))
        },
    },
    PolicyEntry {
        name: "shenango",
        about: "cores by queueing delay alone, every 5 µs (Shenango)",
        new: |settings, assignment| Ok(Box::new(Shenango::new(settings, assignment))),
    },
    PolicyEntry {
        name: "elfen",
        about: "BE beside idle LC lanes only (Elfen's rule)",
        new: |settings, assignment| Ok(Box::new(Elfen::new(settings, assignment)?)),
    },
    PolicyEntry {
        name: "parties",
        about: "partitions moved by tail latency, a physical core every 500 ms (Parties)",
        new: |settings, assignment| Ok(Box::new(Parties::new(settings, assignment))),
    },
    PolicyEntry {
        name: "static",
        about: "guaranteed cores reserved permanently, the rest for BE",
        new: |settings, assignment| Ok(Box::new(Static::new(settings, assignment))),
    },
    PolicyEntry {
        name: "linux",
        about: "no allocator: the kernel's scheduler, BE in its idle class",
        new: |_, _| Ok(Box::new(Linux)),
    },
];

/// Policy called `name`, for `assignment`.
///
/// # Errors
/// If no policy has that name, or it does not support this assignment.
pub fn by_name(
    name: &str,
    settings: &Settings,
    assignment: &CoreAssignment,
) -> Result<Box<dyn Policy>, CoresConfigError> {
    let entry = POLICIES.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<_> = POLICIES.iter().map(|entry| entry.name).collect();
        CoresConfigError(format!("policy {name:?} is not one of {}", names.join(", ")))
    })?;
    (entry.new)(settings, assignment)
}
