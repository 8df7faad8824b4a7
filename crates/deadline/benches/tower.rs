//! Cost of the layers per call, without a network: server (budget, queue, limit, scope,
//! response) and client. Targets are in docs/benchmarks.md.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll, Waker};

use criterion::{Criterion, criterion_group, criterion_main};
use deadline::codec::field;
use deadline::tower::{DeadlineLayer, PropagateLayer, Settings, Text, scope};
use deadline::{Budget, Limits};
use http::{Request, Response};
use queueing::Span;
use tower::{Layer, Service};

/// Service without work.
#[derive(Clone)]
struct Nothing;

impl Service<Request<()>> for Nothing {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = Ready<Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(String::new())))
    }
}

/// Request with a budget and two recorded stages.
fn request() -> Request<()> {
    let stage = deadline::StageTime { queue: Span::from_micros(900), ..deadline::StageTime::default() };
    let budget = Budget::new(Span::from_millis(200)).after(stage).after(stage);
    Request::get("http://peer/path").header(field::HEADER, field::write(&budget)).body(()).expect("a request")
}

/// Output of a future that never suspends.
fn now<F: Future>(future: F) -> F::Output {
    let future = std::pin::pin!(future);
    match future.poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => unreachable!("nothing to wait for"),
    }
}

fn layers(c: &mut Criterion) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().expect("a runtime");
    let _entered = runtime.enter();
    let mut group = c.benchmark_group("tower layer, per call");
    let made = request();
    group.bench_function("none", |b| b.iter(|| now(Nothing.call(made.clone()))));

    let validation = Limits { trusted: true, ..Limits::default() };
    let server: DeadlineLayer<Text> = DeadlineLayer::new(Settings { validation, ..Settings::default() });
    let mut served = server.layer(Nothing);
    group.bench_function("server", |b| b.iter(|| now(served.call(made.clone()))));

    let mut client = PropagateLayer::new().layer(Nothing);
    let bare = Request::get("http://peer/path").body(()).expect("a request");
    group.bench_function("client", |b| {
        now(scope(Budget::new(Span::from_secs(3_000)), async {
            b.iter(|| now(client.call(bare.clone())));
        }));
    });
    group.finish();
    let counts = server.counts();
    assert_eq!((counts.expired, counts.infeasible, counts.full), (0, 0, 0), "every call was served");
}

criterion_group!(benches, layers);
criterion_main!(benches);
