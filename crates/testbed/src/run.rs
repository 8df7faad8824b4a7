//! A run: its plan, its clock, and what is said of each request on its way.
//!
//! [`Watch`] stands outside of everything else at a service. It knows a request
//! by a header, hands the handler an [`At`], and when that is gone without
//! having been served (refused, shed, given up) says that it was dropped; so
//! whatever reaches a stage is told of once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http::{HeaderName, Request};
use queueing::Span;

use crate::pace::since;
use crate::protocol::Line;
use crate::{Planned, Report};

/// What all services of a run share.
#[derive(Debug)]
pub struct Run {
    /// The requests.
    pub plan: Vec<Planned>,
    report: Report,
    zero: OnceLock<Instant>,
}

impl Run {
    /// Nothing is born yet.
    #[must_use]
    pub fn new(plan: Vec<Planned>, report: Report) -> Arc<Self> {
        Arc::new(Self { plan, report, zero: OnceLock::new() })
    }

    /// Says `ready`; births count from the instant that this gives.
    pub fn begin(&self) -> Instant {
        self.report.say(Line::Ready);
        *self.zero.get_or_init(Instant::now)
    }

    /// Since the planned birth of `request`.
    #[must_use]
    pub fn elapsed(&self, request: usize) -> Span {
        let birth = Duration::from(self.plan[request].birth);
        self.zero.get().map_or(Span::ZERO, |&zero| since(zero + birth))
    }

    /// Says `line`.
    pub fn say(&self, line: Line) {
        self.report.say(line);
    }
}

/// A part of a request at a stage.
#[derive(Debug)]
pub struct At {
    run: Arc<Run>,
    /// The request's place in the plan.
    pub request: usize,
    stage: usize,
    part: usize,
    served: AtomicBool,
}

impl At {
    /// Its work here is done; in the scope of a budget, which knows where the
    /// time went.
    pub fn served(&self) {
        self.served.store(true, Ordering::Relaxed);
        let here = deadline::tower::budget().and_then(|budget| budget.stages().last().copied());
        let here = here.unwrap_or_default();
        self.say(true, here.queue, here.service);
    }

    fn say(&self, served: bool, queue: Span, service: Span) {
        let Self { request, stage, part, .. } = *self;
        let elapsed = self.run.elapsed(request);
        self.run.say(Line::Stage { request, stage, part, served, elapsed, queue, service });
    }
}

impl Drop for At {
    fn drop(&mut self) {
        if !self.served.load(Ordering::Relaxed) {
            self.say(false, Span::ZERO, Span::ZERO);
        }
    }
}

/// Knows requests that reach a part of a stage.
#[derive(Clone, Debug)]
pub struct Watch {
    /// What they are requests of.
    pub run: Arc<Run>,
    /// The stage's place in the set-up.
    pub stage: usize,
    /// The part; 0 of a service.
    pub part: usize,
}

impl Watch {
    /// `request`, with an [`At`] for its handler if it is one of the plan's.
    #[must_use]
    pub fn know<B>(&self, mut request: Request<B>) -> Request<B> {
        let number = request.headers().get(&NUMBER).and_then(|value| value.to_str().ok()?.parse().ok());
        if let Some(number) = number.filter(|&number: &usize| number < self.run.plan.len()) {
            let Self { run, stage, part } = self.clone();
            let at = At { run, request: number, stage, part, served: AtomicBool::new(false) };
            request.extensions_mut().insert(Arc::new(at));
        }
        request
    }
}

/// A call on behalf of `request`.
#[must_use]
pub fn call_of(request: usize) -> tonic::Request<bytes::Bytes> {
    let mut call = tonic::Request::new(bytes::Bytes::new());
    let number = request.to_string().parse().expect("digits");
    call.metadata_mut().insert(HEADER, number);
    call
}

/// Carries a request's number.
static NUMBER: HeaderName = HeaderName::from_static(HEADER);
const HEADER: &str = "testbed-request";
