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

/// Client of a request: the time that it has, and the time that it claims to have.
type Client = fn(&mut Rng) -> (Span, Span);

/// Share of 3,000 requests answered in time, at `rate_per_s` on two places.
async fn goodput(settings: Settings, service: &str, rate_per_s: f64) -> f64 {
    let client: Client = |rng| [if rng.chance(0.5) { ms(100) } else { ms(400) }; 2].into();
    let [honest, liars] = goodputs(settings, service, rate_per_s, client).await;
    assert!(liars.is_nan(), "all are honest");
    honest
}

/// The same for honest clients, and for those that claim to have less time than they have.
async fn goodputs(settings: Settings, service: &str, rate_per_s: f64, client: Client) -> [f64; 2] {
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
        let (left, claimed) = client(&mut rng);
        tokio::time::sleep_until(start + at.since(Time::ZERO).into()).await;
        let app = app.clone();
        calls.push(tokio::spawn(async move {
            let sent = Instant::now();
            let answer = app.oneshot(within(claimed, &format!("/jobs/{number}"))).await.unwrap();
            let in_time = answer.status() == StatusCode::OK && sent.elapsed() <= left.into();
            (usize::from(claimed < left), in_time)
        }));
    }
    let (mut in_time, mut all) = ([0.0; 2], [0.0; 2]);
    for call in calls {
        let (client, was_in_time) = call.await.unwrap();
        all[client] += 1.0;
        in_time[client] += f64::from(u8::from(was_in_time));
    }
    [in_time[0] / all[0], in_time[1] / all[1]]
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

//~ deadlines: tower: under overload a client that understates its budget is served in time no more often
#[tokio::test(start_paused = true)]
async fn a_client_gains_nothing_by_understating_its_budget() {
    let client: Client = |rng| (ms(400), if rng.chance(0.35) { ms(100) } else { ms(400) });
    for service in ["10ms", "exp 10ms"] {
        let [honest, liars] = goodputs(settings(2), service, 280.0, client).await;
        assert!(liars <= honest + 0.05, "{service}: {liars} against {honest}");
    }
}
