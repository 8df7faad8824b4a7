//! Ready classifiers for the six scenarios of the paper, and the label of LNS.
//!
//! Each is a constructor that returns a classifier. Its parameters describe the application's
//! protocol (offsets into the TCP payload) and the threshold of urgency. Levels are 0 and 7, unless
//! the packet contains its own. [`SCENARIOS`] lists them for the command line and the docs. None
//! trusts the bytes: a missing or malformed field gives no verdict.
//! Source: ADPS §3, scenarios 1–6.

use super::{Layer, Verdict};

mod keyword;
mod length;
mod network;
mod service_time;
mod span;
mod tag;
mod volume;

pub use keyword::keyword;
pub use length::length;
pub use network::network;
pub use service_time::{KindAt, ServiceTimes, service_time, service_time_private};
pub use span::{SpanAt, span};
pub use tag::{TagAt, lns, tag};
pub use volume::volume;

/// Shipped classifier, as listed in the docs and by the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// Name of the constructor.
    pub name: &'static str,
    /// Layer at which the classifier runs.
    pub layer: Layer,
    /// Behaviour, in one sentence.
    pub doc: &'static str,
    /// Reference to the paper.
    pub paper: &'static str,
}

/// All shipped classifiers.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "length",
        layer: Layer::Driver,
        doc: "frames longer than a threshold are low: bulk traffic fills the MTU",
        paper: "ADPS scenario 1",
    },
    Scenario {
        name: "keyword",
        layer: Layer::Driver,
        doc: "a keyword at a fixed place in the request gives the priority (read against write)",
        paper: "ADPS scenario 2",
    },
    Scenario {
        name: "tag",
        layer: Layer::Driver,
        doc: "a byte in the request's header is the priority; other packets keep the default",
        paper: "ADPS scenario 2",
    },
    Scenario {
        name: "network",
        layer: Layer::Transport,
        doc: "connections with a long round trip or much loss are low: far users do not notice small variations",
        paper: "ADPS scenario 3",
    },
    Scenario {
        name: "volume",
        layer: Layer::Transport,
        doc: "connections that have sent us more than a threshold are low: they want throughput",
        paper: "ADPS scenario 4",
    },
    Scenario {
        name: "span",
        layer: Layer::Transport,
        doc: "all packets of a long request get the priority that its first one names",
        paper: "ADPS scenario 5",
    },
    Scenario {
        name: "service_time",
        layer: Layer::Transport,
        doc: "kinds of request that the application has measured to run long are low",
        paper: "ADPS scenario 6",
    },
    Scenario {
        name: "lns",
        layer: Layer::Driver,
        doc: "the label is read at the driver only; every packet without one is low",
        paper: "ADPS §4, the compared LNS",
    },
];

/// Level 7 if `low`, else level 0.
const fn two_levels(low: bool) -> Verdict {
    Verdict::Level(if low { 7 } else { 0 })
}

/// True if `payload` has the magic bytes at their offset.
fn has_magic(payload: &[u8], magic: Magic) -> bool {
    let (at, bytes) = magic;
    payload.get(at..).is_some_and(|rest| rest.starts_with(bytes))
}

/// Offset and value of the payload bytes that mark the start of a request.
pub type Magic = (usize, &'static [u8]);
