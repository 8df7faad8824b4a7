//! A host's receiving side: the ring, the guard, the receive buffer, and the core
//! that takes messages through them.
//!
//! One core does one piece of work at a time and each takes as long as the
//! [`CostModel`] says per frame: in rounds, as `runtime`'s shard has them, it takes
//! what is in the ring, which is in order of arrival whatever it holds, and then one
//! message out of the receive buffer through TCP to whoever waits for it. The guard stands between both, where
//! `runtime`'s does: whom it sheds costs little and gets no further. With events on
//! the buffer is ADPS's, strict over levels; else it is in order of arrival.

use std::collections::VecDeque;

use guard::{AdmissionController, Class, Limit, Params, Policy, Signals};
use queueing::{Bytes, Discipline, Entry, Fifo, Label, Priority, PushResult, Span, Strict, Time};

use super::Mail;
use crate::CostModel;

/// Messages that a ring holds, and a receive buffer.
const ROOM: usize = 16_384;

/// Messages that are taken out of the ring in a round, at most.
const ROUND: u32 = 64;

/// What a receiving side is made of.
pub(super) struct Settings {
    pub cost: CostModel,
    /// The buffer is in order of levels.
    pub by_level: bool,
    /// Who stands at the door, if anybody does, and how many classes he tells apart.
    pub guard: Option<(Box<dyn Policy>, Params, u8)>,
}

/// A message that was received.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub mail: Mail,
    pub level: Priority,
    /// Frames that it came in.
    pub frames: u32,
    /// What it takes beyond them: a newcomer is to be set up.
    pub opening: Span,
    /// Of one that asks to come in, so that the guard has a say: how important it is
    /// among such.
    pub knocks: Option<Class>,
    /// When the ring had it.
    pub came: Time,
}

impl Entry for Received {
    fn label(&self) -> Label {
        Label::new(self.level)
    }

    fn bytes(&self) -> Bytes {
        Bytes::new(self.frames.into())
    }
}

/// What a piece of work came to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Done {
    /// The message is in the receive buffer.
    Driven,
    /// The guard shed it.
    Shed(Received),
    /// There was no room for it.
    Lost(Received),
    /// It is with whoever waits for it.
    Delivered(Received),
}

/// The receiving side.
pub(super) struct Stack {
    cost: CostModel,
    ring: VecDeque<Received>,
    buffer: Box<dyn Discipline<Received>>,
    door: Option<Keeper>,
    /// What the core does, and how many messages it has taken out of the ring in this
    /// round.
    doing: Option<(Received, Work)>,
    driven: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Drive,
    Shed,
    Transport,
}

/// A guard at work.
struct Keeper {
    policy: Box<dyn Policy>,
    period: Span,
    door: AdmissionController,
    /// Of those who knocked since the last look.
    offered: u64,
    admitted: u64,
    served: u64,
}

impl Stack {
    pub fn new(settings: Settings) -> Self {
        let Settings { cost, by_level, guard } = settings;
        let door = guard.map(|(policy, params, classes)| Keeper {
            policy,
            period: params.period,
            door: AdmissionController::new(classes),
            offered: 0,
            admitted: 0,
            served: 0,
        });
        let buffer: Box<dyn Discipline<Received>> = match by_level {
            true => Box::new(Strict::new(ROOM, |_| Fifo::new(ROOM))),
            false => Box::new(Fifo::new(ROOM)),
        };
        Self { cost, ring: VecDeque::new(), buffer, door, doing: None, driven: 0 }
    }

    /// A message comes in; it comes back when the ring is full.
    pub fn receive(&mut self, received: Received) -> Option<Received> {
        if self.ring.len() == ROOM {
            return Some(received);
        }
        self.ring.push_back(received);
        None
    }

    /// Takes up the next piece of work, unless there is none or one is under way;
    /// how long it takes.
    pub fn begin(&mut self, now: Time) -> Option<Span> {
        if self.doing.is_some() {
            return None;
        }
        let transport = match (self.ring.is_empty(), self.buffer.is_empty()) {
            (true, true) => return None,
            (false, false) => self.driven >= ROUND,
            (ring_empty, _) => ring_empty,
        };
        self.driven = if transport { 0 } else { self.driven + 1 };
        let (received, work) = match transport {
            true => (self.buffer.pop(now)?, Work::Transport),
            false => {
                let received = self.ring.pop_front()?;
                let admitted = self.admits(now, &received);
                (received, if admitted { Work::Drive } else { Work::Shed })
            }
        };
        self.doing = Some((received, work));
        let frames = u64::from(received.frames);
        let CostModel { driver_ns, classify_ns, shed_ns, tcp_rx_ns, event_ns, .. } = self.cost;
        Some(match work {
            Work::Drive => Span::from_nanos(frames * (driver_ns + classify_ns)),
            Work::Shed => Span::from_nanos(shed_ns),
            Work::Transport => Span::from_nanos(frames * tcp_rx_ns + event_ns) + received.opening,
        })
    }

    /// The piece of work under way is done.
    pub fn end(&mut self, now: Time) -> Option<Done> {
        let (received, work) = self.doing.take()?;
        Some(match work {
            Work::Shed => Done::Shed(received),
            Work::Drive => match self.buffer.push(now, received) {
                PushResult::Queued => Done::Driven,
                PushResult::Refused(lost) | PushResult::PushedOut(lost) => Done::Lost(lost),
            },
            Work::Transport => {
                if let (Some(keeper), Some(_)) = (&mut self.door, received.knocks) {
                    keeper.served += 1;
                }
                Done::Delivered(received)
            }
        })
    }

    fn admits(&mut self, now: Time, received: &Received) -> bool {
        let (Some(keeper), Some(class)) = (&mut self.door, received.knocks) else { return true };
        keeper.offered += 1;
        let present = self.buffer.len() as u64;
        let admitted = keeper.door.try_admit(now, class, present);
        keeper.admitted += u64::from(admitted);
        admitted
    }

    /// The guard's look, where there is one: `waiting` wait behind this stack, the
    /// longest since `oldest`. When it looks again.
    pub fn look(&mut self, now: Time, waiting: usize, oldest: Option<Time>) -> Option<Time> {
        let keeper = self.door.as_mut()?;
        let oldest = [self.ring.front().map(|first| first.came), self.buffer.oldest(), oldest];
        let delay = oldest.into_iter().flatten().min().map_or(Span::ZERO, |oldest| now.since(oldest));
        let signals = Signals {
            offered: std::mem::take(&mut keeper.offered),
            admitted: std::mem::take(&mut keeper.admitted),
            served: std::mem::take(&mut keeper.served),
            waiting: (self.ring.len() + self.buffer.len() + waiting) as u64,
            delay,
            present: (self.buffer.len() + waiting) as u64,
            ..Signals::default()
        };
        let limit: Limit = keeper.policy.tick(now, &signals);
        keeper.door.set(now, limit);
        Some(now + keeper.period)
    }
}
