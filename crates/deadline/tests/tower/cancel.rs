//! Cancelled requests release their queue entries and permits.

//~ deadlines: tower: cancelled clients and panicking handlers leave nothing behind

use std::sync::Arc;

use axum::Router;
use axum::routing::get as route;
use deadline::tower::{DeadlineLayer, LimitCounts};
use queueing::Rng;
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::support::{secs, settings, until, within};

/// Service with a limit of one; handlers wait for a permit of the semaphore.
fn held(layer: &DeadlineLayer) -> (Router, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let held = Arc::clone(&gate);
    let handler = move || async move {
        held.acquire().await.expect("open").forget();
    };
    (Router::new().route("/", route(handler)).layer(layer.clone()), gate)
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_leaves_the_queue() {
    let mut settings = settings(1);
    settings.queue.capacity = 1;
    let layer = DeadlineLayer::new(settings);
    let (app, gate) = held(&layer);
    let served = tokio::spawn(app.clone().oneshot(within(secs(9), "/")));
    until("one is served", || layer.counts().serving == 1).await;
    for _ in 0..100 {
        let waits = tokio::spawn(app.clone().oneshot(within(secs(9), "/")));
        until("one waits", || layer.counts().waiting == 1).await;
        waits.abort();
        until("it is gone", || layer.counts().waiting == 0).await;
    }
    let waits = tokio::spawn(app.oneshot(within(secs(9), "/")));
    gate.add_permits(2);
    assert!(served.await.unwrap().unwrap().status().is_success());
    assert!(waits.await.unwrap().unwrap().status().is_success());
    assert_eq!(layer.counts(), LimitCounts { served: 2, cancelled: 100, ..LimitCounts::default() });
}

#[tokio::test(start_paused = true)]
async fn a_request_cancelled_in_service_frees_its_permit() {
    let layer = DeadlineLayer::new(settings(1));
    let (app, gate) = held(&layer);
    let first = tokio::spawn(app.clone().oneshot(within(secs(9), "/")));
    until("one is served", || layer.counts().serving == 1).await;
    let second = tokio::spawn(app.clone().oneshot(within(secs(9), "/")));
    until("one waits", || layer.counts().waiting == 1).await;
    first.abort();
    until("its place is taken", || layer.counts().waiting == 0).await;
    gate.add_permits(1);
    assert!(second.await.unwrap().unwrap().status().is_success());
    assert_eq!(layer.counts(), LimitCounts { served: 1, cancelled: 1, ..LimitCounts::default() });
}

#[tokio::test(start_paused = true)]
async fn an_unused_permit_goes_to_the_next_request() {
    let layer = DeadlineLayer::new(settings(1));
    let (app, gate) = held(&layer);
    gate.add_permits(1);
    // The call dequeues or enqueues the request; the future is never polled.
    let mut service = app.clone();
    let never_polled = tower::Service::call(&mut service, within(secs(9), "/"));
    let third = tokio::spawn(app.oneshot(within(secs(9), "/")));
    drop(never_polled);
    assert!(third.await.unwrap().unwrap().status().is_success());
    assert_eq!((layer.counts().serving, layer.counts().waiting), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_panics_gives_its_place_back() {
    let layer = DeadlineLayer::new(settings(1));
    let handler = || async {
        if true {
            panic!("as a bug would")
        }
    };
    let app = Router::new().route("/", route(handler)).layer(layer.clone());
    assert!(tokio::spawn(app.oneshot(within(secs(9), "/"))).await.unwrap_err().is_panic());
    assert_eq!(layer.counts(), LimitCounts { cancelled: 1, ..LimitCounts::default() });
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_leaks_however_many_give_up_at_once() {
    let layer = DeadlineLayer::new(settings(3));
    let handler = || async {
        for _ in 0..3 {
            tokio::task::yield_now().await;
        }
    };
    let app = Router::new().route("/", route(handler)).layer(layer.clone());
    let mut rng = Rng::seeded(7);
    for _ in 0..20 {
        let tasks: Vec<_> =
            (0..50).map(|_| tokio::spawn(app.clone().oneshot(within(secs(900), "/")))).collect();
        for task in &tasks {
            if rng.below(3) == 0 {
                task.abort();
            }
            if rng.below(5) == 0 {
                tokio::task::yield_now().await;
            }
        }
        for task in tasks {
            let _ = task.await;
        }
    }
    let counts = layer.counts();
    assert_eq!((counts.serving, counts.waiting), (0, 0));
    assert_eq!(
        counts,
        LimitCounts { served: counts.served, cancelled: counts.cancelled, ..LimitCounts::default() }
    );
    assert!(app.oneshot(within(secs(9), "/")).await.unwrap().status().is_success());
}
