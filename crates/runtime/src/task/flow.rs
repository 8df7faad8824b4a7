//! A connection as its classifier knows it, from wherever it is served.
//!
//! A stream belongs to one task, and hyper's handlers have none; a [`Flow`] is
//! the connection's name, to be cloned and kept. It reads and writes what an
//! application and a classifier tell each other, never the connection's bytes.
//! Source: ADPS M3 to M5.

use std::sync::Arc;

use net::classify::{AppMemory, FlowState, Private, TransportClassifier};
use net::stack::ConnId;

use super::TcpStream;
use super::handle::{Shared, lock};

/// See the module. It keeps no connection open: once that is gone, questions
/// are answered `None` and what is set has no effect.
#[derive(Clone)]
pub struct Flow {
    home: Arc<Shared>,
    id: ConnId,
}

impl TcpStream {
    /// The connection as its classifier knows it.
    #[must_use]
    pub fn flow(&self) -> Flow {
        Flow { home: self.home.clone(), id: self.id() }
    }
}

impl Flow {
    /// Gives the connection its own classifier, from its next segment on (M3);
    /// `None` hands the choice back to its listener's, or the stack's.
    pub fn set_classifier(&self, classifier: Option<TransportClassifier>) {
        let before = lock(&self.home.sockets).stack.set_classifier(self.id, classifier);
        // Foreign code, so not under the lock.
        drop(before);
    }

    /// Attaches memory that the classifier sees (M5); `None` takes it away.
    pub fn attach(&self, memory: Option<AppMemory>) {
        let before = lock(&self.home.sockets).stack.attach(self.id, memory);
        drop(before);
    }

    /// The 64 bytes that the classifier and the application share (M5), as they are now.
    #[must_use]
    pub fn private(&self) -> Option<Private> {
        lock(&self.home.sockets).stack.private(self.id).copied()
    }

    /// Lets `change` have the 64 bytes, which nobody reads or writes meanwhile;
    /// false when the connection is gone. `change` must be short and use no
    /// socket of the same shard.
    pub fn update(&self, change: impl FnOnce(&mut Private)) -> bool {
        lock(&self.home.sockets).stack.private_mut(self.id).map(change).is_some()
    }

    /// What the connection has been like: round-trip time, losses, bytes (M4).
    #[must_use]
    pub fn state(&self) -> Option<FlowState> {
        lock(&self.home.sockets).stack.flow(self.id)
    }
}
