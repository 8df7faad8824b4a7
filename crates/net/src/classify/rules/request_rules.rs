//! The transport's rules, where they ask what requests say.
//!
//! What is known of a connection's requests is kept with the connection
//! ([`Memory`]): a [`StreamParser`] and which request waits for its answer. A rule's
//! question is answered once for a request, when its head is complete; the
//! answers, a bit each, are what later segments of it are judged by.

use std::any::Any;
use std::sync::Arc;

use queueing::Time;

use super::Observed;
use super::matcher::{Matcher, PacketAttrs};
use crate::classify::combine::more_urgent;
use crate::classify::l7::{Kind, Protocol, Request, RequestVisitor, StreamParser};
use crate::classify::{FlowContext, Memory, Verdict};

/// The rules of the transport, and what they learn.
pub struct RequestRules {
    pub matcher: Matcher,
    observed: Arc<Observed>,
    learns: bool,
    drops: bool,
}

impl RequestRules {
    pub fn new(matcher: Matcher, observed: Arc<Observed>) -> Self {
        let (learns, drops) = (matcher.learns(), matcher.drops());
        Self { matcher, observed, learns, drops }
    }

    /// What the rules say of a segment when its request is known by `facts`.
    pub fn verdict_of(&self, cx: &FlowContext<'_>, facts: &PacketAttrs<'_>) -> Verdict {
        match self.matcher.verdict(facts) {
            Some(verdict) => verdict,
            None if cx.meta.priority.is_some() => Verdict::NoVerdict,
            None => self.matcher.default,
        }
    }

    /// What the rules say of a segment.
    pub fn verdict(&self, cx: &mut FlowContext<'_>) -> Verdict {
        let Some(protocol) = self.matcher.spoken().on(cx.tuple.local_port) else {
            return self.verdict_of(cx, &PacketAttrs::of_flow(cx));
        };
        let start = cx.flow.received.get().saturating_sub(cx.payload.len() as u64);
        let Some(mut memory) = cx.memory.as_deref_mut().map(|memory| {
            memory.take().unwrap_or_else(|| Box::new(Listening::new(self, protocol.clone(), start)))
        }) else {
            return self.verdict_of(cx, &PacketAttrs::of_flow(cx));
        };
        let verdict = match (&mut *memory as &mut dyn Any).downcast_mut::<Listening>() {
            Some(listening) => {
                if !Arc::ptr_eq(&listening.observed, &self.observed) {
                    listening.change_rules(self, protocol, start);
                }
                listening.hear(self, cx, start)
            }
            // Another classifier's; requests are not known then.
            None => self.verdict_of(cx, &PacketAttrs::of_flow(cx)),
        };
        if let Some(place) = cx.memory.as_deref_mut() {
            *place = Some(memory);
        }
        verdict
    }
}

/// What is kept of one connection.
#[derive(Clone)]
struct Listening {
    reader: StreamParser,
    waiting: Waiting,
    observed: Arc<Observed>,
}

/// Requests that are complete and not answered yet.
#[derive(Clone, Copy, Default)]
struct Waiting {
    /// How many.
    count: u32,
    /// The only one's, or that of one under way when none waits.
    kind: Option<Kind>,
    /// When that one was complete.
    since: Time,
}

impl Listening {
    fn new(ears: &RequestRules, protocol: Protocol, start: u64) -> Self {
        let observed = Arc::clone(&ears.observed);
        let reader = StreamParser::new(protocol, Arc::clone(&observed.notes), start);
        Self { reader, waiting: Waiting::default(), observed }
    }

    /// From now on it hears for the rules of `ears`, which have taken the place
    /// of those that it heard for. Where requests end stays known if these read
    /// the same protocol and nothing went by unread; what the one under way
    /// says is not, since others have asked for it.
    fn change_rules(&mut self, ears: &RequestRules, protocol: &Protocol, start: u64) {
        if !self.reader.is_in_sync(protocol, start) {
            *self = Self::new(ears, protocol.clone(), start);
            return;
        }
        self.observed = Arc::clone(&ears.observed);
        self.reader.set_visitor(Arc::clone(&ears.observed.notes));
    }

    fn hear(&mut self, ears: &RequestRules, cx: &FlowContext<'_>, start: u64) -> Verdict {
        // The bytes of a segment that is dropped come again.
        let before = ears.drops.then(|| self.clone());
        let facts = PacketAttrs::of_flow(cx);
        let waiting = &mut self.waiting;
        let mut hearing = Hearing { ears, cx, facts, waiting, most_urgent: None };
        self.reader.read(start, cx.payload, &mut hearing);
        let verdict = hearing.most_urgent.unwrap_or_else(|| ears.verdict_of(cx, &facts));
        if verdict == Verdict::Drop
            && let Some(before) = before
        {
            *self = before;
        }
        verdict
    }
}

impl Memory for Listening {
    /// A request that was alone has its service time; of several that waited
    /// together nobody knows which was answered.
    fn on_answer(&mut self, now: Time) {
        let waiting = std::mem::take(&mut self.waiting);
        if waiting.count == 1
            && let Some(kind) = &waiting.kind
        {
            self.observed.learned.observe(now, kind, now.since(waiting.since));
        } else if waiting.count == 0 {
            // The request under way is still to be answered.
            self.waiting.kind = waiting.kind;
        }
    }
}

/// A segment that is being read.
struct Hearing<'a, 'c> {
    ears: &'a RequestRules,
    cx: &'a FlowContext<'c>,
    facts: PacketAttrs<'a>,
    waiting: &'a mut Waiting,
    most_urgent: Option<Verdict>,
}

impl RequestVisitor for Hearing<'_, '_> {
    fn begun(&mut self, protocol: &Protocol, request: &Request<'_>) -> u64 {
        let kind = Kind::of(protocol, request).filter(|_| self.ears.learns);
        let expected = kind.and_then(|kind| self.ears.observed.learned.expected(self.cx.now, &kind));
        // Not while another waits: which of the two is answered first?
        self.waiting.kind = kind.filter(|_| self.waiting.count == 0);
        self.ears.matcher.mark(protocol, request, expected)
    }

    fn touched(&mut self, mark: u64) {
        let verdict = self.ears.verdict_of(self.cx, &PacketAttrs { said: mark, ..self.facts });
        // The driver's verdict takes part where it stands.
        let verdict = match (verdict, self.cx.meta.priority) {
            (Verdict::NoVerdict, Some(priority)) => priority.into(),
            _ => verdict,
        };
        self.most_urgent = Some(self.most_urgent.map_or(verdict, |other| more_urgent(other, verdict)));
    }

    fn ended(&mut self) {
        self.waiting.count = self.waiting.count.saturating_add(1);
        self.waiting.since = self.cx.now;
    }
}
