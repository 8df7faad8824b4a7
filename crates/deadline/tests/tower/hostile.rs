//! Malformed, oversized and excessive budgets from peers.

//~ deadlines: tower: oversized, invalid, zero and yearlong budgets are handled and counted

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::routing::get as route;
use deadline::codec::{envoy, field, grpc};
use deadline::tower::{DeadlineLayer, PropagateLayer, Settings, parts, priority, remaining};
use deadline::{InvalidBudget, Limits};
use queueing::Span;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tower::{Layer, ServiceExt};

use crate::grpc::{Client, handler_of, listen as listen_grpc};
use crate::support::{get, listen, ms, secs, soon, text};

/// Server that returns a request's remaining time, or `none`.
fn app(layer: &DeadlineLayer) -> Router {
    let handler =
        || async { remaining().map_or("none".to_owned(), |remaining| remaining.left().to_string()) };
    Router::new().route("/", route(handler)).layer(layer.clone())
}

/// Status and granted time of a request with these headers.
async fn granted(layer: &DeadlineLayer, headers: &[(&'static str, &[u8])]) -> (StatusCode, String) {
    let mut request = get("/");
    for (name, value) in headers {
        request.headers_mut().append(*name, axum::http::HeaderValue::from_bytes(value).unwrap());
    }
    let answer = app(layer).oneshot(request).await.unwrap();
    (answer.status(), text(answer).await)
}

#[tokio::test(start_paused = true)]
async fn the_server_limits_budgets_of_peers() {
    let layer = DeadlineLayer::new(Settings::default());
    let default = (StatusCode::OK, "none".to_owned());
    let left = |left: Span| (StatusCode::OK, left.to_string());
    let million = vec![b'x'; 1 << 20];
    assert_eq!(granted(&layer, &[]).await, default);
    assert_eq!(granted(&layer, &[(field::HEADER, &million)]).await, default);
    assert_eq!(granted(&layer, &[(field::HEADER, b"\xff\xfe")]).await, default);
    assert_eq!(granted(&layer, &[(grpc::HEADER, b"-5m")]).await, default);
    assert_eq!(granted(&layer, &[(envoy::HEADER, b"31536000000")]).await, left(secs(3_600)), "a year");
    assert_eq!(granted(&layer, &[(grpc::HEADER, b"10S")]).await, left(secs(10)));
    assert_eq!(granted(&layer, &[(grpc::HEADER, b"10m")]).await, left(ms(10)));
    let shortest: [(_, &[u8]); 2] = [(grpc::HEADER, b"20m"), (envoy::HEADER, b"15")];
    assert_eq!(granted(&layer, &shortest).await, left(ms(15)));
    let repeated: [(_, &[u8]); 3] = [(grpc::HEADER, b"20m"), (grpc::HEADER, b"15m"), (grpc::HEADER, b"soon")];
    assert_eq!(granted(&layer, &repeated).await, left(ms(15)));
    assert_eq!(granted(&layer, &[(envoy::HEADER, b"0")]).await, default, "no timeout to Envoy");
    let (status, why) = granted(&layer, &[(grpc::HEADER, b"0m")]).await;
    assert_eq!((status, &*why), (StatusCode::GATEWAY_TIMEOUT, "its deadline has passed\n"));
    let counts = layer.counts();
    let of = |fault: InvalidBudget| counts.faults[fault as usize];
    assert_eq!(InvalidBudget::ALL.map(of), [2, 3, 1, 0]);
    assert_eq!((counts.shortened, counts.expired, counts.served), (1, 1, 10));
}

//~ deadlines: an untrusted peer that claims an hour spent raises neither the priority nor the parallelism of its request
#[tokio::test(start_paused = true)]
async fn the_past_of_a_request_counts_only_from_trusted_peers() {
    for (trusted, expected) in [(false, "7 of 7, 1 of 8"), (true, "0 of 7, 7 of 8")] {
        let handler = || async { format!("{} of 7, {} of 8", priority().level(), parts(8)) };
        let validation = Limits { trusted, ..Limits::default() };
        let layer = DeadlineLayer::new(Settings { validation, ..Settings::default() });
        let app = Router::new().route("/", route(handler)).layer(layer);
        let mut request = get("/");
        let past = axum::http::HeaderValue::from_static("expected=3600000000, remaining=500");
        request.headers_mut().insert(field::HEADER, past);
        assert_eq!(text(app.oneshot(request).await.unwrap()).await, expected, "trusted: {trusted}");
    }
}

//~ deadlines: tower: a call made for an untrusted peer carries the time left and no past; the peer gets its own back
#[tokio::test(start_paused = true)]
async fn an_untrusted_past_travels_back_and_not_on() {
    for (trusted, expected) in [(false, 100_000), (true, 3_600_000_000)] {
        let handler = || async {
            let client = PropagateLayer::new().layer(tower::service_fn(
                |call: axum::http::Request<Body>| async move {
                    let field = call.headers()[field::HEADER].to_str().expect("a text").to_owned();
                    Ok::<_, std::io::Error>(axum::http::Response::new(field))
                },
            ));
            client.oneshot(get("/")).await.expect("an answer").into_body()
        };
        let validation = Limits { trusted, ..Limits::default() };
        let layer = DeadlineLayer::new(Settings { validation, ..Settings::default() });
        let app = Router::new().route("/", route(handler)).layer(layer);
        let mut request = get("/");
        let past = "expected=3600000000, remaining=100000, spent=(1 2 3)";
        request.headers_mut().insert(field::HEADER, axum::http::HeaderValue::from_static(past));
        let response = app.oneshot(request).await.unwrap();
        let back = crate::support::returned_budget(&response);
        assert_eq!((back.stages().len(), back.expected()), (2, Span::from_secs(3_600)), "with its past");
        let on = field::parse(&text(response).await).expect("a budget");
        assert_eq!(
            (on.expected(), on.remaining().left()),
            (Span::from_micros(expected), ms(100)),
            "{trusted}"
        );
        assert_eq!(on.stages().len(), if trusted { 2 } else { 1 });
    }
}

#[tokio::test]
async fn a_megabyte_of_header_is_refused_by_hyper_before_the_layer_sees_it() {
    let layer = DeadlineLayer::new(Settings::default());
    let mut peer = TcpStream::connect(listen(app(&layer)).await).await.unwrap();
    let (mut answers, mut requests) = peer.split();
    let mut answer = Vec::new();
    let garbage = "x".repeat(1 << 20);
    let request = format!("GET / HTTP/1.1\r\nhost: peer\r\n{}: {garbage}\r\n\r\n", field::HEADER);
    let (_, read) = soon("the exchange", async {
        // Either may fail after the server has closed the connection.
        tokio::join!(requests.write_all(request.as_bytes()), answers.read_to_end(&mut answer))
    })
    .await;
    if read.is_ok() || !answer.is_empty() {
        assert!(answer.starts_with(b"HTTP/1.1 431 "), "{:?}", String::from_utf8_lossy(&answer));
    }
    assert_eq!(layer.counts(), deadline::tower::LimitCounts::default());
    let next = crate::chain::hyper().request(get(&format!("http://{}", listen(app(&layer)).await))).await;
    assert_eq!(text(next.unwrap().map(Body::new)).await.split(' ').next().map(str::is_empty), Some(false));
}

#[tokio::test]
async fn a_megabyte_of_metadata_fails_the_call_and_not_the_server() {
    let layer = DeadlineLayer::new(Settings::default());
    let address = listen_grpc(&layer, handler_of(|| "here".to_owned()));
    let mut client = Client::new(address, &PropagateLayer::new());
    let mut request = tonic::Request::new(String::new());
    request.metadata_mut().insert(field::HEADER, "x".repeat(1 << 20).parse().unwrap());
    let refused = soon("the refusal", client.ask(request)).await;
    assert!(refused.is_err(), "{refused:?}");
    assert_eq!(layer.counts().served, 0);
    let mut other = Client::new(address, &PropagateLayer::new());
    let answer = soon("an answer", other.ask(tonic::Request::new(String::new()))).await;
    assert_eq!(answer.unwrap().into_inner(), "here");
}
