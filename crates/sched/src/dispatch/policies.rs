//! Table of dispatch policies: name, description, constructor.

use std::fmt;

use queueing::{DrrConfig, Span};

use super::{Darc, DarcSettings, Dispatch, edf, fcfs, strict, strict_edf, weighted};

/// Parameters of all policies; each uses its own.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Workers, 1..=256.
    pub workers: usize,
    /// Tasks that may be queued, at least 1.
    pub capacity: usize,
    /// `edf`, `strict-edf`: deadline of tasks without one, and the longest that counts.
    pub deadline_default: Span,
    /// `weighted`: weights and aging.
    pub weighted: DrrConfig,
    /// `darc`: profiling and reservation.
    pub darc: DarcSettings,
}

impl Params {
    /// Defaults for `workers` workers and `capacity` queued tasks: each level has
    /// twice the weight of the next, and tasks age after 10 ms.
    #[must_use]
    pub fn new(workers: usize, capacity: usize) -> Self {
        Self {
            workers,
            capacity,
            deadline_default: Span::from_millis(100),
            weighted: DrrConfig::by_count([128, 64, 32, 16, 8, 4, 2, 1], Span::from_millis(10)),
            darc: DarcSettings::default(),
        }
    }
}

/// Entry of [`POLICIES`].
#[derive(Clone, Copy)]
pub struct PolicyEntry {
    /// Name in the configuration.
    pub name: &'static str,
    /// Description in one line.
    pub about: &'static str,
    /// Constructor.
    pub new: fn(&Params) -> Box<dyn Dispatch>,
}

/// Every policy, for the command line, the guide and the tests.
pub const POLICIES: &[PolicyEntry] = &[
    PolicyEntry {
        name: "fcfs",
        about: "first come, first served over all priorities",
        new: |p| Box::new(fcfs(p.capacity)),
    },
    PolicyEntry {
        name: "strict",
        about: "the most urgent priority first; the others may starve",
        new: |p| Box::new(strict(p.capacity)),
    },
    PolicyEntry {
        name: "edf",
        about: "the earliest deadline first over all priorities",
        new: |p| Box::new(edf(p.capacity, p.deadline_default)),
    },
    PolicyEntry {
        name: "strict-edf",
        about: "the most urgent priority first, within it the earliest deadline; the others may starve",
        new: |p| Box::new(strict_edf(p.capacity, p.deadline_default)),
    },
    PolicyEntry {
        name: "weighted",
        about: "shares per priority with aging; nothing starves",
        new: |p| Box::new(weighted(p.capacity, p.weighted)),
    },
    PolicyEntry {
        name: "darc",
        about: "workers reserved for short request types, by profile (Perséphone)",
        new: |p| Box::new(Darc::new(p.workers, p.capacity, p.darc.clone())),
    },
];

/// Error for a name that no policy has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownPolicy(String);

impl fmt::Display for UnknownPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = POLICIES.iter().map(|p| p.name).collect();
        write!(f, "policy {:?} is not one of {}", self.0, names.join(", "))
    }
}

impl std::error::Error for UnknownPolicy {}

/// Policy called `name`.
///
/// # Errors
/// [`UnknownPolicy`], whose text lists the valid names.
pub fn by_name(name: &str, params: &Params) -> Result<Box<dyn Dispatch>, UnknownPolicy> {
    let entry = POLICIES.iter().find(|p| p.name == name).ok_or_else(|| UnknownPolicy(name.to_owned()))?;
    Ok((entry.new)(params))
}
