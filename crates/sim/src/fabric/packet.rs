//! Simulated packet: header and length, no bytes.

use queueing::{Bytes, EcnMarkable, Entry, FlowId, Label, Priority};

/// Payload bytes of a full segment.
pub const MSS: u64 = 1460;
/// Bytes of a full segment on the wire, as counted in the papers.
pub const SEGMENT_BYTES: u32 = 1500;
/// Bytes of an acknowledgement on the wire, as counted in the papers.
pub const ACK_BYTES: u32 = 40;

/// Packet in the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet {
    /// Number of the flow.
    pub flow: u32,
    /// Full segments of the flow before the carried or acknowledged one.
    pub segment: u32,
    /// Length on the wire, in bytes.
    pub bytes: u32,
    /// Kind.
    pub kind: PacketKind,
    /// Priority level in queues.
    pub level: Priority,
    /// Segments of the flow not known to be received when this was sent; for size-based
    /// schedulers.
    pub left: u32,
    /// ECN-capable.
    pub capable: bool,
    /// Congestion experienced.
    pub marked: bool,
}

/// Kind of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketKind {
    /// From source to destination: segments and the packets that open a connection.
    Data,
    /// From destination to source.
    Ack,
}

impl Packet {
    /// Flow id for queues; the two directions of a flow have different ids.
    pub(super) fn flow_id(&self) -> FlowId {
        FlowId(u64::from(self.flow) << 1 | u64::from(self.kind == PacketKind::Ack))
    }

    /// Payload bytes.
    pub(super) fn payload(&self) -> Bytes {
        Bytes::new(self.bytes.saturating_sub(ACK_BYTES).into())
    }
}

/// Queue entry of a packet; the packet itself is not moved.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued {
    pub packet: u32,
    pub bytes: u32,
    /// Flow id for queues.
    flow: u32,
    level: Priority,
    /// Segments of the flow sent before this one, and remaining from this one on; 0 for
    /// acknowledgements.
    pub sent: u32,
    pub left: u32,
    /// ECN-capable.
    markable: bool,
    pub marked: bool,
    doomed: bool,
}

impl Queued {
    /// Entry of `packet`, which is stored at index `slot`.
    pub fn new(slot: u32, packet: &Packet) -> Self {
        let markable = packet.capable;
        let (sent, left) =
            if packet.kind == PacketKind::Data { (packet.segment, packet.left) } else { (0, 0) };
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
