//! Run: its plan, its clock, and the report of each request.
//!
//! [`Watch`] is the outermost layer of a service. It identifies a request by a header and gives
//! the handler an [`At`], which reports the request as dropped unless it was served (rejected,
//! shed or cancelled otherwise). Every request that reaches a stage is thus reported exactly
//! once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http::{HeaderName, Request};
use queueing::Span;

use crate::pace::since;
use crate::protocol::Line;
use crate::{Planned, Report};

/// State shared by all services of a run.
#[derive(Debug)]
pub struct Run {
    /// Planned requests.
    pub plan: Vec<Planned>,
    report: Report,
    zero: OnceLock<Instant>,
}

impl Run {
    /// Run that has not begun.
    #[must_use]
    pub fn new(plan: Vec<Planned>, report: Report) -> Arc<Self> {
        Arc::new(Self { plan, report, zero: OnceLock::new() })
    }

    /// Reports `ready`; planned times count from the returned instant.
    pub fn begin(&self) -> Instant {
        self.report.say(Line::Ready);
        *self.zero.get_or_init(Instant::now)
    }

    /// Time since the planned send time of `request`.
    #[must_use]
    pub fn elapsed(&self, request: usize) -> Span {
        let birth = Duration::from(self.plan[request].birth);
        self.zero.get().map_or(Span::ZERO, |&zero| since(zero + birth))
    }

    /// Reports `line`.
    pub fn say(&self, line: Line) {
        self.report.say(line);
    }
}

/// Part of a request at a stage.
#[derive(Debug)]
pub struct At {
    run: Arc<Run>,
    /// Index of the request in the plan.
    pub request: usize,
    stage: usize,
    part: usize,
    served: AtomicBool,
}

impl At {
    /// Reports the part as served. Call within the scope of its budget, which holds queueing
    /// delay and service time.
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

/// Identifies requests that reach a part of a stage.
#[derive(Clone, Debug)]
pub struct Watch {
    /// Run that the requests belong to.
    pub run: Arc<Run>,
    /// Index of the stage in the set-up.
    pub stage: usize,
    /// Part of a unit; 0 for a service.
    pub part: usize,
}

impl Watch {
    /// Adds an [`At`] to `request` if it belongs to the plan.
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

/// Empty call with the number of `request`.
#[must_use]
pub fn call_of(request: usize) -> tonic::Request<bytes::Bytes> {
    let mut call = tonic::Request::new(bytes::Bytes::new());
    let number = request.to_string().parse().expect("digits");
    call.metadata_mut().insert(HEADER, number);
    call
}

/// Header with a request's number.
static NUMBER: HeaderName = HeaderName::from_static(HEADER);
const HEADER: &str = "testbed-request";
