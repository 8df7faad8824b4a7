//! Requests on a connection that a program opened: the program sends them, the next service
//! answers.
//!
//! A call begins when TCP gets its first byte and ends when the first bytes of its answer are
//! delivered to the program. Also known are the time at which TCP had all of it, and the answer's
//! first segment: its device timestamp and the time at which it was readable. `service` is thus the
//! peer's time and the round trip. If several calls wait on a connection, the answered one is
//! unknown: none is recorded, all are counted. Bytes that arrive while none waits belong to an
//! earlier answer.
//!
//! Bounds: one call per connection, and the parser's own bound.

use std::net::SocketAddr;

use classify::l7::{L7Protocol, RequestHead, RequestVisitor};
use queueing::{Label, Priority, Span, Time};

use super::outstanding::Outstanding;
use super::{ParserState, TrackerState};
use crate::app::RequestAttributes;
use crate::shard::{RequestEnd, Side, Slow};

/// Calls of one connection.
pub(in crate::socket_proxy) struct ClientRequests {
    peer: SocketAddr,
    parser: ParserState,
    /// Bytes written by the program.
    written: u64,
    writing: Writing,
    /// Calls written completely and not answered.
    waiting: Outstanding<Call>,
}

/// The call that is being written.
#[derive(Default)]
struct Writing {
    /// Time of its first byte.
    begun: Option<Time>,
    bytes: usize,
    attributes: RequestAttributes,
}

struct Call {
    label: Label,
    begun: Time,
    /// Time at which TCP had the whole request.
    sent: Option<Time>,
    answer: Option<Answer>,
    bytes: usize,
    attributes: RequestAttributes,
}

/// First segment of an answer.
#[derive(Clone, Copy)]
struct Answer {
    received: Time,
    popped: Time,
    readable: Time,
}

impl ClientRequests {
    pub(super) fn new(peer: SocketAddr, parser: ParserState) -> Self {
        Self { peer, parser, written: 0, writing: Writing::default(), waiting: Outstanding::None }
    }

    /// Implements [`RequestTracker::wrote`](super::RequestTracker::wrote).
    pub(super) fn wrote(&mut self, now: Time, level: Priority, piece: &[u8], tracker_state: &TrackerState) {
        let offset = self.written;
        self.written += piece.len() as u64;
        let Some(reader) = self.parser.reader(offset, piece, tracker_state) else { return };
        self.writing.begun.get_or_insert(now);
        self.writing.bytes += piece.len();
        let (writing, waiting) = (&mut self.writing, &mut self.waiting);
        reader.read(offset, piece, &mut CallCollector { now, level, writing, waiting });
    }

    /// Implements [`RequestTracker::sent`](super::RequestTracker::sent).
    pub(super) fn sent(&mut self, now: Time) {
        if let Outstanding::One(call) = &mut self.waiting {
            call.sent.get_or_insert(now);
        }
    }

    /// Implements [`RequestTracker::arrived`](super::RequestTracker::arrived).
    pub(super) fn arrived(&mut self, now: Time, received: Time, popped: Time) {
        if let Outstanding::One(call) = &mut self.waiting {
            call.answer.get_or_insert(Answer { received, popped, readable: now });
        }
    }

    /// Records the delivery of `bytes` to the program.
    pub(super) fn delivered(&mut self, now: Time, bytes: usize, tracker_state: &mut TrackerState) {
        match &self.waiting {
            // These bytes arrived before the call.
            Outstanding::One(call) if call.answer.is_none() => {}
            _ => self.end_all(now, RequestEnd::Answered, bytes, tracker_state),
        }
    }

    /// Implements [`RequestTracker::gone`](super::RequestTracker::gone).
    pub(super) fn gone(&mut self, now: Time, tracker_state: &mut TrackerState) {
        match &self.waiting {
            // In other protocols some requests have no answer.
            Outstanding::One(call) if call.attributes.path.is_empty() => {}
            _ => self.end_all(now, RequestEnd::Gone, 0, tracker_state),
        }
    }

    /// Ends all waiting calls.
    fn end_all(&mut self, now: Time, end: RequestEnd, response: usize, tracker_state: &mut TrackerState) {
        match self.waiting.take() {
            Outstanding::None => {}
            Outstanding::One(call) => call.record_end(now, end, (self.peer, response), tracker_state),
            Outstanding::Several(count) => tracker_state.together += count,
        }
    }
}

struct CallCollector<'a> {
    now: Time,
    level: Priority,
    writing: &'a mut Writing,
    waiting: &'a mut Outstanding<Call>,
}

impl RequestVisitor for CallCollector<'_> {
    fn on_request(&mut self, _: &L7Protocol, request: &RequestHead<'_>) -> u64 {
        self.writing.attributes = RequestAttributes::of(request);
        0
    }

    fn on_segment(&mut self, _: u64) {}

    fn on_end(&mut self) {
        let Writing { begun, bytes, attributes } = std::mem::take(self.writing);
        let (label, begun) = (Label::new(self.level), begun.unwrap_or(self.now));
        let call = Call { label, begun, sent: None, answer: None, bytes, attributes };
        self.waiting.push(call);
    }
}

impl Call {
    /// Records a call ended at `now`, with the peer and the length of the first part of its answer.
    fn record_end(
        self,
        now: Time,
        end: RequestEnd,
        (peer, response): (SocketAddr, usize),
        tracker_state: &mut TrackerState,
    ) {
        let Self { label, begun, sent, answer, bytes, attributes } = self;
        let at_end = Answer { received: now, popped: now, readable: now };
        let Answer { received, popped, readable } = answer.unwrap_or(at_end);
        let mut last = begun;
        // An answer that begins before all is sent counts no time twice.
        let [transmit, service, nic, tcp, event] = [sent.unwrap_or(begun), received, popped, readable, now]
            .map(|time| {
                let span = time.since(last);
                last = last.max(time);
                span
            });
        let stages: [Span; 5] = [nic, tcp, event, service, transmit];
        tracker_state.slowest.offer(label.priority, now.since(begun), || Slow {
            side: Side::Called(peer),
            label,
            begun,
            stages,
            app: Span::ZERO,
            request: bytes,
            response,
            end,
            attributes,
        });
    }
}
