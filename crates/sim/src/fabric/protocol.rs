//! How the two ends of a flow speak: what the fabric asks of a transport.

use queueing::Time;

use super::packet::{Kind, Packet};

/// A transport: it says what goes out and hears what comes, and the fabric
/// carries it. Which end is meant is told by the [`Kind`] of packets it sends.
pub(super) trait Protocol {
    /// What a packet says to the other end.
    type Said: Copy;
    /// Both ends of one flow.
    type Ends;

    /// The flow `flow` of `segments` full segments begins.
    fn begin(&mut self, now: Time, flow: u32, segments: u32) -> Self::Ends;

    /// `packet` reached the end it was for.
    fn hear(&mut self, now: Time, ends: &mut Self::Ends, packet: &Packet, said: &Self::Said);

    /// The next packet of this kind that goes out at `now`, until there is none.
    fn poll(&mut self, now: Time, ends: &mut Self::Ends, kind: Kind) -> Option<(Packet, Self::Said)>;

    /// When a timer of the end that sends `kind` is due; [`Time::MAX`] for never.
    fn due(&self, ends: &Self::Ends, kind: Kind) -> Time;

    /// Does what is due at `now`, at either end.
    fn on_due(&mut self, now: Time, ends: &mut Self::Ends);

    /// Whether the sender knows that everything has arrived.
    fn is_done(&self, ends: &Self::Ends) -> bool;

    /// The flow is done: keeps what late packets still need.
    fn retire(&mut self, ends: &mut Self::Ends);

    /// Segments sent again and timers that expired, so far.
    fn tally(&self, ends: &Self::Ends) -> (u32, u32);
}
