//! Every cause at every end: status, field, counter and log of the server's and the client's layer.

use std::fmt;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, Response, StatusCode};
use axum::routing::any;
use deadline::tower::{
    DeadlineLayer, OutOfTime, PropagateLayer, RejectResponse, Rejection, Settings, Text, error_cause,
    response_cause, scope,
};
use deadline::{Budget, Cause, Outcome, Shedding};
use tower::{Layer, ServiceExt, service_fn};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::grpc::{self, Client};
use crate::support::{get, ms, pass, secs, settings, text, until, within};

/// Events of the layers on this thread: level and fields.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.0 += &format!(" {}={value:?}", field.name());
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "greenwave::deadline"
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(event.metadata().level().to_string());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Handler whose call through `client` hangs, fails, or is refused by the called service, as the path asks.
async fn call_on(client: PropagateLayer, request: Request<Body>) -> Response<Body> {
    let peer = service_fn(|request: Request<Body>| async move {
        match request.uri().path() {
            "/hangs" => std::future::pending().await,
            "/fails" => Err(std::io::Error::other("connection reset")),
            _ => Ok(Text.respond(Rejection::new(Cause::Infeasible, &HeaderMap::new()))),
        }
    });
    let path = request.uri().path().to_owned();
    match client.layer(peer).oneshot(get(&format!("http://peer{path}"))).await {
        Ok(response) => response,
        Err(error) => Text.respond(Rejection::new(error_cause(&*error), request.headers())),
    }
}

/// Response for which the layer has `cause`, to a request with `content_type`, and the layer.
async fn ended_with(cause: Cause, content_type: &str) -> (Response<Body>, DeadlineLayer) {
    let mut settings = Settings { abort_late: cause == Cause::Aborted, ..settings(1) };
    settings.queue.capacity = 1;
    if cause == Cause::Infeasible {
        settings.queue.shedding = Shedding::Infeasible;
    }
    let layer = DeadlineLayer::new(settings);
    let handler = |request: Request<Body>| async move {
        match request.uri().path() {
            "/" => pass(ms(100)).await,
            _ => return call_on(PropagateLayer::new(), request).await,
        }
        Response::new(Body::empty())
    };
    let app = Router::new().fallback(any(handler)).layer(layer.clone());
    let send = |left, path: &str| {
        let mut request = within(left, path);
        request.headers_mut().insert("content-type", content_type.parse().unwrap());
        app.clone().oneshot(request)
    };
    let response = match cause {
        Cause::Expired => send(ms(0), "/").await,
        Cause::Infeasible => {
            for _ in 0..16 {
                send(secs(1), "/").await.unwrap();
            }
            send(ms(90), "/").await
        }
        Cause::QueueFull => {
            let (serves, waits) = (tokio::spawn(send(secs(9), "/")), tokio::spawn(send(secs(9), "/")));
            until("one waits", || layer.counts().waiting == 1).await;
            let full = send(secs(9), "/").await;
            serves.await.unwrap().unwrap();
            waits.await.unwrap().unwrap();
            full
        }
        Cause::Aborted => send(ms(50), "/").await,
        Cause::UpstreamTimeout => send(ms(50), "/hangs").await,
        Cause::UpstreamFailed => send(ms(50), "/fails").await,
    };
    (response.unwrap(), layer)
}

/// Log lines that tell `cause`.
fn lines_with(lines: &[String], cause: Cause) -> usize {
    lines.iter().filter(|line| line.contains(&format!("cause=\"{}\"", cause.name()))).count()
}

//~ deadlines: tower: every cause has its status, field, counter and log event at debug, for HTTP and gRPC
#[tokio::test(start_paused = true)]
async fn a_server_tells_every_cause() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    for cause in Cause::ALL {
        for content_type in ["text/plain", "application/grpc"] {
            let (response, layer) = ended_with(cause, content_type).await;
            let lines = log.take();
            for other in Cause::ALL {
                assert_eq!(
                    layer.counts().ended_with(other),
                    u64::from(other == cause),
                    "{cause:?} {other:?}"
                );
                let rows = layer.outcomes();
                let per_method: u64 = rows.iter().map(|(_, row)| row.count(Outcome::Failed(other))).sum();
                assert_eq!(per_method, u64::from(other == cause), "{cause:?} {other:?}");
                let expected =
                    match (other == cause, matches!(cause, Cause::UpstreamTimeout | Cause::UpstreamFailed)) {
                        (false, _) => 0,
                        (true, false) => 1,
                        (true, true) => 2, // the call and the request
                    };
                assert_eq!(lines_with(&lines, other), expected, "{cause:?} {other:?} {lines:?}");
            }
            assert!(lines.iter().all(|line| line.starts_with(Level::DEBUG.as_str())), "{lines:?}");
            let of_request = lines.last().expect("an event");
            assert!(of_request.contains(" method=\"/") && of_request.contains(" left_us="), "{of_request}");
            assert_eq!(response_cause(&response), Some(cause));
            assert_eq!(response.headers()[Cause::HEADER], cause.name());
            match content_type {
                "text/plain" => {
                    assert_eq!(response.status().as_u16(), cause.http_status());
                    assert_eq!(text(response).await, format!("{cause}\n"));
                }
                _ => {
                    assert_eq!(response.status(), StatusCode::OK);
                    assert_eq!(response.headers()["grpc-status"], cause.grpc_code().to_string());
                    assert_eq!(response.headers()["grpc-message"], cause.to_string());
                }
            }
        }
    }
}

/// Result of a call through `layer` with 50 ms left, to a peer that answers with `response`; `None` hangs.
async fn called(layer: &PropagateLayer, response: Option<Response<Body>>) -> Result<Cause, Cause> {
    let response = Mutex::new(Some(response));
    let peer = service_fn(move |_: Request<Body>| {
        let response = response.lock().unwrap().take().expect("one call");
        async move {
            match response {
                Some(response) if response.headers().contains_key("x-reset") => {
                    Err(std::io::Error::other("reset"))
                }
                Some(response) => Ok(response),
                None => std::future::pending().await,
            }
        }
    });
    let call = layer.layer(peer).oneshot(get("http://peer/"));
    match scope(Budget::new(ms(50)), call).await {
        Ok(response) => Ok(response_cause(&response).expect("a cause")),
        Err(error) => Err(error_cause(&*error)),
    }
}

//~ deadlines: tower: a client tells a refusal by deadline from a failed service, by field, status and error
#[tokio::test(start_paused = true)]
async fn a_client_tells_every_cause() {
    let log = Log::default();
    let _guard = tracing::subscriber::set_default(log.clone());
    let layer = PropagateLayer::new();
    let headers = |grpc: bool| {
        let mut headers = HeaderMap::new();
        if grpc {
            headers.insert("content-type", "application/grpc".parse().unwrap());
        }
        headers
    };
    for (sent, cause) in (1..).zip(Cause::ALL) {
        for grpc in [false, true] {
            let response = Text.respond(Rejection::new(cause, &headers(grpc)));
            assert_eq!(called(&layer, Some(response)).await, Ok(cause));
        }
        assert_eq!((layer.failures(cause), log.take().len()), (2, 2), "{sent}");
    }
    // Peers that know no causes.
    for (status, cause) in [(503, Cause::UpstreamFailed), (504, Cause::UpstreamTimeout)] {
        let response = Response::builder().status(status).body(Body::empty()).unwrap();
        assert_eq!(called(&layer, Some(response)).await, Ok(cause));
    }
    let reset = Response::builder().header("x-reset", "1").body(Body::empty()).unwrap();
    assert_eq!(called(&layer, Some(reset)).await, Err(Cause::UpstreamFailed));
    assert_eq!(called(&layer, None).await, Err(Cause::UpstreamTimeout));
    let failures = Cause::ALL.map(|cause| layer.failures(cause));
    assert_eq!(failures, [2, 2, 2, 2, 4, 4]);

    // Refused before it is sent.
    let unreached =
        service_fn(|_: Request<Body>| async { Err::<Response<Body>, _>(std::io::Error::other("sent")) });
    let error = scope(Budget::new(ms(0)), layer.layer(unreached).oneshot(get("/"))).await.unwrap_err();
    assert_eq!((error_cause(&*error), layer.failures(Cause::Expired)), (Cause::Expired, 3));
    assert_eq!(
        OutOfTime { sent: false, left: ms(1) }.cause(),
        Cause::Infeasible,
        "less than the network takes"
    );

    // An answer is no failure, and neither is a field that is not readable.
    let answer = Response::builder().header(Cause::HEADER, "late").body(Body::empty()).unwrap();
    assert_eq!(response_cause(&answer), None);
    let twice = Response::builder().header(Cause::HEADER, "expired").header(Cause::HEADER, "expired");
    assert_eq!(response_cause(&twice.body(Body::empty()).unwrap()), None);
}

//~ deadlines: tower: a refusal by a called service that a handler passes on counts as a failed service
#[tokio::test(start_paused = true)]
async fn a_refusal_that_is_passed_on_is_anothers() {
    let layer = DeadlineLayer::new(settings(1));
    let handler = |request| call_on(PropagateLayer::new(), request);
    let app = Router::new().fallback(any(handler)).layer(layer.clone());
    let response = app.oneshot(within(secs(1), "/refuses")).await.unwrap();
    assert_eq!(response_cause(&response), Some(Cause::Infeasible), "the words of the service that refused");
    let counts = layer.counts();
    assert_eq!((counts.upstream_failed, counts.infeasible, counts.served), (1, 0, 1));
}

//~ deadlines: tower: every cause has its status, field, counter and log event at debug, for HTTP and gRPC
#[tokio::test(start_paused = true)]
async fn a_tonic_client_reads_the_cause_of_a_tonic_server() {
    let mut settings = Settings { abort_late: true, ..settings(1) };
    settings.queue.capacity = 1;
    let layer = DeadlineLayer::new(settings);
    let handler: grpc::Handler = Arc::new(|what| {
        Box::pin(async move {
            if what == "waits" {
                pass(secs(2)).await;
            }
            Ok(what)
        })
    });
    let address = grpc::listen(&layer, handler);
    let ask = |left, what: &str| {
        // An advisory client leaves the deadline to the server.
        let mut client = Client::new(address, &PropagateLayer::new().advisory());
        let request = tonic::Request::new(what.to_owned());
        tokio::spawn(scope(Budget::new(left), async move { client.ask(request).await }))
    };
    let check = |status: tonic::Status, cause: Cause| {
        assert_eq!(status.metadata().get(Cause::HEADER).expect("a cause"), cause.name());
        assert_eq!(i32::from(status.code()), i32::from(cause.grpc_code()));
    };
    check(ask(ms(0), "answers").await.unwrap().unwrap_err(), Cause::Expired);
    check(ask(ms(100), "waits").await.unwrap().unwrap_err(), Cause::Aborted);
    let (serves, waits) = (ask(secs(9), "waits"), ask(secs(9), "waits"));
    until("one waits", || layer.counts().waiting == 1).await;
    check(ask(secs(9), "waits").await.unwrap().unwrap_err(), Cause::QueueFull);
    for answer in [serves, waits] {
        assert_eq!(answer.await.unwrap().unwrap().into_inner(), "waits");
    }
    let counts = layer.counts();
    assert_eq!((counts.expired, counts.aborted, counts.full), (1, 1, 1));
}
