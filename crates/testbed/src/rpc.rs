//! gRPC services with one method on loopback, by tonic and the layers of `deadline::tower`; raw
//! bytes, no generated code.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut, Bytes};
use deadline::tower::{DeadlineLayer, Grpc as HeadersOnly, Propagate, PropagateLayer};
use hyper_util::rt::TokioIo;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};
use tonic::{Request, Response, Status};
use tower::util::MapRequestLayer;
use tower::{Layer, Service};

use crate::Error;
use crate::dscp::connect;
use crate::run::PartTracker;

/// Handler of a service's requests.
pub type Handler = Arc<dyn Fn(Request<Bytes>) -> AnswerFuture + Send + Sync>;
/// Future of the answer.
pub type AnswerFuture = Pin<Box<dyn Future<Output = Result<Bytes, Status>> + Send>>;

/// Serves `handler` on a free port behind `tracker` and `queue`, with at most `waiting`
/// concurrent requests. Requires a runtime.
///
/// # Errors
/// If no port is free.
pub fn serve(
    queue: &DeadlineLayer,
    tracker: PartTracker,
    waiting: usize,
    handler: Handler,
) -> Result<SocketAddr, Error> {
    let any = SocketAddr::from(([127, 0, 0, 1], 0));
    let failed =
        |e: &dyn std::fmt::Display| Error::new(format!("port on 127.0.0.1: {e}"), "ulimit -n, ss -ltn");
    let incoming = TcpIncoming::bind(any).map_err(|e| failed(&e))?.with_nodelay(Some(true));
    let address = incoming.local_addr().map_err(|e| failed(&e))?;
    let queue = queue.clone().with_reject_response(HeadersOnly);
    let tracker = MapRequestLayer::new(move |request: http::Request<Body>| tracker.track(request));
    let server = builder(waiting).layer(tracker).layer(queue).add_service(Method(handler));
    tokio::spawn(server.serve_with_incoming(incoming));
    Ok(address)
}

/// Server with at most `waiting` concurrent requests. Requests wait only in the deadline queue:
/// HTTP/2 holds no stream back, and cancelled streams do not count as an attack.
pub(crate) fn builder(waiting: usize) -> Server {
    Server::builder()
        .max_concurrent_streams(u32::try_from(waiting).unwrap_or(u32::MAX))
        .http2_max_pending_accept_reset_streams(Some(waiting))
}

/// Client of one service; clones share its connection.
#[derive(Clone)]
pub struct RpcClient(tonic::client::Grpc<Propagate<Channel>>);

impl RpcClient {
    /// Connects to `address`; calls go through `layer`, at most `waiting` at once.
    ///
    /// # Errors
    /// If nothing listens there.
    pub async fn connect(address: SocketAddr, layer: &PropagateLayer, waiting: usize) -> Result<Self, Error> {
        Self::with_channel(endpoint(address, waiting).connect().await, address, layer)
    }

    /// Same as [`connect`](Self::connect), on a connection whose packets carry `dscp` and whose
    /// windows never delay answers.
    ///
    /// # Errors
    /// If nothing listens there.
    pub async fn connect_as(
        dscp: u8,
        address: SocketAddr,
        layer: &PropagateLayer,
        waiting: usize,
    ) -> Result<Self, Error> {
        let endpoint = endpoint(address, waiting)
            .initial_stream_window_size(WINDOW)
            .initial_connection_window_size(WINDOW);
        let connect =
            tower::service_fn(move |_| async move { connect(address, dscp).await.map(TokioIo::new) });
        Self::with_channel(endpoint.connect_with_connector(connect).await, address, layer)
    }

    fn with_channel<E: std::error::Error>(
        channel: Result<Channel, E>,
        address: SocketAddr,
        layer: &PropagateLayer,
    ) -> Result<Self, Error> {
        let channel = channel.map_err(|e| Error::new(format!("{address}: {e}"), "ss -ltn"))?;
        let layer = layer.clone().map_error(|late| Status::deadline_exceeded(late.to_string()).into());
        Ok(Self(tonic::client::Grpc::new(layer.layer(channel))))
    }

    /// Sends `message` within the budget of the calling task.
    ///
    /// # Errors
    /// The rejection of the service or of a layer.
    pub async fn call(&mut self, message: Request<Bytes>) -> Result<Bytes, Status> {
        self.call_as(0, message).await
    }

    /// Same as [`call`](Self::call), by the method for `level`, 0..8: service times are learned
    /// per method.
    ///
    /// # Errors
    /// The rejection of the service or of a layer.
    ///
    /// # Panics
    /// If there is no such level.
    pub async fn call_as(&mut self, level: usize, message: Request<Bytes>) -> Result<Bytes, Status> {
        let path = http::uri::PathAndQuery::from_static(PATHS[level]);
        self.0.ready().await.map_err(|e| Status::unavailable(e.to_string()))?;
        self.0.unary(message, path, BytesCodec).await.map(Response::into_inner)
    }
}

fn endpoint(address: SocketAddr, waiting: usize) -> Endpoint {
    let endpoint = Endpoint::from_shared(format!("http://{address}")).expect("an address makes an URI");
    endpoint.buffer_size(CALLS_QUEUED_MAX).http2_max_concurrent_reset_streams(waiting)
}

/// The service's method with its handler.
#[derive(Clone)]
pub(crate) struct Method(pub(crate) Handler);

impl NamedService for Method {
    const NAME: &'static str = "greenwave.Stage";
}

impl Service<http::Request<Body>> for Method {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = self.clone();
        Box::pin(async move { Ok(tonic::server::Grpc::new(BytesCodec).unary(method, request).await) })
    }
}

impl UnaryService<Bytes> for Method {
    type Response = Bytes;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Bytes>, Status>> + Send>>;

    fn call(&mut self, request: Request<Bytes>) -> Self::Future {
        let answer = (self.0)(request);
        Box::pin(async move { answer.await.map(Response::new) })
    }
}

/// Codec that passes bytes unchanged.
#[derive(Clone, Copy)]
struct BytesCodec;

impl Codec for BytesCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(item);
        Ok(())
    }
}

impl Decoder for BytesCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }
}

/// Method names, one per level.
pub(crate) const PATHS: [&str; 8] = [
    "/greenwave.Stage/Call",
    "/greenwave.Stage/Call1",
    "/greenwave.Stage/Call2",
    "/greenwave.Stage/Call3",
    "/greenwave.Stage/Call4",
    "/greenwave.Stage/Call5",
    "/greenwave.Stage/Call6",
    "/greenwave.Stage/Call7",
];
/// Maximum number of calls queued for the connection's task, which takes them immediately.
const CALLS_QUEUED_MAX: usize = 65_536;
/// Flow control window: far more than the answers in flight of a level.
const WINDOW: u32 = 8 << 20;
