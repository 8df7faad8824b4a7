//! Connection table of a shard, beyond TCP's state.
//!
//! It is indexed by [`ConnId::index`], so a task's token (slot and sequence number) finds its
//! connection without hashing. A task that a more urgent copy of itself has overtaken is recognised
//! as stale.

use std::collections::VecDeque;

use net::stack::ConnId;
use queueing::{Label, Priority, Span, Time};
use sched::dispatch::RequestType;

use super::response::Response;
use super::slow_requests::ServedRequest;
use crate::app::RequestAttributes;

/// State of a connection in the shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The slot is unused.
    Free,
    /// Nothing to parse: no bytes, or an incomplete request.
    Quiet,
    /// A task of this priority is in the event queue.
    Queued(Priority),
    /// A task of this priority waits to enter the full event queue.
    Stalled(Priority),
    /// A worker has one of its requests.
    Serving,
    /// Part of a response waits for space in the send buffer.
    Flushing,
    /// Our half is closed; received bytes are discarded.
    Closing,
}

/// Boundary of a received segment that is not read to its end.
#[derive(Clone, Copy, Debug)]
pub(super) struct SegmentMark {
    /// Stream position after its last byte.
    pub end: u64,
    /// Label.
    pub label: Label,
    /// Request type, as its first bytes show it.
    pub kind: Option<RequestType>,
    /// Device timestamp.
    pub received: Time,
    /// Time it left the receive buffer.
    pub popped: Time,
    /// Time it became an event.
    pub pushed: Time,
}

/// Entry of the table; see [`State`].
#[derive(Debug)]
pub(super) struct Conn {
    pub generation: u32,
    pub state: State,
    /// Sequence number of the current task; others of this slot are stale.
    pub seq: u32,
    /// Deadline of the current task; [`Time::MAX`] for none.
    pub due: Time,
    /// True if the peer has closed its half.
    pub peer_closed: bool,
    /// True if our half closes once the response is sent.
    pub close: bool,
    /// Stream position of the first unread byte.
    pub read: u64,
    /// Stream position after the last received byte.
    pub end: u64,
    pub marks: VecDeque<SegmentMark>,
    /// Part of the current response that is not in the send buffer yet.
    pub response: Response,
    /// Request of that response, if slow requests are recorded.
    pub served_request: Option<Box<(ServedRequest, RequestAttributes)>>,
}

/// Maximum number of separately recorded segments per connection; more are merged into the last.
const MARKS_MAX: usize = 64;
/// Capacity for segments that an unused slot keeps.
const MARKS_KEPT: usize = 4;

impl Conn {
    fn new() -> Self {
        Self {
            generation: 0,
            state: State::Free,
            seq: 0,
            due: Time::MAX,
            peer_closed: false,
            close: false,
            read: 0,
            end: 0,
            marks: VecDeque::new(),
            response: Response::default(),
            served_request: None,
        }
    }

    /// Records a segment. The caller has advanced `end` to the segment's end.
    pub fn mark(&mut self, mark: SegmentMark) {
        let full = self.marks.len() >= MARKS_MAX;
        match self.marks.back_mut().filter(|_| full) {
            Some(last) => {
                let label = more_urgent(last.label, mark.label);
                *last = SegmentMark { label, kind: last.kind, ..mark };
            }
            None => self.marks.push_back(mark),
        }
    }

    /// Label of the segments not read to their ends at `now`, and the request type of the most
    /// urgent, the first of equals; `None` if all are read.
    pub fn next_request(&self, now: Time) -> Option<(Label, Option<RequestType>)> {
        let label = self.marks.iter().map(|mark| aged(mark, now)).reduce(more_urgent)?;
        let most_urgent = self.marks.iter().min_by_key(|mark| mark.label.priority)?;
        Some((label, most_urgent.kind))
    }

    /// Label of the current task at `now`, which has `priority`, if `label` makes it more urgent.
    pub fn raised(&self, now: Time, priority: Priority, label: Label) -> Option<Label> {
        let is_earlier = label.deadline.is_some_and(|left| now + left < self.due);
        let deadline = (self.due != Time::MAX).then(|| self.due.since(now));
        (label.priority < priority || is_earlier).then(|| more_urgent(label, Label { priority, deadline }))
    }

    /// Reads `len` bytes; returns the segment that contains the last of them.
    pub fn consume(&mut self, len: u64) -> Option<SegmentMark> {
        self.read += len;
        while let Some(mark) = self.marks.front().copied() {
            if mark.end <= self.read {
                self.marks.pop_front();
            }
            if mark.end >= self.read {
                return Some(mark);
            }
        }
        None
    }

    /// Ends the connection; its waiting tasks become stale. Returns the rest of its response.
    pub fn free(&mut self) -> Response {
        self.state = State::Free;
        self.seq = self.seq.wrapping_add(1);
        self.marks.clear();
        self.marks.shrink_to(MARKS_KEPT);
        self.served_request = None;
        std::mem::take(&mut self.response)
    }
}

/// The more urgent label, with the nearer deadline of both.
fn more_urgent(a: Label, b: Label) -> Label {
    let deadline = match (a.deadline, b.deadline) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
    Label { priority: a.priority.min(b.priority), deadline }
}

/// Deadline of `label` at `now`; [`Time::MAX`] for none.
pub(super) fn due(now: Time, label: Label) -> Time {
    label.deadline.map_or(Time::MAX, |left| now + left)
}

/// Label of a segment that has waited since `mark.pushed`.
pub(super) fn aged(mark: &SegmentMark, now: Time) -> Label {
    let waited: Span = now.since(mark.pushed);
    Label { deadline: mark.label.deadline.map(|d| d.saturating_sub(waited)), ..mark.label }
}

/// Connection table, as large as the largest index seen.
#[derive(Debug, Default)]
pub(super) struct Connections {
    all: Vec<Conn>,
    live: usize,
}

impl Connections {
    /// Opens `id` in its slot.
    pub fn open(&mut self, id: ConnId) {
        let index = id.index as usize;
        if self.all.len() <= index {
            self.all.resize_with(index + 1, Conn::new);
        }
        let conn = &mut self.all[index];
        self.live += usize::from(conn.state == State::Free);
        let _ = conn.free();
        conn.generation = id.generation;
        conn.state = State::Quiet;
        conn.peer_closed = false;
        conn.close = false;
        (conn.read, conn.end) = (0, 0);
    }

    /// Closes `id`; returns the rest of its response.
    pub fn close(&mut self, id: ConnId) -> Option<Response> {
        let response = self.get(id)?.free();
        self.live -= 1;
        Some(response)
    }

    /// Number of open connections.
    pub fn live(&self) -> usize {
        self.live
    }

    /// Memory of the table in bytes.
    pub fn bytes(&self) -> usize {
        let marks: usize = self.all.iter().map(|conn| conn.marks.capacity() * size_of::<SegmentMark>()).sum();
        self.all.capacity() * size_of::<Conn>() + marks
    }

    /// Entry of `id` while it is open.
    pub fn get(&mut self, id: ConnId) -> Option<&mut Conn> {
        let conn = self.all.get_mut(id.index as usize)?;
        (conn.generation == id.generation && conn.state != State::Free).then_some(conn)
    }

    /// Connection whose current task is `token`.
    pub fn current(&mut self, token: u64) -> Option<ConnId> {
        let index = token as u32;
        let conn = self.all.get(index as usize)?;
        let live = conn.seq == (token >> 32) as u32 && matches!(conn.state, State::Queued(_));
        live.then_some(ConnId { index, generation: conn.generation })
    }
}

/// Token of task `seq` of `id`.
pub(super) fn token(id: ConnId, seq: u32) -> u64 {
    u64::from(seq) << 32 | u64::from(id.index)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: ConnId = ConnId { index: 2, generation: 7 };

    fn queued() -> Connections {
        let mut conns = Connections::default();
        conns.open(ID);
        let conn = conns.get(ID).expect("it is open");
        conn.state = State::Queued(Priority::LOWEST);
        conns
    }

    #[test]
    fn only_the_latest_token_of_a_queued_connection_is_valid() {
        let mut conns = queued();
        let seq = conns.get(ID).map_or(0, |conn| conn.seq);
        assert_eq!(conns.current(token(ID, seq)), Some(ID));
        assert_eq!(conns.current(token(ID, seq.wrapping_sub(1))), None, "it entered the queue again");
        conns.open(ConnId { generation: 8, ..ID });
        conns.get(ConnId { generation: 8, ..ID }).expect("open").state = State::Queued(Priority::LOWEST);
        assert_eq!(conns.current(token(ID, seq)), None, "another connection has the place");
    }

    #[test]
    fn a_connection_has_the_label_of_its_most_urgent_oldest_segment() {
        let mut conns = queued();
        let conn = conns.get(ID).expect("it is open");
        for (end, level) in [(10, 5), (20, 1), (30, 3), (40, 1)] {
            let label = Label::new(Priority::new(level).expect("a level"));
            let at = Time::ZERO;
            conn.mark(SegmentMark {
                end,
                label,
                kind: Some(RequestType(end as u16)),
                received: at,
                popped: at,
                pushed: at,
            });
        }
        let first = conn.next_request(Time::ZERO).map(|(label, kind)| (label.priority.level(), kind));
        assert_eq!(first, Some((1, Some(RequestType(20)))));
    }
}
