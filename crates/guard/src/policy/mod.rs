//! Admission policies: signals in, limit out. One file each.

mod gradient;
mod memory;
mod queue_delay;
mod syn_paper;

pub use gradient::Gradient;
pub use memory::Memory;
pub use queue_delay::QueueDelay;
pub use syn_paper::SynPaper;

use queueing::{Span, Time, UnknownName, named};

use crate::{Limit, Signals};

/// Admission policy, called about every [`Params::period`].
pub trait Policy: Send {
    /// Limit from `now` on, given `signals`.
    fn tick(&mut self, now: Time, signals: &Signals) -> Limit;

    /// Sets the target delay; learned state stays.
    fn on_target(&mut self, _target: Span) {}

    /// True if the policy uses the system's signals: kernel share, sockets, memory. Otherwise
    /// they need not be sampled.
    fn needs_system_signals(&self) -> bool {
        false
    }

    /// True if the policy admits every request, always; other reasons to shed for the sake of
    /// admitted work are off too.
    fn never_sheds(&self) -> bool {
        false
    }
}

/// Parameters of all policies; each uses its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// Control interval.
    pub period: Span,
    /// Target queueing delay (`queue-delay`).
    pub delay_target: Span,
    /// Maximum kernel share of CPU time (`syn-paper`).
    pub kernel_share_max: f64,
    /// Maximum number of sockets (`syn-paper`).
    pub sockets_max: u64,
    /// Maximum share of memory (`memory`).
    pub memory_share_max: f64,
    /// Bounds of the concurrency limit (`gradient`).
    pub present: (u64, u64),
}

impl Default for Params {
    /// Interval 10 ms, target 20 ms, the overload paper's 75 % and 128 sockets, 90 % of memory,
    /// concurrency 8 to 10,000.
    fn default() -> Self {
        Self {
            period: Span::from_millis(10),
            delay_target: Span::from_millis(20),
            kernel_share_max: 0.75,
            sockets_max: 128,
            memory_share_max: 0.9,
            present: (8, 10_000),
        }
    }
}

/// Constructor of a policy.
pub type Make = fn(&Params) -> Box<dyn Policy>;

/// Policies by name; the first is the default.
pub const POLICIES: [(&str, Make); 5] = [
    ("queue-delay", |params| Box::new(QueueDelay::new(params))),
    ("syn-paper", |params| Box::new(SynPaper::new(params))),
    ("gradient", |params| Box::new(Gradient::new(params))),
    ("memory", |params| Box::new(Memory::new(params))),
    ("none", |_| Box::new(NoShedding)),
];

/// Policy called `name`.
///
/// # Errors
/// No policy has the name; the error lists the names.
pub fn by_name(name: &str, params: &Params) -> Result<Box<dyn Policy>, UnknownName> {
    named(&POLICIES, "policy", name).map(|make| make(params))
}

/// Policy without limit.
struct NoShedding;

impl Policy for NoShedding {
    fn tick(&mut self, _now: Time, _signals: &Signals) -> Limit {
        Limit::Open
    }

    fn never_sheds(&self) -> bool {
        true
    }
}

/// Threshold with hysteresis.
#[derive(Clone, Copy, Debug, Default)]
struct Latch(bool);

impl Latch {
    /// True if on: turns on above `max`, off below nine tenths of it.
    fn update(&mut self, value: f64, max: f64) -> bool {
        self.0 = value > max || self.0 && value > 0.9 * max;
        self.0
    }
}
