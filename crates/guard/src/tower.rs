//! tower layer with a policy and an admission controller.
//!
//! Place it outside of every layer that queues, a `DeadlineLayer` in particular. That one drops
//! infeasible requests; this one admits no more than is served, so that little work is spent on
//! requests that are dropped later. No background task: arrivals tick the policy when it is due.
//!
//! ```
//! use deadline::tower::{DeadlineLayer, Settings};
//! use guard::tower::{GuardLayer, Queue};
//!
//! let deadline = DeadlineLayer::new(Settings::default());
//! let probed = deadline.clone();
//! let guard = GuardLayer::new("queue-delay", guard::Params::default())?
//!     .with_queue_probe(move || Queue::from(&probed));
//! let app: axum::Router = axum::Router::new().layer(deadline).layer(guard);
//! # Ok::<(), guard::UnknownName>(())
//! ```
//!
//! `greenwave guard attach --queue-report FILE` sheds connections of a server on the kernel's TCP before
//! they cost anything, if the layer publishes its queue in that file
//! ([`GuardLayer::with_queue_report`]).

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
use crate::{AdmissionController, Class, Counts, Params, Policy, ResponseWaits, Signals, by_name};

/// State of the queue inside the layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queue {
    /// Requests waiting.
    pub waiting: u64,
    /// Age of the oldest of them.
    pub delay: Span,
    /// True if requests may overtake the oldest one.
    pub reordered: bool,
    /// True if a request that needs a core has low slack.
    pub late: bool,
    /// Median of the time that requests can afford to wait, if known.
    pub budget: Option<Span>,
}

/// Queue of a deadline layer.
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

/// Layer that admits requests by a policy; one limit for all services that it makes.
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
    /// Counted since the last tick.
    signals: Signals,
    latency_sum: Span,
    report_writer: Option<ReportWriter>,
    last_tick: Option<Time>,
    /// Arrival times of requests in the service, by number, without long polls.
    in_flight: BTreeMap<u64, Time>,
    long_polls: BTreeMap<u64, Time>,
    response_waits: ResponseWaits,
    arrivals: u64,
}

impl GuardLayer {
    /// Layer with the policy called `policy`, the monotonic clock and one class. Without a
    /// [queue probe](Self::with_queue_probe) all requests in the service count as waiting,
    /// those in service too, except for long polls ([`ResponseWaits`]).
    ///
    /// # Errors
    /// If the policy does not exist; the error lists the names.
    pub fn new(policy: &str, params: Params) -> Result<Self, UnknownName> {
        let state = State {
            policy: by_name(policy, &params)?,
            admission: AdmissionController::new(1),
            signals: Signals::default(),
            latency_sum: Span::ZERO,
            report_writer: None,
            last_tick: None,
            in_flight: BTreeMap::new(),
            long_polls: BTreeMap::new(),
            response_waits: ResponseWaits::default(),
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

    /// Sets the clock.
    ///
    /// # Panics
    /// After the first call of `layer`.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        self.configure(|shared| shared.clock = clock)
    }

    /// Sets `probe`, which returns the state of the queue inside.
    ///
    /// # Panics
    /// After the first call of `layer`.
    #[must_use]
    pub fn with_queue_probe(self, probe: impl Fn() -> Queue + Send + Sync + 'static) -> Self {
        self.configure(|shared| shared.probe = Some(Box::new(probe)))
    }

    /// Sets the number of classes, and `class`, which maps a request's headers to one. The
    /// last class is shed first.
    ///
    /// # Panics
    /// After the first call of `layer`, or if `classes` is zero.
    #[must_use]
    pub fn classes(self, classes: u8, class: impl Fn(&HeaderMap) -> Class + Send + Sync + 'static) -> Self {
        self.configure(|shared| {
            shared.class = Box::new(class);
            let state = shared.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            state.admission = AdmissionController::new(classes);
        })
    }

    /// Dry run: admits every request and counts those that it would have shed.
    ///
    /// # Panics
    /// After the first call of `layer`.
    #[must_use]
    pub fn dry_run(self) -> Self {
        self.configure(|shared| {
            let state = shared.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            state.admission = state.admission.clone().dry_run();
        })
    }

    /// Publishes a [`QueueReport`](crate::app_queue::QueueReport) in the file at `path` at every
    /// tick, for a guard in front of this service and for the core scheduler. A change of
    /// `late` is published at the arrival or departure that shows it. Overwrites the file,
    /// which must not be shared with other processes, and leaves it behind at exit. Use a file
    /// system in memory, such as /run. With policy `none` the layer only publishes.
    ///
    /// # Errors
    /// If the file cannot be created or written, or belongs to another user.
    ///
    /// # Panics
    /// After the first call of `layer`.
    pub fn with_queue_report(self, path: impl AsRef<Path>) -> io::Result<Self> {
        let report_writer = ReportWriter::create(path.as_ref())?;
        Ok(self.configure(|shared| {
            let state = shared.state.get_mut().unwrap_or_else(PoisonError::into_inner);
            state.report_writer = Some(report_writer);
        }))
    }

    fn configure(mut self, change: impl FnOnce(&mut Shared)) -> Self {
        change(Arc::get_mut(&mut self.shared).expect("set options before the first call of layer"));
        self
    }
}

impl<A> GuardLayer<A> {
    /// Answers shed requests with `reject_response`; default: `RESOURCE_EXHAUSTED` for gRPC,
    /// else 503.
    #[must_use]
    pub fn with_reject_response<Other>(self, reject_response: Other) -> GuardLayer<Other> {
        GuardLayer { shared: self.shared, reject_response }
    }

    /// Counters by class.
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

    /// Publishes `late` if it has changed.
    fn publish_late(&self) {
        let Some(probe) = &self.probe else { return };
        if self.state().report_writer.is_none() {
            return;
        }
        // Probe without the lock, as in `admit`.
        let late = probe().late;
        if let Some(report_writer) = &mut self.state().report_writer {
            report_writer.publish_late(late);
        }
    }

    /// Admits a request of `class`, or sheds it.
    fn admit(self: &Arc<Self>, class: Class) -> Option<Admitted> {
        let now = self.clock.now();
        let due = self.state().is_due(now, self.period);
        // Probe without the lock: the probe may take others.
        let queue = if due { self.probe.as_ref().map(|probe| probe()) } else { None };
        let mut state = self.state();
        // Another thread may have ticked since, and the interval would be too short.
        if due && state.is_due(now, self.period) {
            state.tick(now, queue);
        }
        state.signals.offered += 1;
        let present = state.present();
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

    /// Number of requests in the service.
    fn present(&self) -> u64 {
        (self.in_flight.len() + self.long_polls.len()) as u64
    }

    fn tick(&mut self, now: Time, queue: Option<Queue>) {
        let present = self.present();
        let long_polls_end = self.response_waits.long_polls_end(now);
        while let Some(oldest) = self.in_flight.first_entry()
            && *oldest.get() < long_polls_end
        {
            let (number, arrived) = oldest.remove_entry();
            self.long_polls.insert(number, arrived);
        }
        let head_age =
            self.in_flight.first_key_value().map_or(Span::ZERO, |(_, &arrived)| now.since(arrived));
        let is_probed = queue.is_some();
        let delay = head_age.min(self.response_waits.response_time());
        let waiting = self.in_flight.len() as u64;
        let queue = queue.unwrap_or(Queue { waiting, delay, ..Queue::default() });
        let Queue { waiting, delay, reordered, budget, .. } = queue;
        let counted = std::mem::take(&mut self.signals);
        if let Some(report_writer) = &mut self.report_writer {
            report_writer.publish(queue, counted.offered, counted.served);
        }
        let latency_sum = std::mem::take(&mut self.latency_sum);
        let latency = (counted.served > 0).then(|| latency_sum / counted.served.max(1));
        let signals = Signals { waiting, delay, reordered, budget, latency, present, ..counted };
        let signals = match is_probed {
            true => signals,
            false => self.response_waits.signals(signals, self.long_polls.len() as u64),
        };
        let limit = self.policy.tick(now, &signals);
        self.admission.set(now, limit);
        self.last_tick = Some(now);
    }
}

/// Admitted request; counts as in the service until dropped.
struct Admitted {
    shared: Arc<Shared>,
    number: u64,
}

impl Admitted {
    /// Marks the request as answered.
    fn complete(&self) {
        let now = self.shared.clock.now();
        let mut state = self.shared.state();
        let arrived = state.in_flight.get(&self.number).or_else(|| state.long_polls.get(&self.number));
        if let Some(&arrived) = arrived {
            state.signals.served += 1;
            state.latency_sum += now.since(arrived);
            state.response_waits.record(now.since(arrived));
        }
    }
}

impl Drop for Admitted {
    fn drop(&mut self) {
        let mut state = self.shared.state();
        if state.in_flight.remove(&self.number).is_none() {
            state.long_polls.remove(&self.number);
        }
    }
}

impl<S, A: Clone> Layer<S> for GuardLayer<A> {
    type Service = Guard<S, A>;

    fn layer(&self, inner: S) -> Self::Service {
        Guard { inner, layer: self.clone() }
    }
}

/// Service wrapped by a [`GuardLayer`].
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

    /// Always ready: requests that wait for the inner service count as in the service.
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

/// True if the inner service rejected the request or missed its deadline: such a response
/// is not goodput, by which the policy sets the rate.
fn is_rejection<B>(response: &Response<B>) -> bool {
    const STATUS: [StatusCode; 2] = [StatusCode::SERVICE_UNAVAILABLE, StatusCode::GATEWAY_TIMEOUT];
    /// `DEADLINE_EXCEEDED` and `RESOURCE_EXHAUSTED`.
    const GRPC: [&str; 2] = ["4", "8"];
    let grpc = response.headers().get("grpc-status");
    STATUS.contains(&response.status()) || grpc.is_some_and(|code| GRPC.iter().any(|its| code == its))
}
