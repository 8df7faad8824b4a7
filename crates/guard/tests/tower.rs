//! Layer in front of a service with concurrency one, in paused time.

//~ guard: tower: at twice its rate a service keeps its throughput, and sheds nothing below it

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use deadline::Limits;
use deadline::tower::{DeadlineLayer, Settings};
use guard::app_queue::{CombinedSignals, QueueReport};
use guard::tower::{GuardLayer, Queue};
use guard::{AdmissionController, Class, Params, Signals, by_name};
use queueing::{Span, Time};
use tower::{Layer, ServiceExt, service_fn};

const WORK: Duration = Duration::from_millis(2);

/// Service of 500 requests/s with a deadline queue, and a guard in front.
fn server(guard: GuardLayer) -> (impl Fn(&str) -> Call, GuardLayer) {
    let (call, guard, _) = server_of(guard, Span::from_secs(1), false);
    (call, guard)
}

/// [`server`] with a default budget of `each`; `joined`: the guard sees the median budget.
fn server_of(
    guard: GuardLayer,
    each: Span,
    joined: bool,
) -> (impl Fn(&str) -> Call, GuardLayer, DeadlineLayer) {
    let validation = Limits { default: each, ..Limits::default() };
    let deadline = DeadlineLayer::new(Settings { limit: 1, validation, ..Settings::default() });
    let inside = deadline.clone();
    let guard = guard.with_queue_probe(move || {
        let queue = Queue::from(&inside);
        Queue { budget: queue.budget.filter(|_| joined), ..queue }
    });
    let kept = deadline.clone();
    let work = service_fn(async |_: Request<Body>| {
        tokio::time::sleep(WORK).await;
        Ok::<_, std::convert::Infallible>(Response::new(Body::empty()))
    });
    let service = guard.layer(deadline.layer(work));
    let call = move |class: &str| {
        let request = Request::get("/").header("class", class).body(Body::empty()).expect("a request");
        let service = service.clone();
        Box::pin(async move { service.oneshot(request).await.expect("the service is infallible").status() })
            as Call
    };
    (call, guard, kept)
}

type Call = std::pin::Pin<Box<dyn Future<Output = StatusCode> + Send>>;

/// Sends a request every `gap` for `span`; returns the number of responses with 200 and their
/// maximum latency.
async fn load(call: &impl Fn(&str) -> Call, class: &str, gap: Duration, span: Duration) -> (u64, Duration) {
    let (served, worst) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut calls = Vec::new();
    let begun = tokio::time::Instant::now();
    while begun.elapsed() < span {
        let (answer, served, worst) = (call(class), Arc::clone(&served), Arc::clone(&worst));
        calls.push(tokio::spawn(async move {
            let sent = tokio::time::Instant::now();
            if answer.await == StatusCode::OK {
                served.fetch_add(1, Ordering::Relaxed);
                worst.fetch_max(sent.elapsed().as_micros() as u64, Ordering::Relaxed);
            }
        }));
        tokio::time::sleep(gap).await;
    }
    for call in calls {
        call.await.expect("no panic");
    }
    (served.load(Ordering::Relaxed), Duration::from_micros(worst.load(Ordering::Relaxed)))
}

fn guard() -> GuardLayer {
    GuardLayer::new("queue-delay", Params::default()).expect("a policy")
}

#[tokio::test(start_paused = true)]
async fn in_overload_as_much_is_served_as_can_be_and_soon() {
    let (call, guard) = server(guard());
    let gap = Duration::from_millis(1);
    load(&call, "any", gap, Duration::from_secs(2)).await;
    let (served, worst) = load(&call, "any", gap, Duration::from_secs(4)).await;
    assert!(served > 1_900, "{served} of 2,000 possible");
    assert!(worst < Duration::from_millis(70), "{worst:?}");
    let counts = guard.counts()[0];
    assert!(counts.offered > 5_000 && counts.shed > counts.offered / 3, "{counts:?}");
}

//~ guard: tower: a request that would be too late inside is shed at admission
/// With a budget of 12 ms and a service time of 2, requests are late after 10 ms, below the
/// target of 20. A guard that knows the budget sheds those that the queue would drop later.
#[tokio::test(start_paused = true)]
async fn a_request_that_would_be_late_is_shed_at_admission() {
    let mut refused = Vec::new();
    for joined in [false, true] {
        let (call, _, deadline) = server_of(guard(), Span::from_millis(12), joined);
        let gap = Duration::from_millis(1);
        load(&call, "any", gap, Duration::from_secs(2)).await;
        let before = deadline.counts();
        let (served, worst) = load(&call, "any", gap, Duration::from_secs(4)).await;
        let counts = deadline.counts();
        assert!(served > 1_900 && worst <= Duration::from_millis(13), "{served} of 2,000, {worst:?}");
        refused.push(counts.infeasible + counts.expired - before.infeasible - before.expired);
    }
    assert!(refused[1] * 4 < refused[0], "inside, alone and joined: {refused:?}");
}

//~ guard: tower: an informed admission layer sheds before the service
/// The layer sheds nothing and publishes its queue; an outer admission controller, which sees
/// nothing else, admits as much as is served.
#[tokio::test(start_paused = true)]
async fn a_guard_with_reports_sheds_before_the_service() {
    let path = std::env::temp_dir().join(format!("greenwave-tower-{}", std::process::id()));
    let layer = GuardLayer::new("none", Params::default()).expect("a policy");
    let (call, layer) = server(layer.with_queue_report(&path).expect("a file"));
    let mut policy = by_name("queue-delay", &Params::default()).expect("a policy");
    let (mut combined, mut admission) = (CombinedSignals::new(1), AdmissionController::new(1));
    let mut signals = Signals::default();
    let mut answers = Vec::new();
    for ms in 1..=6_000 {
        let now = Time::ZERO + Span::from_millis(ms);
        signals.offered += 1;
        if admission.try_admit(now, Class::FIRST, 0) {
            signals.admitted += 1;
            let (answer, sent) = (call("any"), tokio::time::Instant::now());
            let answered = async move { (ms, answer.await, sent.elapsed()) };
            answers.push(tokio::spawn(answered));
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
        if ms % 10 == 0 {
            let line = std::fs::read_to_string(&path).expect("a report");
            combined.record(now, 0, QueueReport::read(&line).expect("a whole line"));
            let seen = Signals { served: signals.admitted, ..std::mem::take(&mut signals) };
            let limit = policy.tick(now, &combined.combine(now, seen));
            admission.set(now, limit);
        }
    }
    let _ = std::fs::remove_file(&path);
    let (mut served, mut worst) = (0, Duration::ZERO);
    for answer in answers {
        let (ms, status, took) = answer.await.expect("no panic");
        if ms > 2_000 && status == StatusCode::OK {
            served += 1;
            worst = worst.max(took);
        }
    }
    assert!(served > 1_850, "{served} of 2,000 possible");
    assert!(worst < Duration::from_millis(90), "{worst:?}");
    assert_eq!(layer.counts()[0].shed, 0, "the layer itself sheds nothing");
}

#[tokio::test(start_paused = true)]
async fn below_its_rate_nothing_is_shed() {
    let (call, guard) = server(guard());
    load(&call, "any", Duration::from_millis(3), Duration::from_secs(3)).await;
    assert_eq!(guard.counts()[0].shed, 0);
}

#[tokio::test(start_paused = true)]
async fn the_last_class_is_shed_first() {
    let class = |headers: &axum::http::HeaderMap| Class::new(u8::from(headers["class"] == "bulk"));
    let (call, guard) = server(guard().classes(2, class));
    let beside = load(&call, "bulk", Duration::from_micros(700), Duration::from_secs(4));
    let urgent = load(&call, "urgent", Duration::from_millis(8), Duration::from_secs(4));
    tokio::join!(beside, urgent);
    let [urgent, bulk] = guard.counts()[..] else { panic!("two classes") };
    assert!(urgent.shed * 50 < urgent.offered && bulk.shed * 2 > bulk.offered, "{urgent:?} {bulk:?}");
}

#[tokio::test(start_paused = true)]
async fn a_dry_run_sheds_nothing() {
    let (call, guard) = server(guard().dry_run());
    let (served, _) = load(&call, "any", Duration::from_millis(1), Duration::from_millis(300)).await;
    let counts = guard.counts()[0];
    assert!(counts.shed > 0 && served >= 290, "{served} {counts:?}");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_leaves_the_service() {
    let params = Params { present: (1, 1), ..Params::default() };
    let guard = GuardLayer::new("gradient", params).expect("a policy");
    let (call, guard) = server(guard);
    assert_eq!(call("any").await, StatusCode::OK);
    for _ in 0..5 {
        let cancelled = tokio::time::timeout(Duration::from_millis(1), call("any"));
        assert!(cancelled.await.is_err());
    }
    let shed = guard.counts()[0].shed;
    assert_eq!((call("any").await, shed), (StatusCode::OK, 0));
    let (one, two) = tokio::join!(call("any"), call("any"));
    assert_eq!((one, two), (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE));
}

//~ platform: a service reports at once that a request is late
/// Two requests with 5 ms each for 2 ms of work: the second has 3 ms left at dequeue.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_behind_is_reported_at_once_until_none_is() {
    let path = std::env::temp_dir().join(format!("greenwave-behind-{}", std::process::id()));
    let late = || QueueReport::read(&std::fs::read_to_string(&path).expect("a file")).expect("a line").late;
    let layer = GuardLayer::new("none", Params::default()).expect("a policy");
    let (call, ..) = server_of(layer.with_queue_report(&path).expect("a file"), Span::from_millis(5), true);
    for _ in 0..20 {
        assert_eq!(call("any").await, StatusCode::OK);
        assert!(!late(), "a single request has slack");
    }
    let both = [tokio::spawn(call("any")), tokio::spawn(call("any"))];
    for expected in [false, true, false] {
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(late(), expected);
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    for call in both {
        assert_eq!(call.await.expect("no panic"), StatusCode::OK);
    }
    let _ = std::fs::remove_file(&path);
}

#[tokio::test(start_paused = true)]
async fn arrivals_and_served_requests_are_published_at_each_tick() {
    let path = std::env::temp_dir().join(format!("greenwave-told-{}", std::process::id()));
    let report = || QueueReport::read(&std::fs::read_to_string(&path).expect("a file"));
    assert!(
        GuardLayer::new("none", Params::default())
            .expect("a policy")
            .with_queue_report("/no/such/file")
            .is_err()
    );
    let layer = GuardLayer::new("none", Params::default()).expect("a policy");
    let (call, _) = server(layer.with_queue_report(&path).expect("a file"));
    assert_eq!(report(), Some(QueueReport::default()), "no arrivals yet");
    for _ in 0..5 {
        assert_eq!(call("any").await, StatusCode::OK);
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(call("any").await, StatusCode::OK);
    let report = report().expect("a whole line");
    // The sixth request counts at the next tick.
    assert_eq!((report.sequence, report.arrived, report.served, report.waiting), (6, 5, 5, 0));
    assert!(report.budget.is_none(), "the probe returns none");
    let _ = std::fs::remove_file(&path);
}

#[test]
fn a_policy_that_is_none_is_refused_and_the_others_are_listed() {
    let error = GuardLayer::new("best", Params::default()).map(drop).unwrap_err().to_string();
    assert!(error.contains("queue-delay"), "{error}");
}

//~ guard: tower: long polls shut out no request; overload beside them is bounded
/// Without a queue probe, 200 requests without a response wait besides the others.
#[tokio::test(start_paused = true)]
async fn long_polls_in_the_service_are_no_queue() {
    let guard = guard();
    let deadline = DeadlineLayer::new(Settings { limit: 1, ..Settings::default() });
    let inside = deadline.layer(service_fn(async |_: Request<Body>| {
        tokio::time::sleep(WORK).await;
        Ok::<_, std::convert::Infallible>(Response::new(Body::empty()))
    }));
    let service = guard.layer(service_fn(move |request: Request<Body>| {
        let inside = inside.clone();
        async move {
            if request.headers()["class"] == "poll" {
                std::future::pending::<()>().await;
            }
            inside.oneshot(request).await
        }
    }));
    let call = move |class: &str| {
        let request = Request::get("/").header("class", class).body(Body::empty()).expect("a request");
        let service = service.clone();
        Box::pin(async move { service.oneshot(request).await.expect("the service is infallible").status() })
            as Call
    };
    let polls: Vec<_> = (0..200).map(|_| tokio::spawn(call("poll"))).collect();
    let (served, _) = load(&call, "short", Duration::from_millis(10), Duration::from_secs(5)).await;
    assert!(served >= 490 && guard.counts()[0].shed == 0, "{served} of 500, {:?}", guard.counts());
    load(&call, "short", Duration::from_millis(1), Duration::from_secs(2)).await;
    let (served, worst) = load(&call, "short", Duration::from_millis(1), Duration::from_secs(4)).await;
    assert!(served > 1_900 && worst < Duration::from_millis(100), "{served} of 2,000, {worst:?}");
    polls.iter().for_each(tokio::task::JoinHandle::abort);
}
