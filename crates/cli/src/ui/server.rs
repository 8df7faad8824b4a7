//! HTTP server of the live view on the kernel's sockets, in one thread: hyper's HTTP/1 on tokio's
//! current-thread runtime.
//!
//! Bounds: [`CONNECTIONS_MAX`] connections, each with one request and [`CONNECTION_MAX`] in total;
//! further ones wait in the kernel's accept queue. A foreign page in a local browser cannot read
//! ours through a name that resolves to our address (DNS rebinding): on loopback only requests for
//! addresses and `localhost` are answered.

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

/// Maximum number of concurrent connections.
pub const CONNECTIONS_MAX: usize = 16;
/// Time limit of a connection, from its first byte to the last of its answer.
pub const CONNECTION_MAX: Duration = Duration::from_secs(4);
/// Time limit of a request's head.
const HEAD_MAX: Duration = Duration::from_secs(1);
/// Largest request in bytes; more is refused.
const BUFFER: usize = 16 * 1024;
/// Pause after the kernel had no descriptor for a connection.
const BREATH: Duration = Duration::from_millis(100);

/// The served data.
pub struct Site {
    /// Data of the live view.
    pub live: Arc<Mutex<Live>>,
    /// The command's clock.
    pub clock: Monotonic,
    /// True if any host name is accepted, as the view is open to other machines.
    pub any_name: bool,
}

/// A server; ended on drop.
pub struct UiServer {
    addr: SocketAddr,
    confine: mpsc::UnboundedSender<Confine>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// Function with which a thread drops privileges.
pub type DropPrivileges = fn() -> Result<(), SandboxError>;

/// Request to the thread: the function to call, and the channel for its result.
struct Confine {
    give_up: DropPrivileges,
    outcome: std::sync::mpsc::Sender<Result<(), SandboxError>>,
}

impl UiServer {
    /// Serves `site` at `addr`.
    ///
    /// # Errors
    /// The address cannot be listened on; no thread.
    pub fn start(addr: SocketAddr, site: Site) -> io::Result<Self> {
        let listener = TcpListener::bind(addr)?;
        listener.set_nonblocking(true)?;
        let addr = listener.local_addr()?;
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
                // Runs on this thread, the only one.
                tokio::spawn(async move {
                    while let Some(Confine { give_up, outcome }) = asked.recv().await {
                        let _ = outcome.send(give_up());
                    }
                });
                // A message or a dropped sender: both end the server.
                let _ = stopped.await;
            });
        };
        let thread = std::thread::Builder::new().name("greenwave-ui".to_owned()).spawn(serve)?;
        Ok(Self { addr, confine, stop: Some(stop), thread: Some(thread) })
    }

    /// Drops the thread's unneeded privileges; returns when that is done.
    ///
    /// # Errors
    /// The errors of `give_up`.
    pub fn confine(&self, give_up: DropPrivileges) -> Result<(), SandboxError> {
        let (outcome, result) = std::sync::mpsc::channel();
        // An ended thread has no privileges.
        let _ = self.confine.send(Confine { give_up, outcome });
        result.recv().unwrap_or(Ok(()))
    }

    /// The listening address.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for UiServer {
    fn drop(&mut self) {
        drop(self.stop.take());
        // Unfinished work is dropped with the runtime.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

async fn accept(listener: tokio::net::TcpListener, site: Arc<Site>) {
    let room = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(permit) = room.clone().acquire_owned().await {
        match listener.accept().await {
            Ok((stream, _)) => {
                let site = site.clone();
                tokio::spawn(async move {
                    serve(stream, site).await;
                    drop(permit);
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
    // A failed connection concerns its client only.
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
        // The lock is released before formatting, so that the command never waits for it.
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
/// Allows the page's own script and style and requests to this server; nothing else.
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

/// The window of a query; `None` if invalid.
fn window(query: &str) -> Option<u64> {
    match query.split('&').find_map(|pair| pair.strip_prefix("window=")) {
        None => Some(WINDOW_S),
        Some(text) => text.parse().ok().filter(|seconds| (1..=WINDOW_MAX_S).contains(seconds)),
    }
}

/// True if `host`, with or without a port, is an address or `localhost`.
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

//~ views: the page is self-contained and escapes names; slow or invalid clients block no other
#[cfg(test)]
mod tests;
