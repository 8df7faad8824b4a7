//! hyper's runtime traits for tasks (sockets, executor, timer), and a server for axum, tonic and
//! other tower services.
//!
//! `axum::serve` and tonic's `serve` spawn each connection with `tokio::spawn`, which has no
//! priorities. [`serve`] takes the same services and spawns connections and HTTP/2 streams as
//! tasks.

use std::convert::Infallible;
use std::error::Error;
use std::future::Future;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use ::hyper::body::Incoming;
use ::hyper::rt::{Executor, Read, ReadBufCursor, Sleep as HyperSleep, Timer, Write};
use deadline::{BudgetHeader, ReceivedBudget};
use http::{HeaderValue, Request, Response};
use http_body::Body;
use hyper_util::server::conn::auto::Builder;
use hyper_util::service::TowerToHyperService;
use queueing::{Label, Span, Time};
use tower_service::Service;

use super::{Handle, Sleep, TcpListener, TcpStream, label, set_label, spawn};

/// Serves `service` on `listener` by HTTP/1.1 or HTTP/2, whichever the client uses; an axum `Router` and
/// tonic's `Routes` are services. A request's handler runs with the label of the request's bytes;
/// with HTTP/2, with the label of its stream's headers. The label's deadline is that of the
/// request's budget fields (crate `deadline`), which orders the tasks of HTTP/2 streams under `edf`
/// and `strict-edf`. An error on one connection closes only that connection.
///
/// # Panics
/// If called outside a task.
pub async fn serve<S, B>(listener: TcpListener, service: S) -> Infallible
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    serve_each(listener, move |_| service.clone()).await
}

/// As [`serve`], with one service per connection, made by `service`, so that handlers can refer to
/// their connection. With axum: `|stream| app.clone().layer(Extension(stream.flow()))`.
///
/// # Panics
/// If called outside a task.
pub async fn serve_each<S, B>(
    mut listener: TcpListener,
    mut service: impl FnMut(&TcpStream) -> S,
) -> Infallible
where
    S: Service<Request<Incoming>, Response = Response<B>> + Clone + Send + 'static,
    S::Future: Send + 'static,
    S::Error: Into<Box<dyn Error + Send + Sync>>,
    B: Body + Send + 'static,
    B::Data: Send,
    B::Error: Into<Box<dyn Error + Send + Sync>>,
{
    let timer = TaskTimer::new(Handle::current());
    let mut builder = Builder::new(TaskExecutor);
    builder.http1().timer(timer.clone());
    builder.http2().timer(timer);
    loop {
        let (stream, _) = listener.accept().await;
        let (builder, service) = (builder.clone(), TowerToHyperService::new(Labelled(service(&stream))));
        spawn(async move { builder.serve_connection_with_upgrades(stream, service).await.is_ok() });
    }
}

/// Service whose requests give the current task's label their deadline, or none.
#[derive(Clone)]
struct Labelled<S>(S);

impl<S: Service<Request<Incoming>>> Service<Request<Incoming>> for Labelled<S> {
    type Response = S::Response;
    type Error = S::Error;
    type Future = S::Future;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, request: Request<Incoming>) -> S::Future {
        let lines =
            |header: BudgetHeader| request.headers().get_all(header.name()).iter().map(HeaderValue::as_bytes);
        let (before, deadline) = (label(), ReceivedBudget::read(lines).time_left());
        if deadline.is_some() || before.deadline.is_some() {
            set_label(Label { deadline, ..before });
        }
        self.0.call(request)
    }
}

/// Executor that runs hyper's futures as tasks.
#[derive(Clone, Copy, Debug, Default)]
pub struct TaskExecutor;

/// # Panics
/// If used outside a task.
impl<F> Executor<F> for TaskExecutor
where
    F: Future + Send + 'static,
    F::Output: Send + 'static,
{
    fn execute(&self, future: F) {
        spawn(future);
    }
}

/// Timer for hyper. Its instants are the shard's time since the timer's creation; it reads the
/// clock only once, then.
#[derive(Clone)]
pub struct TaskTimer {
    handle: Handle,
    made: (Instant, Time),
}

impl TaskTimer {
    /// A timer of the shard of `handle`.
    #[must_use]
    pub fn new(handle: Handle) -> Self {
        let made = (Instant::now(), handle.now());
        Self { handle, made }
    }
}

impl Timer for TaskTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn HyperSleep>> {
        Box::pin(self.handle.sleep(span(duration)))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn HyperSleep>> {
        let (name, time) = self.made;
        Box::pin(self.handle.sleep_until(time + span(deadline.saturating_duration_since(name))))
    }

    fn now(&self) -> Instant {
        let (name, time) = self.made;
        name + Duration::from(self.handle.now().since(time))
    }
}

fn span(duration: Duration) -> Span {
    Span::from_nanos(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

impl HyperSleep for Sleep {}

impl Read for TcpStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let taken = self.poll_read_with(cx, |bytes| {
            let len = bytes.len().min(buf.remaining());
            buf.put_slice(&bytes[..len]);
            len
        });
        taken.map_ok(|_| ())
    }
}

impl Write for TcpStream {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_parts(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_parts(cx, parts)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.shut();
        Poll::Ready(Ok(()))
    }
}
