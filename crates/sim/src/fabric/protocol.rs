//! Transport interface: the two ends of a flow, as the fabric calls them.
//!
//! The ends share no state. Each knows only what its packets carried, so that they can be
//! simulated in parallel.

use queueing::{Priority, Span, Time};

use super::packet::Packet;
use super::topology::Node;

/// Parameters of a new flow.
#[derive(Clone, Copy, Debug)]
pub(super) struct FlowParams {
    /// Number of the flow.
    pub flow: u32,
    /// Sending and receiving host.
    pub endpoints: [Node; 2],
    /// Size in full segments.
    pub segments: u32,
    /// Most urgent level that the flow's packets may have.
    pub floor: Priority,
    /// Round-trip time of minimal packets on an idle network.
    pub round_trip: Span,
}

/// Transport of all hosts. Produces and consumes packets; the fabric delivers them.
pub(super) trait Protocol: Sized + Send {
    /// Transport header of a packet.
    type Payload: Copy + Send;
    /// Sending end.
    type Sender: End<Self>;
    /// Receiving end.
    type Receiver: End<Self>;
    /// True if a receiver still acknowledges packets after its sender is done.
    const ANSWERS_LATE: bool;

    /// Opens the sending end of a flow.
    fn open(&mut self, now: Time, params: &FlowParams) -> Self::Sender;

    /// Opens the receiving end on `packet`, the first one to arrive.
    fn accept(&mut self, now: Time, packet: &Packet, payload: &Self::Payload) -> Self::Receiver;

    /// True if the sender knows that everything has arrived.
    fn is_done(&self, sender: &Self::Sender) -> bool;

    /// Full segments that the receiver has in order.
    fn arrived(&self, receiver: &Self::Receiver) -> u32;

    /// Segments retransmitted so far.
    fn retransmitted(&self, sender: &Self::Sender) -> u32;

    /// Closes the sending end of a completed flow.
    fn close_sender(&mut self, sender: Self::Sender);

    /// Closes the receiving end of a completed flow.
    fn close_receiver(&mut self, receiver: Self::Receiver);
}

/// One end of a flow.
pub(super) trait End<P: Protocol>: Send {
    /// Handles a received `packet`.
    fn on_packet(&mut self, hosts: &mut P, now: Time, packet: &Packet, payload: &P::Payload);

    /// Next packet to send at `now`; call until `None`.
    fn poll(&mut self, hosts: &mut P, now: Time) -> Option<(Packet, P::Payload)>;

    /// Deadline of the next timer; [`Time::MAX`] if none.
    fn deadline(&self, hosts: &P) -> Time;

    /// Runs the timers due at `now`; returns the number that expired.
    fn on_timer(&mut self, hosts: &mut P, now: Time) -> u32;
}
