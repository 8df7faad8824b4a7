//! Queues of an egress: one FIFO, or the levels and queues of the policy `fish`.

use queueing::egress::{FlowLevels, Line, QueueQuantum};
use queueing::{
    Bytes, Discipline, Entry, FairQueue, Fifo, FlowId, Label, Priority, PushResult, Rate, Thresholds, Time,
};

use super::config::{Config, Queues};

/// Built-in policy `fish` of `greenwave egress attach`.
pub mod fish {
    use queueing::Span;

    /// Bytes after which a flow drops a level.
    pub const THRESHOLDS: [u64; 7] =
        [1_363_500, 1_993_500, 2_472_000, 2_940_000, 3_214_500, 3_505_500, 3_726_000];
    /// Queues of a level.
    pub const BUCKETS: u16 = 64;
    /// Packets that a queue holds.
    pub const QUEUE: u32 = 240;
    /// Idle time.
    pub const IDLE: Span = Span::from_millis(100);
    /// Flows that are remembered.
    pub const FLOWS: u32 = 65_536;
    /// Share of the rate that each level gets.
    pub const GUARANTEED: f64 = 0.01;
}

/// Packet in the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet {
    /// Index of the flow, and a number that is another one for a reused index.
    pub flow: u32,
    pub id: u64,
    pub bytes: u32,
    pub sent: Time,
    level: Priority,
    queue: u64,
}

impl Packet {
    pub fn new(flow: u32, id: u64, bytes: u32, sent: Time) -> Self {
        Self { flow, id, bytes, sent, level: Priority::HIGHEST, queue: 0 }
    }
}

impl Entry for Packet {
    fn label(&self) -> Label {
        Label::new(self.level)
    }

    fn flow(&self) -> FlowId {
        FlowId(self.queue)
    }

    fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes.into())
    }
}

/// Queues of an egress.
pub(super) enum EgressQueues {
    Fifo(Fifo<Packet>),
    Levels(Box<Levels>),
}

/// Levels that are served in strict order, but for a guaranteed share of each.
pub(super) struct Levels {
    flows: FlowLevels,
    /// True if every flow has a queue of its own.
    by_flow: bool,
    queues: Vec<FairQueue<Packet, Fifo<Packet>>>,
    /// Line time that each level may use of its share.
    credit: Vec<f64>,
    guaranteed: f64,
    rate: Rate,
    last: Time,
}

impl EgressQueues {
    pub fn new(config: &Config) -> Self {
        let by_flow = match config.queues {
            Queues::Fifo => return Self::Fifo(Fifo::new(config.buffer as usize)),
            Queues::Fq => true,
            Queues::Htb => false,
        };
        let rule = Thresholds::new(fish::THRESHOLDS.map(Bytes::new).to_vec()).expect("they increase");
        let [quantum, frame] = quantum(config).amounts();
        let levels = fish::THRESHOLDS.len() + 1;
        // As the classifier's: shares of lower levels come first, and fq serves many queues.
        let (guaranteed, queues_max) =
            if by_flow { (0.0, 1_024) } else { (fish::GUARANTEED, fish::BUCKETS.into()) };
        let below = guaranteed * (levels - 1) as f64;
        let rate = Rate::from_bits_per_sec((config.rate.bits_per_sec() as f64 * (1.0 - below)) as u64);
        let room = [fish::BUCKETS.into(), fish::QUEUE.into()];
        let line = Line::new(rate, queues_max, fish::IDLE, room, [quantum, frame]);
        let queue = || {
            let all = fish::QUEUE as usize * fish::BUCKETS as usize;
            let queue = FairQueue::over(all, Fifo::new(fish::QUEUE as usize));
            if by_flow { queue.by_all_bytes(frame).with_new_flows_first() } else { queue.by_bytes(quantum) }
        };
        Self::Levels(Box::new(Levels {
            flows: FlowLevels::new(rule, line, fish::BUCKETS, fish::FLOWS as usize),
            by_flow,
            queues: (0..levels).map(|_| queue()).collect(),
            credit: vec![0.0; levels],
            guaranteed,
            rate: config.rate,
            last: Time::ZERO,
        }))
    }

    /// Counts bytes that a flow sent before the run.
    pub fn count(&mut self, id: u64, bytes: u64) {
        if let Self::Levels(levels) = self {
            let _ = levels.flows.level(Time::ZERO, FlowId(id), Bytes::new(bytes));
        }
    }

    /// True if the packet was queued.
    pub fn push(&mut self, now: Time, mut packet: Packet) -> bool {
        let result = match self {
            Self::Fifo(fifo) => fifo.push(now, packet),
            Self::Levels(levels) => {
                let bytes = Bytes::new(packet.bytes.into());
                let (level, bucket) = levels.flows.level(now, FlowId(packet.id), bytes);
                levels.flows.on_arrival(now, level, bytes);
                (packet.level, packet.queue) =
                    (level, if levels.by_flow { packet.id } else { bucket.into() });
                levels.queues[level.index()].push(now, packet)
            }
        };
        matches!(result, PushResult::Queued)
    }

    pub fn pop(&mut self, now: Time) -> Option<Packet> {
        match self {
            Self::Fifo(fifo) => fifo.pop(now),
            Self::Levels(levels) => levels.pop(now),
        }
    }
}

impl Levels {
    /// A level with credit goes first, else the first with a packet.
    fn pop(&mut self, now: Time) -> Option<Packet> {
        let share = now.since(self.last).as_secs_f64() * self.guaranteed;
        self.last = now;
        let frame = self.rate.time_for(Config::frame()).as_secs_f64();
        self.credit.iter_mut().for_each(|credit| *credit = (*credit + share).min(frame));
        let mut waiting = (0..self.queues.len()).filter(|&level| !self.queues[level].is_empty());
        let first = waiting.next()?;
        let with_credit = |&level: &usize| self.guaranteed > 0.0 && self.credit[level] > 0.0;
        let level = std::iter::once(first).chain(waiting).find(with_credit).unwrap_or(first);
        let packet = self.queues[level].pop(now)?;
        if self.credit[level] > 0.0 {
            self.credit[level] -= self.rate.time_for(packet.bytes()).as_secs_f64();
        }
        Some(packet)
    }
}

/// Quantum of a queue, and the largest packet.
pub(super) fn quantum(config: &Config) -> QueueQuantum {
    let frame = super::config::FRAME;
    QueueQuantum::choose(config.rate, frame, Some(config.gso))
}

/// Largest packet that a local socket enqueues.
pub(super) fn packet_max(config: &Config) -> u32 {
    match (config.queues, quantum(config).gso) {
        (Queues::Fq | Queues::Htb, Some([_, limit])) => limit,
        _ => config.gso,
    }
}
