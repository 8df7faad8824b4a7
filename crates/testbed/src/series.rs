//! `testbed series`: services in series; each works, yields, and calls the next.
//!
//! Each has its own port, connection and queue; the layers are those of any tonic application.
//! With shedding `none` budgets propagate but are not enforced, as in a system without
//! deadlines; otherwise callers give up at their deadline.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use bytes::Bytes;
use deadline::tower::{DeadlineLayer, PropagateLayer, Settings, give_way, scope};
use deadline::{Budget, Limits, STAGES_MAX, Shedding};
use queueing::Span;
use tokio::runtime::{Builder, Handle};
use tonic::{Request, Status};

use crate::protocol::{OutputLine, ServiceStage};
use crate::rpc::{self, Handler, RpcClient};
use crate::run::{PartReport, PartTracker, Run, request_call};
use crate::work::work;
use crate::{Error, OutputHandle, Planned, SetupMessage, open_loop};

/// Starts the services of `setup`, sends `plan`, and returns when all requests have ended and
/// been reported.
///
/// # Errors
/// If the set-up is not a series, or the services cannot be started.
pub fn run(setup: &SetupMessage, plan: Vec<Planned>, report: OutputHandle) -> Result<(), Error> {
    check(setup)?;
    let threads: usize = setup.stages.iter().map(|stage| stage.threads).sum();
    let runtime =
        Builder::new_multi_thread().enable_all().max_blocking_threads(threads + SPARE_THREADS).build();
    let runtime = runtime.map_err(|e| Error::new(format!("runtime: {e}"), "ulimit -u, ulimit -n"))?;
    let run = Run::new(plan, report);
    let (layers, first) = runtime.block_on(start(setup, &run))?;
    let delay_max = send(runtime.handle(), setup, &run, &first)?;
    wait_for_handlers(&layers);
    runtime.shutdown_timeout(HANDLER_POLL);
    run.report(OutputLine::Late(delay_max));
    Ok(())
}

fn check(setup: &SetupMessage) -> Result<(), Error> {
    let advice = "greenwave exp run d2p/e1-tonic, whose stages are services";
    if setup.stages.len() > STAGES_MAX {
        return Err(Error::new(format!("{} stages are not 1..={STAGES_MAX}", setup.stages.len()), advice));
    }
    match setup.stages.iter().find(|stage| stage.parts != 1 || stage.partial || stage.reserve_ns != 0) {
        Some(ServiceStage { name, parts, .. }) => Err(Error::new(
            format!("stage {name}: parts {parts}: not 1, without reserve and partial"),
            advice,
        )),
        None => Ok(()),
    }
}

/// Starts the services, last first, and connects each to the next; returns their layers and a
/// client of the first.
async fn start(setup: &SetupMessage, run: &Arc<Run>) -> Result<(Vec<DeadlineLayer>, RpcClient), Error> {
    let queue = setup.queue();
    let propagate = match queue.shedding {
        Shedding::None => PropagateLayer::new().advisory(),
        _ => PropagateLayer::new(),
    };
    let waiting = setup.capacity.saturating_mul(2);
    let mut layers = Vec::new();
    let mut next: Option<RpcClient> = None;
    for (number, stage) in setup.stages.iter().enumerate().rev() {
        let validation = Limits { trusted: true, longest: Span::MAX, ..Limits::default() };
        let settings = Settings {
            limit: stage.threads,
            released_max: setup.capacity,
            queue,
            validation,
            methods_max: 1,
            ..Settings::default()
        };
        let layer = DeadlineLayer::new(settings);
        let tracker = PartTracker { run: Arc::clone(run), stage: number, part: 0 };
        let address = rpc::serve(&layer, tracker, waiting, service(run, number, next.take()))?;
        next = Some(RpcClient::connect(address, &propagate, waiting).await?);
        layers.push(layer);
    }
    Ok((layers, next.expect("a set-up has stages")))
}

/// Service `number`: works, yields, calls the next.
fn service(run: &Arc<Run>, number: usize, next: Option<RpcClient>) -> Handler {
    let run = Arc::clone(run);
    Arc::new(move |request: Request<Bytes>| {
        let (run, next) = (Arc::clone(&run), next.clone());
        Box::pin(async move {
            let at = request.extensions().get::<Arc<PartReport>>().cloned();
            let at = at.ok_or_else(|| Status::invalid_argument("request is not part of the plan"))?;
            work(run.plan[at.request].service[number]).await;
            at.served();
            give_way();
            match next {
                Some(mut next) => next.call(request_call(at.request)).await,
                None => Ok(Bytes::new()),
            }
        })
    })
}

/// Sends the plan and waits until all requests have ended; returns the largest send delay.
fn send(runtime: &Handle, setup: &SetupMessage, run: &Arc<Run>, first: &RpcClient) -> Result<Span, Error> {
    let (done_tx, done_rx) = channel();
    let start = run.begin();
    let delay_max = open_loop::send_all(start, &run.plan, |request, planned| {
        let (run, mut first, done_tx) = (Arc::clone(run), first.clone(), done_tx.clone());
        let slo = Span::from_nanos(setup.slos[planned.class].slo_ns);
        runtime.spawn(async move {
            let budget = Budget::restored(slo, run.elapsed(request), &[]);
            let answered = scope(budget, first.call(request_call(request))).await.is_ok();
            let elapsed = run.elapsed(request);
            run.report(OutputLine::End { request, answered, elapsed, used: usize::from(answered), parts: 1 });
            let _ = done_tx.send(());
        });
    });
    drop(done_tx);
    wait_for_requests(&done_rx).map(|()| delay_max)
}

/// Waits until the handlers of cancelled requests are dropped, which reports them.
pub(crate) fn wait_for_handlers(layers: &[DeadlineLayer]) {
    let busy = |layer: &DeadlineLayer| {
        let counts = layer.counts();
        counts.waiting + counts.serving + counts.released > 0
    };
    for _ in 0..HANDLER_POLLS_MAX {
        if !layers.iter().any(busy) {
            break;
        }
        std::thread::sleep(HANDLER_POLL);
    }
}

/// Waits until all requests have ended.
///
/// # Errors
/// If no request ends for a minute.
pub(crate) fn wait_for_requests(done_rx: &Receiver<()>) -> Result<(), Error> {
    loop {
        match done_rx.recv_timeout(PROGRESS_TIMEOUT) {
            Ok(()) => {}
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
            Err(RecvTimeoutError::Timeout) => {
                let cause =
                    format!("no request ended for {PROGRESS_TIMEOUT:?}, although some are outstanding");
                return Err(Error::new(cause, "shorter services, or fewer requests than they can serve"));
            }
        }
    }
}

/// Number of blocking threads in addition to the services'.
const SPARE_THREADS: usize = 8;
/// Timeout without progress, after which a run is aborted.
pub(crate) const PROGRESS_TIMEOUT: Duration = Duration::from_secs(60);
/// Interval and number of checks for cancelled handlers.
const HANDLER_POLL: Duration = Duration::from_millis(20);
const HANDLER_POLLS_MAX: usize = 100;
