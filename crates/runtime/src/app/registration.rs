//! Changes that an application registers for the connection whose request it serves.
//!
//! A worker has no stack. It records the changes, and the shard applies them before the
//! connection's next segment is classified. Does not hold the shared bytes: the worker has a copy
//! of those.
//! Source: ADPS M3 and M5.

use std::fmt;

use classify::{AppMemory, TransportClassifier};
use net::Stack;
use net::stack::ConnId;

use super::Rest;

/// Recorded changes of one connection. They have no effect for a request that came as a datagram,
/// or whose handler panics.
#[derive(Default)]
pub struct Registration {
    classifier: Option<Option<TransportClassifier>>,
    memory: Option<Option<AppMemory>>,
    /// Unsent rest of the response's body.
    pub(crate) rest: Option<Rest>,
}

impl Registration {
    /// Sets the connection's own classifier (M3); `None` restores its listener's or the server's.
    pub fn set_classifier(&mut self, classifier: Option<TransportClassifier>) {
        self.classifier = Some(classifier);
    }

    /// Attaches memory for the connection's classifier (M5); `None` detaches it.
    pub fn attach(&mut self, memory: Option<AppMemory>) {
        self.memory = Some(memory);
    }

    /// True if no change is registered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.classifier.is_none() && self.memory.is_none() && self.rest.is_none()
    }

    /// Applies the changes to `conn`.
    pub(crate) fn apply(self, stack: &mut Stack, conn: ConnId) {
        if let Some(classifier) = self.classifier {
            stack.set_classifier(conn, classifier);
        }
        if let Some(memory) = self.memory {
            stack.attach(conn, memory);
        }
    }
}

impl fmt::Debug for Registration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (classifier, memory) = (self.classifier.is_some(), self.memory.is_some());
        f.debug_struct("Registration").field("classifier", &classifier).field("memory", &memory).finish()
    }
}
