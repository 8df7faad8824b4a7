//! Port queues, composed of `queueing`'s disciplines.
//!
//! A scheduler names a composition. Settings change its parts: byte quantum, weights of levels,
//! and the scope of ECN marking (port, level or flow).

use std::str::FromStr;

use queueing::{
    Aqm, AqmQueue, Bytes, CoDel, Discipline, Drr, DrrConfig, FairQueue, Fifo, FlowPifo, QueueLength, Red,
    Rng, Span, Strict, UnknownName, named,
};

use super::Config;
use super::buffer_config::{BufferConfig, Marking, RedParams};
use super::packet::{ACK_BYTES, Queued, SEGMENT_BYTES};

/// Schedulers by name.
pub const SCHEDULERS: [(&str, Scheduler); 11] = [
    ("fifo", Scheduler::Fifo),
    ("red", Scheduler::Red),
    ("flows", Scheduler::Flows),
    ("drr", Scheduler::Drr),
    ("fq-codel", Scheduler::FqCodel),
    ("pias", Scheduler::Pias),
    ("fish", Scheduler::Fish),
    ("fish-plus", Scheduler::FishPlus),
    ("ps", Scheduler::Ps),
    ("las", Scheduler::Las),
    ("srpt", Scheduler::Srpt),
];

/// Order of service, and choice of victim when the buffer is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// FIFO.
    Fifo,
    /// FIFO with random early detection.
    Red,
    /// Fair queueing: round robin between flows, one packet each.
    Flows,
    /// Deficit round robin: as `Flows`, with a byte quantum.
    Drr,
    /// As `Drr`, with new flows first and CoDel per flow (RFC 8290). When full, the flow with
    /// the most enqueued bytes drops its newest packet; in the RFC the longest queue drops its
    /// oldest.
    FqCodel,
    /// Strict priority, FIFO in each level (PIAS).
    Pias,
    /// Strict priority, round robin between flows in each level (FISH).
    Fish,
    /// As FISH. When full, the lowest level drops a packet for a higher one; within it, the flow
    /// with the most bytes sent and queued drops one for a flow with fewer.
    FishPlus,
    /// Processor sharing, approximated by deficit round robin. When full, the flow that has asked
    /// for the most service drops a packet. For comparison.
    Ps,
    /// Least attained service. When full, the flow that has sent most drops a packet. Least
    /// attained service: the limit of FISH for many levels, a bound for schedulers that do not know
    /// sizes.
    Las,
    /// Shortest remaining processing time; when full, the flow with the most remaining drops a
    /// packet (pFabric). A lower bound for comparison: it knows the sizes of flows.
    Srpt,
}

impl FromStr for Scheduler {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        named(&SCHEDULERS, "scheduler", name)
    }
}

impl Scheduler {
    /// Name of the scheduler.
    #[must_use]
    pub fn name(self) -> &'static str {
        SCHEDULERS.iter().find(|&&(_, scheduler)| scheduler == self).expect("every one has a name").0
    }

    /// True for schedulers with priority levels.
    pub(super) const fn has_levels(self) -> bool {
        matches!(self, Self::Pias | Self::Fish | Self::FishPlus)
    }

    /// True for schedulers with round robin between flows.
    pub(super) const fn is_flow_fair(self) -> bool {
        matches!(self, Self::Flows | Self::Drr | Self::FqCodel | Self::Fish | Self::FishPlus | Self::Ps)
    }
}

/// Queue of a port.
pub(super) type Queue = Box<dyn Discipline<Queued> + Send>;

/// Queue described by `config`; `rng` belongs to the port.
pub(super) fn queue(config: &Config, rng: &Rng) -> Queue {
    let red = |params: RedParams| Aqm::Red(Box::new(Red::new(params.settings(), rng.clone())));
    let aqm = match (config.red, config.scheduler) {
        (Some(params), _) => Some(red(params)),
        (None, Scheduler::Red) => Some(red(RedParams::default())),
        (None, _) => (config.ecn_threshold.amount() > 0).then_some(Aqm::Above(config.ecn_threshold)),
    };
    QueueBuilder { config, aqm, room: entries(config) }.queue()
}

/// Capacity of one queue, in packets.
fn entries(config: &Config) -> usize {
    match config.buffer_size {
        QueueLength::Entries(entries) => entries as usize,
        QueueLength::Bytes(bytes) => (bytes / u64::from(ACK_BYTES)).max(1) as usize,
    }
}

struct QueueBuilder<'a> {
    config: &'a Config,
    aqm: Option<Aqm>,
    /// Capacity of one queue, in packets.
    room: usize,
}

impl QueueBuilder<'_> {
    fn queue(&self) -> Queue {
        let room = self.room;
        match self.config.scheduler {
            Scheduler::Fifo | Scheduler::Red => self.single(Fifo::new(room)),
            Scheduler::Flows | Scheduler::Drr => match self.aqm_for(Marking::Flow) {
                None => self.single(self.with_quantum(FairQueue::new(room))),
                Some(aqm) => self.single(self.with_quantum(fair_queue(room, aqm))),
            },
            Scheduler::Ps => match self.aqm_for(Marking::Flow) {
                None => self.single(self.with_quantum(FairQueue::new(room)).with_push_out()),
                Some(aqm) => self.single(self.with_quantum(fair_queue(room, aqm)).with_push_out()),
            },
            Scheduler::FqCodel => {
                let codel = self.config.codel;
                let codel = CoDel::new(codel.target, codel.interval, Bytes::new(SEGMENT_BYTES.into()));
                let queue = self.with_quantum(fair_queue(room, Aqm::CoDel(codel)));
                self.single(queue.with_push_out().with_new_flows_first())
            }
            Scheduler::Pias => self.levels(false, || Fifo::new(room)),
            Scheduler::Fish => match self.aqm_for(Marking::Flow) {
                None => self.levels(false, || self.with_quantum(FairQueue::new(room))),
                Some(aqm) => self.levels(false, || self.with_quantum(fair_queue(room, aqm.clone()))),
            },
            Scheduler::FishPlus => match self.aqm_for(Marking::Flow) {
                None => self.levels(true, || self.with_quantum(FairQueue::new(room)).with_push_out()),
                Some(aqm) => {
                    self.levels(true, || self.with_quantum(fair_queue(room, aqm.clone())).with_push_out())
                }
            },
            Scheduler::Las => self.single(FlowPifo::new(room, |packet: &Queued| packet.sent.into())),
            Scheduler::Srpt => self.single(FlowPifo::new(room, |packet: &Queued| packet.left.into())),
        }
    }

    /// Active queue management, if its scope is `scope`.
    fn aqm_for(&self, scope: Marking) -> Option<Aqm> {
        self.aqm.clone().filter(|_| self.config.marking == scope)
    }

    /// Sets the configured quantum.
    fn with_quantum<Q: Clone>(&self, flows: FairQueue<Queued, Q>) -> FairQueue<Queued, Q> {
        match self.config.quantum() {
            Some(quantum) => flows.by_bytes(quantum),
            None => flows,
        }
    }

    /// Single queue of a port.
    fn single<D: Discipline<Queued> + Send + 'static>(&self, queue: D) -> Queue {
        match self.aqm_for(Marking::Port).or_else(|| self.aqm_for(Marking::Queue)) {
            Some(aqm) => Box::new(AqmQueue::new(queue, aqm)),
            None => Box::new(queue),
        }
    }

    /// One queue per level.
    fn levels<D>(&self, push_out: bool, level: impl Fn() -> D) -> Queue
    where
        D: Discipline<Queued> + Send + 'static,
    {
        match self.aqm_for(Marking::Queue) {
            Some(aqm) => self.between_levels(push_out, || AqmQueue::new(level(), aqm.clone())),
            None => self.between_levels(push_out, level),
        }
    }

    /// Strict priority between levels, or weights.
    fn between_levels<D>(&self, push_out: bool, level: impl Fn() -> D) -> Queue
    where
        D: Discipline<Queued> + Send + 'static,
    {
        let room = match self.config.buffer {
            BufferConfig::Queue => self.room * queueing::Priority::LEVELS,
            BufferConfig::Port | BufferConfig::Switch => self.room,
        };
        match self.config.shares {
            None => {
                let queue = Strict::new(room, |_| level());
                self.whole_port(if push_out { queue.with_push_out() } else { queue })
            }
            Some(weights) => {
                let shares = DrrConfig::by_bytes(weights, Bytes::new(SEGMENT_BYTES.into()), Span::MAX);
                let queue = Drr::new(room, shares, |_| level());
                self.whole_port(if push_out { queue.with_push_out() } else { queue })
            }
        }
    }

    fn whole_port<D: Discipline<Queued> + Send + 'static>(&self, queue: D) -> Queue {
        match self.aqm_for(Marking::Port) {
            Some(aqm) => Box::new(AqmQueue::new(queue, aqm)),
            None => Box::new(queue),
        }
    }
}

/// Fair queueing with active queue management per flow.
fn fair_queue(room: usize, aqm: Aqm) -> FairQueue<Queued, AqmQueue<Fifo<Queued>>> {
    FairQueue::over(room, AqmQueue::new(Fifo::new(room), aqm))
}

#[cfg(test)]
mod tests;
