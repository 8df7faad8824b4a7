//! Orders of service, one line each; the least rank is served first.
//!
//! `pace` is made for requests that were split: such a request completes with its slowest
//! part. Parts of a short request overtake parts of long requests at every worker, even where
//! they are not short themselves. The rank is an instant, so an entry is overtaken only by
//! arrivals within a bounded time, which grows with its own length. Source: Rein (EuroSys '17) §4,
//! shortest bottleneck first; the constants are greenwave's (`experiments/d2p`).
//!
//! `paper` is D2P's Algorithm 1: order by the budget left on arrival, which does not age in
//! the queue. It exists to reproduce the paper; with equal deadlines it is a random order.

use std::fmt;
use std::str::FromStr;

use queueing::{Span, Time, UnknownName, named};

use super::{QueuedEntry, Work};

/// Order of service.
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
    /// Slow and unhurried requests last, at a bounded rate. Rank: time of enqueue, plus a
    /// quarter of the time left, plus four times the service time of the slowest part of
    /// the request, so that all parts get the same rank at all workers.
    Pace,
    /// Least budget on arrival first (D2P, Algorithm 1).
    Paper,
}

/// Orders by name.
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

/// Rank of an entry at the time of its enqueue.
pub(super) type Rank<T> = Box<dyn FnMut(Time, &QueuedEntry<T>) -> u64 + Send>;

impl Order {
    /// Rank function of this order. A missing deadline counts as `age_max`.
    pub(super) fn rank<T: Work>(self, age_max: Span) -> Rank<T> {
        let left =
            move |now: Time, waiting: &QueuedEntry<T>| waiting.due.map_or(age_max, |due| due.since(now));
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

/// Divisor of the time left in `pace`.
const PACE_OF_LEFT: u64 = 4;
/// Factor of the slowest part's service time in `pace`.
const PACE_OF_SLOWEST: u64 = 4;
