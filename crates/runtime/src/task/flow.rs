//! Handle to a connection's classifier state.
//!
//! A stream belongs to one task, and hyper's handlers have none; a [`FlowHandle`] refers to the
//! connection and can be cloned and stored. It reads and writes the state that application and
//! classifier share, not the connection's bytes.
//! Source: ADPS M3 to M5.

use std::sync::Arc;

use classify::{AppMemory, FlowState, Private, TransportClassifier};
use net::stack::ConnId;

use super::TcpStream;
use super::handle::{Shared, lock};

/// Handle to a connection's classifier state; see the module. It does not keep the connection open:
/// afterwards queries return `None` and changes have no effect.
#[derive(Clone)]
pub struct FlowHandle {
    home: Arc<Shared>,
    id: ConnId,
}

impl TcpStream {
    /// Handle to the connection's classifier state.
    #[must_use]
    pub fn flow(&self) -> FlowHandle {
        FlowHandle { home: self.home.clone(), id: self.id() }
    }
}

impl FlowHandle {
    /// Sets the connection's own classifier from its next segment on (ADPS M3); `None` restores its
    /// listener's or the stack's.
    pub fn set_classifier(&self, classifier: Option<TransportClassifier>) {
        let before = lock(&self.home.sockets).stack.set_classifier(self.id, classifier);
        // Foreign code, dropped without the lock.
        drop(before);
    }

    /// Attaches memory for the classifier (ADPS M5); `None` detaches it.
    pub fn attach(&self, memory: Option<AppMemory>) {
        let before = lock(&self.home.sockets).stack.attach(self.id, memory);
        drop(before);
    }

    /// Copy of the 64 bytes that classifier and application share (ADPS M5).
    #[must_use]
    pub fn private(&self) -> Option<Private> {
        lock(&self.home.sockets).stack.private(self.id).copied()
    }

    /// Runs `change` on the 64 bytes under the lock; false if the connection is gone. `change` must
    /// be short and use no socket of the same shard.
    pub fn update(&self, change: impl FnOnce(&mut Private)) -> bool {
        lock(&self.home.sockets).stack.private_mut(self.id).map(change).is_some()
    }

    /// Flow state: round-trip time, losses, bytes (ADPS M4).
    #[must_use]
    pub fn state(&self) -> Option<FlowState> {
        lock(&self.home.sockets).stack.flow(self.id)
    }
}
