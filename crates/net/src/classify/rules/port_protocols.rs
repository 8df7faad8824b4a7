//! What is spoken on which of our ports, as far as rules say so.

use std::sync::Arc;

use super::condition::Range;
use crate::classify::l7::Protocol;

/// What connections to our ports speak; nothing is known by default.
#[derive(Clone, Debug, Default)]
pub struct PortProtocols(Arc<[(Range, Protocol)]>);

impl PortProtocols {
    pub(super) fn new(ports: Vec<(Range, Protocol)>) -> Self {
        Self(ports.into())
    }

    /// On this port, if a rule asks for it; the first that does counts.
    #[must_use]
    pub fn on(&self, port: u16) -> Option<&Protocol> {
        self.0.iter().find(|(ports, _)| ports.contains(port.into())).map(|(_, protocol)| protocol)
    }
}
