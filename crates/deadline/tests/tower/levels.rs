//! Levels of requests: order of service, task-local, calls to other services.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use axum::routing::get as route;
use deadline::tower::{DeadlineLayer, PropagateLayer, Settings, WithoutBudget, level, scope, spawn};
use deadline::{Budget, Limits};
use queueing::Priority;
use tokio::sync::Notify;
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{get, ms, secs, settings, soon, until, within};

const NAME: &str = "priority";

fn asking(mut request: Request<Body>, lines: &[&str]) -> Request<Body> {
    for line in lines {
        request.headers_mut().append(NAME, line.parse().expect("a header"));
    }
    request
}

fn with_levels(trusted: bool) -> Settings {
    let validation = Limits { trusted, ..Limits::default() };
    Settings { levels: Priority::new(4), validation, ..settings(1) }
}

/// Fields of a message, as text.
fn fields(headers: &axum::http::HeaderMap) -> Vec<String> {
    headers.get_all(NAME).iter().map(|value| value.to_str().expect("text").to_owned()).collect()
}

/// Service whose handler calls another one, after `change` of the call; the fields of the calls.
fn calling(layer: DeadlineLayer, change: fn(&mut Request<Body>)) -> (Router, Arc<Mutex<Vec<Vec<String>>>>) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    let next = PropagateLayer::new().layer(service_fn(move |request: Request<Body>| {
        seen.lock().unwrap().push(fields(request.headers()));
        async { Ok::<_, Infallible>(Response::new(Body::empty())) }
    }));
    let handler = move || async move {
        let mut call = get("/next");
        change(&mut call);
        let called = spawn(async move { next.oneshot(call).await.map(|_| ()).is_ok() });
        assert!(called.await.unwrap());
        level().map_or("none".to_owned(), |level| level.to_string())
    };
    (Router::new().route("/", route(handler)).layer(layer), calls)
}

//~ deadlines: tower: a call carries the level of the request in the handler, which only a trusted peer can raise
#[tokio::test]
async fn a_call_has_the_level_of_the_request_in_the_handler() {
    for (lines, client, peer) in [
        (&[][..], 4, 4),
        (&["u=6"], 6, 6),
        (&["u=1"], 4, 1),
        (&["u=7, u=0"], 4, 0),
        (&["u=1", "u=5, i"], 5, 5),
        (&["i"], 4, 3),
        (&["nonsense!"], 4, 3),
    ] {
        for (trusted, expected) in [(false, client), (true, peer)] {
            let (app, calls) = calling(DeadlineLayer::new(with_levels(trusted)), |_| {});
            for request in [asking(get("/"), lines), asking(within(secs(9), "/"), lines)] {
                let response = app.clone().oneshot(request).await.unwrap();
                let asked = queueing::priority_field::read(lines.iter().map(|line| line.as_bytes()));
                let default = asked.map_or(3, Priority::level);
                let response_field: Vec<String> =
                    (default != expected).then(|| format!("u={expected}")).into_iter().collect();
                assert_eq!(
                    fields(response.headers()),
                    response_field,
                    "{lines:?}: a level other than the one asked for"
                );
                assert_eq!(crate::support::text(response).await, expected.to_string());
            }
            assert_eq!(*calls.lock().unwrap(), vec![vec![format!("u={expected}")]; 2], "{lines:?}");
        }
    }
}

#[tokio::test]
async fn a_field_that_a_call_has_already_can_only_lower_it() {
    for (change, expected) in [
        ((|call| *call = asking(get("/"), &["u=6, i"])) as fn(&mut Request<Body>), "u=6, i"),
        (|call| *call = asking(get("/"), &["u=0"]), "u=2"),
        (|call| *call = asking(get("/"), &["u=0", "i"]), "u=2"),
        (|call| *call = asking(get("/"), &["u=2, i"]), "u=2, i"),
        (
            |call| {
                call.extensions_mut().insert(WithoutBudget);
            },
            "u=2",
        ),
    ] {
        let (app, calls) = calling(DeadlineLayer::new(with_levels(true)), change);
        app.oneshot(asking(get("/"), &["u=2"])).await.unwrap();
        assert_eq!(*calls.lock().unwrap(), [[expected]]);
    }
}

//~ deadlines: tower: without the setting the field Priority is neither read nor written
#[tokio::test]
async fn by_default_there_are_no_levels() {
    assert_eq!(Settings::default().levels, None);
    let (app, calls) = calling(DeadlineLayer::new(settings(1)), |_| {});
    for request in [asking(get("/"), &["u=0"]), asking(within(secs(9), "/"), &["u=0"])] {
        let response = app.clone().oneshot(request).await.unwrap();
        assert!(fields(response.headers()).is_empty());
        assert_eq!(crate::support::text(response).await, "none");
    }
    assert_eq!(*calls.lock().unwrap(), [[""; 0]; 2]);
    assert_eq!(level(), None);
    assert_eq!(scope(Budget::new(secs(1)), async { level() }).await, None);
}

/// Order in which requests, by number, are served behind one that holds the only permit.
async fn order(settings: Settings, requests: Vec<Request<Body>>) -> Vec<usize> {
    let layer = DeadlineLayer::new(settings);
    let (go, served) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
    let (wait, push) = (Arc::clone(&go), Arc::clone(&served));
    let handler = move |request: Request<Body>| async move {
        match request.headers().get("number") {
            None => wait.notified().await,
            Some(number) => push.lock().unwrap().push(number.to_str().unwrap().parse().unwrap()),
        }
    };
    let app = Router::new().route("/", route(handler)).layer(layer.clone());
    let first = tokio::spawn(app.clone().oneshot(get("/")));
    until("the first is served", || layer.counts().serving == 1).await;
    let mut others = Vec::new();
    for (number, mut request) in requests.into_iter().enumerate() {
        request.headers_mut().insert("number", number.into());
        others.push(tokio::spawn(app.clone().oneshot(request)));
        until("it waits", || layer.counts().waiting == number + 1).await;
    }
    go.notify_one();
    soon("the first ends", first).await.unwrap().unwrap();
    for other in others {
        let response = soon("it is served", other).await.unwrap().unwrap();
        assert_eq!(response.status(), StatusCode::OK);
    }
    served.lock().unwrap().clone()
}

//~ deadlines: tower: with levels the most urgent is served first, and the earliest deadline within it
#[tokio::test]
async fn the_more_urgent_level_goes_first_and_the_earlier_deadline_within_it() {
    let requests = || {
        vec![
            asking(within(secs(90), "/"), &["u=7"]),
            asking(within(secs(600), "/"), &["u=1"]),
            asking(within(secs(300), "/"), &["u=1"]),
            asking(within(secs(60), "/"), &["u=7"]),
            within(secs(30), "/"),
        ]
    };
    assert_eq!(order(with_levels(true), requests()).await, [2, 1, 4, 3, 0]);
    assert_eq!(order(with_levels(false), requests()).await, [4, 2, 1, 3, 0], "clients cannot raise theirs");
    assert_eq!(order(settings(1), requests()).await, [4, 3, 0, 2, 1], "by default only deadlines count");
    let dry = Settings { dry_run: true, ..with_levels(true) };
    assert_eq!(order(dry, requests()).await, [0, 1, 2, 3, 4], "a dry run is in order of arrival");
}

/// A level does not make a request overtake one that is being served, nor wait on an idle server.
#[tokio::test(start_paused = true)]
async fn an_idle_server_serves_every_level_at_once() {
    let layer = DeadlineLayer::new(with_levels(true));
    let app = Router::new().route("/", route(|| async { "done" })).layer(layer.clone());
    for line in ["u=7", "u=0", "u=4"] {
        let start = tokio::time::Instant::now();
        let response = app.clone().oneshot(asking(within(ms(100), "/"), &[line])).await.unwrap();
        assert_eq!((response.status(), start.elapsed().as_nanos()), (StatusCode::OK, 0));
    }
    assert!(layer.reorders() && layer.counts().served == 3);
}
