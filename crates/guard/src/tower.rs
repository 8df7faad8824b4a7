//! A policy and its door in front of a service of tower.
//!
//! Put it outside of everything that makes requests wait, a `DeadlineLayer`
//! before all: that one drops who cannot make it, this one lets no more in
//! than is served, so that what is dropped inside has cost little. There is
//! no task: whoever comes looks, when a look is due.
//!
//! ```
//! use deadline::tower::{DeadlineLayer, Settings};
//! use guard::tower::{GuardLayer, Queue};
//!
//! let deadline = DeadlineLayer::new(Settings::default());
//! let inside = deadline.clone();
//! let guard = GuardLayer::new("queue-delay", guard::Params::default())?
//!     .seeing(move || Queue::from(&inside));
//! let app: axum::Router = axum::Router::new().layer(deadline).layer(guard);
//! # Ok::<(), guard::UnknownName>(())
//! ```
//!
//! Connections of a server on the kernel's TCP can be shed before they cost
//! anything, by `greenwave guard attach --joined FILE`, where the layer tells of
//! its requests in that file ([`GuardLayer::telling`]).

mod queue_report;

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn, ready};
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use deadline::Reason;
use deadline::tower::{Clock, DeadlineLayer, RejectResponse, Rejection, Text};
use http::{HeaderMap, Request, Response, StatusCode};
use queueing::{Span, Time, UnknownName};
use tower_layer::Layer;
use tower_service::Service;

use self::queue_report::ReportWriter;
use crate::{AdmissionController, Class, Counts, Params, Policy, Signals, by_name};

/// What waits inside.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Requests that wait.
    pub waiting: u64,
    /// How long the one that has waited longest has waited.
    pub delay: Span,
    /// Whether others may go before that one.
    pub reordered: bool,
    /// Whether somebody inside has too little left, and waits for a core.
    pub late: bool,
    /// What half of those that wait can spare at most, where that is known.
    pub budget: Option<Span>,
}

/// What waits for a turn in a service.
impl<A> From<&DeadlineLayer<A>> for Queue {
    fn from(layer: &DeadlineLayer<A>) -> Self {
        Self {
            waiting: layer.counts().waiting as u64,
            delay: layer.oldest_wait(),
            reordered: layer.reorders(),
            late: layer.has_late_request(),
            budget: layer.budget_median(),
        }
    }
}

/// Lets in what a policy says; one limit for all services that it makes.
pub struct GuardLayer<A = Text> {
    shared: Arc<Shared>,
    reject_response: A,
}

type QueueProbe = Box<dyn Fn() -> Queue + Send + Sync>;
type ToClass = Box<dyn Fn(&HeaderMap) -> Class + Send + Sync>;

struct Shared {
    period: Span,
    clock: Clock,
    probe: Option<QueueProbe>,
    class: ToClass,
    state: Mutex<State>,
}

struct State {
    policy: Box<dyn Policy>,
    admission: AdmissionController,
    /// Counted since the last look.
    signals: Signals,
    latency_sum: Span,
    report_writer: Option<ReportWriter>,
    last_tick: Option<Time>,
    /// When each of those inside came, by number.
    in_flight: BTreeMap<u64, Time>,
    arrivals: u64,
}

impl GuardLayer {
    /// The policy called `policy`, with `params`, by the monotonic clock and
    /// one class. Until it is told what waits inside ([`seeing`](Self::seeing))
    /// everybody inside counts as waiting, those being served too.
    ///
    /// # Errors
    /// When there is no such policy; the error lists them.
    pub fn new(policy: &str, params: Params) -> Result<Self, UnknownName> {
        let state = State {
            policy: by_name(policy, &params)?,
            admission: AdmissionController::new(1),
            signals: Signals::default(),
            latency_sum: Span::ZERO,
            report_writer: None,
            last_tick: None,
            in_flight: BTreeMap::new(),
            arrivals: 0,
        };
        let shared = Shared {
            period: params.period,
            clock: Clock::default(),
            probe: None,
            class: Box::new(|_| Class::FIRST),
            state: Mutex::new(state),
        };
        Ok(Self { shared: Arc::new(shared), reject_response: Text })
    }

    /// The same by `clock`.
    ///
    /// # Panics
    /// When it has made a service already.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        self.configure(|shared| shared.clock = clock)
    }

    /// The same, asking `see` what waits inside.
    ///
    /// # Panics
    /// When it has made a service already.
    #[must_use]
    pub fn with_queue_probe(self, probe: impl Fn() -> Queue + Send + Sync + 'static) -> Self {
        self.configure(|shared| shared.probe = Some(Box::new(probe)))
    }

    /// The same with `classes` classes, told apart by a request's headers; the
    /// last is shed first.
    ///
    /// # Panics
    /// When it has made a service already, or `classes` is zero.
    #[must_use]
    pub fn classes(self, classes: u8, class: impl Fn(&HeaderMap) -> Class + Send + Sync + 'static) -> Self {
        self.configure(|shared| {
            shared.class = Box::new(class);
            let state = shared.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            state.admission = AdmissionController::new(classes);
        })
    }

    /// The same, letting everybody in and counting whom it would have shed.
    ///
    /// # Panics
    /// When it has made a service already.
    #[must_use]
    pub fn dry_run(self) -> Self {
        self.configure(|shared| {
            let state = shared.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            state.admission = state.admission.clone().dry_run();
        })
    }

    /// The same, telling of its requests in the file at `path` whenever it looks, for who
    /// guards the way to this service and who divides the cores between it and others
    /// ([`joined`](crate::joined)). That somebody is behind, or nobody any more, is told as
    /// soon as a request that comes or leaves shows it. What is there is lost; the file is
    /// this process's alone and stays when it ends. It should lie in memory, as /run does.
    /// A layer of policy `none` only tells.
    ///
    /// # Errors
    /// What the system says of the file.
    ///
    /// # Panics
    /// When it has made a service already.
    pub fn with_queue_report(self, path: impl AsRef<Path>) -> io::Result<Self> {
        let report_writer = ReportWriter::create(path.as_ref())?;
        Ok(self.configure(|shared| {
            let state = shared.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            state.report_writer = Some(report_writer);
        }))
    }

    fn configure(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        change(Arc::get_mut(&mut self.shared).expect("settings come before services"));
        self
    }
}

impl<A> GuardLayer<A> {
    /// The same, with `answer` to those that are shed: `RESOURCE_EXHAUSTED`
    /// for gRPC, else 503, by default.
    #[must_use]
    pub fn with_reject_response<Other>(self, reject_response: Other) -> GuardLayer<Other> {
        GuardLayer { shared: self.shared, reject_response }
    }

    /// What came so far, by class.
    #[must_use]
    pub fn counts(&self) -> Vec<Counts> {
        self.shared.state().admission.counts().to_vec()
    }
}

impl<A: Clone> Clone for GuardLayer<A> {
    fn clone(&self) -> Self {
        Self { shared: Arc::clone(&self.shared), reject_response: self.reject_response.clone() }
    }
}

impl<A> fmt::Debug for GuardLayer<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuardLayer").field("counts", &self.counts()).finish_non_exhaustive()
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells whether somebody is behind, where that has changed.
    fn publish_late(&self) {
        let Some(probe) = &self.probe else { return };
        if self.state().report_writer.is_none() {
            return;
        }
        // Asked without the lock, as in `enter`.
        let late = probe().late;
        if let Some(report_writer) = &mut self.state().report_writer {
            report_writer.publish_late(late);
        }
    }

    /// Whether a request of `class` comes in; its number then.
    fn admit(self: &Arc<Self>, class: Class) -> Option<Admitted> {
        let now = self.clock.now();
        let due = self.state().is_due(now, self.period);
        // Asked without the lock: it may take others.
        let queue = if due { self.probe.as_ref().map(|probe| probe()) } else { None };
        let mut state = self.state();
        // Another thread may have last_tick meanwhile, and what came since is too little to go by.
        if due && state.is_due(now, self.period) {
            state.tick(now, queue);
        }
        state.signals.offered += 1;
        let present = state.in_flight.len() as u64;
        if !state.admission.try_admit(now, class, present) {
            return None;
        }
        state.signals.admitted += 1;
        let number = state.arrivals;
        state.arrivals += 1;
        state.in_flight.insert(number, now);
        Some(Admitted { shared: Arc::clone(self), number })
    }
}

impl State {
    fn is_due(&self, now: Time, period: Span) -> bool {
        self.last_tick.is_none_or(|last_tick| now.since(last_tick) >= period)
    }

    fn tick(&mut self, now: Time, queue: Option<Queue>) {
        let present = self.in_flight.len() as u64;
        let head_age =
            self.in_flight.first_key_value().map_or(Span::ZERO, |(_, &arrived)| now.since(arrived));
        let queue = queue.unwrap_or(Queue { waiting: present, delay: head_age, ..Queue::default() });
        let Queue { waiting, delay, reordered, budget, .. } = queue;
        let counted = std::mem::take(&mut self.signals);
        if let Some(report_writer) = &mut self.report_writer {
            report_writer.publish(queue, counted.offered, counted.served);
        }
        let latency_sum = std::mem::take(&mut self.latency_sum);
        let latency = (counted.served > 0).then(|| latency_sum / counted.served.max(1));
        let signals = Signals { waiting, delay, reordered, budget, latency, present, ..counted };
        let limit = self.policy.tick(now, &signals);
        self.admission.set(now, limit);
        self.last_tick = Some(now);
    }
}

/// A request that was let in, until this is dropped.
struct Admitted {
    shared: Arc<Shared>,
    number: u64,
}

impl Admitted {
    /// It has its answer.
    fn complete(&self) {
        let now = self.shared.clock.now();
        let mut state = self.shared.state();
        if let Some(&arrived) = state.in_flight.get(&self.number) {
            state.signals.served += 1;
            state.latency_sum += now.since(arrived);
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        self.shared.state().in_flight.remove(&self.number);
    }
}

impl<S, A: Clone> Layer<S> for GuardLayer<A> {
    type Service = Guard<S, A>;

    fn layer(&self, inner: S) -> Self::Service {
        Guard { inner, layer: self.clone() }
    }
}

/// A service behind a [`GuardLayer`].
#[derive(Clone, Debug)]
pub struct Guard<S, A = Text> {
    inner: S,
    layer: GuardLayer<A>,
}

impl<S, A, Q, B> Service<Request<Q>> for Guard<S, A>
where
    S: Service<Request<Q>, Response = Response<B>, Future: Send> + Clone + Send + 'static,
    S::Error: Send,
    A: RejectResponse<B> + Clone,
    Q: Send + 'static,
    B: Send + 'static,
{
    type Response = Response<B>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<B>, S::Error>> + Send>>;

    /// Always: what waits for the service inside counts as inside.
    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Q>) -> Self::Future {
        let GuardLayer { shared, reject_response } = &self.layer;
        let Some(admitted) = shared.admit((shared.class)(request.headers())) else {
            return Box::pin(ready(Ok(
                reject_response.respond(Rejection::new(Reason::Full, request.headers()))
            )));
        };
        let mut inner = self.inner.clone();
        Box::pin(async move {
            poll_fn(|cx| inner.poll_ready(cx)).await?;
            let response = inner.call(request);
            admitted.shared.publish_late();
            let response = response.await;
            admitted.shared.publish_late();
            if response.as_ref().is_ok_and(|response| !is_rejection(response)) {
                admitted.complete();
            }
            response
        })
    }
}

/// Whether somebody inside refused a request or let its time run out: that is
/// no service, and what is served says how much may come in.
fn is_rejection<B>(response: &Response<B>) -> bool {
    const STATUS: [StatusCode; 2] = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
    /// `DEADLINE_EXCEEDED` and `RESOURCE_EXHAUSTED`.
    const GRPC: [&str; 2] = ["4", "8"];
    let grpc = response.headers().get("grpc-status");
    STATUS.contains(&response.status()) || grpc.is_some_and(|code| GRPC.iter().any(|its| code == its))
}
