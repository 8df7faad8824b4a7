//! Run: its plan, its clock, and the report of each request.
//!
//! [`PartTracker`] is the outermost layer of a service. It identifies a request by a header and gives
//! the handler an [`PartReport`], which reports the request as dropped unless it was served (rejected,
//! shed or cancelled otherwise). Every request that reaches a stage is thus reported exactly
//! once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use http::{HeaderName, Request};
use queueing::Span;

use crate::open_loop::since;
use crate::protocol::OutputLine;
use crate::{OutputHandle, Planned};

/// State shared by all services of a run.
#[derive(Debug)]
pub struct Run {
    /// Planned requests.
    pub plan: Vec<Planned>,
    report: OutputHandle,
    start: OnceLock<Instant>,
}

impl Run {
    /// Run that has not begun.
    #[must_use]
    pub fn new(plan: Vec<Planned>, report: OutputHandle) -> Arc<Self> {
        Arc::new(Self { plan, report, start: OnceLock::new() })
    }

    /// Reports `ready`; planned times count from the returned instant.
    pub fn begin(&self) -> Instant {
        self.report.send(OutputLine::Ready);
        *self.start.get_or_init(Instant::now)
    }

    /// Time since the planned send time of `request`.
    #[must_use]
    pub fn elapsed(&self, request: usize) -> Span {
        let send_at = Duration::from(self.plan[request].send_at);
        self.start.get().map_or(Span::ZERO, |&start| since(start + send_at))
    }

    /// Reports `line`.
    pub fn report(&self, line: OutputLine) {
        self.report.send(line);
    }
}

/// Part of a request at a stage.
#[derive(Debug)]
pub struct PartReport {
    run: Arc<Run>,
    /// Index of the request in the plan.
    pub request: usize,
    stage: usize,
    part: usize,
    served: AtomicBool,
}

impl PartReport {
    /// Reports the part as served. Call within the scope of its budget, which holds queueing
    /// delay and service time.
    pub fn served(&self) {
        self.served.store(true, Ordering::Relaxed);
        let stage_times = deadline::tower::budget().and_then(|budget| budget.stages().last().copied());
        let stage_times = stage_times.unwrap_or_default();
        self.report(true, stage_times.queue, stage_times.service);
    }

    fn report(&self, served: bool, queue: Span, service: Span) {
        let Self { request, stage, part, .. } = *self;
        let elapsed = self.run.elapsed(request);
        self.run.report(OutputLine::Stage { request, stage, part, served, elapsed, queue, service });
    }
}

impl Drop for PartReport {
    fn drop(&mut self) {
        if !self.served.load(Ordering::Relaxed) {
            self.report(false, Span::ZERO, Span::ZERO);
        }
    }
}

/// Identifies requests that reach a part of a stage.
#[derive(Clone, Debug)]
pub struct PartTracker {
    /// Run that the requests belong to.
    pub run: Arc<Run>,
    /// Index of the stage in the set-up.
    pub stage: usize,
    /// Part of a unit; 0 for a service.
    pub part: usize,
}

impl PartTracker {
    /// Adds an [`PartReport`] to `request` if it belongs to the plan.
    #[must_use]
    pub fn track<B>(&self, mut request: Request<B>) -> Request<B> {
        let number = request.headers().get(&NUMBER).and_then(|value| value.to_str().ok()?.parse().ok());
        if let Some(number) = number.filter(|&number: &usize| number < self.run.plan.len()) {
            let Self { run, stage, part } = self.clone();
            let report = PartReport { run, request: number, stage, part, served: AtomicBool::new(false) };
            request.extensions_mut().insert(Arc::new(report));
        }
        request
    }
}

/// gRPC call without content that carries the number `request` in its metadata.
#[must_use]
pub fn request_call(request: usize) -> tonic::Request<bytes::Bytes> {
    let mut call = tonic::Request::new(bytes::Bytes::new());
    let number = request.to_string().parse().expect("digits");
    call.metadata_mut().insert(HEADER, number);
    call
}

/// Header with a request's number.
static NUMBER: HeaderName = HeaderName::from_static(HEADER);
const HEADER: &str = "testbed-request";
