//! gRPC service with one method, text to text, without generated code.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::{Buf, BufMut};
use deadline::tower::{DeadlineLayer, Grpc as Headers, Propagate, PropagateLayer};
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::server::{NamedService, UnaryService};
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Server};
use tonic::{Request, Response, Status};

use tower::Layer;

pub const PATH: &str = "/test.Text/Answer";

/// Handler of the method.
pub type Handler = Arc<dyn Fn(String) -> Answering + Send + Sync>;
pub type Answering = Pin<Box<dyn Future<Output = Result<String, Status>> + Send>>;

/// Serves `handler` behind `layer` on loopback.
pub fn listen(layer: &DeadlineLayer, handler: Handler) -> SocketAddr {
    let incoming = TcpIncoming::bind("127.0.0.1:0".parse().unwrap()).expect("a port");
    let address = incoming.local_addr().expect("an address");
    let layer = layer.clone().with_reject_response(Headers);
    let server = Server::builder().layer(layer).add_service(Text(handler));
    tokio::spawn(server.serve_with_incoming(incoming));
    address
}

/// Client of `address` with `layer`.
pub struct Client(tonic::client::Grpc<Propagate<Channel>>);

impl Client {
    pub fn new(address: SocketAddr, layer: &PropagateLayer) -> Self {
        let channel = Channel::from_shared(format!("http://{address}")).unwrap().connect_lazy();
        let layer = layer.clone().map_error(|late| Status::deadline_exceeded(late.to_string()).into());
        Self(tonic::client::Grpc::new(layer.layer(channel)))
    }

    pub async fn ask(&mut self, request: Request<String>) -> Result<Response<String>, Status> {
        self.0.ready().await.map_err(|e| Status::unavailable(e.to_string()))?;
        self.0.unary(request, PATH.parse().unwrap(), Plain).await
    }
}

#[derive(Clone)]
struct Text(Handler);

impl NamedService for Text {
    const NAME: &'static str = "test.Text";
}

impl tower::Service<http::Request<Body>> for Text {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let method = Method(Arc::clone(&self.0));
        Box::pin(async move { Ok(tonic::server::Grpc::new(Plain).unary(method, request).await) })
    }
}

struct Method(Handler);

impl UnaryService<String> for Method {
    type Response = String;
    type Future = Pin<Box<dyn Future<Output = Result<Response<String>, Status>> + Send>>;

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let answer = (self.0)(request.into_inner());
        Box::pin(async move { answer.await.map(Response::new) })
    }
}

/// Codec for plain text.
#[derive(Clone, Copy)]
struct Plain;

impl Codec for Plain {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for Plain {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, item: String, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put_slice(item.as_bytes());
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let mut bytes = vec![0; from.remaining()];
        from.copy_to_slice(&mut bytes);
        String::from_utf8(bytes).map(Some).map_err(|e| Status::invalid_argument(e.to_string()))
    }
}

/// Handler that returns `text` at once.
pub fn handler_of(text: impl Fn() -> String + Send + Sync + 'static) -> Handler {
    Arc::new(move |_| {
        let answer: Ready<Result<String, Status>> = ready(Ok(text()));
        Box::pin(answer)
    })
}
