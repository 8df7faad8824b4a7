//! Shared by the tests: servers, requests, a manual clock.

use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{Request, Response};
use deadline::codec::field;
use deadline::tower::{Clock, Settings};
use deadline::{Budget, Limits};
use queueing::{Span, Time};
use tokio::net::TcpListener;

pub fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

pub fn secs(n: u64) -> Span {
    Span::from_secs(n)
}

pub async fn pass(span: Span) {
    tokio::time::sleep(Duration::from(span)).await;
}

/// Settings with concurrency `limit` and trusted peers.
pub fn settings(limit: usize) -> Settings {
    let validation = Limits { trusted: true, ..Limits::default() };
    Settings { limit, validation, ..Settings::default() }
}

/// Clock that only advances on request.
#[derive(Clone, Default)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    pub fn advance(&self, span: Span) {
        self.0.fetch_add(span.as_nanos(), Ordering::SeqCst);
    }

    pub fn clock(&self) -> Clock {
        let now_ns = Arc::clone(&self.0);
        Clock::new(move || Time::from_nanos(now_ns.load(Ordering::SeqCst)))
    }
}

pub fn get(uri: &str) -> Request<Body> {
    Request::get(uri).body(Body::empty()).expect("a request")
}

/// Request with `left` remaining.
pub fn within(left: Span, uri: &str) -> Request<Body> {
    let mut request = get(uri);
    let text = field::write(&Budget::new(left)).parse().expect("a header");
    request.headers_mut().insert(field::HEADER, text);
    request
}

pub async fn text(response: Response<Body>) -> String {
    let bytes = to_bytes(response.into_body(), 1 << 20).await.expect("a body");
    String::from_utf8(bytes.to_vec()).expect("text")
}

/// Budget in a response.
pub fn returned_budget<B>(response: &Response<B>) -> Budget {
    let text = response.headers()[field::HEADER].to_str().expect("text");
    field::parse(text).expect("a budget")
}

/// Serves `router` on loopback.
pub async fn listen(router: Router) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

/// Yields to other tasks until `holds` is true; panics after a minute.
pub async fn until(what: &str, holds: impl Fn() -> bool) {
    let wait = async {
        while !holds() {
            tokio::task::yield_now().await;
        }
    };
    soon(what, wait).await;
}

/// Awaits `future`; panics after a minute.
pub async fn soon<F: Future>(what: &str, future: F) -> F::Output {
    // Timed by a thread, since the runtime's clock may be paused.
    let (gave_up, end) = tokio::sync::oneshot::channel::<()>();
    let (done, waiting) = std::sync::mpsc::channel::<()>();
    std::thread::spawn(move || {
        if waiting.recv_timeout(Duration::from_secs(60)) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
            let _ = gave_up.send(());
        }
    });
    let mut future = std::pin::pin!(future);
    let mut end = std::pin::pin!(end);
    let output = std::future::poll_fn(|cx| {
        if let std::task::Poll::Ready(Ok(())) = end.as_mut().poll(cx) {
            panic!("{what} did not happen within a minute");
        }
        future.as_mut().poll(cx)
    })
    .await;
    drop(done);
    output
}
