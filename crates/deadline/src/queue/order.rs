//! Who goes next: one line per order, least rank first.
//!
//! `pace` knows that a request which was split is answered when its slowest
//! part is. A part of a short request passes those of long ones everywhere,
//! not only where it happens to be short itself; and because the rank is an
//! instant, what is long is passed by no more than what comes in the time
//! that it is longer. Sources: Rein (EuroSys '17) §4, shortest bottleneck
//! first; its numbers are ours (`experiments/d2p`).
//!
//! `paper` is the order as D2P's Algorithm 1 has it: by the budget that was
//! left on arrival, which does not age while the request waits. It is kept to
//! reproduce the paper; under one deadline for all it is a random order.

use std::fmt;
use std::str::FromStr;

use queueing::{Entry, Span, Time, UnknownName, named};

use super::QueuedEntry;

/// An order over waiting requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// First come, first served.
    Fifo,
    /// Last come, first served.
    Lifo,
    /// Earliest deadline first.
    #[default]
    Edf,
    /// Least laxity first: the deadline less the expected service.
    Laxity,
    /// At its pace: whoever takes long waits for long, whoever has little
    /// left for less. Ranked by the instant of the offer, a quarter of what
    /// is left, and four times what the slowest part of its request takes, so
    /// that the parts of a request go at one pace at all workers.
    Pace,
    /// Least budget on arrival first (D2P, Algorithm 1).
    Paper,
}

/// Every order and its name.
pub const ORDERS: [(&str, Order); 6] = [
    ("fifo", Order::Fifo),
    ("lifo", Order::Lifo),
    ("edf", Order::Edf),
    ("laxity", Order::Laxity),
    ("paper", Order::Paper),
    ("pace", Order::Pace),
];

impl FromStr for Order {
    type Err = UnknownName;

    fn from_str(name: &str) -> Result<Self, UnknownName> {
        named(&ORDERS, "order", name)
    }
}

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = ORDERS.iter().find(|(_, order)| order == self).map(|&(name, _)| name);
        f.write_str(name.expect("every order has a name"))
    }
}

/// The rank of an entry at the instant of its push.
pub(super) type Rank<T> = Box<dyn FnMut(Time, &QueuedEntry<T>) -> u64 + Send>;

impl Order {
    /// What gives entries their rank. Nobody is more patient than the queue:
    /// no deadline, or one further away, counts as `age_max`.
    pub(super) fn rank<T: Entry>(self, age_max: Span) -> Rank<T> {
        let left = move |now: Time, waiting: &QueuedEntry<T>| {
            waiting.due.map_or(age_max, |due| due.since(now)).min(age_max)
        };
        let mut pushes = 0;
        match self {
            Self::Fifo => Box::new(|now, _| now.as_nanos()),
            Self::Lifo => Box::new(move |_, _| {
                pushes += 1;
                u64::MAX - pushes
            }),
            Self::Edf => Box::new(move |now, waiting| (now + left(now, waiting)).as_nanos()),
            Self::Laxity => Box::new(move |now, waiting| {
                (now + left(now, waiting).saturating_sub(waiting.service)).as_nanos()
            }),
            Self::Pace => Box::new(move |now, waiting| {
                let left = left(now, waiting) / PACE_OF_LEFT;
                (now + left + waiting.entry.slowest() * PACE_OF_SLOWEST).as_nanos()
            }),
            Self::Paper => Box::new(move |now, waiting| left(now, waiting).as_nanos()),
        }
    }
}

/// Of what is left, `pace` counts one part in so many.
const PACE_OF_LEFT: u64 = 4;
/// How many times `pace` counts what a request's slowest part takes.
const PACE_OF_SLOWEST: u64 = 4;
