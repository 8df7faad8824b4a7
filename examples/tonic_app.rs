//! A gRPC service by tonic: text in, text out.
//!
//! `cargo run -p examples --bin tonic_app`; its method is `/hello.Greeter/Greet` at
//! `http://10.77.0.2:50051`. A real service generates the handwritten code from `.proto` files, and
//! passes it to [`serve`] the same way.

use std::convert::Infallible;
use std::error::Error;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use classify::Verdict;
use examples::text::StringCodec;
use net::stack::ListenOptions;
use runtime::task::{label, serve};
use tonic::body::Body;
use tonic::server::{Grpc, NamedService, UnaryService};
use tonic::service::Routes;
use tonic::{Request, Response, Status};

type Answering<T, E> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

#[derive(Clone)]
struct Greeter;

impl UnaryService<String> for Greeter {
    type Response = String;
    type Future = Answering<Response<String>, Status>;

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let name = request.into_inner();
        Box::pin(async move { Ok(Response::new(format!("hello {name}, at level {}", label().priority))) })
    }
}

impl NamedService for Greeter {
    const NAME: &'static str = "hello.Greeter";
}

impl tower_service::Service<http::Request<Body>> for Greeter {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answering<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move { Ok(Grpc::new(StringCodec).unary(Greeter, request).await) })
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    examples::run(Arc::new(|_| Verdict::Level(2)), |shard| {
        let listener = shard.handle().listen(50051, ListenOptions::default()).expect("a free port");
        shard.spawn(serve(listener, Routes::new(Greeter)));
    })
}
