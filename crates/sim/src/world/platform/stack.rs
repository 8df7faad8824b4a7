//! Receive path of a host: NIC ring, guard, receive buffer, and the core that processes them.
//!
//! The core does one piece of work at a time; each takes the time that the [`CostModel`] gives
//! per frame. As in `runtime`'s shard, a round drains the ring, which is FIFO, and then passes
//! one message from the receive buffer through TCP to its receiver. The guard is between both,
//! as in `runtime`: a shed message costs little and goes no further. With `events` on, the
//! buffer is served by level (ADPS); else it is FIFO.

use std::collections::VecDeque;

use guard::{AdmissionController, Class, Limit, Params, Policy, Signals};
use queueing::{Bytes, Discipline, Entry, Fifo, Label, Priority, PushResult, Span, Strict, Time};

use super::Message;
use crate::CostModel;

/// Capacity of ring and receive buffer, in messages.
const ROOM: usize = 16_384;

/// Maximum number of messages taken from the ring per round.
const ROUND: u32 = 64;

/// Settings of the receive path.
pub(super) struct Settings {
    pub cost: CostModel,
    /// Serve the buffer by level.
    pub by_level: bool,
    /// Guard: policy, parameters, and number of classes.
    pub guard: Option<(Box<dyn Policy>, Params, u8)>,
}

/// Received message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Received {
    pub message: Message,
    pub level: Priority,
    /// Number of frames.
    pub frames: u32,
    /// Additional cost of connection setup.
    pub opening: Span,
    /// For a connection request, which is subject to the guard: its class.
    pub guard_class: Option<Class>,
    /// Arrival in the ring.
    pub arrived: Time,
}

impl Entry for Received {
    fn label(&self) -> Label {
        Label::new(self.level)
    }

    fn bytes(&self) -> Bytes {
        Bytes::new(self.frames.into())
    }
}

/// Result of a piece of work.
#[derive(Clone, Copy, Debug)]
pub(super) enum Done {
    /// Moved to the receive buffer.
    Driven,
    /// Shed by the guard.
    Shed(Received),
    /// Dropped at the full buffer.
    Lost(Received),
    /// Delivered.
    Delivered(Received),
}

/// Receive path of a host.
pub(super) struct Stack {
    cost: CostModel,
    ring: VecDeque<Received>,
    buffer: Box<dyn Discipline<Received>>,
    guard: Option<Guard>,
    /// Current piece of work, and messages taken from the ring in this round.
    current: Option<(Received, Work)>,
    round_count: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Drive,
    Shed,
    Transport,
}

/// Guard and its counters.
struct Guard {
    policy: Box<dyn Policy>,
    period: Span,
    admission: AdmissionController,
    /// Connection requests since the last period.
    offered: u64,
    admitted: u64,
    served: u64,
}

impl Stack {
    pub fn new(settings: Settings) -> Self {
        let Settings { cost, by_level, guard } = settings;
        let guard = guard.map(|(policy, params, classes)| Guard {
            policy,
            period: params.period,
            admission: AdmissionController::new(classes),
            offered: 0,
            admitted: 0,
            served: 0,
        });
        let buffer: Box<dyn Discipline<Received>> = match by_level {
            true => Box::new(Strict::new(ROOM, |_| Fifo::new(ROOM))),
            false => Box::new(Fifo::new(ROOM)),
        };
        Self { cost, ring: VecDeque::new(), buffer, guard, current: None, round_count: 0 }
    }

    /// Adds a message to the ring; returns it if the ring is full.
    pub fn receive(&mut self, received: Received) -> Option<Received> {
        if self.ring.len() == ROOM {
            return Some(received);
        }
        self.ring.push_back(received);
        None
    }

    /// Starts the next piece of work if the core is idle; returns its duration.
    pub fn begin(&mut self, now: Time) -> Option<Span> {
        if self.current.is_some() {
            return None;
        }
        let transport = match (self.ring.is_empty(), self.buffer.is_empty()) {
            (true, true) => return None,
            (false, false) => self.round_count >= ROUND,
            (ring_empty, _) => ring_empty,
        };
        self.round_count = if transport { 0 } else { self.round_count + 1 };
        let (received, work) = match transport {
            true => (self.buffer.pop(now)?, Work::Transport),
            false => {
                let received = self.ring.pop_front()?;
                let admitted = self.admits(now, &received);
                (received, if admitted { Work::Drive } else { Work::Shed })
            }
        };
        self.current = Some((received, work));
        let frames = u64::from(received.frames);
        let CostModel { driver_ns, classify_ns, shed_ns, tcp_rx_ns, event_ns, .. } = self.cost;
        Some(match work {
            Work::Drive => Span::from_nanos(frames * (driver_ns + classify_ns)),
            Work::Shed => Span::from_nanos(shed_ns),
            Work::Transport => Span::from_nanos(frames * tcp_rx_ns + event_ns) + received.opening,
        })
    }

    /// Completes the current piece of work.
    pub fn end(&mut self, now: Time) -> Option<Done> {
        let (received, work) = self.current.take()?;
        Some(match work {
            Work::Shed => Done::Shed(received),
            Work::Drive => match self.buffer.push(now, received) {
                PushResult::Queued => Done::Driven,
                PushResult::Refused(lost) | PushResult::PushedOut(lost) => Done::Lost(lost),
            },
            Work::Transport => {
                if let (Some(guard), Some(_)) = (&mut self.guard, received.guard_class) {
                    guard.served += 1;
                }
                Done::Delivered(received)
            }
        })
    }

    fn admits(&mut self, now: Time, received: &Received) -> bool {
        let (Some(guard), Some(class)) = (&mut self.guard, received.guard_class) else { return true };
        guard.offered += 1;
        let present = self.buffer.len() as u64;
        let admitted = guard.admission.try_admit(now, class, present);
        guard.admitted += u64::from(admitted);
        admitted
    }

    /// Runs one guard period, with `waiting` requests queued for cores, the oldest since
    /// `oldest`; returns the time of the next one.
    pub fn guard_tick(&mut self, now: Time, waiting: usize, oldest: Option<Time>) -> Option<Time> {
        let guard = self.guard.as_mut()?;
        let oldest = [self.ring.front().map(|first| first.arrived), self.buffer.oldest(), oldest];
        let delay = oldest.into_iter().flatten().min().map_or(Span::ZERO, |oldest| now.since(oldest));
        let signals = Signals {
            offered: std::mem::take(&mut guard.offered),
            admitted: std::mem::take(&mut guard.admitted),
            served: std::mem::take(&mut guard.served),
            waiting: (self.ring.len() + self.buffer.len() + waiting) as u64,
            delay,
            present: (self.buffer.len() + waiting) as u64,
            ..Signals::default()
        };
        let limit: Limit = guard.policy.tick(now, &signals);
        guard.admission.set(now, limit);
        Some(now + guard.period)
    }
}
