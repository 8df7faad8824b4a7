//! What an application registers for the connection whose request it serves.
//!
//! A worker has no stack, so it leaves word and the shard carries it out before
//! the connection's next segment is classified. Not the shared bytes: those the
//! worker has a copy of. Source: ADPS M3 and M5.

use std::fmt;

use net::Stack;
use net::classify::{AppMemory, TransportClassifier};
use net::stack::ConnId;

use super::Rest;

/// See the module. With a request that came as a datagram it has no effect, and
/// with one whose handler panics neither.
#[derive(Default)]
pub struct Registration {
    classifier: Option<Option<TransportClassifier>>,
    memory: Option<Option<AppMemory>>,
    /// Unsent rest of the response's body.
    pub(crate) rest: Option<Rest>,
}

impl Registration {
    /// Gives the connection its own classifier (M3); `None` hands the choice
    /// back to its listener's, or the server's.
    pub fn set_classifier(&mut self, classifier: Option<TransportClassifier>) {
        self.classifier = Some(classifier);
    }

    /// Attaches memory that the connection's classifier sees (M5); `None` takes it away.
    pub fn attach(&mut self, memory: Option<AppMemory>) {
        self.memory = Some(memory);
    }

    /// Whether anything was asked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.classifier.is_none() && self.memory.is_none() && self.rest.is_none()
    }

    /// Carries it out on `conn`.
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
