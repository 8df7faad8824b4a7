//! What waits for a line: queues put together from `queueing`'s disciplines.
//!
//! A scheduler is a name for a composition. Settings change its parts: turns of
//! bytes, shares between levels, and who looks after the length of what (the
//! port, each level, or each flow).

use std::str::FromStr;

use queueing::{
    Aqm, AqmQueue, Bytes, CoDel, Discipline, Drr, DrrConfig, FairQueue, Fifo, FlowPifo, QueueLength, Red,
    Rng, Span, Strict, UnknownName, named,
};

use super::Config;
use super::buffer_config::{Buffer, Marking, RedParams};
use super::packet::{ACK_BYTES, Queued, SEGMENT_BYTES};

/// A queue's order, by name.
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

/// Which packet goes next, and which has to go when there is no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheduler {
    /// In order of arrival.
    Fifo,
    /// In order of arrival, and random early detection.
    Red,
    /// Turns between flows, whatever they have sent.
    Flows,
    /// As `FairQueue`, turns of bytes.
    Drr,
    /// As `Drr`; new flows first, CoDel for each (RFC 8290). When full, the flow
    /// that has asked for most gives up its newest packet; the RFC has the
    /// longest queue give up its oldest.
    FqCodel,
    /// Strict levels, each in order of arrival (PIAS).
    Pias,
    /// Strict levels, each in turns between its flows (FISH).
    Fish,
    /// As FISH; when full, the lowest level gives up a packet for a higher one,
    /// and in it the flow that has asked for most for one that has asked for
    /// less.
    FishPlus,
    /// Every flow the same share at any time: turns of bytes; when full, the
    /// flow that has asked for most gives up a packet. A bound.
    Ps,
    /// The flow that has sent least first; who has sent most gives up a packet.
    /// What many levels come to: a bound for those who do not know sizes.
    Las,
    /// The flow with least left to send first; who has most gives up a packet
    /// (pFabric). A bound: it knows sizes.
    Srpt,
}

impl FromStr for Scheduler {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        named(&SCHEDULERS, "scheduler", name)
    }
}

impl Scheduler {
    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        SCHEDULERS.iter().find(|&&(_, scheduler)| scheduler == self).expect("every one has a name").0
    }

    /// Whether it has levels, so that they can share.
    pub(super) const fn has_levels(self) -> bool {
        matches!(self, Self::Pias | Self::Fish | Self::FishPlus)
    }

    /// Whether it takes turns between flows.
    pub(super) const fn has_turns(self) -> bool {
        matches!(self, Self::Flows | Self::Drr | Self::FqCodel | Self::Fish | Self::FishPlus | Self::Ps)
    }
}

/// A port's queue.
pub(super) type Queue = Box<dyn Discipline<Queued> + Send>;

/// The queue that `config` describes; `rng` is the port's own.
pub(super) fn queue(config: &Config, rng: &Rng) -> Queue {
    let red = |ramp: RedParams| Aqm::Red(Box::new(Red::new(ramp.settings(), rng.clone())));
    let manager = match (config.red, config.scheduler) {
        (Some(ramp), _) => Some(red(ramp)),
        (None, Scheduler::Red) => Some(red(RedParams::default())),
        (None, _) => (config.mark.amount() > 0).then_some(Aqm::Above(config.mark)),
    };
    Parts { config, manager, room: entries(config) }.queue()
}

/// How many packets can wait in one queue.
fn entries(config: &Config) -> usize {
    match config.room {
        QueueLength::Entries(entries) => entries as usize,
        QueueLength::Bytes(bytes) => (bytes / u64::from(ACK_BYTES)).max(1) as usize,
    }
}

struct Parts<'a> {
    config: &'a Config,
    manager: Option<Aqm>,
    /// Packets that can wait in one queue.
    room: usize,
}

impl Parts<'_> {
    fn queue(&self) -> Queue {
        let room = self.room;
        match self.config.scheduler {
            Scheduler::Fifo | Scheduler::Red => self.whole(Fifo::new(room)),
            Scheduler::Flows | Scheduler::Drr => match self.at(Marking::Flow) {
                None => self.whole(self.turns(FairQueue::new(room))),
                Some(manager) => self.whole(self.turns(flows(room, manager))),
            },
            Scheduler::Ps => match self.at(Marking::Flow) {
                None => self.whole(self.turns(FairQueue::new(room)).with_push_out()),
                Some(manager) => self.whole(self.turns(flows(room, manager)).with_push_out()),
            },
            Scheduler::FqCodel => {
                let codel = self.config.codel;
                let law = CoDel::new(codel.target, codel.interval, Bytes::new(SEGMENT_BYTES.into()));
                let turns = self.turns(flows(room, Aqm::CoDel(law)));
                self.whole(turns.with_push_out().with_newcomers_first())
            }
            Scheduler::Pias => self.levels(false, || Fifo::new(room)),
            Scheduler::Fish => match self.at(Marking::Flow) {
                None => self.levels(false, || self.turns(FairQueue::new(room))),
                Some(manager) => self.levels(false, || self.turns(flows(room, manager.clone()))),
            },
            Scheduler::FishPlus => match self.at(Marking::Flow) {
                None => self.levels(true, || self.turns(FairQueue::new(room)).with_push_out()),
                Some(manager) => {
                    self.levels(true, || self.turns(flows(room, manager.clone())).with_push_out())
                }
            },
            Scheduler::Las => self.whole(FlowPifo::new(room, |packet: &Queued| packet.sent.into())),
            Scheduler::Srpt => self.whole(FlowPifo::new(room, |packet: &Queued| packet.left.into())),
        }
    }

    /// Who looks after the length of each such part.
    fn at(&self, place: Marking) -> Option<Aqm> {
        self.manager.clone().filter(|_| self.config.marking == place)
    }

    /// Turns of the size that was asked for.
    fn turns<Q: Clone>(&self, flows: FairQueue<Queued, Q>) -> FairQueue<Queued, Q> {
        match self.config.quantum() {
            Some(quantum) => flows.by_bytes(quantum),
            None => flows,
        }
    }

    /// A queue that is a port's only one.
    fn whole<D: Discipline<Queued> + Send + 'static>(&self, queue: D) -> Queue {
        match self.at(Marking::Port).or_else(|| self.at(Marking::Queue)) {
            Some(manager) => Box::new(AqmQueue::new(queue, manager)),
            None => Box::new(queue),
        }
    }

    /// A queue at each level.
    fn levels<D>(&self, push_out: bool, level: impl Fn() -> D) -> Queue
    where
        D: Discipline<Queued> + Send + 'static,
    {
        match self.at(Marking::Queue) {
            Some(manager) => self.over(push_out, || AqmQueue::new(level(), manager.clone())),
            None => self.over(push_out, level),
        }
    }

    /// Strict order between levels, or shares.
    fn over<D>(&self, push_out: bool, level: impl Fn() -> D) -> Queue
    where
        D: Discipline<Queued> + Send + 'static,
    {
        let room = match self.config.buffer {
            Buffer::Queue => self.room * queueing::Priority::LEVELS,
            Buffer::Port | Buffer::Switch => self.room,
        };
        match self.config.shares {
            None => {
                let queue = Strict::new(room, |_| level());
                self.port(if push_out { queue.with_push_out() } else { queue })
            }
            Some(weights) => {
                let shares = DrrConfig::by_bytes(weights, Bytes::new(SEGMENT_BYTES.into()), Span::MAX);
                let queue = Drr::new(room, shares, |_| level());
                self.port(if push_out { queue.with_push_out() } else { queue })
            }
        }
    }

    fn port<D: Discipline<Queued> + Send + 'static>(&self, queue: D) -> Queue {
        match self.at(Marking::Port) {
            Some(manager) => Box::new(AqmQueue::new(queue, manager)),
            None => Box::new(queue),
        }
    }
}

/// Turns between flows each of which is looked after.
fn flows(room: usize, manager: Aqm) -> FairQueue<Queued, AqmQueue<Fifo<Queued>>> {
    FairQueue::over(room, AqmQueue::new(Fifo::new(room), manager))
}

#[cfg(test)]
mod tests;
