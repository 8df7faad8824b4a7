//! The default layer against arrival order: the same random work on a paused clock.

//~ deadlines: tower: at no load is the default's goodput more than 5 % below that of arrival order

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Path;
use axum::http::StatusCode;
use axum::routing::get as route;
use deadline::tower::{DeadlineLayer, Settings};
use deadline::{Order, Shedding};
use queueing::{Arrivals, Distribution, Rng, Span, Time};
use tokio::time::Instant;
use tower::ServiceExt;

use crate::support::{ms, pass, settings, within};

/// Share of 3,000 requests answered in time, at `rate_per_s` on two places.
async fn goodput(settings: Settings, service: &str, rate_per_s: f64) -> f64 {
    let service: Distribution = service.parse().expect("a distribution");
    let mut rng = Rng::seeded(7);
    let times = Arrivals::Poisson { rate_per_s }.times(Time::ZERO, rng.fork(1));
    let layer = DeadlineLayer::new(settings);
    let work: Arc<Mutex<BTreeMap<u64, Span>>> = Arc::default();
    let of = Arc::clone(&work);
    let handler = move |Path(number): Path<u64>| {
        let span = of.lock().unwrap()[&number];
        pass(span)
    };
    let app = Router::new().route("/jobs/{number}", route(handler)).layer(layer);
    let start = Instant::now();
    let mut calls = Vec::new();
    for (number, at) in (0..3_000_u64).zip(times) {
        work.lock().unwrap().insert(number, service.sample(&mut rng));
        let left = if rng.chance(0.5) { ms(100) } else { ms(400) };
        tokio::time::sleep_until(start + at.since(Time::ZERO).into()).await;
        let app = app.clone();
        calls.push(tokio::spawn(async move {
            let sent = Instant::now();
            let answer = app.oneshot(within(left, &format!("/jobs/{number}"))).await.unwrap();
            answer.status() == StatusCode::OK && sent.elapsed() <= left.into()
        }));
    }
    let mut in_time = 0;
    for call in calls {
        in_time += u32::from(call.await.unwrap());
    }
    f64::from(in_time) / 3_000.0
}

#[tokio::test(start_paused = true)]
async fn the_default_loses_nothing_against_arrival_order_at_any_load() {
    for service in ["10ms", "exp 10ms", "lognormal 10ms 1.5", "bimodal 4ms 100ms 0.06"] {
        for load in [0.5, 0.9, 1.3] {
            let default = goodput(settings(2), service, load * 200.0).await;
            let mut arrival = settings(2);
            (arrival.queue.order, arrival.queue.shedding) = (Order::Fifo, Shedding::None);
            let arrival = goodput(arrival, service, load * 200.0).await;
            assert!(default >= 0.95 * arrival, "{service} at {load}: {default} against {arrival}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn under_overload_the_places_are_used_for_requests_in_time() {
    let default = goodput(settings(2), "normal 10ms 3ms", 260.0).await;
    assert!(default >= 0.9 / 1.3, "of the bound 1/1.3: {default}");
}
