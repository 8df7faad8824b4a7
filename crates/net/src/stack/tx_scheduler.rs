//! Which connection sends next.
//!
//! Connections that may have something to send wait here, ordered by the
//! label of what they send: [`queueing`]'s disciplines say who is next, a turn
//! is a few segments, and who has more waits again, so that equals take turns.
//!
//! A bare acknowledgement waits for no data. It is small, and the peer's
//! sending hangs on it, so connections that only acknowledge have a queue of
//! their own that goes first; after [`ACKS_IN_ROW_MAX`] of them one turn of
//! data is due, so that neither starves the other. An acknowledgement that
//! data of its own connection can carry waits for that data, unless the device
//! is behind: then it goes by itself.
//!
//! Bound: a connection stands once on each level and once among the
//! acknowledgements, whatever happens to it; its slot remembers where.

use queueing::{
    Bytes, Discipline, Drr, DrrConfig, Entry, Fifo, Label, Priority, PushResult, Span, Strict, Time,
};

use crate::tcp::Connection;

/// Who sends first among connections that may send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransmitOrder {
    /// In turn, whatever their labels say. Starvation: each other connection
    /// goes first once.
    Fifo,
    /// The most urgent first, but those that have waited `age_max` have every ninth
    /// turn, the oldest first. Starvation: `age_max`, then nine turns for each
    /// connection that has waited longer.
    Strict {
        /// From then on a waiting connection is old.
        age_max: Span,
    },
    /// Levels share the bytes in proportion, the more urgent first in each
    /// round; age counts as in `Strict`.
    Weighted {
        /// Share of each level, 1 or more.
        weights: [u32; Priority::LEVELS],
        /// From then on a waiting connection is old.
        age_max: Span,
    },
}

impl TransmitOrder {
    /// Strict, with an age of 10 ms: longer than any burst of urgent
    /// responses should take, shorter than a person notices.
    pub const STRICT: Self = Self::Strict { age_max: AGE_MAX };
    /// Each level gets twice the share of the next.
    pub const WEIGHTED: Self = Self::Weighted { weights: [128, 64, 32, 16, 8, 4, 2, 1], age_max: AGE_MAX };
}

const AGE_MAX: Span = Span::from_millis(10);

impl Default for TransmitOrder {
    fn default() -> Self {
        Self::STRICT
    }
}

/// Segments that a connection sends in one turn.
pub(super) const TURN: u8 = 16;
/// So many connections may acknowledge before one that has data has a turn:
/// together they take less of the wire than that turn.
const ACKS_IN_ROW_MAX: u16 = 64;

/// What a segment without payload takes of the wire.
const HEADERS: u32 = 66;

/// Where a connection waits; outlives it, in its slot.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TxLinks {
    /// One bit for each level.
    levels: u8,
    acks: bool,
}

/// A connection's turn.
#[derive(Clone, Copy, Debug)]
pub(super) struct TxTurn {
    pub(super) index: u32,
    /// It may acknowledge, nothing else.
    pub(super) bare: bool,
    /// Segments it may still send.
    pub(super) left: u8,
}

/// A waiting connection.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    index: u32,
    /// What it has to send, as far as one turn goes and shares are counted.
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
    /// The device was full in the middle of this turn; it goes on first.
    current: Option<TxTurn>,
    acks_in_row: u16,
    /// The device was full when it was last asked.
    behind: bool,
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
    /// For at most `connections_max` connections on a link that carries
    /// `frame_len_max` bytes in a frame.
    pub(super) fn new(order: TransmitOrder, connections_max: usize, frame_len_max: usize) -> Self {
        let slots = connections_max.max(1);
        let places = slots.saturating_mul(Priority::LEVELS);
        let data = match order {
            TransmitOrder::Fifo => Data::Fifo(Fifo::new(places)),
            TransmitOrder::Strict { age_max } => {
                Data::Strict(Box::new(Strict::new(places, |_| Fifo::new(slots)).with_age_max(age_max)))
            }
            TransmitOrder::Weighted { weights, age_max } => {
                let turn_max = Bytes::new((usize::from(TURN) * frame_len_max) as u64);
                let shares = DrrConfig::by_bytes(weights.map(|weight| weight.max(1)), turn_max, age_max);
                Data::Weighted(Box::new(Drr::new(places, shares, |_| Fifo::new(slots))))
            }
        };
        Self { acks: Fifo::new(slots), data, current: None, acks_in_row: 0, behind: false }
    }

    /// Lets a connection wait for its turn if it may have something to send.
    #[inline]
    pub(super) fn enqueue(&mut self, now: Time, connection: &mut Connection, index: u32) {
        let data = connection.wants_data();
        let acks = connection.acks_due > 0 && (!data || self.behind);
        let stands = |c: &Connection| c.places.levels & (1 << c.transmit.level.level()) != 0;
        // Most often it stands here already, or has nothing to send.
        if acks || (data && !stands(connection)) {
            self.place(now, connection, index, data, acks);
        }
    }

    #[inline(never)]
    fn place(&mut self, now: Time, connection: &mut Connection, index: u32, data: bool, acks: bool) {
        let level = connection.transmit.level;
        let bit = 1 << level.level();
        if data && connection.places.levels & bit == 0 {
            connection.places.levels |= bit;
            let bytes = match self.data {
                Data::Weighted(_) => HEADERS + connection.turn_bytes(u32::from(TURN)),
                _ => 0,
            };
            expect_room(self.data.push(now, Waiting { index, bytes, level }));
        }
        if acks && !connection.places.acks {
            connection.places.acks = true;
            let waiting = Waiting { index, bytes: 0, level: Priority::HIGHEST };
            expect_room(self.acks.push(now, waiting));
        }
    }

    /// Whose turn it is; `places` finds a connection's, by its slot.
    #[inline]
    pub(super) fn next<'a>(
        &mut self,
        now: Time,
        places: impl FnOnce(u32) -> Option<&'a mut TxLinks>,
    ) -> Option<TxTurn> {
        if self.current.is_some() {
            return self.current.take();
        }
        if !self.acks.is_empty()
            && (self.acks_in_row < ACKS_IN_ROW_MAX || self.data.is_empty())
            && let Some(Waiting { index, .. }) = self.acks.pop(now)
        {
            self.acks_in_row = self.acks_in_row.saturating_add(1);
            if let Some(places) = places(index) {
                places.acks = false;
            }
            return Some(TxTurn { index, bare: true, left: TURN });
        }
        let Waiting { index, level, .. } = self.data.pop(now)?;
        self.acks_in_row = 0;
        if let Some(places) = places(index) {
            places.levels &= !(1 << level.level());
        }
        Some(TxTurn { index, bare: false, left: TURN })
    }

    /// The device is full: `turn` goes on when it has room again.
    pub(super) fn suspend(&mut self, turn: TxTurn) {
        self.current = Some(turn);
        self.behind = true;
    }

    /// Everybody had a turn.
    pub(super) fn caught_up(&mut self) {
        self.behind = false;
    }

    /// Whether the device was full when it was last asked.
    pub(super) fn is_behind(&self) -> bool {
        self.behind
    }

    /// Whether nobody waits.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.data.is_empty() && self.acks.is_empty() && self.current.is_none()
    }
}

/// There is a place for every slot on every level.
#[inline]
fn expect_room(pushed: PushResult<Waiting>) {
    assert!(matches!(pushed, PushResult::Queued), "a connection stands once on each level");
}

#[cfg(test)]
mod tests;
