//! Where packets wait for a line: a switch port, or a host's card.
//!
//! The queue is one of the disciplines that real queues use; room is counted
//! in packets over all its levels and flows, and a packet is marked when, with
//! it, more wait than the threshold (DCTCP's rule, for the whole port).

use std::str::FromStr;

use queueing::{Discipline, Fifo, Flows, Pushed, Span, Strict, Time, UnknownName, named};

use super::packet::{Packet, Queued};
use super::topology::Line;

/// A queue's order, by name.
pub const SCHEDULERS: [(&str, Scheduler); 5] = [
    ("fifo", Scheduler::Fifo),
    ("flows", Scheduler::Flows),
    ("pias", Scheduler::Pias),
    ("fish", Scheduler::Fish),
    ("fish-plus", Scheduler::FishPlus),
];

/// Which packet goes next, and which has to go when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// In order of arrival.
    Fifo,
    /// Turns between flows, whatever they have sent.
    Flows,
    /// Strict levels, each in order of arrival (PIAS).
    Pias,
    /// Strict levels, each in turns between its flows (FISH).
    Fish,
    /// As FISH; when full, the lowest level gives up a packet for a higher one,
    /// and in it the flow that has asked for most for one that has asked for
    /// less.
    FishPlus,
}

impl FromStr for Scheduler {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        named(&SCHEDULERS, "scheduler", name)
    }
}

impl Scheduler {
    fn queue(self, room: usize) -> Box<dyn Discipline<Queued> + Send> {
        match self {
            Self::Fifo => Box::new(Fifo::new(room)),
            Self::Flows => Box::new(Flows::new(room)),
            Self::Pias => Box::new(Strict::new(room, |_| Fifo::new(room))),
            Self::Fish => Box::new(Strict::new(room, |_| Flows::new(room))),
            Self::FishPlus => {
                Box::new(Strict::new(room, |_| Flows::new(room).with_push_out()).with_push_out())
            }
        }
    }
}

/// A line and who waits for it.
pub(super) struct Port {
    pub line: Line,
    queue: Box<dyn Discipline<Queued> + Send>,
    /// More waiting packets than this are marked; `None`: none are.
    mark: Option<usize>,
    /// When the line is free again.
    free_at: Time,
    /// Whether somebody comes at that time to send the next.
    awaited: bool,
    /// Serialisation of a full segment and of an acknowledgement, which nearly
    /// all packets are.
    spans: [(u32, Span); 2],
}

/// What a port did with a packet.
pub(super) enum Offered {
    /// It waits; whoever had to leave for it is dropped.
    Waits { dropped: Option<u32> },
    /// There was no room for it.
    Dropped,
}

impl Port {
    pub fn new(line: Line, scheduler: Scheduler, room: usize, mark: Option<usize>) -> Self {
        let span = |bytes: u32| (bytes, line.rate.time_for(queueing::Bytes::new(bytes.into())));
        let spans = [span(super::packet::SEGMENT_BYTES), span(super::packet::ACK_BYTES)];
        Self { line, queue: scheduler.queue(room), mark, free_at: Time::ZERO, awaited: false, spans }
    }

    /// Takes in the packet in slot `slot`, and marks it if too many wait.
    pub fn offer(&mut self, now: Time, slot: u32, packet: &mut Packet) -> Offered {
        let Packet { flow, kind, bytes, level, .. } = *packet;
        let dropped = match self.queue.push(now, Queued { packet: slot, bytes, flow, kind, level }) {
            Pushed::Refused(_) => return Offered::Dropped,
            Pushed::Queued => None,
            Pushed::PushedOut(gone) => Some(gone.packet),
        };
        packet.marked |= packet.capable && self.mark.is_some_and(|mark| self.queue.len() > mark);
        Offered::Waits { dropped }
    }

    /// Puts the next packet on the line, if that is free: the packet, and when
    /// it arrives at the other end.
    pub fn send(&mut self, now: Time) -> Option<(u32, Time)> {
        if now < self.free_at {
            return None;
        }
        let Queued { packet, bytes, .. } = self.queue.pop(now)?;
        let known = self.spans.iter().find(|&&(len, _)| len == bytes);
        let span = known
            .map_or_else(|| self.line.rate.time_for(queueing::Bytes::new(bytes.into())), |&(_, span)| span);
        self.free_at = now + span;
        Some((packet, self.free_at + self.line.delay))
    }

    /// When somebody has to come back to send, unless somebody does already.
    pub fn wake(&mut self) -> Option<Time> {
        let wake = !self.awaited && !self.queue.is_empty();
        self.awaited |= wake;
        wake.then_some(self.free_at)
    }

    /// Somebody came.
    pub fn woken(&mut self) {
        self.awaited = false;
    }
}
