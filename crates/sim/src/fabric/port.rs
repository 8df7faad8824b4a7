//! Where packets wait for a line: a switch port, or a host's card.
//!
//! The queue is one of the disciplines that real queues use. Room is counted
//! here, in packets or bytes, since several ports may share it; so are levels,
//! where the switch tells flows' levels by itself.

use queueing::{Bytes, Depth, Entry, Mlfq, Pushed, Rng, Span, Time};

use super::config::Config;
use super::packet::{Packet, Queued};
use super::queues::{Queue, queue};
use super::room::{Buffer, Tagging};
use super::topology::Line;

/// Flows whose bytes a port remembers; the one that paused longest is forgotten.
const FLOWS_MAX: usize = 65_536;

/// A line and who waits for it.
pub(super) struct Port {
    pub line: Line,
    /// Who simulates the other end.
    pub home: u32,
    queue: Queue,
    /// Whose room it uses: its own number, or its node's.
    pub pool: u32,
    /// How much of that there is.
    room: Depth,
    /// Who tells flows' levels, if not their senders alone.
    tagger: Option<Mlfq>,
    /// When the line is free again.
    free_at: Time,
    /// Whether somebody comes at that time to send the next.
    awaited: bool,
    /// Serialisation of a full segment and of an acknowledgement, which nearly
    /// all packets are.
    spans: [(u32, Span); 2],
}

/// A packet that leaves a port.
pub(super) struct Sent {
    /// Where it is.
    pub slot: u32,
    /// A queue here was too long.
    pub marked: bool,
    /// When it arrives at the other end.
    pub at: Time,
}

impl Port {
    /// The `number`-th port.
    pub fn new(config: &Config, number: u32, line: Line, home: u32) -> Self {
        let span = |bytes: u32| (bytes, line.rate.time_for(Bytes::new(bytes.into())));
        let tagger =
            || Mlfq::new(config.thresholds().expect("a checked configuration"), config.idle, FLOWS_MAX);
        let levels = if config.buffer == Buffer::Queue && config.scheduler.has_levels() { 8 } else { 1 };
        Self {
            line,
            home,
            queue: queue(config, &Rng::seeded(config.seed).fork(3).fork(number.into())),
            pool: if config.buffer == Buffer::Switch { line.from } else { number },
            room: match config.room {
                Depth::Entries(entries) => Depth::Entries(entries * levels),
                Depth::Bytes(bytes) => Depth::Bytes(bytes * levels),
            },
            tagger: (config.tagging == Tagging::Switch).then(tagger),
            free_at: Time::ZERO,
            awaited: false,
            spans: [span(super::packet::SEGMENT_BYTES), span(super::packet::ACK_BYTES)],
        }
    }

    /// Takes in the packet in slot `slot`, where `held` of the room is in use;
    /// returns it at once if nothing is in its way. Whoever has to leave for it,
    /// or it itself, joins `dropped`.
    pub fn offer(
        &mut self,
        now: Time,
        slot: u32,
        packet: &mut Packet,
        held: &mut u64,
        dropped: &mut Vec<u32>,
    ) -> Option<Sent> {
        if let Some(tagger) = &mut self.tagger {
            // The next hop sees it: a flow sinks and never rises on its way.
            packet.level = packet.level.max(tagger.level(now, packet.flow_id(), packet.payload()));
        }
        let queued = Queued::new(slot, packet);
        let size = self.size(packet.bytes);
        let full = *held + size > self.room.amount();
        if now >= self.free_at && !full && self.queue.is_empty() && self.queue.passes(&queued) {
            return Some(self.put(now, slot, packet.bytes, false));
        }
        let outcome = match full {
            true => self.queue.replace(now, queued),
            false => self.queue.push(now, queued),
        };
        match outcome {
            Pushed::Refused(_) => dropped.push(slot),
            Pushed::Queued => *held += size,
            Pushed::PushedOut(gone) => {
                *held = *held + size - self.size(gone.bytes);
                dropped.push(gone.packet);
            }
        }
        // One that was pushed out may have been the smaller one.
        while *held > self.room.amount()
            && let Some(gone) = self.queue.evict(now)
        {
            *held -= self.size(gone.bytes);
            dropped.push(gone.packet);
        }
        self.send(now, held, dropped)
    }

    /// Puts the next packet on the line, if that is free.
    pub fn send(&mut self, now: Time, held: &mut u64, dropped: &mut Vec<u32>) -> Option<Sent> {
        if now < self.free_at {
            return None;
        }
        loop {
            let queued = self.queue.pop(now)?;
            *held -= self.size(queued.bytes);
            if queued.doomed() {
                dropped.push(queued.packet);
                continue;
            }
            return Some(self.put(now, queued.packet, queued.bytes, queued.marked));
        }
    }

    /// Puts a packet of `bytes` on the line, which is free.
    fn put(&mut self, now: Time, slot: u32, bytes: u32, marked: bool) -> Sent {
        let known = self.spans.iter().find(|&&(len, _)| len == bytes);
        let span = known.map_or_else(|| self.line.rate.time_for(Bytes::new(bytes.into())), |&(_, span)| span);
        self.free_at = now + span;
        Sent { slot, marked, at: self.free_at + self.line.delay }
    }

    /// What a packet of `bytes` takes of the room.
    fn size(&self, bytes: u32) -> u64 {
        self.room.measure(1, bytes.into())
    }

    /// Packets that wait.
    pub fn waiting(&self) -> usize {
        self.queue.len()
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
