//! An axum service that calls an axum service that calls a tonic service, over loopback.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::{Request, Response, StatusCode};
use axum::routing::get as route;
use deadline::codec::field;
use deadline::tower::{DeadlineLayer, PropagateLayer, Settings, level, remaining, scope, scope_at};
use deadline::{Budget, Limits, Shedding};
use hyper_util::client::legacy::Client as Hyper;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use queueing::Priority;
use tokio::sync::{Mutex, Notify};
use tonic::Code;
use tower::{Layer, Service, ServiceExt, service_fn};

use crate::grpc::{self, Client};
use crate::support::{
    ManualClock, get, listen, ms, pass, returned_budget, secs, settings, soon, until, within,
};

/// hyper's client.
pub fn hyper() -> Hyper<HttpConnector, Body> {
    Hyper::builder(TokioExecutor::new()).build_http()
}

/// One manual clock for all three services: the first takes 100 s, the second 200 s, the third
/// 300 s. Budgets are thousands of seconds, so no timer fires. The second serves one request at
/// a time and blocks `/hold`.
struct Chain {
    manual: ManualClock,
    layers: [DeadlineLayer; 3],
    held: Arc<Notify>,
    entrance: String,
    second: String,
}

async fn chain() -> Chain {
    let manual = ManualClock::default();
    let layer = |limit| DeadlineLayer::with_clock(settings(limit), manual.clock());
    let layers = [layer(8), layer(1), layer(8)];
    let held = Arc::new(Notify::new());

    let clock = manual.clone();
    let third = grpc::listen(
        &layers[2],
        grpc::handler_of(move || {
            let left = remaining().expect("a budget").left();
            clock.advance(secs(300));
            format!("{left} left at the third")
        }),
    );

    let (clock, holds) = (manual.clone(), Arc::clone(&held));
    let client = Arc::new(Mutex::new(Client::new(third, &PropagateLayer::new())));
    let ask = move || async move {
        clock.advance(secs(200));
        match client.lock().await.ask(tonic::Request::new("?".to_owned())).await {
            Ok(answer) => (StatusCode::OK, answer.into_inner()),
            Err(status) => (StatusCode::BAD_GATEWAY, format!("{:?}", status.code())),
        }
    };
    let hold = move || async move { holds.notified().await };
    let app = Router::new().route("/", route(ask)).route("/hold", route(hold)).layer(layers[1].clone());
    let second = format!("http://{}", listen(app).await);

    let (clock, uri) = (manual.clone(), second.clone());
    let ask = move || async move {
        clock.advance(secs(100));
        PropagateLayer::new()
            .layer(hyper())
            .oneshot(get(&uri))
            .await
            .map(|answer| answer.map(Body::new))
            .unwrap()
    };
    let app = Router::new().route("/", route(ask)).layer(layers[0].clone());
    let entrance = format!("http://{}", listen(app).await);
    Chain { manual, layers, held, entrance, second }
}

//~ deadlines: tower: one budget covers three services (axum, tonic) and the queue between them
#[tokio::test]
async fn a_budget_is_counted_across_three_services_and_the_queue_between() {
    let Chain { manual, layers, held, entrance, second } = chain().await;
    let holds = tokio::spawn(hyper().request(within(secs(3_000), &format!("{second}/hold"))));
    until("the second is busy", || layers[1].counts().serving == 1).await;
    let asks = tokio::spawn(hyper().request(within(secs(2_000), &entrance)));
    until("the request waits at the second", || layers[1].counts().waiting == 1).await;
    manual.advance(secs(400));
    held.notify_one();
    soon("the held one", holds).await.unwrap().unwrap();

    let answer = soon("the answer", asks).await.unwrap().unwrap().map(Body::new);
    assert_eq!(answer.status(), StatusCode::OK);
    // Elapsed at the third: 100 + 400 of queueing + 200.
    let budget = returned_budget(&answer);
    assert_eq!(crate::support::text(answer).await, format!("{} left at the third", secs(1_300)));
    assert_eq!(budget.remaining().left(), secs(1_000), "300 later it is back");
    assert_eq!(layers[1].counts().served, 2);
}

//~ deadlines: tower: one level covers three services (axum over HTTP/1, tonic over HTTP/2), on one connection
#[tokio::test]
async fn a_level_travels_across_three_services() {
    let layer = |trusted| {
        let validation = Limits { trusted, ..Limits::default() };
        DeadlineLayer::new(Settings { levels: Priority::new(4), validation, ..settings(8) })
    };
    let handled = || level().map_or(9, Priority::level);
    let third = grpc::listen(&layer(true), grpc::handler_of(move || handled().to_string()));
    let client = Arc::new(Mutex::new(Client::new(third, &PropagateLayer::new())));
    let ask = move || async move {
        let answer = client.lock().await.ask(tonic::Request::new("?".to_owned())).await;
        format!("{} {}", handled(), answer.expect("an answer").into_inner())
    };
    let second = listen(Router::new().route("/", route(ask)).layer(layer(true))).await;
    let next = PropagateLayer::new().layer(hyper());
    let ask = move || async move {
        let answer = next.oneshot(get(&format!("http://{second}"))).await.expect("an answer");
        format!("{} {}", handled(), crate::support::text(answer.map(Body::new)).await)
    };
    // The first service is for clients, who can only lower their requests.
    let first = listen(Router::new().route("/", route(ask)).layer(layer(false))).await;
    let client = hyper();
    for (field, expected) in [
        (None, "4 4 4"),
        (Some("u=7"), "7 7 7"),
        (Some("u=0"), "4 4 4"),
        (Some("u=5, i"), "5 5 5"),
        (None, "4 4 4"),
    ] {
        let mut request = get(&format!("http://{first}"));
        if let Some(field) = field {
            request.headers_mut().insert("priority", field.parse().expect("a header"));
        }
        let answer = soon("the answer", client.request(request)).await.expect("an answer");
        assert_eq!(crate::support::text(answer.map(Body::new)).await, expected, "{field:?}");
    }
}

//~ deadlines: tower: a call with no budget left is not sent
#[tokio::test]
async fn what_is_used_up_on_the_way_is_not_sent_on() {
    let Chain { layers, entrance, second, .. } = chain().await;
    // 100 in the first and 200 in the second: nothing is left for the third.
    let answer = soon("the answer", hyper().request(within(secs(300), &entrance))).await.unwrap();
    assert_eq!(crate::support::text(answer.map(Body::new)).await, format!("{:?}", Code::DeadlineExceeded));
    let served = layers.each_ref().map(|layer| layer.counts().served);
    assert_eq!(served, [1, 1, 0]);
    // The rejection of a tonic server is a gRPC status, that of an axum server an HTTP status.
    let refused = hyper().request(within(secs(0), &second)).await.unwrap();
    assert_eq!(refused.status(), StatusCode::GATEWAY_TIMEOUT);
}

//~ deadlines: tower: refused requests, infeasible by setting or for a full queue, do not reach the handler
#[tokio::test]
async fn a_tonic_server_refuses_what_cannot_make_it_before_its_handler_runs() {
    let manual = ManualClock::default();
    let mut settings = settings(8);
    settings.queue.shedding = Shedding::Infeasible;
    let layer = DeadlineLayer::with_clock(settings, manual.clock());
    let clock = manual.clone();
    let address = grpc::listen(
        &layer,
        grpc::handler_of(move || {
            clock.advance(secs(50));
            "done".to_owned()
        }),
    );
    let mut client = Client::new(address, &PropagateLayer::new());
    let ask = |left_s: u64| {
        let mut request = tonic::Request::new(String::new());
        request.metadata_mut().insert("grpc-timeout", format!("{left_s}S").parse().unwrap());
        request
    };
    for _ in 0..16 {
        assert_eq!(client.ask(ask(1_000)).await.unwrap().into_inner(), "done");
    }
    let refused = client.ask(ask(45)).await.unwrap_err();
    let why = "its remaining budget is less than its expected service time";
    assert_eq!((refused.code(), refused.message()), (Code::DeadlineExceeded, why));
    assert_eq!((layer.counts().served, layer.counts().infeasible), (16, 1));
}

//~ deadlines: tower: a call can opt out; without a budget nothing is added
#[tokio::test]
async fn a_call_can_opt_out_and_peers_without_headers_have_no_deadline() {
    let layer = DeadlineLayer::new(settings(8));
    let handler = grpc::handler_of(|| remaining().is_some().to_string());
    let mut client = Client::new(grpc::listen(&layer, handler), &PropagateLayer::new());
    let budget = Budget::new(secs(900));
    let mut ask = async |opt_out: bool| {
        let mut request = tonic::Request::new(String::new());
        if opt_out {
            request.extensions_mut().insert(deadline::tower::WithoutBudget);
        }
        scope(budget, client.ask(request)).await.unwrap().into_inner()
    };
    assert_eq!((ask(false).await, layer.counts().faults[0]), ("true".to_owned(), 0));
    assert_eq!((ask(true).await, layer.counts().faults[0]), ("false".to_owned(), 1));
    let mut plain = PropagateLayer::new().layer(hyper());
    let app = Router::new().route("/", route(|| async {})).layer(layer.clone());
    let uri = format!("http://{}", listen(app).await);
    assert_eq!(plain.ready().await.unwrap().call(get(&uri)).await.unwrap().status(), StatusCode::OK);
    assert_eq!(layer.counts().faults[0], 2);
}

/// tonic keeps the timeout that the layer writes, and would answer with CANCELLED.
//~ deadlines: tower: a tonic call that runs out of time fails with DEADLINE_EXCEEDED
#[tokio::test(start_paused = true)]
async fn a_tonic_call_without_an_answer_in_time_has_exceeded_its_deadline() {
    let layer = PropagateLayer::new();
    let ten_ms_each_way = service_fn(async |request: Request<Body>| {
        pass(ms(20)).await;
        let mut response = Response::new(());
        let budget = request.headers()[field::HEADER].clone();
        response.headers_mut().insert(field::HEADER, budget);
        Ok::<_, std::io::Error>(response)
    });
    for _ in 0..2 {
        scope(Budget::new(secs(1)), layer.layer(ten_ms_each_way).oneshot(get("/"))).await.unwrap();
    }
    assert_eq!(layer.one_way(""), ms(10));
    tokio::time::resume();
    let never: grpc::Handler = Arc::new(|_| Box::pin(std::future::pending()));
    let server = grpc::listen(&DeadlineLayer::new(settings(1)), never);
    let mut client = Client::new(server, &layer);
    let ask = client.ask(tonic::Request::new(String::new()));
    let status = scope(Budget::new(ms(30)), ask).await.unwrap_err();
    assert_eq!(status.code(), Code::DeadlineExceeded, "{status}");
}

//~ deadlines: tower: each attempt of a retry carries the time left then, with the layer below the retry or on both sides
#[tokio::test]
async fn each_call_of_a_tonic_client_that_retries_carries_what_is_left_then() {
    let manual = ManualClock::default();
    let layer = DeadlineLayer::with_clock(settings(8), manual.clock());
    let (clock, calls) = (manual.clone(), Arc::new(AtomicU64::new(0)));
    let handler: grpc::Handler = Arc::new(move |_| {
        let left = remaining().expect("a budget").left();
        clock.advance(secs(30));
        let is_last = calls.fetch_add(1, Ordering::SeqCst) == 2;
        let answer = if is_last { Ok(left.to_string()) } else { Err(tonic::Status::unavailable("reset")) };
        Box::pin(std::future::ready(answer))
    });
    let mut client = Client::new(grpc::listen(&layer, handler), &PropagateLayer::new());
    let retry = async {
        for _ in 0..2 {
            let failed = client.ask(tonic::Request::new(String::new())).await.unwrap_err();
            assert_eq!(failed.code(), Code::Unavailable);
        }
        client.ask(tonic::Request::new(String::new())).await.unwrap().into_inner()
    };
    let left = scope_at(manual.clock(), Budget::new(secs(1_000)), retry).await;
    assert_eq!(left, secs(940).to_string());
}
