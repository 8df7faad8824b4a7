//! How the two ends of a flow speak: what the fabric asks of a transport.
//!
//! The ends never meet: each knows what its packets told it and nothing else,
//! so that they can be simulated side by side.

use queueing::{Priority, Span, Time};

use super::packet::Packet;
use super::topology::Node;

/// A flow that begins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Begin {
    /// Its number.
    pub flow: u32,
    /// The host that sends, and the one it is for.
    pub ends: [Node; 2],
    /// How many full segments it has.
    pub segments: u32,
    /// None of them is to be more urgent.
    pub floor: Priority,
    /// How long short packets take there and back where nothing waits.
    pub round_trip: Span,
}

/// A transport: hosts that speak it. It says what goes out and hears what
/// comes, and the fabric carries it.
pub(super) trait Protocol: Sized + Send {
    /// What a packet says to the other end.
    type Said: Copy + Send;
    /// The end that has something to send.
    type Sender: End<Self>;
    /// The end that it is for.
    type Receiver: End<Self>;
    /// Whether a receiver still answers what comes after the sender was done.
    const ANSWERS_LATE: bool;

    /// A flow begins.
    fn open(&mut self, now: Time, begin: &Begin) -> Self::Sender;

    /// The other end of `packet`'s flow, which is the first that has reached it.
    fn meet(&mut self, now: Time, packet: &Packet, said: &Self::Said) -> Self::Receiver;

    /// Whether the sender knows that everything has arrived.
    fn is_done(&self, sender: &Self::Sender) -> bool;

    /// Full segments of the flow that the receiver has in order.
    fn arrived(&self, receiver: &Self::Receiver) -> u32;

    /// Segments that the sender sent again so far.
    fn again(&self, sender: &Self::Sender) -> u32;

    /// The flow is done; nothing more is heard by this end.
    fn close(&mut self, sender: Self::Sender);

    /// The same, of the other end.
    fn forget(&mut self, receiver: Self::Receiver);
}

/// One end of a flow, at hosts that speak `P`.
pub(super) trait End<P: Protocol>: Send {
    /// `packet` reached this end.
    fn hear(&mut self, hosts: &mut P, now: Time, packet: &Packet, said: &P::Said);

    /// The next packet that goes out at `now`, until there is none.
    fn poll(&mut self, hosts: &mut P, now: Time) -> Option<(Packet, P::Said)>;

    /// When a timer is due; [`Time::MAX`] for never.
    fn due(&self, hosts: &P) -> Time;

    /// Does what is due at `now`; returns how many timers expired.
    fn on_due(&mut self, hosts: &mut P, now: Time) -> u32;
}
