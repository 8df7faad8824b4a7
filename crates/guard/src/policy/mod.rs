//! Policies: what may come in, from what the server looks like. A file each.

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

/// Decides what may come in; looked at every [`Params::period`] or so.
pub trait Policy: Send {
    /// What may come in from `now` on, when the server looks like `signals`.
    fn tick(&mut self, now: Time, signals: &Signals) -> Limit;

    /// From now on requests may wait for `target`. What was learned stays.
    fn on_target(&mut self, _target: Span) {}

    /// Whether it looks at the machine: the kernel's share, sockets, memory.
    /// Who has to ask for these need not, where it does not.
    fn needs_system_signals(&self) -> bool {
        false
    }

    /// Whether it lets everybody in, whatever happens: then nobody is kept out
    /// for the sake of those who are in either.
    fn never_sheds(&self) -> bool {
        false
    }
}

/// What policies can be told; each looks at its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Params {
    /// How often they look.
    pub period: Span,
    /// How long a request may wait (`queue-delay`).
    pub delay_target: Span,
    /// The kernel's share of processor time that is too much (`syn-paper`).
    pub kernel_share_max: f64,
    /// Sockets that are too many (`syn-paper`).
    pub sockets_max: u64,
    /// The share of memory that is too much (`memory`).
    pub memory_share_max: f64,
    /// Requests in the server that are never too few, and always too many
    /// (`gradient`).
    pub present: (u64, u64),
}

impl Default for Params {
    /// 100 looks a second, a target of 20 ms, the overload paper's 75 % and 128
    /// sockets, 90 % of memory, 8 to 10,000 requests.
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

/// Makes a policy.
pub type Make = fn(&Params) -> Box<dyn Policy>;

/// Every policy and its name; the first is the default.
pub const POLICIES: [(&str, Make); 5] = [
    ("queue-delay", |params| Box::new(QueueDelay::new(params))),
    ("syn-paper", |params| Box::new(SynPaper::new(params))),
    ("gradient", |params| Box::new(Gradient::new(params))),
    ("memory", |params| Box::new(Memory::new(params))),
    ("none", |_| Box::new(NoShedding)),
];

/// The policy called `name`.
///
/// # Errors
/// When there is none; the error lists them.
pub fn by_name(name: &str, params: &Params) -> Result<Box<dyn Policy>, UnknownName> {
    named(&POLICIES, "policy", name).map(|make| make(params))
}

/// Lets everybody in.
struct NoShedding;

impl Policy for NoShedding {
    fn tick(&mut self, _now: Time, _signals: &Signals) -> Limit {
        Limit::Open
    }

    fn never_sheds(&self) -> bool {
        true
    }
}

/// On above a value, off below another, so that one in between changes nothing.
#[derive(Clone, Copy, Debug, Default)]
struct Latch(bool);

impl Latch {
    /// Whether it is on now that `value` is what it is: on above `max`, off
    /// below nine tenths of it.
    fn update(&mut self, value: f64, max: f64) -> bool {
        self.0 = value > max || self.0 && value > 0.9 * max;
        self.0
    }
}
