//! Client layer: headers, timeouts, network-delay estimates.

//~ deadlines: tower: calls carry the remaining budget less the learned network delay

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, Response};
use axum::routing::get as route;
use deadline::Budget;
use deadline::codec::{envoy, field, grpc};
use deadline::tower::{DeadlineLayer, OutOfTime, PropagateLayer, WithoutBudget, scope};
use queueing::Span;
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{get, ms, pass, settings};

/// Headers received by the peer for `request`, sent with `left` remaining.
async fn sent(left: Option<Span>, request: Request<Body>) -> HeaderMap {
    sent_by(&PropagateLayer::new(), left, request).await
}

async fn sent_by(layer: &PropagateLayer, left: Option<Span>, request: Request<Body>) -> HeaderMap {
    let arrived = Arc::new(Mutex::new(HeaderMap::new()));
    let seen = Arc::clone(&arrived);
    let peer = service_fn(move |request: Request<Body>| {
        *seen.lock().unwrap() = request.headers().clone();
        async { Ok::<_, std::io::Error>(Response::new(())) }
    });
    let call = layer.layer(peer).oneshot(request);
    match left {
        Some(left) => scope(Budget::new(left), call).await.unwrap(),
        None => call.await.unwrap(),
    };
    arrived.lock().unwrap().clone()
}

fn call(own_timeout: Option<&str>) -> Request<Body> {
    let mut request = get("http://peer/");
    request.headers_mut().insert("content-type", "application/grpc".parse().unwrap());
    if let Some(own) = own_timeout {
        request.headers_mut().insert(grpc::HEADER, own.parse().unwrap());
    }
    request
}

#[tokio::test(start_paused = true)]
async fn requests_carry_the_remaining_budget() {
    let headers = sent(Some(ms(80)), get("http://peer/")).await;
    let budget = field::parse(headers[field::HEADER].to_str().unwrap()).unwrap();
    assert_eq!((budget.remaining().left(), headers.len()), (ms(80), 1), "and no gRPC header");

    assert_eq!(sent(Some(ms(80)), call(None)).await[grpc::HEADER], "80000000n");
    assert_eq!(sent(Some(ms(80)), call(Some("1S"))).await[grpc::HEADER], "80000000n");
    assert_eq!(sent(Some(ms(80)), call(Some("5m"))).await[grpc::HEADER], "5m", "the caller's own, shorter");
}

//~ deadlines: tower: Envoy's timeout header is written on request and never exceeds what was received
#[tokio::test(start_paused = true)]
async fn the_envoy_header_is_written_on_request_and_never_lengthened() {
    let layer = PropagateLayer::new().for_envoy();
    let written = async |left, own: Option<&str>| {
        let mut request = get("http://peer/");
        if let Some(own) = own {
            request.headers_mut().insert(envoy::HEADER, own.parse().unwrap());
        }
        sent_by(&layer, Some(left), request).await[envoy::HEADER].to_str().unwrap().to_owned()
    };
    assert_eq!(written(ms(80), None).await, "80");
    assert_eq!(written(ms(80), Some("900")).await, "80", "the received value is counted down");
    assert_eq!(written(ms(80), Some("20")).await, "20");
    assert_eq!(written(ms(80), Some("soon")).await, "80");
    assert_eq!(written(Span::from_micros(300), None).await, "1", "0 would be no timeout");
    assert!(!sent(Some(ms(80)), get("http://peer/")).await.contains_key(envoy::HEADER), "only when asked");
}

//~ deadlines: tower: an advisory budget is sent and holds back no call
#[tokio::test(start_paused = true)]
async fn advice_is_sent_and_holds_no_call_back() {
    let layer = PropagateLayer::new().advisory();
    let headers = sent_by(&layer, Some(ms(0)), call(None)).await;
    let budget = field::parse(headers[field::HEADER].to_str().unwrap()).unwrap();
    assert!(budget.remaining().is_missed());
    assert!(!headers.contains_key(grpc::HEADER), "peers would abort the call");

    let slow = service_fn(async |_: Request<Body>| {
        pass(ms(500)).await;
        Ok::<_, std::io::Error>(Response::new(()))
    });
    assert!(scope(Budget::new(ms(70)), layer.layer(slow).oneshot(get("http://peer/"))).await.is_ok());
}

//~ deadlines: tower: a call can opt out; without a budget nothing is added
#[tokio::test(start_paused = true)]
async fn nothing_is_added_without_a_budget_or_when_the_call_opts_out() {
    assert_eq!(sent(None, get("http://peer/")).await, HeaderMap::new());
    let mut request = get("http://peer/");
    request.extensions_mut().insert(WithoutBudget);
    assert_eq!(sent(Some(ms(80)), request).await, HeaderMap::new());
}

#[tokio::test(start_paused = true)]
async fn a_request_without_time_left_is_not_sent_and_one_that_runs_out_fails() {
    let silent =
        service_fn(|_: Request<Body>| std::future::pending::<Result<Response<()>, std::io::Error>>());
    let client = PropagateLayer::new().layer(silent);
    let late = scope(Budget::new(ms(0)), client.clone().oneshot(get("http://peer/"))).await.unwrap_err();
    assert_eq!(late.downcast_ref(), Some(&OutOfTime { sent: false, left: ms(0) }));
    let late = scope(Budget::new(ms(70)), client.oneshot(get("http://peer/"))).await.unwrap_err();
    assert_eq!(late.downcast_ref(), Some(&OutOfTime { sent: true, left: ms(70) }));
    assert_eq!(late.to_string(), "no response within the remaining 70.0 ms");
}

#[tokio::test(start_paused = true)]
async fn the_way_to_a_peer_is_learned_from_its_answers_and_taken_off() {
    // 10 ms to the peer, 20 at the peer, 10 back.
    let app =
        Router::new().route("/", route(async || pass(ms(20)).await)).layer(DeadlineLayer::new(settings(1)));
    let arrived = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&arrived);
    let far = service_fn(move |request: Request<Body>| {
        let budget = field::parse(request.headers()[field::HEADER].to_str().unwrap()).unwrap();
        seen.lock().unwrap().push(budget.remaining().left());
        let app = app.clone();
        async move {
            pass(ms(10)).await;
            let answer = app.oneshot(request).await;
            pass(ms(10)).await;
            answer
        }
    });
    let layer = PropagateLayer::new();
    let client = layer.layer(far);
    assert_eq!(layer.one_way("peer:80"), ms(0));
    let ask = |left| scope(Budget::new(left), client.clone().oneshot(get("http://peer:80/")));
    for _ in 0..3 {
        assert!(ask(ms(100)).await.unwrap().status().is_success());
    }
    assert_eq!((layer.one_way("peer:80"), layer.one_way("other:80")), (ms(10), ms(0)));
    let hundred = ms(100);
    assert_eq!(
        *arrived.lock().unwrap(),
        [hundred, hundred, ms(90)],
        "the first call includes connection setup"
    );
    let late = ask(ms(10)).await.unwrap_err();
    assert_eq!(
        late.downcast_ref(),
        Some(&OutOfTime { sent: false, left: ms(10) }),
        "it would miss its deadline on the way"
    );
    for _ in 2..64 {
        ask(ms(10)).await.unwrap_err();
    }
    assert_eq!(arrived.lock().unwrap().len(), 3, "none is sent");
    let _ = ask(ms(10)).await;
    assert_eq!(arrived.lock().unwrap()[3..], [ms(10)], "no estimate blocks a peer forever");
}

/// Retry in the manner of tower's: the request is cloned for each attempt.
async fn attempts<S>(client: S, path: &str)
where
    S: tower::Service<Request<Body>> + Clone,
{
    for _ in 0..3 {
        let mut request = call(None);
        *request.uri_mut() = path.parse().unwrap();
        let _ = client.clone().oneshot(request).await;
    }
}

//~ deadlines: tower: each attempt of a retry carries the time left then, with the layer below the retry or on both sides
#[tokio::test(start_paused = true)]
async fn each_attempt_of_a_retry_carries_what_is_left_then() {
    let arrived: Arc<Mutex<Vec<[Span; 2]>>> = Arc::default();
    let seen = Arc::clone(&arrived);
    let failing = service_fn(move |request: Request<Body>| {
        let text = |name: &str| request.headers()[name].to_str().unwrap();
        let budget = field::parse(text(field::HEADER)).unwrap();
        let timeout = grpc::parse(text(grpc::HEADER)).unwrap();
        seen.lock().unwrap().push([budget.remaining().left(), timeout]);
        async {
            pass(ms(30)).await;
            Err::<Response<()>, _>(std::io::Error::other("reset"))
        }
    });
    let layer = PropagateLayer::new();
    let below = layer.layer(failing);
    scope(Budget::new(ms(100)), attempts(below.clone(), "http://peer/")).await;
    let expected = [[ms(100); 2], [ms(70); 2], [ms(40); 2]];
    assert_eq!(std::mem::take(&mut *arrived.lock().unwrap()), expected, "below the retry");

    let retry = service_fn(move |request: Request<Body>| {
        let below = below.clone();
        async move {
            for _ in 0..3 {
                // The headers that the layer above has written come along with each attempt.
                let mut attempt = Request::new(Body::empty());
                *attempt.uri_mut() = request.uri().clone();
                *attempt.headers_mut() = request.headers().clone();
                let _ = below.clone().oneshot(attempt).await;
            }
            Ok::<_, std::io::Error>(Response::new(()))
        }
    });
    scope(Budget::new(ms(100)), layer.layer(retry).oneshot(call(None))).await.unwrap();
    assert_eq!(*arrived.lock().unwrap(), expected, "above and below");
}

//~ deadlines: tower: after an episode of slow retries healthy calls are sent: at once, or within a second if it outlasts the window
#[tokio::test(start_paused = true)]
async fn an_episode_of_slow_retries_refuses_no_healthy_calls() {
    for (episode_s, refused) in [(20, 0), (90, 63)] {
        let app = Router::new().route("/", route(async || pass(ms(5)).await));
        let app = app.layer(DeadlineLayer::new(settings(1)));
        let retries = Arc::new(Mutex::new(Span::ZERO));
        let lasts = Arc::clone(&retries);
        let far = service_fn(move |request: Request<Body>| {
            let (app, retries) = (app.clone(), *lasts.lock().unwrap());
            async move {
                pass(ms(10) + retries).await;
                let answer = app.oneshot(request).await;
                pass(ms(10)).await;
                answer
            }
        });
        let layer = PropagateLayer::new();
        let client = layer.layer(far);
        let ask = |left| scope(Budget::new(left), client.clone().oneshot(get("http://peer/")));
        for _ in 0..20 {
            ask(ms(2_000)).await.unwrap();
        }
        *retries.lock().unwrap() = ms(300);
        let start = tokio::time::Instant::now();
        while start.elapsed().as_secs() < episode_s {
            ask(ms(2_000)).await.unwrap();
        }
        *retries.lock().unwrap() = Span::ZERO;
        let mut failed = 0;
        for _ in 0..100 {
            failed += u32::from(ask(ms(60)).await.is_err());
            pass(ms(10)).await;
        }
        assert_eq!(failed, refused, "{episode_s} s");
        assert_eq!(layer.one_way("peer"), ms(10));
    }
}
