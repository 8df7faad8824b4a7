//! The paper's rule: closed while the kernel takes too much and too many
//! sockets are there.
//!
//! Both are numbers of the machine: 128 sockets were much for a Pentium and
//! are 4 ms of work for a web server of today. Kept to be compared with.
//! Source: the overload paper §3.3; that it opens only below nine tenths is
//! ours, the paper says nothing of it.

use queueing::Time;

use super::{Latch, Params, Policy};
use crate::{Limit, Signals};

/// Nobody comes in while the kernel's share and the sockets are both too many.
#[derive(Clone, Debug)]
pub struct SynPaper {
    kernel_share_max: f64,
    sockets_max: f64,
    kernel: Latch,
    sockets: Latch,
}

impl SynPaper {
    /// Closes above the shares and counts of `params`.
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
