//! Arguments for several stacks: assignment of flows to shards, and of cores to threads.

use clap::ValueEnum;
use net::steer::{self, FlowSteering};
use queueing::CoreId;

use crate::Error;
use crate::options::secret;

/// Assignment of flows to stacks, as named on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FlowHashArg {
    /// Hash with a secret key, so that clients cannot aim at one stack;
    /// frames from another stack's queue are passed on in memory.
    Keyed,
    /// Hash of a NIC with the symmetric key (`ethtool -X eth0 hkey
    /// 6d:5a:…`): each flow arrives on its stack's queue. Clients can
    /// choose the stack by their port.
    Rss,
}

impl FlowHashArg {
    /// The assignment of flows to `shards` stacks.
    ///
    /// # Errors
    /// The kernel has no random bytes for a key.
    pub fn steering(self, shards: u16) -> Result<FlowSteering, Error> {
        let hash = match self {
            Self::Keyed => steer::FlowHash::Keyed(secret()?),
            Self::Rss => steer::FlowHash::Toeplitz,
        };
        Ok(FlowSteering::new(shards, hash))
    }
}

/// Pins this thread to the core of this number among those it may use; without effect when that is
/// refused.
pub fn pin(core: CoreId) {
    if let Err(e) = host::affinity::pin_nth(core) {
        errln!("note: --pin: core {} is not available: {e}", core.0);
    }
}
