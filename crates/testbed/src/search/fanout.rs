//! `testbed search`: requests fanned out over real workers and joined; results are written to
//! Redis.
//!
//! The first stage is the unit: one tonic server per part, with its own layer and queue, which
//! searches its partition within the planned service time. The client is the aggregator: it
//! keeps a reserve, sends its estimate of each part, waits for all parts or, with partial
//! answers, until their time is up, and cancels the rest. The later stages are its own work;
//! the last writes to Redis.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use deadline::tower::{DeadlineLayer, PropagateLayer, Settings, scope};
use deadline::{Budget, Limits, ServiceTimeEwma, Shedding, SubrequestEstimate};
use queueing::Span;
use tokio::runtime::Builder;
use tokio::task::JoinSet;
use tonic::{Request, Status};

use super::{IndexSet, Redis};
use crate::open_loop::{self, since};
use crate::protocol::{OutputLine, ServiceStage};
use crate::rpc::{self, Handler, RpcClient};
use crate::run::{PartReport, PartTracker, Run, request_call};
use crate::series::{PROGRESS_TIMEOUT, wait_for_handlers, wait_for_requests};
use crate::work::work;
use crate::{Error, OutputHandle, Planned, SetupMessage};

/// Starts the workers of `setup`, sends `plan`, and returns when all requests have ended and
/// been reported. The process arguments select the index ([`IndexSet::open`]).
///
/// # Errors
/// If the set-up is not a unit followed by services, or something cannot be started.
pub fn run(setup: &SetupMessage, plan: Vec<Planned>, report: OutputHandle) -> Result<(), Error> {
    check(setup)?;
    let unit = &setup.stages[0];
    let index_set = IndexSet::open(std::env::args().skip(2), unit.parts)?;
    // A worker uses one thread to search and one to wait.
    let threads = 2 * unit.parts * unit.threads + SPARE_THREADS;
    let runtime = Builder::new_multi_thread().enable_all().max_blocking_threads(threads).build();
    let runtime = runtime.map_err(|e| Error::new(format!("runtime: {e}"), "ulimit -u, ulimit -n"))?;
    let run = Run::new(plan, report);
    let aggregator = Arc::new(runtime.block_on(Aggregator::start(setup, &run, &index_set))?);
    let (done_tx, done_rx) = channel();
    let start = run.begin();
    let delay_max = open_loop::send_all(start, &run.plan, |request, _| {
        let (aggregator, done_tx) = (Arc::clone(&aggregator), done_tx.clone());
        runtime.spawn(async move {
            aggregator.answer(request).await;
            let _ = done_tx.send(());
        });
    });
    drop(done_tx);
    wait_for_requests(&done_rx)?;
    wait_for_handlers(&aggregator.layers);
    drop(aggregator);
    runtime.shutdown_timeout(Duration::from_millis(20));
    run.report(OutputLine::Late(delay_max));
    Ok(())
}

fn check(setup: &SetupMessage) -> Result<(), Error> {
    let advice = "greenwave exp run d2p/e2-tonic, whose first stage is the unit";
    let (unit, rest) = setup.stages.split_first().expect("a parsed set-up has stages");
    if unit.parts < 2 {
        let cause = format!("stage {}: parts {} is not 2..=1000", unit.name, unit.parts);
        return Err(Error::new(cause, advice));
    }
    match rest.iter().find(|stage| stage.parts != 1) {
        Some(ServiceStage { name, parts, .. }) => {
            Err(Error::new(format!("stage {name}: parts {parts} is not 1"), advice))
        }
        None => Ok(()),
    }
}

struct Aggregator {
    setup: SetupMessage,
    run: Arc<Run>,
    layers: Vec<DeadlineLayer>,
    workers: Vec<RpcClient>,
    estimates: Mutex<ServiceTimeEwma<(usize, usize)>>,
    redis: tokio::sync::Mutex<Redis>,
}

impl Aggregator {
    async fn start(setup: &SetupMessage, run: &Arc<Run>, index_set: &IndexSet) -> Result<Self, Error> {
        let (unit, queue) = (&setup.stages[0], setup.queue());
        let propagate = match queue.shedding {
            Shedding::None => PropagateLayer::new().advisory(),
            _ => PropagateLayer::new(),
        };
        let waiting = setup.capacity.saturating_mul(2);
        let (mut layers, mut workers) = (Vec::new(), Vec::new());
        for part in 0..unit.parts {
            let validation = Limits { trusted: true, longest: Span::MAX, ..Limits::default() };
            let settings = Settings {
                limit: unit.threads,
                released_max: setup.capacity,
                queue,
                validation,
                methods_max: 1,
                ..Settings::default()
            };
            let layer = DeadlineLayer::new(settings);
            let tracker = PartTracker { run: Arc::clone(run), stage: 0, part };
            let address = rpc::serve(&layer, tracker, waiting, worker(run, index_set, part))?;
            workers.push(RpcClient::connect(address, &propagate, waiting).await?);
            layers.push(layer);
        }
        let redis = tokio::sync::Mutex::new(Redis::start().await?);
        let (setup, run) = (setup.clone(), Arc::clone(run));
        Ok(Self {
            setup,
            run,
            layers,
            workers,
            estimates: Mutex::new(ServiceTimeEwma::new(ESTIMATES_MAX)),
            redis,
        })
    }

    /// Answers one request and reports its end.
    async fn answer(&self, request: usize) {
        let parts = self.workers.len();
        let used = self.fan_out(request).await;
        let enough = used == parts || used > 0 && self.setup.stages[0].partial;
        let answered = enough && self.finish(request, used).await.is_ok();
        let elapsed = self.run.elapsed(request);
        let (used, parts) = if answered { (used, parts) } else { (0, 1) };
        self.run.report(OutputLine::End { request, answered, elapsed, used, parts });
    }

    /// Calls all workers; returns the number of answers in time.
    async fn fan_out(&self, request: usize) -> usize {
        let unit = &self.setup.stages[0];
        let planned = &self.run.plan[request];
        let query = planned.query.unwrap_or_default();
        let slo = Span::from_nanos(self.setup.slos[planned.class].slo_ns);
        let budget = Budget::restored(slo, self.run.elapsed(request), &[]);
        let budget = budget.split(Span::from_nanos(unit.reserve_ns));
        let mut calls = JoinSet::new();
        for (part, expected) in self.expected(query).into_iter().enumerate() {
            let mut worker = self.workers[part].clone();
            let call = async move { worker.call(request_call(request)).await };
            let budget = budget.with_estimate(expected);
            calls.spawn(async move { (part, scope(budget, call).await) });
        }
        // Only a fallback: workers give up at the same time.
        let left = Duration::from(budget.remaining().left());
        let until = tokio::time::Instant::now() + if unit.partial { left } else { PROGRESS_TIMEOUT };
        let mut used = 0;
        while let Ok(Some(answer)) = tokio::time::timeout_at(until, calls.join_next()).await {
            match answer {
                Ok((part, Ok(took))) => {
                    self.record((query, part), &took);
                    used += 1;
                }
                // An answer requires all parts.
                _ if !unit.partial => return 0,
                _ => {}
            }
        }
        // Dropping the set cancels the outstanding calls.
        used
    }

    /// Expected service time of each part of `query`.
    fn expected(&self, query: usize) -> Vec<SubrequestEstimate> {
        let estimates = self.estimates.lock().unwrap_or_else(PoisonError::into_inner);
        let all: Vec<Span> = (0..self.workers.len()).map(|part| estimates.expected(&(query, part))).collect();
        let slowest = all.iter().copied().max().unwrap_or_default();
        all.into_iter().map(|service| SubrequestEstimate { service, slowest }).collect()
    }

    fn record(&self, kind: (usize, usize), took: &[u8]) {
        let took_ns = std::str::from_utf8(took).ok().and_then(|text| text.parse().ok());
        if let Some(took_ns) = took_ns {
            let mut estimates = self.estimates.lock().unwrap_or_else(PoisonError::into_inner);
            estimates.record(kind, Span::from_nanos(took_ns));
        }
    }

    /// Runs the stages after the unit, and writes the result.
    async fn finish(&self, request: usize, used: usize) -> Result<(), String> {
        let services = &self.run.plan[request].service[self.workers.len()..];
        for (number, &service) in services.iter().enumerate() {
            let started = Instant::now();
            work(service).await;
            if number + 1 == services.len() {
                let mut redis = self.redis.lock().await;
                redis.set(&format!("request:{request}"), &used.to_string()).await?;
            }
            self.run.report(OutputLine::Stage {
                request,
                stage: number + 1,
                part: 0,
                served: true,
                elapsed: self.run.elapsed(request),
                queue: Span::ZERO,
                service: since(started),
            });
        }
        Ok(())
    }
}

/// Worker `part`: searches, then waits for the rest of the planned service time.
fn worker(run: &Arc<Run>, index_set: &IndexSet, part: usize) -> Handler {
    let (run, index_set) = (Arc::clone(run), index_set.clone());
    Arc::new(move |request: Request<Bytes>| {
        let (run, index_set) = (Arc::clone(&run), index_set.clone());
        Box::pin(async move {
            let started = Instant::now();
            let at = request.extensions().get::<Arc<PartReport>>().cloned();
            let at = at.ok_or_else(|| Status::invalid_argument("request is not part of the plan"))?;
            let planned = &run.plan[at.request];
            let query = planned.query.unwrap_or_default();
            let found = tokio::task::spawn_blocking(move || index_set.search(part, query)).await;
            found.map_err(|e| Status::internal(e.to_string()))?.map_err(Status::internal)?;
            work(planned.service[part].saturating_sub(since(started))).await;
            at.served();
            Ok(since(started).as_nanos().to_string().into())
        })
    })
}

/// Number of blocking threads in addition to the workers'.
const SPARE_THREADS: usize = 72;
/// Maximum number of entries (query, worker) in the estimates.
const ESTIMATES_MAX: usize = 1_000_000;
