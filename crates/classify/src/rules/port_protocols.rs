//! Protocols of the server's ports, as named in the rules.

use std::sync::Arc;

use super::condition::Range;
use crate::l7::Protocol;

/// Protocols by port; empty by default.
#[derive(Clone, Debug, Default)]
pub struct PortProtocols(Arc<[(Range, Protocol)]>);

impl PortProtocols {
    pub(super) fn new(ports: Vec<(Range, Protocol)>) -> Self {
        Self(ports.into())
    }

    /// Protocol of `port`, from the first rule that names one.
    #[must_use]
    pub fn on(&self, port: u16) -> Option<&Protocol> {
        self.0.iter().find(|(ports, _)| ports.contains(port.into())).map(|(_, protocol)| protocol)
    }
}
