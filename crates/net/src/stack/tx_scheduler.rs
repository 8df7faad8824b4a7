//! Transmit scheduler: the order in which connections send.
//!
//! Connections that may have something to send wait here, ordered by the label of what they send in
//! a discipline of [`queueing`]. A transmit opportunity is a few segments; a connection with more
//! to send is queued again, so that equals alternate.
//!
//! Pure acknowledgements are small, and the peer's sending depends on them. Connections that only
//! acknowledge have a queue of their own, which is served first; after [`ACKS_IN_ROW_MAX`] of them
//! one transmit opportunity of data follows, so that neither starves the other. An acknowledgement
//! that data of its own connection can carry waits for that data, unless the device is behind: then
//! it is sent alone.
//!
//! Bound: a connection is queued at most once per level and once for acknowledgements; its slot
//! records where.

use queueing::{
    Bytes, Discipline, Drr, DrrConfig, Entry, Fifo, Label, Priority, PushResult, Span, Strict, Time,
};

use crate::tcp::Connection;

/// Order among connections that may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransmitOrder {
    /// Round robin, whatever the labels. Starvation bound: one transmit opportunity of each other
    /// connection.
    Fifo,
    /// Strict priority with aging: connections that have waited `age_max` have every ninth transmit
    /// opportunity, the oldest first. Starvation bound: `age_max`, then nine transmit opportunities
    /// for each connection that has waited longer.
    Strict {
        /// Waiting time from which a connection is old.
        age_max: Span,
    },
    /// Levels share the bytes in proportion to their weights, in order of priority within each
    /// round; aging as in `Strict`.
    Weighted {
        /// Weight of each level, 1 or more.
        weights: [u32; Priority::LEVELS],
        /// Waiting time from which a connection is old.
        age_max: Span,
    },
}

impl TransmitOrder {
    /// Strict, with an age of 10 ms: longer than a burst of urgent responses should take, shorter
    /// than a user notices.
    pub const STRICT: Self = Self::Strict { age_max: AGE_MAX };
    /// Each level has twice the weight of the next.
    pub const WEIGHTED: Self = Self::Weighted { weights: [128, 64, 32, 16, 8, 4, 2, 1], age_max: AGE_MAX };
}

const AGE_MAX: Span = Span::from_millis(10);

impl Default for TransmitOrder {
    fn default() -> Self {
        Self::STRICT
    }
}

/// Maximum number of segments of one transmit opportunity.
pub(super) const TURN: u8 = 16;
/// Acknowledgements before a connection with data has a transmit opportunity: together they take
/// less of the link than that opportunity.
const ACKS_IN_ROW_MAX: u16 = 64;

/// Bytes on the wire of a segment without payload.
const HEADERS: u32 = 66;

/// Queues that hold a connection; kept in its slot after its end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TxLinks {
    /// One bit per level.
    levels: u8,
    acks: bool,
}

/// Transmit opportunity of a connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct TxTurn {
    pub(super) index: u32,
    /// True if the connection may only acknowledge.
    pub(super) acks_only: bool,
    /// Number of segments that the connection may still send.
    pub(super) left: u8,
}

/// Queue entry of a connection.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    index: u32,
    /// Bytes to send in one transmit opportunity, for the shares.
    bytes: u32,
    level: Priority,
}

impl Entry for Waiting {
    fn label(&self) -> Label {
        Label::new(self.level)
    }

    fn bytes(&self) -> Bytes {
        Bytes::new(self.bytes.into())
    }
}

/// Connections (by slot) that may have something to send.
pub(super) struct TxScheduler {
    acks: Fifo<Waiting>,
    data: Data,
    /// Transmit opportunity interrupted by a full device; continues first.
    current: Option<TxTurn>,
    acks_in_row: u16,
    /// True if the device was full at the last attempt.
    device_full: bool,
}

enum Data {
    Fifo(Fifo<Waiting>),
    Strict(Box<Strict<Fifo<Waiting>>>),
    Weighted(Box<Drr<Fifo<Waiting>>>),
}

impl Data {
    #[inline]
    fn push(&mut self, now: Time, waiting: Waiting) -> PushResult<Waiting> {
        match self {
            Self::Fifo(queue) => queue.push(now, waiting),
            Self::Strict(queue) => queue.push(now, waiting),
            Self::Weighted(queue) => queue.push(now, waiting),
        }
    }

    #[inline]
    fn pop(&mut self, now: Time) -> Option<Waiting> {
        match self {
            Self::Fifo(queue) => queue.pop(now),
            Self::Strict(queue) => queue.pop(now),
            Self::Weighted(queue) => queue.pop(now),
        }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        match self {
            Self::Fifo(queue) => queue.is_empty(),
            Self::Strict(queue) => queue.is_empty(),
            Self::Weighted(queue) => queue.is_empty(),
        }
    }
}

impl TxScheduler {
    /// Scheduler of at most `connections_max` connections on a link with frames of up to
    /// `frame_len_max` bytes.
    pub(super) fn new(order: TransmitOrder, connections_max: usize, frame_len_max: usize) -> Self {
        let slots = connections_max.max(1);
        let capacity = slots.saturating_mul(Priority::LEVELS);
        let data = match order {
            TransmitOrder::Fifo => Data::Fifo(Fifo::new(capacity)),
            TransmitOrder::Strict { age_max } => {
                Data::Strict(Box::new(Strict::new(capacity, |_| Fifo::new(slots)).with_age_max(age_max)))
            }
            TransmitOrder::Weighted { weights, age_max } => {
                let turn_max = Bytes::new((usize::from(TURN) * frame_len_max) as u64);
                let shares = DrrConfig::by_bytes(weights.map(|weight| weight.max(1)), turn_max, age_max);
                Data::Weighted(Box::new(Drr::new(capacity, shares, |_| Fifo::new(slots))))
            }
        };
        Self { acks: Fifo::new(slots), data, current: None, acks_in_row: 0, device_full: false }
    }

    /// Queues a connection if it may have something to send.
    #[inline]
    pub(super) fn enqueue(&mut self, now: Time, connection: &mut Connection, index: u32) {
        let data = connection.wants_data();
        let acks = connection.acks_due > 0 && (!data || self.device_full);
        let stands = |c: &Connection| c.tx_links.levels & (1 << c.transmit.level.level()) != 0;
        // Most often it is queued already or has nothing to send.
        if acks || (data && !stands(connection)) {
            self.push(now, connection, index, data, acks);
        }
    }

    #[inline(never)]
    fn push(&mut self, now: Time, connection: &mut Connection, index: u32, data: bool, acks: bool) {
        let level = connection.transmit.level;
        let bit = 1 << level.level();
        if data && connection.tx_links.levels & bit == 0 {
            connection.tx_links.levels |= bit;
            let bytes = match self.data {
                Data::Weighted(_) => HEADERS + connection.turn_bytes(u32::from(TURN)),
                _ => 0,
            };
            expect_room(self.data.push(now, Waiting { index, bytes, level }));
        }
        if acks && !connection.tx_links.acks {
            connection.tx_links.acks = true;
            let waiting = Waiting { index, bytes: 0, level: Priority::HIGHEST };
            expect_room(self.acks.push(now, waiting));
        }
    }

    /// The next transmit opportunity; `tx_links` finds a connection's queue links, by its slot.
    #[inline]
    pub(super) fn next<'a>(
        &mut self,
        now: Time,
        tx_links: impl FnOnce(u32) -> Option<&'a mut TxLinks>,
    ) -> Option<TxTurn> {
        if self.current.is_some() {
            return self.current.take();
        }
        if !self.acks.is_empty()
            && (self.acks_in_row < ACKS_IN_ROW_MAX || self.data.is_empty())
            && let Some(Waiting { index, .. }) = self.acks.pop(now)
        {
            self.acks_in_row = self.acks_in_row.saturating_add(1);
            if let Some(links) = tx_links(index) {
                links.acks = false;
            }
            return Some(TxTurn { index, acks_only: true, left: TURN });
        }
        let Waiting { index, level, .. } = self.data.pop(now)?;
        self.acks_in_row = 0;
        if let Some(links) = tx_links(index) {
            links.levels &= !(1 << level.level());
        }
        Some(TxTurn { index, acks_only: false, left: TURN })
    }

    /// Suspends `turn` while the device is full; it continues first.
    pub(super) fn suspend(&mut self, turn: TxTurn) {
        self.current = Some(turn);
        self.device_full = true;
    }

    /// Records that the queues are empty.
    pub(super) fn caught_up(&mut self) {
        self.device_full = false;
    }

    /// True if the device was full at the last attempt.
    pub(super) fn is_behind(&self) -> bool {
        self.device_full
    }

    /// True if no connection waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.data.is_empty() && self.acks.is_empty() && self.current.is_none()
    }
}

/// Asserts that the queues have space for every slot on every level.
#[inline]
fn expect_room(pushed: PushResult<Waiting>) {
    assert!(matches!(pushed, PushResult::Queued), "a connection is queued once per level");
}

//~ stack: connections send in the order of their labels, with a stated bound of waiting
#[cfg(test)]
mod tests;
