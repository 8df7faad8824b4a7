//! Who goes next: one line per order, least rank first.
//!
//! `paper` is the order as D2P's Algorithm 1 has it: by the budget that was
//! left on arrival, which does not age while the request waits. It is kept to
//! reproduce the paper; under one deadline for all it is a random order.

use queueing::{Entry, Span, Time};

use super::Waiting;

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
    /// Least budget on arrival first (D2P, Algorithm 1).
    Paper,
}

/// Every order and its name.
pub const ORDERS: [(&str, Order); 5] = [
    ("fifo", Order::Fifo),
    ("lifo", Order::Lifo),
    ("edf", Order::Edf),
    ("laxity", Order::Laxity),
    ("paper", Order::Paper),
];

/// The rank of an entry at the instant of its push.
pub(super) type Rank<T> = Box<dyn FnMut(Time, &Waiting<T>) -> u64 + Send>;

impl Order {
    /// What gives entries their rank. Nobody is more patient than the queue:
    /// no deadline, or one further away, counts as `patience`.
    pub(super) fn rank<T: Entry>(self, patience: Span) -> Rank<T> {
        let left = move |now: Time, waiting: &Waiting<T>| {
            waiting.due.map_or(patience, |due| due.since(now)).min(patience)
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
            Self::Paper => Box::new(move |now, waiting| left(now, waiting).as_nanos()),
        }
    }
}
