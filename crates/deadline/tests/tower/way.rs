//! Early release of permits: the limit is for local work, not for waiting on other services.

//~ deadlines: tower: a handler releases its place before it waits for other services

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get as route;
use deadline::Shedding;
use deadline::tower::{DeadlineLayer, LimitCounts, Settings, give_way, spawn};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::support::{ms, pass, secs, settings, until, within};

/// Service that releases its permit, then waits for a permit of the semaphore.
fn gives_way(layer: &DeadlineLayer) -> (Router, Arc<Semaphore>) {
    let others = Arc::new(Semaphore::new(0));
    let waits = Arc::clone(&others);
    let handler = move || async move {
        let gave = give_way();
        assert_eq!(give_way(), gave, "a second call changes nothing");
        waits.acquire().await.expect("open").forget();
        gave.to_string()
    };
    (Router::new().route("/", route(handler)).layer(layer.clone()), others)
}

#[tokio::test(start_paused = true)]
async fn a_request_that_released_its_permit_does_not_block_others() {
    let layer = DeadlineLayer::new(settings(1));
    let (app, others) = gives_way(&layer);
    let asks: Vec<_> = (0..3).map(|_| tokio::spawn(app.clone().oneshot(within(secs(9), "/")))).collect();
    until("all three permits are released", || layer.counts().released == 3).await;
    assert_eq!(layer.counts(), LimitCounts { released: 3, ..LimitCounts::default() });
    others.add_permits(3);
    for ask in asks {
        assert_eq!(ask.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    assert_eq!(layer.counts(), LimitCounts { served: 3, ..LimitCounts::default() });
}

#[tokio::test(start_paused = true)]
async fn concurrency_stays_one_with_any_number_of_released_permits() {
    let layer = DeadlineLayer::new(settings(1));
    let (working, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let (counted, seen) = (Arc::clone(&working), Arc::clone(&most));
    let handler = move || async move {
        seen.fetch_max(counted.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        pass(ms(10)).await;
        counted.fetch_sub(1, Ordering::SeqCst);
        give_way();
        pass(ms(35)).await;
    };
    let app = Router::new().route("/", route(handler)).layer(layer.clone());
    let asks: Vec<_> = (0..20).map(|_| tokio::spawn(app.clone().oneshot(within(secs(9), "/")))).collect();
    for ask in asks {
        assert_eq!(ask.await.unwrap().unwrap().status(), StatusCode::OK);
    }
    assert_eq!((working.load(Ordering::SeqCst), most.load(Ordering::SeqCst)), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn no_more_give_way_than_the_settings_say() {
    let layer = DeadlineLayer::new(Settings { released_max: 1, ..settings(1) });
    let (app, others) = gives_way(&layer);
    let ask = || tokio::spawn(app.clone().oneshot(within(secs(9), "/")));
    let (first, second, third) = (ask(), ask(), ask());
    until("one permit released, one held", || layer.counts().waiting == 1).await;
    assert_eq!(layer.counts(), LimitCounts { released: 1, serving: 1, waiting: 1, ..LimitCounts::default() });
    others.add_permits(3);
    let mut gave = Vec::new();
    for ask in [first, second, third] {
        gave.push(crate::support::text(ask.await.unwrap().unwrap()).await);
    }
    assert_eq!(gave[..2], ["true", "false"], "the second keeps its permit");
    assert_eq!(layer.counts(), LimitCounts { served: 3, ..LimitCounts::default() });
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_request_with_a_released_permit_leaks_nothing() {
    let layer = DeadlineLayer::new(settings(1));
    let (app, others) = gives_way(&layer);
    let ask = tokio::spawn(app.clone().oneshot(within(secs(9), "/")));
    until("the permit is released", || layer.counts().released == 1).await;
    ask.abort();
    until("it is gone", || layer.counts().released == 0).await;
    assert_eq!(layer.counts(), LimitCounts { cancelled: 1, ..LimitCounts::default() });
    others.add_permits(1);
    assert!(app.oneshot(within(secs(9), "/")).await.unwrap().status().is_success());
    assert_eq!(layer.counts(), LimitCounts { served: 1, cancelled: 1, ..LimitCounts::default() });
}

#[tokio::test(start_paused = true)]
async fn a_task_that_outlives_the_answer_has_no_place_to_give() {
    let layer = DeadlineLayer::new(settings(1));
    let (sender, receiver) = tokio::sync::oneshot::channel();
    let sender = Arc::new(Mutex::new(Some(sender)));
    let handler = move || async move {
        spawn(async move {
            pass(secs(1)).await;
            let sender = sender.lock().unwrap().take().expect("called once");
            sender.send(give_way()).expect("the receiver is alive");
        });
    };
    let app = Router::new().route("/", route(handler)).layer(layer.clone());
    assert!(app.oneshot(within(secs(9), "/")).await.unwrap().status().is_success());
    assert!(!receiver.await.unwrap());
    assert_eq!(layer.counts(), LimitCounts { served: 1, ..LimitCounts::default() });
    assert!(!give_way(), "no permit outside of a layer");
}

#[tokio::test(start_paused = true)]
async fn service_time_includes_the_time_after_the_release() {
    let mut settings = settings(1);
    settings.queue.shedding = Shedding::Infeasible;
    let layer = DeadlineLayer::new(settings);
    let handler = || async {
        pass(ms(10)).await;
        give_way();
        pass(ms(90)).await;
    };
    let app = Router::new().route("/", route(handler)).layer(layer.clone());
    for _ in 0..16 {
        assert!(app.clone().oneshot(within(secs(9), "/")).await.unwrap().status().is_success());
    }
    let refused = app.oneshot(within(ms(80), "/")).await.unwrap();
    assert_eq!(refused.status(), StatusCode::GATEWAY_TIMEOUT);
    assert_eq!(layer.counts().infeasible, 1);
}
