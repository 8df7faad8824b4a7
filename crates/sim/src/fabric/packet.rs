//! What travels: headers and lengths, no bytes.

use queueing::{Bytes, EcnMarkable, Entry, FlowId, Label, Priority};

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
    /// Segments of the flow that the receiver was not known to have when this
    /// was sent; for who schedules by what is left.
    pub left: u32,
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

impl Packet {
    /// The flow as queues see it: its two directions are two.
    pub(super) fn flow_id(&self) -> FlowId {
        FlowId(u64::from(self.flow) << 1 | u64::from(self.kind == Kind::Ack))
    }

    /// What it carries of the flow.
    pub(super) fn payload(&self) -> Bytes {
        Bytes::new(self.bytes.saturating_sub(ACK_BYTES).into())
    }
}

/// A packet's place in a queue; the packet itself stays where it is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub packet: u32,
    pub bytes: u32,
    /// The flow's number as queues see it.
    flow: u32,
    level: Priority,
    /// Segments of the flow sent before this one, and left from this one on; an
    /// acknowledgement's direction has nothing to send.
    pub sent: u32,
    pub left: u32,
    /// Its sender asks for marks.
    markable: bool,
    pub marked: bool,
    doomed: bool,
}

impl Queued {
    /// The place of `packet`, which is in slot `slot`.
    pub fn new(slot: u32, packet: &Packet) -> Self {
        let markable = packet.capable;
        let (sent, left) = if packet.kind == Kind::Data { (packet.segment, packet.left) } else { (0, 0) };
        Self {
            packet: slot,
            bytes: packet.bytes,
            flow: packet.flow_id().0 as u32,
            level: packet.level,
            sent,
            left,
            markable,
            marked: false,
            doomed: false,
        }
    }
}

impl Entry for Queued {
    fn label(&self) -> Label {
        Label::new(self.level)
    }

    fn flow(&self) -> FlowId {
        FlowId(self.flow.into())
    }

    fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes.into())
    }

    fn doomed(&self) -> bool {
        self.doomed
    }
}

impl EcnMarkable for Queued {
    fn mark(&mut self) -> bool {
        self.marked |= self.markable;
        self.markable
    }

    fn doom(&mut self) {
        self.doomed = true;
    }
}
