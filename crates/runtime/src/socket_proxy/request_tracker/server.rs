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

use classify::l7::{Protocol, Request, RequestVisitor};
use queueing::{Label, Priority, Span, Time};

use super::outstanding::Waiting;
use super::{Mark, Reads, TrackerState};
use crate::app::RequestAttributes;
use crate::shard::{End, STAGE_NAMES, Side, Slow};

/// Requests of one connection.
#[derive(Default)]
pub(in crate::socket_proxy) struct Requests {
    reads: Reads,
    /// Stream bytes received, and delivered to the program.
    come: u64,
    handed: u64,
    /// Segments not delivered to their end.
    marks: VecDeque<Mark>,
    /// Requests delivered and not answered.
    waiting: Waiting<Asked>,
    coming: Coming,
    /// Request whose answer has begun, with the answer's start and its bytes so far.
    leaving: Option<(Asked, Time, usize)>,
}

/// Request that is being delivered: attributes and bytes so far.
#[derive(Default)]
struct Coming {
    attributes: RequestAttributes,
    bytes: usize,
}

/// A request delivered completely.
struct Asked {
    label: Label,
    mark: Mark,
    handed: Time,
    bytes: usize,
    attributes: RequestAttributes,
}

/// Maximum of segments kept apart per connection; more are merged into the last.
const MARKS_MAX: usize = 64;

impl Requests {
    pub(super) fn new(reads: Reads) -> Self {
        Self { reads, ..Self::default() }
    }

    /// Records `fresh` bytes readable at `now`.
    pub(super) fn arrived(&mut self, now: Time, fresh: u32, received: Time, popped: Time) {
        self.come += u64::from(fresh);
        if self.marks.len() >= MARKS_MAX {
            self.marks.pop_back();
        }
        self.marks.push_back(Mark { end: self.come, received, popped, readable: now });
    }

    /// Records the delivery of `piece`, of this `level`, to the program.
    pub(super) fn handed(&mut self, now: Time, level: Priority, piece: &[u8], ledger: &TrackerState) {
        let mut rest = piece;
        while !rest.is_empty() {
            // By segment, to find the one that completed a request.
            let at = Mark { end: u64::MAX, received: now, popped: now, readable: now };
            let mark = self.marks.front().copied().unwrap_or(at);
            let len = rest.len().min(mark.end.saturating_sub(self.handed) as usize);
            let (part, behind) = rest.split_at(len);
            if !part.is_empty() {
                self.heard(Heard { now, level, mark }, part, ledger);
            }
            self.handed += len as u64;
            if mark.end <= self.handed {
                self.marks.pop_front();
            }
            rest = behind;
        }
    }

    fn heard(&mut self, heard: Heard, part: &[u8], ledger: &TrackerState) {
        let Some(reader) = self.reads.reader(self.handed, part, ledger) else { return };
        self.coming.bytes += part.len();
        let (coming, waiting) = (&mut self.coming, &mut self.waiting);
        reader.read(self.handed, part, &mut Hearing { heard, coming, waiting });
    }

    /// Records `bytes` of the program's output.
    pub(super) fn answered(&mut self, now: Time, bytes: usize, ledger: &mut TrackerState) {
        match self.waiting.take() {
            Waiting::Nobody => self.leaving.iter_mut().for_each(|(.., so_far)| *so_far += bytes),
            Waiting::One(asked) => self.leaving = Some((asked, now, bytes)),
            Waiting::Several(count) => ledger.together += count,
        }
    }

    /// Records that TCP has all of the program's output.
    pub(super) fn sent(&mut self, now: Time, ledger: &mut TrackerState) {
        if let Some((asked, begun, bytes)) = self.leaving.take() {
            asked.until(now, begun, bytes, End::Answered, ledger);
        }
    }

    /// Records the end of the connection.
    pub(super) fn gone(&mut self, now: Time, ledger: &mut TrackerState) {
        if let Some((asked, begun, bytes)) = self.leaving.take() {
            return asked.until(now, begun, bytes, End::Gone, ledger);
        }
        match self.waiting.take() {
            Waiting::Nobody => {}
            // In other protocols some requests have no answer.
            Waiting::One(asked) if asked.attributes.path.is_empty() => {}
            Waiting::One(asked) => asked.until(now, now, 0, End::Gone, ledger),
            Waiting::Several(count) => ledger.together += count,
        }
    }
}

/// Time, level and segment of a delivered piece.
#[derive(Clone, Copy)]
struct Heard {
    now: Time,
    level: Priority,
    mark: Mark,
}

struct Hearing<'a> {
    heard: Heard,
    coming: &'a mut Coming,
    waiting: &'a mut Waiting<Asked>,
}

impl RequestVisitor for Hearing<'_> {
    fn on_request(&mut self, _: &Protocol, request: &Request<'_>) -> u64 {
        self.coming.attributes = RequestAttributes::of(request);
        0
    }

    fn on_segment(&mut self, _: u64) {}

    fn on_end(&mut self) {
        let Heard { now, level, mark } = self.heard;
        let Coming { attributes, bytes } = std::mem::take(self.coming);
        self.waiting.push(Asked { label: Label::new(level), mark, handed: now, bytes, attributes });
    }
}

impl Asked {
    /// Records a request ended at `now`, whose answer began at `begun` with `response` bytes.
    fn until(self, now: Time, begun: Time, response: usize, end: End, ledger: &mut TrackerState) {
        let Self { label, mark: Mark { received, popped, readable, .. }, handed, bytes, attributes } = self;
        let times = [received, popped, readable, handed, begun, now];
        let stages: [Span; STAGE_NAMES.len()] =
            std::array::from_fn(|stage| times[stage + 1].since(times[stage]));
        let total: Span = stages.into_iter().sum();
        let (app, request) = (Span::ZERO, bytes);
        ledger.slowest.offer(label.priority, total, || Slow {
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
