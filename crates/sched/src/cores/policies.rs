//! Table of core policies: name, description, constructor.

use super::{
    Caladan, CoreAssignment, CoresConfigError, Elfen, Linux, Parties, Policy, Settings, Shenango, Static,
};

/// Constructor of a policy for a board's machine and tasks.
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
        new: |settings, board| Ok(Box::new(Caladan::new(settings, board))),
    },
    PolicyEntry {
        name: "caladan-no-bandwidth",
        about: "the same without the bandwidth controller",
        new: |settings, board| Ok(Box::new(Caladan::new(settings, board).without_bandwidth())),
    },
    PolicyEntry {
        name: "caladan-no-hyperthread",
        about: "the same without the hyperthread controller",
        new: |settings, board| Ok(Box::new(Caladan::new(settings, board).without_hyperthread())),
    },
    PolicyEntry {
        name: "caladan-top",
        about: "the same with neither: its choice of cores alone",
        new: |settings, board| {
            Ok(Box::new(Caladan::new(settings, board).without_bandwidth().without_hyperthread()))
        },
    },
    PolicyEntry {
        name: "shenango",
        about: "cores by queueing delay alone, every 5 µs (Shenango)",
        new: |settings, board| Ok(Box::new(Shenango::new(settings, board))),
    },
    PolicyEntry {
        name: "elfen",
        about: "BE beside idle LC lanes only (Elfen's rule)",
        new: |settings, board| Ok(Box::new(Elfen::new(settings, board)?)),
    },
    PolicyEntry {
        name: "parties",
        about: "partitions moved by tail latency, a physical core every 500 ms (Parties)",
        new: |settings, board| Ok(Box::new(Parties::new(settings, board))),
    },
    PolicyEntry {
        name: "static",
        about: "guaranteed cores reserved permanently, the rest for BE",
        new: |settings, board| Ok(Box::new(Static::new(settings, board))),
    },
    PolicyEntry {
        name: "linux",
        about: "no allocator: the kernel's scheduler, BE in its idle class",
        new: |_, _| Ok(Box::new(Linux)),
    },
];

/// Policy called `name`, for `board`.
///
/// # Errors
/// If no policy has that name, or it does not support this board.
pub fn by_name(
    name: &str,
    settings: &Settings,
    board: &CoreAssignment,
) -> Result<Box<dyn Policy>, CoresConfigError> {
    let entry = POLICIES.iter().find(|entry| entry.name == name).ok_or_else(|| {
        let names: Vec<_> = POLICIES.iter().map(|entry| entry.name).collect();
        CoresConfigError(format!("policy {name:?} is none of {}", names.join(", ")))
    })?;
    (entry.new)(settings, board)
}
