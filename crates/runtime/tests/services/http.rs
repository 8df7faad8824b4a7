//! hyper, axum and tonic on tasks and sockets, at both ends of the wire.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};

use axum::routing::{get, post};
use axum::{Router, body::Bytes};
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use net::stack::ListenOptions;
use queueing::{Label, Span};
use runtime::task::{
    JoinHandle, TaskExecutor, TcpListener, TcpStream, label, serve, set_label, sleep, spawn,
};
use sched::dispatch::{Params, by_name};
use tokio::sync::Notify;
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::service::Routes;

use crate::text::StringCodec;
use crate::world::{PORT, World, address, level, strict};

/// An application with routes that return the level, count the body, sleep and panic.
fn app() -> Router {
    Router::new()
        .route("/level", get(|| async { label().priority.to_string() }))
        .route("/length", post(|body: Bytes| async move { body.len().to_string() }))
        .route("/slow", get(|| async { sleep(Span::from_millis(20)).await }))
        .route("/large", get(|| async { vec![b'x'; 2_000_000] }))
        .route(
            "/bug",
            get(|| async {
                if label().priority.level() < 9 {
                    panic!("a bug")
                }
            }),
        )
}

fn serve_app(world: &World) {
    world.server.spawn(async { serve(TcpListener::bind(PORT).expect("a free port"), app()).await });
}

type Answer = Result<(StatusCode, Bytes), String>;

/// One HTTP/1.1 request on its own connection.
fn ask(world: &World, method: &'static str, path: &'static str, body: Vec<u8>) -> JoinHandle<Answer> {
    world.client.spawn(async move {
        let stream = TcpStream::connect(address()).await.expect("a server");
        let (mut sender, connection) = http1::handshake(stream).await.expect("a connection");
        spawn(connection);
        let request = Request::builder().method(method).uri(path).header("host", "greenwave");
        let request = request.body(Full::new(Bytes::from(body))).expect("a request");
        let answer = sender.send_request(request).await.map_err(|e| e.to_string())?;
        let status = answer.status();
        let body = answer.into_body().collect().await.map_err(|e| e.to_string())?;
        Ok((status, body.to_bytes()))
    })
}

#[test]
fn axum_answers_by_http_1() {
    let mut world = World::new();
    serve_app(&world);
    let sent = ask(&world, "POST", "/length", vec![7; 1_000_000]);
    assert_eq!(world.finish(&sent), Ok((StatusCode::OK, "1000000".into())));
    let large = ask(&world, "GET", "/large", Vec::new());
    let (status, body) = world.finish(&large).expect("an answer");
    assert_eq!((status, body.len()), (StatusCode::OK, 2_000_000));
    let missing = ask(&world, "GET", "/nowhere", Vec::new());
    assert_eq!(world.finish(&missing).map(|(status, _)| status), Ok(StatusCode::NOT_FOUND));
    let slow = ask(&world, "GET", "/slow", Vec::new());
    let before = world.now;
    assert_eq!(world.finish(&slow).map(|(status, _)| status), Ok(StatusCode::OK));
    assert!(world.now.since(before) >= Span::from_millis(20));
}

#[test]
fn a_handlers_panic_closes_only_its_connection() {
    let mut world = World::new();
    serve_app(&world);
    let broken = ask(&world, "GET", "/bug", Vec::new());
    assert!(world.finish(&broken).is_err());
    let next = ask(&world, "GET", "/level", Vec::new());
    assert_eq!(world.finish(&next), Ok((StatusCode::OK, "7".into())));
    assert_eq!(world.server.counters().panicked, 1);
}

/// Raw HTTP/1.1 whose first byte the classifier reads. Only an empty line may precede a request
/// line, so the level is part of the method.
#[test]
fn a_handler_runs_with_the_label_of_its_request() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut world = World::new();
    world.server.spawn(async {
        let app = Router::new().fallback(|| async { label().priority.to_string() });
        serve(TcpListener::bind(PORT).expect("a free port"), app).await
    });
    let asked = world.client.spawn(async {
        let mut stream = TcpStream::connect(address()).await.expect("a server");
        let mut answers = Vec::new();
        for level in ["5", "0", "3"] {
            let request = format!("{level} / HTTP/1.1\r\nhost: greenwave\r\n\r\n");
            stream.write_all(request.as_bytes()).await.expect("room");
            let mut answer = [0; 512];
            let len = stream.read(&mut answer).await.expect("an answer");
            answers.push(answer[len - 1] - b'0');
        }
        answers
    });
    assert_eq!(world.finish(&asked), [5, 0, 3]);
}

/// Streams of one connection whose handlers become runnable at the same time.
//~ tasks: the tasks of HTTP/2 streams are ordered by their requests' budgets under edf
#[test]
fn http_2_streams_run_in_the_order_of_their_deadlines() {
    let mut config = strict(1);
    config.dispatch = by_name("edf", &Params::new(1, 64)).expect("a policy");
    let mut world = World::with(config, strict(2));
    let (gate, ran) = (Arc::new(Notify::new()), Arc::new(Mutex::new(Vec::new())));
    let handler = {
        let (gate, ran) = (Arc::clone(&gate), Arc::clone(&ran));
        move || async move {
            gate.notified().await;
            let left = label().deadline.map_or(0, |left| left.as_nanos().div_ceil(1_000_000));
            ran.lock().unwrap().push(left);
        }
    };
    world.server.spawn(async {
        serve(TcpListener::bind(PORT).expect("a free port"), Router::new().route("/", get(handler))).await
    });
    let asked = world.client.spawn(async {
        let stream = TcpStream::connect(address()).await.expect("a server");
        let (sender, connection) = http2::handshake(TaskExecutor, stream).await.expect("a connection");
        spawn(connection);
        let asked: Vec<_> = [0, 90, 20, 50]
            .map(|left_ms: u64| {
                let mut sender = sender.clone();
                let mut request = Request::get("http://greenwave/");
                if left_ms > 0 {
                    request = request.header("grpc-timeout", format!("{left_ms}m"));
                }
                let request = request.body(Full::new(Bytes::new())).expect("a request");
                spawn(async move { sender.send_request(request).await.expect("an answer").status() })
            })
            .into();
        for asked in asked {
            assert_eq!(asked.await.expect("a result"), StatusCode::OK);
        }
    });
    world.settle();
    gate.notify_waiters();
    world.finish(&asked);
    assert_eq!(*ran.lock().unwrap(), [20, 50, 90, 0]);
}

#[test]
fn axum_answers_many_requests_of_one_connection_by_http_2() {
    let mut world = World::new();
    serve_app(&world);
    let asked = world.client.spawn(async {
        let stream = TcpStream::connect(address()).await.expect("a server");
        let (sender, connection) = http2::handshake(TaskExecutor, stream).await.expect("a connection");
        spawn(connection);
        let asked: Vec<_> = (0..50)
            .map(|n: usize| {
                let mut sender = sender.clone();
                spawn(async move {
                    let request = Request::post("http://greenwave/length");
                    let body = Full::new(Bytes::from(vec![1; n * 1000]));
                    let answer = sender.send_request(request.body(body).expect("a request")).await;
                    let body = answer.expect("an answer").into_body().collect().await.expect("a body");
                    body.to_bytes() == (n * 1000).to_string()
                })
            })
            .collect();
        let mut right = 0;
        for asked in asked {
            right += usize::from(asked.await.expect("a result"));
        }
        right
    });
    assert_eq!(world.finish(&asked), 50);
}

/// A gRPC service of one method without generated code: text in, text out.
#[derive(Clone)]
struct Greeter;

impl NamedService for Greeter {
    const NAME: &'static str = "test.Greeter";
}

type Answering<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

impl tower_service::Service<Request<Body>> for Greeter {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answering<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(async move { Ok(Grpc::new(StringCodec).unary(Greet, request).await) })
    }
}

struct Greet;

impl UnaryService<String> for Greet {
    type Response = String;
    type Future = Answering<tonic::Response<String>, tonic::Status>;

    fn call(&mut self, request: tonic::Request<String>) -> Self::Future {
        Box::pin(async move {
            match request.into_inner() {
                name if name.is_empty() => Err(tonic::Status::invalid_argument("a name is needed")),
                name => Ok(tonic::Response::new(format!("hello {name}"))),
            }
        })
    }
}

/// The channel that tonic's client needs: one HTTP/2 connection.
#[derive(Clone)]
struct Channel(http2::SendRequest<Body>);

impl tower_service::Service<Request<Body>> for Channel {
    type Response = Response<hyper::body::Incoming>;
    type Error = hyper::Error;
    type Future = Answering<Self::Response, hyper::Error>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<hyper::Result<()>> {
        self.0.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        let path = request.uri().path().to_owned();
        *request.uri_mut() = format!("http://greenwave{path}").parse().expect("an address");
        Box::pin(self.0.send_request(request))
    }
}

#[test]
fn tonic_answers_and_refuses_calls() {
    let mut world = World::new();
    world
        .server
        .spawn(async { serve(TcpListener::bind(PORT).expect("a free port"), Routes::new(Greeter)).await });
    let asked = world.client.spawn(async {
        let stream = TcpStream::connect(address()).await.expect("a server");
        let (sender, connection) = http2::handshake(TaskExecutor, stream).await.expect("a connection");
        spawn(connection);
        let mut client = tonic::client::Grpc::new(Channel(sender));
        let mut answers = Vec::new();
        for (name, path) in
            [("world", "/test.Greeter/Greet"), ("", "/test.Greeter/Greet"), ("x", "/test.No/No")]
        {
            client.ready().await.expect("a connection");
            let request = tonic::Request::new(name.to_owned());
            let answer = client.unary(request, path.parse().expect("a path"), StringCodec).await;
            answers.push(answer.map(tonic::Response::into_inner).map_err(|status| status.code()));
        }
        answers
    });
    let expected =
        [Ok("hello world".to_owned()), Err(tonic::Code::InvalidArgument), Err(tonic::Code::Unimplemented)];
    assert_eq!(world.finish(&asked), expected);
}

/// axum's own server, which spawns by tokio, on a thread of tokio's.
struct Incoming(TcpListener);

impl axum::serve::Listener for Incoming {
    type Io = TcpStream;
    type Addr = std::net::SocketAddr;

    async fn accept(&mut self) -> (TcpStream, Self::Addr) {
        self.0.accept().await
    }

    fn local_addr(&self) -> std::io::Result<Self::Addr> {
        Ok(self.0.local_addr())
    }
}

#[test]
fn axums_own_server_runs_on_tokios_runtime_with_our_sockets() {
    let mut world = World::new();
    let listener = world.server.handle().listen(PORT, ListenOptions::default()).expect("a free port");
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let tokio = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
        runtime.block_on(async {
            tokio::select! {
                _ = axum::serve(Incoming(listener), app()) => {}
                _ = stopped => {}
            }
        });
    });
    let asked = ask(&world, "POST", "/length", vec![7; 100_000]);
    // The other thread has its own clock: run until it has answered.
    let answer = loop {
        world.settle();
        if let Some(answer) = asked.try_take() {
            break answer;
        }
        std::thread::yield_now();
    };
    assert_eq!(answer, Ok(Ok((StatusCode::OK, "100000".into()))));
    stop.send(()).expect("it serves");
    tokio.join().expect("it stops");
}

#[test]
fn a_label_set_by_a_handler_orders_its_awaited_work() {
    let mut world = World::new();
    let order = Arc::new(Mutex::new(Vec::new()));
    for (name, to) in [("report", 6), ("payment", 1)] {
        let order = order.clone();
        world.server.spawn(async move {
            set_label(Label::new(level(to)));
            sleep(Span::from_millis(1)).await;
            order.lock().expect("whole").push(name);
        });
    }
    world.pass(Span::from_millis(2));
    assert_eq!(*order.lock().expect("whole"), ["payment", "report"]);
}
