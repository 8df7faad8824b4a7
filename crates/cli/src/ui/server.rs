//! Three pages over HTTP on the kernel's sockets, by one thread: hyper's
//! HTTP/1 on tokio's smallest runtime.
//!
//! Bounds: [`CONNECTIONS_MAX`] connections, each with one request and
//! [`CONNECTION_MAX`] for everything; who comes beyond them waits in the kernel's
//! accept queue. A page of somebody else's in a browser on this machine cannot
//! read ours by giving its own name our address: on loopback only addresses and
//! `localhost` are answered to.

use std::convert::Infallible;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpListener};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use host::Monotonic;
use host::sandbox::SandboxError;
use hyper::body::Incoming;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HOST, HeaderValue, X_CONTENT_TYPE_OPTIONS,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use hyper_util::rt::{TokioIo, TokioTimer};
use queueing::Clock;
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, oneshot};

use super::window::{Live, WINDOW_MAX_S, WINDOW_S};
use super::{metrics, page};

/// Connections at a time.
pub const CONNECTIONS_MAX: usize = 16;
/// How long one may take, from its first byte to the last of its answer.
pub const CONNECTION_MAX: Duration = Duration::from_secs(4);
/// How long its head may take.
const HEAD_MAX: Duration = Duration::from_secs(1);
/// Bytes of a request that are looked at; more is refused.
const BUFFER: usize = 16 * 1024;
/// After the kernel had no descriptor for a connection.
const BREATH: Duration = Duration::from_millis(100);

/// What is served.
pub struct Site {
    /// What there is to see.
    pub live: Arc<Mutex<Live>>,
    /// Now.
    pub clock: Monotonic,
    /// By any name, as others than this machine may look.
    pub any_name: bool,
}

/// A server; ended when this is dropped.
pub struct Server {
    place: SocketAddr,
    confine: mpsc::UnboundedSender<Confine>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// What a thread calls to have less than before.
pub type DropPrivileges = fn() -> Result<(), SandboxError>;

/// For the thread: what it is to call, and where the outcome is awaited.
struct Confine {
    give_up: DropPrivileges,
    outcome: std::sync::mpsc::Sender<Result<(), SandboxError>>,
}

impl Server {
    /// Serves `site` at `place`.
    ///
    /// # Errors
    /// Nobody can listen there; no thread.
    pub fn start(place: SocketAddr, site: Site) -> io::Result<Self> {
        let listener = TcpListener::bind(place)?;
        listener.set_nonblocking(true)?;
        let place = listener.local_addr()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let listener = {
            let _inside = runtime.enter();
            tokio::net::TcpListener::from_std(listener)?
        };
        let (stop, stopped) = oneshot::channel::<()>();
        let (confine, mut asked) = mpsc::unbounded_channel::<Confine>();
        let serve = move || {
            runtime.block_on(async move {
                tokio::spawn(accept(listener, Arc::new(site)));
                // On this thread, the only one.
                tokio::spawn(async move {
                    while let Some(Confine { give_up, outcome }) = asked.recv().await {
                        let _ = outcome.send(give_up());
                    }
                });
                // Sent, or its sender is gone: both are the end.
                let _ = stopped.await;
            });
        };
        let thread = std::thread::Builder::new().name("greenwave-ui".to_owned()).spawn(serve)?;
        Ok(Self { place, confine, stop: Some(stop), thread: Some(thread) })
    }

    /// Has its thread give up what it does not need; returns when that is done.
    ///
    /// # Errors
    /// What `give_up` says.
    pub fn confine(&self, give_up: DropPrivileges) -> Result<(), SandboxError> {
        let (outcome, heard) = std::sync::mpsc::channel();
        // Where the thread has ended, it has nothing.
        let _ = self.confine.send(Confine { give_up, outcome });
        heard.recv().unwrap_or(Ok(()))
    }

    /// Where it listens.
    pub fn place(&self) -> SocketAddr {
        self.place
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Whatever it was at is dropped with its runtime.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn accept(listener: tokio::net::TcpListener, site: Arc<Site>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(place) = room.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let site = site.clone();
                tokio::spawn(async move {
                    serve(stream, site).await;
                    drop(place);
                });
            }
            Err(_) => tokio::time::sleep(BREATH).await,
        }
    }
}

async fn serve(stream: TcpStream, site: Arc<Site>) {
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = site.answer(request.method(), request.uri(), request.headers());
        std::future::ready(Ok::<_, Infallible>(answer))
    });
    let mut http = http1::Builder::new();
    http.keep_alive(false).timer(TokioTimer::new()).header_read_timeout(HEAD_MAX).max_buf_size(BUFFER);
    let connection = http.serve_connection(TokioIo::new(stream), service);
    // A connection that fails is its client's affair.
    let _ = tokio::time::timeout(CONNECTION_MAX, connection).await;
}

impl Site {
    /// The answer to a request.
    pub fn answer(&self, method: &Method, uri: &Uri, headers: &HeaderMap) -> Response<String> {
        if ![Method::GET, Method::HEAD].contains(method) {
            let mut refused = plain(StatusCode::METHOD_NOT_ALLOWED, "only GET and HEAD are supported\n");
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        if !self.any_name && headers.get(HOST).is_some_and(|host| !is_ours(host.as_bytes())) {
            let why = "the Host header must be an address or localhost; --ui-remote allows any name\n";
            return plain(StatusCode::MISDIRECTED_REQUEST, why);
        }
        let Some(window_s) = window(uri.query().unwrap_or_default()) else {
            let why = format!("window is not a number of seconds in 1..={WINDOW_MAX_S}\n");
            return plain(StatusCode::BAD_REQUEST, &why);
        };
        let now = self.clock.now();
        // Nobody who tells waits while something is written down.
        match uri.path() {
            "/" => {
                let snapshot = self.live().snapshot(now, window_s);
                page(page::html(&snapshot, window_s))
            }
            "/snapshot.json" => {
                let snapshot = self.live().snapshot(now, window_s);
                let text = serde_json::to_string(&snapshot).expect("figures are JSON");
                answer(StatusCode::OK, "application/json", text)
            }
            "/metrics" => {
                let (figures, sums) = self.live().exported(now);
                answer(StatusCode::OK, PROMETHEUS, metrics::text(&figures, &sums))
            }
            _ => plain(StatusCode::NOT_FOUND, "paths: /, /snapshot.json and /metrics\n"),
        }
    }

    fn live(&self) -> MutexGuard<'_, Live> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Prometheus' text format.
const PROMETHEUS: &str = "text/plain; version=0.0.4; charset=utf-8";
/// The page's own script and style, and questions to ourselves; nothing else.
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; \
     connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

fn answer(status: StatusCode, kind: &'static str, text: String) -> Response<String> {
    let mut answer = Response::new(text);
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

fn plain(status: StatusCode, text: &str) -> Response<String> {
    answer(status, "text/plain; charset=utf-8", text.to_owned())
}

fn page(text: String) -> Response<String> {
    let mut page = answer(StatusCode::OK, "text/html; charset=utf-8", text);
    page.headers_mut().insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    page
}

/// The window that a query asks for; `None` for one that cannot be.
fn window(query: &str) -> Option<u64> {
    match query.split('&').find_map(|pair| pair.strip_prefix("window=")) {
        None => Some(WINDOW_S),
        Some(text) => text.parse().ok().filter(|seconds| (1..=WINDOW_MAX_S).contains(seconds)),
    }
}

/// Whether `host`, with or without a port, is an address or `localhost`.
fn is_ours(host: &[u8]) -> bool {
    let Ok(host) = std::str::from_utf8(host) else { return false };
    if host.parse::<SocketAddr>().is_ok() {
        return true;
    }
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|b| b.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests;
