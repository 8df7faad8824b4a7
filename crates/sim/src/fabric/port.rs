//! Output port: queue and line of a switch port or a host's NIC.
//!
//! The queue is one of the disciplines used in production. Buffer space is accounted for here,
//! in packets or bytes, since several ports may share it. So are levels, where the switch
//! assigns them.
//!
//! A large network has thousands of ports and most packets find theirs idle. The fields that
//! such a packet needs are adjacent, and the queue, which is large, is not touched.

use queueing::{Bytes, Entry, FlowId, Mlfq, PrioritySet, PushResult, QueueLength, Rate, Rng, Span, Time};

use super::buffer_config::{BufferConfig, LevelAssignment};
use super::config::Config;
use super::packet::{ACK_BYTES, Packet, Queued, SEGMENT_BYTES};
use super::queues::{Queue, queue};
use super::topology::{DirectedLink, Node};

/// Maximum number of flows whose byte counts a port keeps; the longest-idle one is evicted.
const FLOWS_MAX: usize = 65_536;

/// A line and its queue.
pub(super) struct Port {
    /// Time at which the line becomes free.
    free_at: Time,
    /// Node at the other end, and its partition.
    pub to: Node,
    pub partition: u32,
    /// Index of the buffer pool: the port's number, or its node's.
    pub pool: u32,
    /// Packets queued.
    waiting: u32,
    /// Levels at which a full segment, hence also a shorter packet, may bypass the queue; valid
    /// until the queue changes.
    bypass: PrioritySet,
    /// True if an event is scheduled for the time at which the line becomes free.
    wake_scheduled: bool,
    /// Length of the last packet that was no full segment, and the serialisation times of a
    /// full segment and of this length: nearly all packets have one of the two.
    other_len: u32,
    spans: [Span; 2],
    delay: Span,
    /// Buffer size.
    capacity: QueueLength,
    rate: Rate,
    queue: Queue,
    /// Assigns levels, in place of senders.
    mlfq: Option<Box<Mlfq>>,
}

/// Packet transmitted by a port.
pub(super) struct Sent {
    /// Index of the packet.
    pub slot: u32,
    /// Marked at this port.
    pub marked: bool,
    /// Arrival time at the other end.
    pub at: Time,
}

impl Port {
    /// Port number `number`.
    pub fn new(config: &Config, number: u32, line: DirectedLink, partition: u32) -> Self {
        let span = |bytes: u32| line.rate.time_for(Bytes::new(bytes.into()));
        let mlfq = || {
            let thresholds = config.thresholds().expect("a checked configuration");
            Box::new(Mlfq::new(thresholds, config.idle, FLOWS_MAX))
        };
        let levels =
            if config.buffer == BufferConfig::Queue && config.scheduler.has_levels() { 8 } else { 1 };
        Self {
            free_at: Time::ZERO,
            to: line.to,
            partition,
            waiting: 0,
            bypass: PrioritySet::NONE,
            wake_scheduled: false,
            other_len: ACK_BYTES,
            spans: [span(SEGMENT_BYTES), span(ACK_BYTES)],
            delay: line.delay,
            rate: line.rate,
            queue: queue(config, &Rng::seeded(config.seed).fork(3).fork(number.into())),
            pool: if config.buffer == BufferConfig::Switch { line.from } else { number },
            capacity: match config.buffer_size {
                QueueLength::Entries(entries) => QueueLength::Entries(entries * levels),
                QueueLength::Bytes(bytes) => QueueLength::Bytes(bytes * levels),
            },
            mlfq: (config.tagging == LevelAssignment::Switch).then(mlfq),
        }
    }

    /// Reads the data that the next packet needs, to prefetch it.
    pub fn touch(&self) -> u64 {
        self.free_at.as_nanos() ^ self.capacity.amount()
    }

    /// Enqueues the packet at index `slot`, with `buffered` of the buffer in use; transmits it at
    /// once if nothing is queued. Dropped packets, this one or others, are appended to
    /// `dropped`.
    pub fn enqueue(
        &mut self,
        now: Time,
        slot: u32,
        packet: &mut Packet,
        buffered: &mut u64,
        dropped: &mut Vec<u32>,
    ) -> Option<Sent> {
        if let Some(mlfq) = &mut self.mlfq {
            // Visible at the next hop: levels only fall on the way.
            packet.level = packet.level.max(mlfq.level(now, packet.flow_id(), packet.payload()));
        }
        let size = self.size(packet.bytes);
        let full = *buffered + size > self.capacity.amount();
        if now >= self.free_at && !full && self.waiting == 0 && self.passes(slot, packet) {
            self.depart(now, packet.flow_id());
            return Some(self.transmit(now, slot, packet.bytes, false));
        }
        let queued = Queued::new(slot, packet);
        let outcome = match full {
            true => self.queue.replace(now, queued),
            false => self.queue.push(now, queued),
        };
        match outcome {
            PushResult::Refused(_) => {
                self.depart(now, packet.flow_id());
                dropped.push(slot);
            }
            PushResult::Queued => *buffered += size,
            PushResult::PushedOut(evicted) => {
                *buffered = *buffered + size - self.size(evicted.bytes);
                self.depart(now, evicted.flow());
                dropped.push(evicted.packet);
            }
        }
        // The evicted packet may have been the smaller one.
        while *buffered > self.capacity.amount()
            && let Some(evicted) = self.queue.evict(now)
        {
            *buffered -= self.size(evicted.bytes);
            self.depart(now, evicted.flow());
            dropped.push(evicted.packet);
        }
        self.send(now, buffered, dropped)
    }

    /// True if `packet` may bypass the queue, which is empty.
    fn passes(&mut self, slot: u32, packet: &Packet) -> bool {
        let short = packet.bytes <= SEGMENT_BYTES;
        if short && self.bypass.contains(packet.level) {
            return true;
        }
        let longest = Packet { bytes: packet.bytes.max(SEGMENT_BYTES), ..*packet };
        if !self.queue.passes(&Queued::new(slot, &longest)) {
            return short && self.queue.passes(&Queued::new(slot, packet));
        }
        self.bypass = self.bypass.with(packet.level);
        true
    }

    /// Transmits the next packet if the line is free.
    pub fn send(&mut self, now: Time, buffered: &mut u64, dropped: &mut Vec<u32>) -> Option<Sent> {
        let sent = if now < self.free_at { None } else { self.dequeue(now, buffered, dropped) };
        self.waiting = self.queue.len() as u32;
        self.bypass = PrioritySet::NONE;
        sent
    }

    /// Dequeues and transmits the next packet; the line is free.
    fn dequeue(&mut self, now: Time, buffered: &mut u64, dropped: &mut Vec<u32>) -> Option<Sent> {
        loop {
            let queued = self.queue.pop(now)?;
            *buffered -= self.size(queued.bytes);
            self.depart(now, queued.flow());
            if queued.doomed() {
                dropped.push(queued.packet);
                continue;
            }
            return Some(self.transmit(now, queued.packet, queued.bytes, queued.marked));
        }
    }

    /// Counts the departure of a packet of `flow`, sent or dropped, where this port assigns levels.
    fn depart(&mut self, now: Time, flow: FlowId) {
        if let Some(mlfq) = &mut self.mlfq {
            mlfq.on_departure(now, flow);
        }
    }

    /// Transmits a packet of `bytes`; the line is free.
    fn transmit(&mut self, now: Time, slot: u32, bytes: u32, marked: bool) -> Sent {
        let full = bytes == SEGMENT_BYTES;
        if !full && bytes != self.other_len {
            (self.other_len, self.spans[1]) = (bytes, self.rate.time_for(Bytes::new(bytes.into())));
        }
        self.free_at = now + self.spans[usize::from(!full)];
        Sent { slot, marked, at: self.free_at + self.delay }
    }

    /// Buffer space of a packet of `bytes`.
    fn size(&self, bytes: u32) -> u64 {
        self.capacity.measure(1, bytes.into())
    }

    /// Packets queued.
    pub fn waiting(&self) -> usize {
        self.waiting as usize
    }

    /// Time at which to call [`Port::send`] next, unless already scheduled.
    pub fn next_wake(&mut self) -> Option<Time> {
        let wake = !self.wake_scheduled && self.waiting > 0;
        self.wake_scheduled |= wake;
        wake.then_some(self.free_at)
    }

    /// Marks the scheduled event as done.
    pub fn wake_done(&mut self) {
        self.wake_scheduled = false;
    }
}
