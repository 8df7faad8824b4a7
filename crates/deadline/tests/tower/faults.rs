//! Faults: workers that die in a fan-out, clocks that are not synchronized.

//~ deadlines: tower: a worker that dies or stalls in a fan-out costs its part only

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use axum::routing::get as route;
use deadline::tower::{
    Clock, DeadlineLayer, OutOfTime, PropagateLayer, budget, remaining, scope, scope_at, spawn,
};
use deadline::{Budget, StageTime};
use queueing::Span;
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::chain::hyper;
use crate::support::{ManualClock, get, listen, ms, pass, returned_budget, secs, settings, soon, within};

type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Calls all `workers` with the remaining budget less `reserve`.
async fn fan_out<S>(workers: Vec<(S, String)>, reserve: Span) -> Vec<Result<Response<S::Body>, Failure>>
where
    S: Worker,
{
    let part = budget().expect("a budget").split(reserve);
    let ask = |(worker, uri): (S, String)| {
        let call = PropagateLayer::new().layer(worker).oneshot(get(&uri));
        spawn(async move { scope(part, call).await })
    };
    let asked: Vec<_> = workers.into_iter().map(ask).collect();
    let mut answers = Vec::new();
    for answer in asked {
        answers.push(answer.await.expect("no panic"));
    }
    answers
}

/// Client of a worker.
trait Worker:
    Service<Request<Body>, Response = Response<<Self as Worker>::Body>, Error: Into<Failure>, Future: Send>
    + Send
    + 'static
{
    type Body: Send + 'static;
}

impl<S, B> Worker for S
where
    S: Service<Request<Body>, Response = Response<B>, Error: Into<Failure>, Future: Send> + Send + 'static,
    B: Send + 'static,
{
    type Body = B;
}

#[tokio::test(start_paused = true)]
async fn a_worker_that_dies_or_falls_silent_costs_its_part_and_not_the_answer() {
    // Answers, resets the connection, or never answers.
    let worker = service_fn(|request: Request<Body>| async move {
        match request.uri().path() {
            "/dies" => {
                pass(ms(10)).await;
                Err(io::Error::from(io::ErrorKind::ConnectionReset))
            }
            "/silent" => std::future::pending().await,
            _ => {
                pass(ms(20)).await;
                Ok(Response::new(()))
            }
        }
    });
    let workers = ["/", "/dies", "/silent", "/"].map(|path| (worker, format!("http://worker{path}")));
    let (answers, left) = scope(Budget::new(ms(200)), async {
        let answers = fan_out(workers.to_vec(), ms(50)).await;
        (answers, remaining().expect("a budget").left())
    })
    .await;
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, false, true]);
    let why = |n: usize| answers[n].as_ref().unwrap_err();
    assert!(why(1).downcast_ref::<io::Error>().is_some(), "as it happened, not as a deadline");
    assert_eq!(why(2).downcast_ref(), Some(&OutOfTime { sent: true, left: ms(150) }));
    assert!(
        (ms(47)..=ms(50)).contains(&left),
        "the reserve is there for the answer, a timer's tick less: {left}"
    );
}

#[tokio::test]
async fn a_process_that_dies_in_mid_call_fails_its_part_at_once() {
    let lives = format!("http://{}", listen(Router::new().route("/", route(|| async { "here" }))).await);
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let dies = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move {
        let (mut connection, _) = listener.accept().await.expect("a call");
        let read = connection.read(&mut [0; 64]).await.expect("a request");
        assert!(read > 0);
    });
    // No timer fires within 1,000 s, so an earlier result did not wait for one.
    let asks = scope(Budget::new(secs(1_000)), async move {
        fan_out(vec![(hyper(), lives.clone()), (hyper(), dies), (hyper(), lives)], secs(1)).await
    });
    let answers = soon("all parts are back", asks).await;
    assert_eq!(answers.iter().map(Result::is_ok).collect::<Vec<_>>(), [true, false, true]);
    assert!(answers[1].as_ref().unwrap_err().downcast_ref::<OutOfTime>().is_none());
}

/// Clock of a node that is `ahead` of `manual`.
fn clock_of(manual: &ManualClock, ahead: &Arc<AtomicU64>) -> Clock {
    let (manual, ahead) = (manual.clock(), Arc::clone(ahead));
    Clock::new(move || manual.now() + Span::from_nanos(ahead.load(Ordering::SeqCst)))
}

/// Sends four requests from front to back; the back's clock is set before each. Returns what
/// each response carries, and the front's estimate of the network delay.
async fn journeys(back_is_ahead: [Span; 4]) -> (Vec<(Vec<StageTime>, Span, StatusCode)>, Span) {
    let (manual, ahead) = (ManualClock::default(), Arc::new(AtomicU64::new(0)));
    let layer = DeadlineLayer::with_clock(settings(1), clock_of(&manual, &ahead));
    let clock = manual.clone();
    let handler = move || async move { clock.advance(ms(30)) };
    let back = Router::new().route("/", route(handler)).layer(layer);
    let (propagate, clock) = (PropagateLayer::new(), manual.clone());
    let wire = service_fn(move |request: Request<Body>| {
        let (back, clock) = (back.clone(), clock.clone());
        async move {
            clock.advance(ms(4));
            let answer = back.oneshot(request).await;
            clock.advance(ms(4));
            answer
        }
    });
    let mut found = Vec::new();
    for (request, span) in back_is_ahead.into_iter().enumerate() {
        ahead.store(span.as_nanos(), Ordering::SeqCst);
        let call = propagate.layer(wire.clone()).oneshot(within(secs(900), "http://back/"));
        let answer = scope_at(manual.clock(), Budget::new(secs(600 + request as u64)), call).await.unwrap();
        let budget = returned_budget(&answer);
        found.push((budget.stages().to_vec(), budget.remaining().left(), answer.status()));
    }
    (found, propagate.one_way("back"))
}

#[tokio::test(start_paused = true)]
async fn a_clock_that_jumps_by_an_hour_on_one_node_changes_nothing() {
    let hour = secs(3_600);
    let still = journeys([hour; 4]).await;
    assert_eq!(still.1, ms(4));
    assert!(still.0.iter().all(|(stages, _, status)| {
        status.is_success() && stages.last().is_some_and(|stage| stage.service == ms(30))
    }));
    let jumps = [hour, hour + hour, Span::ZERO, hour];
    assert_eq!(journeys(jumps).await, still, "an hour forward, two back, one forward");
    assert_eq!(journeys([Span::from_nanos(7), hour, hour, hour]).await, still);
}
