//! Requests on an accepted connection: the peer sends them, the program answers.
//!
//! Known times: the device timestamp of a request's last byte, its delivery to the program, the
//! program's first output, and the time at which TCP had all output written by then. They bound the
//! stages of a [`Slow`]. `service` is thus all of the program's time, including its own queue, and
//! `transmit` ends with the first part of a response, not with the whole of a long one. If several
//! requests wait on a connection, the answered one is unknown: none is recorded, all are counted.
//!
//! Bounds: [`MARKS_MAX`] segments per connection, one request, and the
//! [`StreamParser`](classify::l7::StreamParser)'s own bound.

use std::collections::VecDeque;

use classify::l7::{L7Protocol, RequestHead, RequestVisitor};
use queueing::{Label, Priority, Span, Time};

use super::outstanding::Outstanding;
use super::{Mark, ParserState, TrackerState};
use crate::app::RequestAttributes;
use crate::shard::{RequestEnd, STAGE_NAMES, Side, Slow};

/// Requests of one connection.
#[derive(Default)]
pub(in crate::socket_proxy) struct Requests {
    parser: ParserState,
    /// Stream bytes received, and delivered to the program.
    bytes_received: u64,
    delivered: u64,
    /// Segments not delivered to their end.
    marks: VecDeque<Mark>,
    /// Requests delivered and not answered.
    waiting: Outstanding<DeliveredRequest>,
    partial: PartialRequest,
    /// Request whose answer has begun, with the answer's start and its bytes so far.
    responding: Option<(DeliveredRequest, Time, usize)>,
}

/// Request that is being delivered: attributes and bytes so far.
#[derive(Default)]
struct PartialRequest {
    attributes: RequestAttributes,
    bytes: usize,
}

/// A request delivered completely.
struct DeliveredRequest {
    label: Label,
    mark: Mark,
    delivered: Time,
    bytes: usize,
    attributes: RequestAttributes,
}

/// Maximum number of separately recorded segments per connection; more are merged into the last.
const MARKS_MAX: usize = 64;

impl Requests {
    pub(super) fn new(parser: ParserState) -> Self {
        Self { parser, ..Self::default() }
    }

    /// Records `fresh` bytes readable at `now`.
    pub(super) fn arrived(&mut self, now: Time, fresh: u32, received: Time, popped: Time) {
        self.bytes_received += u64::from(fresh);
        if self.marks.len() >= MARKS_MAX {
            self.marks.pop_back();
        }
        self.marks.push_back(Mark { end: self.bytes_received, received, popped, readable: now });
    }

    /// Records the delivery of `piece`, of this `level`, to the program.
    pub(super) fn delivered(
        &mut self,
        now: Time,
        level: Priority,
        piece: &[u8],
        tracker_state: &TrackerState,
    ) {
        let mut rest = piece;
        while !rest.is_empty() {
            // By segment, to find the one that completed a request.
            let at = Mark { end: u64::MAX, received: now, popped: now, readable: now };
            let mark = self.marks.front().copied().unwrap_or(at);
            let len = rest.len().min(mark.end.saturating_sub(self.delivered) as usize);
            let (part, behind) = rest.split_at(len);
            if !part.is_empty() {
                self.delivery(Delivery { now, level, mark }, part, tracker_state);
            }
            self.delivered += len as u64;
            if mark.end <= self.delivered {
                self.marks.pop_front();
            }
            rest = behind;
        }
    }

    fn delivery(&mut self, delivery: Delivery, part: &[u8], tracker_state: &TrackerState) {
        let Some(reader) = self.parser.reader(self.delivered, part, tracker_state) else { return };
        self.partial.bytes += part.len();
        let (partial, waiting) = (&mut self.partial, &mut self.waiting);
        reader.read(self.delivered, part, &mut RequestCollector { delivery, partial, waiting });
    }

    /// Records `bytes` of the program's output.
    pub(super) fn answered(&mut self, now: Time, bytes: usize, tracker_state: &mut TrackerState) {
        match self.waiting.take() {
            Outstanding::None => self.responding.iter_mut().for_each(|(.., so_far)| *so_far += bytes),
            Outstanding::One(pending) => self.responding = Some((pending, now, bytes)),
            Outstanding::Several(count) => tracker_state.together += count,
        }
    }

    /// Records that TCP has all of the program's output.
    pub(super) fn sent(&mut self, now: Time, tracker_state: &mut TrackerState) {
        if let Some((pending, begun, bytes)) = self.responding.take() {
            pending.record_end(now, begun, bytes, RequestEnd::Answered, tracker_state);
        }
    }

    /// Records the end of the connection.
    pub(super) fn gone(&mut self, now: Time, tracker_state: &mut TrackerState) {
        if let Some((pending, begun, bytes)) = self.responding.take() {
            return pending.record_end(now, begun, bytes, RequestEnd::Gone, tracker_state);
        }
        match self.waiting.take() {
            Outstanding::None => {}
            // In other protocols some requests have no answer.
            Outstanding::One(pending) if pending.attributes.path.is_empty() => {}
            Outstanding::One(pending) => pending.record_end(now, now, 0, RequestEnd::Gone, tracker_state),
            Outstanding::Several(count) => tracker_state.together += count,
        }
    }
}

/// Time, level and segment of a delivered piece.
#[derive(Clone, Copy)]
struct Delivery {
    now: Time,
    level: Priority,
    mark: Mark,
}

struct RequestCollector<'a> {
    delivery: Delivery,
    partial: &'a mut PartialRequest,
    waiting: &'a mut Outstanding<DeliveredRequest>,
}

impl RequestVisitor for RequestCollector<'_> {
    fn on_request(&mut self, _: &L7Protocol, request: &RequestHead<'_>) -> u64 {
        self.partial.attributes = RequestAttributes::of(request);
        0
    }

    fn on_segment(&mut self, _: u64) {}

    fn on_end(&mut self) {
        let Delivery { now, level, mark } = self.delivery;
        let PartialRequest { attributes, bytes } = std::mem::take(self.partial);
        self.waiting.push(DeliveredRequest {
            label: Label::new(level),
            mark,
            delivered: now,
            bytes,
            attributes,
        });
    }
}

impl DeliveredRequest {
    /// Records a request ended at `now`, whose answer began at `begun` with `response` bytes.
    fn record_end(
        self,
        now: Time,
        begun: Time,
        response: usize,
        end: RequestEnd,
        tracker_state: &mut TrackerState,
    ) {
        let Self { label, mark: Mark { received, popped, readable, .. }, delivered, bytes, attributes } =
            self;
        let times = [received, popped, readable, delivered, begun, now];
        let stages: [Span; STAGE_NAMES.len()] =
            std::array::from_fn(|stage| times[stage + 1].since(times[stage]));
        let total: Span = stages.into_iter().sum();
        let (app, request) = (Span::ZERO, bytes);
        tracker_state.slowest.offer(label.priority, total, || Slow {
            side: Side::Served,
            label,
            begun: received,
            stages,
            app,
            request,
            response,
            end,
            attributes,
        });
    }
}
