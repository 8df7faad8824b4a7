//! What travels: headers and lengths, no bytes.

use queueing::{Bytes, Entry, FlowId, Label, Priority};

/// Payload of a full segment.
pub const MSS: u64 = 1460;
/// A full segment on the wire, as the papers count it.
pub const SEGMENT_BYTES: u32 = 1500;
/// An acknowledgement on the wire, as the papers count it.
pub const ACK_BYTES: u32 = 40;

/// A packet on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// The flow it belongs to, by number.
    pub flow: u32,
    /// Full segments of the flow before what it carries or answers.
    pub segment: u32,
    /// Length on the wire, in bytes.
    pub bytes: u32,
    /// What it is.
    pub kind: Kind,
    /// Its level in queues.
    pub level: Priority,
    /// Its sender asks for marks instead of losses.
    pub capable: bool,
    /// It is capable and met a long queue on its way.
    pub marked: bool,
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// From the flow's source: segments, and what opens its connection.
    Data,
    /// From its destination, about them.
    Ack,
}

impl Kind {
    /// What the two ends of a flow send.
    pub(super) const BOTH: [Self; 2] = [Self::Data, Self::Ack];

    /// What the end sends that this is for.
    pub(super) const fn answer(self) -> Self {
        match self {
            Self::Data => Self::Ack,
            Self::Ack => Self::Data,
        }
    }
}

/// A packet's place in a queue; the packet itself stays where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub packet: u32,
    pub bytes: u32,
    pub flow: u32,
    pub kind: Kind,
    pub level: Priority,
}

impl Entry for Queued {
    fn label(&self) -> Label {
        Label::new(self.level)
    }

    /// The two directions of a flow are two flows in a queue.
    fn flow(&self) -> FlowId {
        FlowId(u64::from(self.flow) << 1 | u64::from(self.kind == Kind::Ack))
    }

    fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes.into())
    }
}
