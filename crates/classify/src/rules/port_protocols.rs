//! Protocols of the server's ports, as named in the rules.

use std::sync::Arc;

use super::condition::Range;
use crate::l7::L7Protocol;

/// Protocols by port; empty by default.
#[derive(Clone, Debug, Default)]
pub struct PortProtocols(Arc<[(Range, L7Protocol)]>);

impl PortProtocols {
    pub(super) fn new(ports: Vec<(Range, L7Protocol)>) -> Self {
        Self(ports.into())
    }

    /// Protocol of `port`, from the first rule that names one.
    #[must_use]
    pub fn on(&self, port: u16) -> Option<&L7Protocol> {
        self.0.iter().find(|(ports, _)| ports.contains(port.into())).map(|(_, protocol)| protocol)
    }
}
