//! Transport rules with request conditions.
//!
//! The connection stores its request state ([`ConnectionState`]): a [`StreamParser`] and the request that
//! waits for its answer. Each condition is evaluated once per request, when its head is complete.
//! The results, one bit each, decide about the later segments of the request.

use std::any::Any;
use std::sync::Arc;

use queueing::Time;

use super::Observed;
use super::matcher::{Matcher, PacketAttrs};
use crate::combine::more_urgent;
use crate::l7::{L7Protocol, RequestHead, RequestKind, RequestVisitor, StreamParser};
use crate::{ConnectionState, FlowContext, Verdict};

/// Transport rules and their estimator.
pub struct RequestRules {
    pub matcher: Matcher,
    observed: Arc<Observed>,
    needs_service_time: bool,
    drops: bool,
}

impl RequestRules {
    pub fn new(matcher: Matcher, observed: Arc<Observed>) -> Self {
        let (needs_service_time, drops) = (matcher.needs_service_time(), matcher.drops());
        Self { matcher, observed, needs_service_time, drops }
    }

    /// Verdict on a segment with the attributes `facts`.
    pub fn verdict_of(&self, cx: &FlowContext<'_>, facts: &PacketAttrs<'_>) -> Verdict {
        match self.matcher.verdict(facts) {
            Some(verdict) => verdict,
            None if cx.meta.priority.is_some() => Verdict::NoVerdict,
            None => self.matcher.default,
        }
    }

    /// Verdict on a segment.
    pub fn verdict(&self, cx: &mut FlowContext<'_>) -> Verdict {
        let Some(protocol) = self.matcher.protocols().on(cx.tuple.local_port) else {
            return self.verdict_of(cx, &PacketAttrs::of_flow(cx));
        };
        let start = cx.flow.received.get().saturating_sub(cx.payload.len() as u64);
        let Some(mut memory) = cx.memory.as_deref_mut().map(|memory| {
            memory.take().unwrap_or_else(|| Box::new(RequestState::new(self, protocol.clone(), start)))
        }) else {
            return self.verdict_of(cx, &PacketAttrs::of_flow(cx));
        };
        let verdict = match (&mut *memory as &mut dyn Any).downcast_mut::<RequestState>() {
            Some(state) => {
                if !Arc::ptr_eq(&state.observed, &self.observed) {
                    state.change_rules(self, protocol, start);
                }
                state.read(self, cx, start)
            }
            // Memory of another classifier: requests are unknown.
            None => self.verdict_of(cx, &PacketAttrs::of_flow(cx)),
        };
        if let Some(slot) = cx.memory.as_deref_mut() {
            *slot = Some(memory);
        }
        verdict
    }
}

/// Request state of one connection.
#[derive(Clone)]
struct RequestState {
    reader: StreamParser,
    waiting: Waiting,
    observed: Arc<Observed>,
}

/// Complete requests without an answer.
#[derive(Clone, Copy, Default)]
struct Waiting {
    /// Number of requests.
    count: u32,
    /// Kind of the only one, or of the current request if none waits.
    kind: Option<RequestKind>,
    /// Time at which that request was complete.
    since: Time,
}

impl RequestState {
    fn new(rules: &RequestRules, protocol: L7Protocol, start: u64) -> Self {
        let observed = Arc::clone(&rules.observed);
        let reader = StreamParser::new(protocol, Arc::clone(&observed.notes), start);
        Self { reader, waiting: Waiting::default(), observed }
    }

    /// Switches to `rules`. If the new rules read the same protocol and no bytes were
    /// missed, request boundaries stay known. The mark of the current request does not, because the
    /// old rules computed it.
    fn change_rules(&mut self, rules: &RequestRules, protocol: &L7Protocol, start: u64) {
        if !self.reader.is_in_sync(protocol, start) {
            *self = Self::new(rules, protocol.clone(), start);
            return;
        }
        self.observed = Arc::clone(&rules.observed);
        self.reader.set_visitor(Arc::clone(&rules.observed.notes));
    }

    fn read(&mut self, rules: &RequestRules, cx: &FlowContext<'_>, start: u64) -> Verdict {
        // The bytes of a dropped segment arrive again.
        let before = rules.drops.then(|| self.clone());
        let facts = PacketAttrs::of_flow(cx);
        let waiting = &mut self.waiting;
        let mut visitor = SegmentVisitor { rules, cx, facts, waiting, most_urgent: None };
        self.reader.read(start, cx.payload, &mut visitor);
        let verdict = visitor.most_urgent.unwrap_or_else(|| rules.verdict_of(cx, &facts));
        if verdict == Verdict::Drop
            && let Some(before) = before
        {
            *self = before;
        }
        verdict
    }
}

impl ConnectionState for RequestState {
    /// Observes the service time of a single waiting request. With several, the answered one is
    /// unknown.
    fn on_answer(&mut self, now: Time) {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.count == 1
            && let Some(kind) = &waiting.kind
        {
            self.observed.learned.observe(now, kind, now.since(waiting.since));
        } else if waiting.count == 0 {
            // The current request is still unanswered.
            self.waiting.kind = waiting.kind;
        }
    }
}

/// Segment being parsed.
struct SegmentVisitor<'a, 'c> {
    rules: &'a RequestRules,
    cx: &'a FlowContext<'c>,
    facts: PacketAttrs<'a>,
    waiting: &'a mut Waiting,
    most_urgent: Option<Verdict>,
}

impl RequestVisitor for SegmentVisitor<'_, '_> {
    fn on_request(&mut self, protocol: &L7Protocol, request: &RequestHead<'_>) -> u64 {
        let kind = RequestKind::of(protocol, request).filter(|_| self.rules.needs_service_time);
        let expected = kind.and_then(|kind| self.rules.observed.learned.expected(self.cx.now, &kind));
        // Unknown if another request waits: either may be answered first.
        self.waiting.kind = kind.filter(|_| self.waiting.count == 0);
        self.rules.matcher.mark(protocol, request, expected)
    }

    fn on_segment(&mut self, mark: u64) {
        let facts = PacketAttrs { mark, ..self.facts };
        let verdict = self.rules.verdict_of(self.cx, &facts);
        // The driver's verdict takes part in the comparison where no rule decides.
        let verdict = match (verdict, self.cx.meta.priority) {
            (Verdict::NoVerdict, Some(priority)) => priority.into(),
            _ => verdict,
        };
        let verdict = self.rules.matcher.accepted(verdict, &facts);
        self.most_urgent = Some(self.most_urgent.map_or(verdict, |other| more_urgent(other, verdict)));
    }

    fn on_end(&mut self) {
        self.waiting.count = self.waiting.count.saturating_add(1);
        self.waiting.since = self.cx.now;
    }
}
