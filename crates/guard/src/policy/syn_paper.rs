//! The overload paper's rule: closes while kernel share and sockets are both above a bound.
//!
//! Both bounds depend on the machine: 128 sockets were a lot for a Pentium and are 4 ms of work
//! for a current web server. Kept for comparison.
//! Source: overload paper §3.3; the hysteresis of nine tenths is greenwave's.

use queueing::Time;

use super::{Latch, Params, Policy};
use crate::{Limit, Signals};

/// Sheds every arrival while the kernel's CPU share and the number of sockets are both too high.
#[derive(Clone, Debug)]
pub struct SynPaper {
    kernel_share_max: f64,
    sockets_max: f64,
    kernel: Latch,
    sockets: Latch,
}

impl SynPaper {
    /// Policy with the bounds of `params`.
    #[must_use]
    pub fn new(params: &Params) -> Self {
        Self {
            kernel_share_max: params.kernel_share_max,
            sockets_max: params.sockets_max as f64,
            kernel: Latch::default(),
            sockets: Latch::default(),
        }
    }
}

impl Policy for SynPaper {
    fn tick(&mut self, _now: Time, signals: &Signals) -> Limit {
        let kernel = self.kernel.update(signals.kernel_share, self.kernel_share_max);
        let sockets = self.sockets.update(signals.sockets as f64, self.sockets_max);
        if kernel && sockets { Limit::Closed } else { Limit::Open }
    }

    fn needs_system_signals(&self) -> bool {
        true
    }
}
