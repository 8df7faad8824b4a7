//! Three axum services in a row; the last is slow and serves one request at a time.
//!
//! Five clients send at once, the longest timeout first. Requests are served by time left;
//! those whose time runs out in the queue are rejected.

use std::time::{Duration, Instant};

use axum::{Router, body::Body, http::Request, http::Response, routing::get};
use deadline::Limits;
use deadline::tower::{DeadlineLayer, PropagateLayer, Settings, remaining};
use hyper_util::client::legacy::{Client, connect::HttpConnector};
use hyper_util::rt::TokioExecutor;
use queueing::Span;
use tower::{Layer, ServiceExt};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn client() -> Client<HttpConnector, Body> {
    Client::builder(TokioExecutor::new()).build_http()
}

async fn listen(router: Router) -> Result<String, Failure> {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, router).await });
    Ok(format!("http://{address}/"))
}

/// Half a second of work, or a cheaper answer if less time is left.
async fn search() -> String {
    let left = remaining().map_or(0.0, |left| left.left().as_secs_f64());
    let (answer, takes_ms) = if left > 0.6 { ("exact", 500) } else { ("rough", 100) };
    tokio::time::sleep(Duration::from_millis(takes_ms)).await;
    format!("{answer}, started with {:.0} ms left", left * 1e3)
}

/// Service that calls `next` with the remaining budget.
fn asks(next: String) -> Router {
    let to_next = PropagateLayer::new().layer(client());
    let ask = move || async move {
        let request = Request::get(next).body(Body::empty()).expect("an address");
        match to_next.oneshot(request).await {
            Ok(answer) => answer.map(Body::new),
            Err(late) => Response::new(Body::from(late.to_string())),
        }
    };
    Router::new().route("/", get(ask))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Failure> {
    let validation = Limits { trusted: true, ..Limits::default() };
    let queue =
        deadline::QueueSettings { age_max: Span::from_secs(10), ..deadline::QueueSettings::default() };
    let one = DeadlineLayer::new(Settings { limit: 1, queue, validation, ..Settings::default() });
    let back = listen(Router::new().route("/", get(search)).layer(one)).await?;

    let many = || DeadlineLayer::new(Settings { validation, ..Settings::default() });
    let middle = listen(asks(back).layer(many())).await?;
    let front = listen(asks(middle).layer(many())).await?;

    let began = Instant::now();
    let mut users = tokio::task::JoinSet::new();
    for timeout_ms in [3_000, 2_000, 1_000, 700, 300] {
        let request = Request::get(&front).header("x-envoy-expected-rq-timeout-ms", timeout_ms);
        let request = request.body(Body::empty())?;
        users.spawn(async move { (timeout_ms, client().request(request).await) });
    }
    while let Some(user) = users.join_next().await {
        let (timeout_ms, answer) = user?;
        let answer = answer?.map(Body::new);
        let (status, after) = (answer.status(), began.elapsed().as_millis());
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 16).await?;
        let text = String::from_utf8_lossy(&bytes);
        println!("{timeout_ms:>5} ms: {status} after {after:>4} ms: {}", text.trim_end());
    }
    Ok(())
}
