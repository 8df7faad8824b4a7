//! Classifiers that the guide shows verbatim.

use std::sync::Arc;

use classify::{FlowContext, TransportClassifier, Verdict};

/// Urgent until the connection has sent us a megabyte; then bulk for good.
pub fn until_bulk() -> TransportClassifier {
    Arc::new(|flow: &mut FlowContext<'_>| {
        if flow.flow.received.get() < 1 << 20 {
            return Verdict::Level(0);
        }
        flow.successor = Some(Arc::new(|_: &mut FlowContext<'_>| Verdict::Level(7)));
        Verdict::Level(7)
    })
}
