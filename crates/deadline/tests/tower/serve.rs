//! Server layer: admission, order of service, rejection.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Path;
use axum::http::{Response, StatusCode};
use axum::routing::get as route;
use deadline::Slack::{Ahead, Behind, OnTime};
use deadline::tower::{DeadlineLayer, LimitCounts, Rejection, Settings, give_way, remaining, slack};
use deadline::{InvalidBudget, Order, Shedding};
use queueing::Span;
use tower::ServiceExt;

use crate::support::{get, ms, pass, returned_budget, secs, settings, text, within};

/// Service that answers after `takes`, and the number of times its handler ran.
fn slow(layer: &DeadlineLayer, takes: Span) -> (Router, Arc<AtomicUsize>) {
    let ran = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&ran);
    let handler = move || {
        counted.fetch_add(1, Ordering::Relaxed);
        async move {
            pass(takes).await;
            "done"
        }
    };
    (Router::new().route("/", route(handler)).layer(layer.clone()), ran)
}

//~ deadlines: tower: refused requests, infeasible by setting or for a full queue, do not reach the handler
#[tokio::test(start_paused = true)]
async fn what_cannot_make_it_is_refused_before_the_handler_runs() {
    let mut settings = settings(4);
    settings.queue.shedding = Shedding::Infeasible;
    let layer = DeadlineLayer::new(settings);
    let (app, ran) = slow(&layer, ms(100));
    for _ in 0..16 {
        assert_eq!(app.clone().oneshot(within(secs(1), "/")).await.unwrap().status(), StatusCode::OK);
    }
    let refused = app.clone().oneshot(within(ms(90), "/")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(returned_budget(&refused).remaining().left(), ms(90), "at once");
    assert_eq!(text(refused).await, "its remaining budget is less than its expected service time\n");

    let mut call = within(ms(90), "/");
    call.headers_mut().insert("content-type", "application/grpc+proto".parse().unwrap());
    let refused = app.oneshot(call).await.unwrap();
    assert_eq!(
        (refused.status(), &refused.headers()["grpc-status"]),
        (StatusCode::OK, &"4".parse().unwrap())
    );
    assert_eq!(text(refused).await, "");
    assert_eq!((ran.load(Ordering::Relaxed), layer.counts().infeasible), (16, 2));
}

//~ platform: a late request is sent on one level more urgent
#[tokio::test(start_paused = true)]
async fn how_a_request_stands_is_by_what_is_left_and_what_the_rest_takes() {
    let layer = DeadlineLayer::new(settings(4));
    let seen = Arc::new(Mutex::new(Vec::new()));
    let record = Arc::clone(&seen);
    let handler = move || async move {
        let mut at = [OnTime; 3];
        for (at, before) in at.iter_mut().zip([0, 40, 50]) {
            pass(ms(before)).await;
            *at = slack(Some(ms(200)));
            assert_eq!(slack(None) == Behind, *at == Behind, "independent of the cost of a loss");
            assert_ne!(slack(None), Ahead, "unknown cost of a loss");
        }
        pass(ms(10)).await;
        record.lock().unwrap().push(at);
        "done"
    };
    let app = Router::new().route("/", route(handler)).layer(layer);
    let slacks = async |left: Span| {
        let answer = app.clone().oneshot(within(left, "/")).await.unwrap();
        assert_eq!(answer.status(), StatusCode::OK);
        seen.lock().unwrap().pop().expect("it was served")
    };
    for _ in 0..16 {
        assert_eq!(slacks(ms(101)).await, [OnTime; 3], "unknown service time");
    }
    // Service takes 100 ms; sampled at its start, 40 ms later, and 10 ms before its end.
    assert_eq!(slacks(secs(1)).await, [Ahead; 3]);
    assert_eq!(slacks(ms(500)).await, [Ahead; 3]);
    assert_eq!(slacks(ms(499)).await, [OnTime; 3]);
    assert_eq!(slacks(ms(190)).await, [Behind, OnTime, OnTime]);
    assert_eq!(slacks(ms(150)).await, [Behind, Behind, OnTime]);
    assert_eq!(slacks(ms(109)).await, [Behind; 3]);
    assert_eq!(slack(Some(ms(200))), OnTime, "outside of a request");
}

//~ platform: a service reports at once that a request is late
#[tokio::test(start_paused = true)]
async fn a_layer_knows_whether_a_waiting_or_running_request_is_behind() {
    let layer = DeadlineLayer::new(settings(1));
    let handler = async || {
        pass(ms(100)).await;
        give_way();
        pass(ms(20)).await;
        "done"
    };
    let app = Router::new().route("/", route(handler)).layer(layer.clone());
    for _ in 0..16 {
        app.clone().oneshot(within(secs(1), "/")).await.unwrap();
    }
    let send = |left| tokio::spawn(app.clone().oneshot(within(left, "/")));
    // Service takes 120 ms; the permit is released for the last 20.
    let unhurried = send(secs(1));
    pass(ms(10)).await;
    assert!(!layer.has_late_request());
    let waits = send(ms(250));
    pass(ms(5)).await;
    assert!(!layer.has_late_request());
    pass(ms(10)).await;
    assert!(layer.has_late_request(), "235 ms left, not started");
    unhurried.await.unwrap().unwrap();
    assert!(layer.has_late_request(), "in service with its permit");
    pass(ms(85)).await;
    assert!(!layer.has_late_request(), "permit released");
    assert_eq!(waits.await.unwrap().unwrap().status(), StatusCode::OK);
}

//~ deadlines: tower: a method that was slow once is tried again
//~ deadlines: tower: a free place refuses only requests that have expired
#[tokio::test(start_paused = true)]
async fn a_free_place_serves_what_is_not_expired() {
    let layer = DeadlineLayer::new(settings(4));
    let (app, ran) = slow(&layer, ms(100));
    for _ in 0..32 {
        assert_eq!(app.clone().oneshot(within(secs(1), "/")).await.unwrap().status(), StatusCode::OK);
    }
    let unlikely = app.clone().oneshot(within(ms(90), "/")).await.unwrap();
    assert_eq!(unlikely.status(), StatusCode::OK, "the server was idle");
    let expired = app.oneshot(within(ms(0), "/")).await.unwrap();
    assert_eq!(expired.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!((ran.load(Ordering::Relaxed), layer.counts().expired), (33, 1));
}

//~ deadlines: tower: a handler past its deadline goes on and is counted, or is dropped on request
#[tokio::test(start_paused = true)]
async fn a_late_handler_goes_on_or_is_dropped() {
    for (abort_late, dry_run) in [(false, false), (true, false), (true, true)] {
        let layer = DeadlineLayer::new(Settings { abort_late, dry_run, ..settings(1) });
        let done = Arc::new(AtomicUsize::new(0));
        let handler = {
            let done = Arc::clone(&done);
            move || async move {
                pass(ms(500)).await;
                done.fetch_add(1, Ordering::Relaxed);
            }
        };
        let app = Router::new().route("/", route(handler)).layer(layer.clone());
        let start = tokio::time::Instant::now();
        let answer = app.clone().oneshot(within(ms(100), "/")).await.unwrap();
        let (elapsed, counts) = (Span::from_nanos(start.elapsed().as_nanos() as u64), layer.counts());
        if abort_late && !dry_run {
            assert_eq!((answer.status(), elapsed), (StatusCode::GATEWAY_TIMEOUT, ms(100)));
            assert_eq!(text(answer).await, "its handler was stopped at the deadline\n");
            assert_eq!(counts, LimitCounts { aborted: 1, ..LimitCounts::default() });
        } else {
            assert_eq!((answer.status(), elapsed), (StatusCode::OK, ms(500)));
            assert_eq!(counts, LimitCounts { served: 1, served_late: 1, ..LimitCounts::default() });
        }
        // Without a deadline nothing is dropped.
        assert_eq!(app.oneshot(get("/")).await.unwrap().status(), StatusCode::OK);
        pass(secs(1)).await;
        let all = 2 - layer.counts().aborted as usize;
        assert_eq!(done.load(Ordering::Relaxed), all, "a dropped handler does not go on");
    }
}

//~ deadlines: tower: a dry run drops nothing, keeps the order of arrival, and counts what would be dropped
#[tokio::test(start_paused = true)]
async fn a_dry_run_serves_all_in_order_of_arrival_and_counts_what_it_would_drop() {
    let mut settings = Settings { dry_run: true, ..settings(1) };
    let layer = DeadlineLayer::new(settings);
    let (app, ran) = slow(&layer, ms(100));
    // The third starts after its deadline; the fourth has none.
    let calls = [within(ms(900), "/"), within(ms(150), "/"), within(ms(150), "/"), get("/")];
    let answered = calls.map(|call| tokio::spawn(app.clone().oneshot(call)));
    for (answers, answer) in (1..).zip(answered) {
        assert_eq!(answer.await.unwrap().unwrap().status(), StatusCode::OK);
        assert!(ran.load(Ordering::Relaxed) <= answers + 1, "in order of arrival");
    }
    let expected = LimitCounts {
        served: 4,
        served_late: 2,
        would_drop: 1,
        faults: [1, 0, 0, 0],
        ..LimitCounts::default()
    };
    assert_eq!((layer.counts(), layer.reorders()), (expected, false));

    // By the expected time a rule drops requests that may be in time all the same.
    settings.queue.shedding = Shedding::Infeasible;
    let layer = DeadlineLayer::new(settings);
    let takes = Arc::new(Mutex::new(ms(100)));
    let handler = {
        let takes = Arc::clone(&takes);
        move || {
            let takes = *takes.lock().unwrap();
            pass(takes)
        }
    };
    let app = Router::new().route("/", route(handler)).layer(layer.clone());
    for _ in 0..16 {
        let _ = app.clone().oneshot(within(secs(1), "/")).await.unwrap();
    }
    for takes_now in [ms(100), ms(50)] {
        *takes.lock().unwrap() = takes_now;
        assert_eq!(app.clone().oneshot(within(ms(90), "/")).await.unwrap().status(), StatusCode::OK);
    }
    let expected = LimitCounts {
        served: 18,
        served_late: 1,
        would_drop: 2,
        would_drop_in_time: 1,
        ..LimitCounts::default()
    };
    assert_eq!(layer.counts(), expected);
}

//~ deadlines: tower: a request without a budget has no deadline; beyond a second deadlines still order the queue
#[tokio::test(start_paused = true)]
async fn without_a_deadline_a_request_waits_as_long_as_it_takes() {
    let layer = DeadlineLayer::new(settings(1));
    let handler = || async {
        pass(secs(5)).await;
        format!("{:?}", remaining())
    };
    let app = Router::new().route("/", route(handler)).layer(layer.clone());
    let busy = tokio::spawn(app.clone().oneshot(get("/")));
    tokio::task::yield_now().await;
    let answer = app.oneshot(get("/")).await.unwrap();
    assert!(!answer.headers().contains_key(deadline::codec::field::HEADER));
    assert_eq!(text(answer).await, "None", "no deadline");
    busy.await.unwrap().unwrap();
}

//~ deadlines: tower: a request without a budget has no deadline; beyond a second deadlines still order the queue
#[tokio::test(start_paused = true)]
async fn beyond_a_second_deadlines_order_the_queue() {
    assert_eq!(served(Order::Edf, [9_000, 3_000, 6_000]).await, ["first", "3000", "6000", "9000"]);
}

//~ deadlines: tower: paths that differ in identifiers are one method
#[tokio::test(start_paused = true)]
async fn paths_with_identifiers_are_one_method() {
    let layer = DeadlineLayer::new(settings(1));
    let handler = |Path(_): Path<u64>| pass(ms(100));
    let app = Router::new().route("/items/{id}", route(handler)).layer(layer.clone());
    for id in 0..100 {
        app.clone().oneshot(within(secs(1), &format!("/items/{id}"))).await.unwrap();
    }
    let busy = tokio::spawn(app.clone().oneshot(within(secs(1), "/items/1000")));
    pass(ms(10)).await;
    let waits = tokio::spawn(app.clone().oneshot(within(ms(150), "/items/1001")));
    pass(ms(5)).await;
    assert!(layer.has_late_request(), "known to take 100 ms, of which the time left is less than twice");
    busy.await.unwrap().unwrap();
    waits.await.unwrap().unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_was_slow_once_is_tried_again() {
    let mut settings = settings(1);
    settings.queue.shedding = Shedding::Infeasible;
    let layer = DeadlineLayer::new(settings);
    let takes = Arc::new(Mutex::new(secs(2)));
    let now_takes = Arc::clone(&takes);
    let handler = move || {
        let span = *now_takes.lock().unwrap();
        pass(span)
    };
    let app = Router::new().route("/", route(handler)).layer(layer.clone());
    for _ in 0..16 {
        app.clone().oneshot(within(secs(9), "/")).await.unwrap();
    }
    *takes.lock().unwrap() = ms(1);
    let mut statuses = Vec::new();
    for _ in 0..66 {
        statuses.push(app.clone().oneshot(within(secs(1), "/")).await.unwrap().status());
    }
    let refused = statuses.iter().take_while(|&&status| status == StatusCode::GATEWAY_TIMEOUT).count();
    assert_eq!(refused, 63, "the 64th is a probe");
    assert!(
        statuses[63..].iter().all(|&status| status == StatusCode::OK),
        "and its sample replaces the old ones"
    );
}

#[tokio::test(start_paused = true)]
async fn a_method_that_is_answered_all_along_is_not_tried_against_what_it_showed() {
    let mut settings = settings(4);
    settings.queue.shedding = Shedding::Infeasible;
    let layer = DeadlineLayer::new(settings);
    let (app, ran) = slow(&layer, ms(100));
    for _ in 0..16 {
        app.clone().oneshot(within(secs(1), "/")).await.unwrap();
    }
    for _ in 0..10 {
        for _ in 0..32 {
            let refused = app.clone().oneshot(within(ms(50), "/")).await.unwrap();
            assert_eq!(refused.status(), StatusCode::GATEWAY_TIMEOUT);
        }
        app.clone().oneshot(within(secs(1), "/")).await.unwrap();
    }
    assert_eq!((ran.load(Ordering::Relaxed), layer.counts().infeasible), (26, 320));
}

/// Order of service of requests with these budgets, with a limit of one, after a request that
/// takes 10 ms.
async fn served(order: Order, budgets_ms: [u64; 3]) -> Vec<String> {
    let mut settings = settings(1);
    settings.queue.order = order;
    let layer = DeadlineLayer::new(settings);
    let log = Arc::new(Mutex::new(Vec::new()));
    let logged = Arc::clone(&log);
    let handler = move |Path(name): Path<String>| {
        logged.lock().unwrap().push(name);
        pass(ms(10))
    };
    let app = Router::new().route("/{name}", route(handler)).layer(layer.clone());
    let send = |left, name: String| {
        let app = app.clone();
        async move { app.oneshot(within(left, &format!("/{name}"))).await.unwrap().status() }
    };
    let busy = tokio::spawn(send(secs(1), "first".to_owned()));
    crate::support::until("the first is served", || layer.counts().serving == 1).await;
    let mut waiting = Vec::new();
    for (i, left_ms) in budgets_ms.into_iter().enumerate() {
        waiting.push(tokio::spawn(send(ms(left_ms), left_ms.to_string())));
        crate::support::until("it waits", || layer.counts().waiting == i + 1).await;
    }
    for task in std::iter::once(busy).chain(waiting) {
        assert_eq!(task.await.unwrap(), StatusCode::OK);
    }
    assert_eq!(layer.counts(), LimitCounts { served: 4, ..LimitCounts::default() });
    log.lock().unwrap().clone()
}

//~ deadlines: tower: under a limit of one, service follows the order of deadlines
#[tokio::test(start_paused = true)]
async fn the_order_of_service_is_the_order_of_deadlines() {
    assert_eq!(served(Order::Edf, [900, 300, 600]).await, ["first", "300", "600", "900"]);
    assert_eq!(served(Order::Fifo, [900, 300, 600]).await, ["first", "900", "300", "600"]);
}

//~ deadlines: tower: the wait in front of the concurrency limit counts and is reported in the response
#[tokio::test(start_paused = true)]
async fn the_wait_counts_and_the_answer_says_so() {
    let layer = DeadlineLayer::new(settings(1));
    let handler = || async {
        let seen = remaining().expect("a budget").left();
        pass(ms(30)).await;
        seen.to_string()
    };
    let app = Router::new().route("/", route(handler)).layer(layer);
    let first = tokio::spawn(app.clone().oneshot(within(ms(200), "/")));
    tokio::task::yield_now().await;
    let second = app.oneshot(within(ms(200), "/")).await.unwrap();
    first.await.unwrap().unwrap();
    let budget = returned_budget(&second);
    assert_eq!((budget.stages()[0].queue, budget.stages()[0].service), (ms(30), ms(30)));
    assert_eq!(budget.remaining().left(), ms(140));
    assert_eq!(text(second).await, ms(170).to_string());
}

//~ deadlines: tower: a request that cannot be in time is refused as soon as that is certain
#[tokio::test(start_paused = true)]
async fn a_request_that_cannot_be_in_time_is_refused_when_that_is_certain() {
    let layer = DeadlineLayer::new(settings(1));
    let (app, ran) = slow(&layer, secs(5));
    let busy = tokio::spawn(app.clone().oneshot(within(secs(9), "/")));
    tokio::task::yield_now().await;
    let refused = app.oneshot(within(ms(250), "/")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::GATEWAY_TIMEOUT);
    let waited = returned_budget(&refused).stages()[0].queue;
    assert!((ms(250)..ms(253)).contains(&waited), "a timer's tick after {waited}");
    assert_eq!(layer.counts().waiting, 0);
    busy.await.unwrap().unwrap();
    assert_eq!(ran.load(Ordering::Relaxed), 1);
}

//~ deadlines: tower: refused requests, infeasible by setting or for a full queue, do not reach the handler
#[tokio::test(start_paused = true)]
async fn a_full_queue_refuses_and_the_user_says_how() {
    let full = settings(1);
    let full = Settings { queue: deadline::QueueSettings { capacity: 1, ..full.queue }, ..full };
    let own =
        |rejection: Rejection| Response::new(axum::body::Body::from(format!("sorry: {:?}", rejection.cause)));
    let layer = DeadlineLayer::new(full);
    let handler = || pass(ms(10));
    let app = Router::new().route("/", route(handler)).layer(layer.clone());
    let with_own_response =
        Router::new().route("/", route(handler)).layer(layer.clone().with_reject_response(own));
    let served = tokio::spawn(app.clone().oneshot(get("/")));
    let waits = tokio::spawn(app.clone().oneshot(get("/")));
    crate::support::until("one waits", || layer.counts().waiting == 1).await;
    let refused = app.clone().oneshot(get("/")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(text(refused).await, "the request queue is full\n");
    let mut call = get("/");
    call.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    assert_eq!(app.oneshot(call).await.unwrap().headers()["grpc-status"], "8");
    let own = with_own_response.oneshot(get("/")).await.unwrap();
    assert_eq!(own.headers()[deadline::Cause::HEADER], "queue-full");
    assert_eq!(text(own).await, "sorry: QueueFull");
    served.await.unwrap().unwrap();
    waits.await.unwrap().unwrap();
    let counts = layer.counts();
    assert_eq!((counts.full, counts.served, counts.faults[InvalidBudget::Missing as usize]), (3, 2, 5));
}

#[tokio::test(start_paused = true)]
async fn without_shedding_even_the_late_are_served() {
    let mut settings = settings(1);
    settings.queue.shedding = Shedding::None;
    let layer = DeadlineLayer::new(settings);
    let (app, _) = slow(&layer, ms(100));
    let busy = tokio::spawn(app.clone().oneshot(within(ms(10), "/")));
    tokio::task::yield_now().await;
    assert_eq!(app.oneshot(within(ms(10), "/")).await.unwrap().status(), StatusCode::OK);
    assert_eq!(busy.await.unwrap().unwrap().status(), StatusCode::OK);
}
