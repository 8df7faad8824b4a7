//! Where packets wait for a line: a switch port, or a host's card.
//!
//! The queue is one of the disciplines that real queues use. Room is counted
//! here, in packets or bytes, since several ports may share it; so are levels,
//! where the switch tells flows' levels by itself.
//!
//! A large network has thousands of ports and most packets find theirs free, so
//! what such a packet needs lies together, and the queue, which is large, is
//! left alone.

use queueing::{Bytes, Entry, Mlfq, PrioritySet, PushResult, QueueLength, Rate, Rng, Span, Time};

use super::buffer_config::{Buffer, LevelAssignment};
use super::config::Config;
use super::packet::{ACK_BYTES, Packet, Queued, SEGMENT_BYTES};
use super::queues::{Queue, queue};
use super::topology::{Line, Node};

/// Flows whose bytes a port remembers; the one that paused longest is forgotten.
const FLOWS_MAX: usize = 65_536;

/// A line and who waits for it.
pub(super) struct Port {
    /// When the line is free again.
    free_at: Time,
    /// The node at the other end, and who simulates it.
    pub to: Node,
    pub home: u32,
    /// Whose room it uses: its own number, or its node's.
    pub pool: u32,
    /// Packets that wait.
    waiting: u32,
    /// Since the queue changed last: levels of which a full segment may pass it,
    /// and so may any that is shorter.
    passing: PrioritySet,
    /// Whether somebody comes when the line is free to send the next.
    awaited: bool,
    /// Length of the packet before that was no full segment, and serialisation
    /// of both, which nearly all packets are.
    other: u32,
    spans: [Span; 2],
    delay: Span,
    /// How much room there is.
    room: QueueLength,
    rate: Rate,
    queue: Queue,
    /// Who tells flows' levels, if not their senders alone.
    tagger: Option<Box<Mlfq>>,
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
        let span = |bytes: u32| line.rate.time_for(Bytes::new(bytes.into()));
        let tagger = || {
            let thresholds = config.thresholds().expect("a checked configuration");
            Box::new(Mlfq::new(thresholds, config.idle, FLOWS_MAX))
        };
        let levels = if config.buffer == Buffer::Queue && config.scheduler.has_levels() { 8 } else { 1 };
        Self {
            free_at: Time::ZERO,
            to: line.to,
            home,
            waiting: 0,
            passing: PrioritySet::NONE,
            awaited: false,
            other: ACK_BYTES,
            spans: [span(SEGMENT_BYTES), span(ACK_BYTES)],
            delay: line.delay,
            rate: line.rate,
            queue: queue(config, &Rng::seeded(config.seed).fork(3).fork(number.into())),
            pool: if config.buffer == Buffer::Switch { line.from } else { number },
            room: match config.room {
                QueueLength::Entries(entries) => QueueLength::Entries(entries * levels),
                QueueLength::Bytes(bytes) => QueueLength::Bytes(bytes * levels),
            },
            tagger: (config.tagging == LevelAssignment::Switch).then(tagger),
        }
    }

    /// What is looked at when a packet comes, to have it at hand soon.
    pub fn touch(&self) -> u64 {
        self.free_at.as_nanos() ^ self.room.amount()
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
        let size = self.size(packet.bytes);
        let full = *held + size > self.room.amount();
        if now >= self.free_at && !full && self.waiting == 0 && self.passes(slot, packet) {
            return Some(self.put(now, slot, packet.bytes, false));
        }
        let queued = Queued::new(slot, packet);
        let outcome = match full {
            true => self.queue.replace(now, queued),
            false => self.queue.push(now, queued),
        };
        match outcome {
            PushResult::Refused(_) => dropped.push(slot),
            PushResult::Queued => *held += size,
            PushResult::PushedOut(gone) => {
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

    /// Whether `packet` may leave without having been in the queue, where
    /// nothing waits.
    fn passes(&mut self, slot: u32, packet: &Packet) -> bool {
        let short = packet.bytes <= SEGMENT_BYTES;
        if short && self.passing.contains(packet.level) {
            return true;
        }
        let longest = Packet { bytes: packet.bytes.max(SEGMENT_BYTES), ..*packet };
        if !self.queue.passes(&Queued::new(slot, &longest)) {
            return short && self.queue.passes(&Queued::new(slot, packet));
        }
        self.passing = self.passing.with(packet.level);
        true
    }

    /// Puts the next packet on the line, if that is free.
    pub fn send(&mut self, now: Time, held: &mut u64, dropped: &mut Vec<u32>) -> Option<Sent> {
        let sent = if now < self.free_at { None } else { self.next(now, held, dropped) };
        self.waiting = self.queue.len() as u32;
        self.passing = PrioritySet::NONE;
        sent
    }

    /// The queue's next packet, put on the line, which is free.
    fn next(&mut self, now: Time, held: &mut u64, dropped: &mut Vec<u32>) -> Option<Sent> {
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
        let full = bytes == SEGMENT_BYTES;
        if !full && bytes != self.other {
            (self.other, self.spans[1]) = (bytes, self.rate.time_for(Bytes::new(bytes.into())));
        }
        self.free_at = now + self.spans[usize::from(!full)];
        Sent { slot, marked, at: self.free_at + self.delay }
    }

    /// What a packet of `bytes` takes of the room.
    fn size(&self, bytes: u32) -> u64 {
        self.room.measure(1, bytes.into())
    }

    /// Packets that wait.
    pub fn waiting(&self) -> usize {
        self.waiting as usize
    }

    /// When somebody has to come back to send, unless somebody does already.
    pub fn wake(&mut self) -> Option<Time> {
        let wake = !self.awaited && self.waiting > 0;
        self.awaited |= wake;
        wake.then_some(self.free_at)
    }

    /// Somebody came.
    pub fn woken(&mut self) {
        self.awaited = false;
    }
}
