//! Outcomes per method, and their metrics.

use axum::Router;
use axum::http::StatusCode;
use axum::routing::get as route;
use deadline::tower::{DeadlineLayer, Settings};
use deadline::{Cause, Outcome, OutcomeTable};
use tower::ServiceExt;

use crate::support::{get, ms, pass, secs, settings, until, within};

/// Layer of a service with three routes, after requests of every kind that a client can cause. Two methods may have a
/// row.
async fn served() -> DeadlineLayer {
    let layer = DeadlineLayer::new(Settings { methods_max: 2, ..settings(1) });
    let slow = || pass(ms(100));
    let app = Router::new()
        .route("/items/{id}", route(|| async {}))
        .route("/slow", route(slow))
        .route("/third", route(|| async {}))
        .layer(layer.clone());
    let send = |left, path: &str| app.clone().oneshot(within(left, path));
    for id in 0..3 {
        assert_eq!(send(secs(1), &format!("/items/{id}")).await.unwrap().status(), StatusCode::OK);
    }
    for left in [secs(1), ms(50), ms(0)] {
        send(left, "/slow").await.unwrap();
    }
    assert_eq!(send(secs(1), "/third").await.unwrap().status(), StatusCode::OK);
    for id in 0..5 {
        let missing = app.clone().oneshot(get(&format!("/missing{id}/{id}"))).await.unwrap();
        assert_eq!(missing.status(), StatusCode::NOT_FOUND);
    }
    let running = tokio::spawn(send(secs(1), "/slow"));
    until("it runs", || layer.counts().serving == 1).await;
    running.abort();
    until("it is cancelled", || layer.counts().cancelled == 1).await;
    layer
}

/// Method, outcome, count.
type Row = (String, &'static str, u64);

fn expected() -> Vec<Row> {
    [
        ("/items/*", "in-time", 3),
        ("/slow", "cancelled", 1),
        ("/slow", "expired", 1),
        ("/slow", "in-time", 1),
        ("/slow", "late", 1),
        ("_OTHER", "in-time", 6),
    ]
    .map(|(method, outcome, count)| (method.to_owned(), outcome, count))
    .to_vec()
}

//~ deadlines: tower: requests are counted by method and outcome, in a bounded number of rows that add up
#[tokio::test(start_paused = true)]
async fn every_request_has_one_outcome_of_its_method() {
    let layer = served().await;
    let outcomes = layer.outcomes();
    assert_eq!(outcomes.last().expect("a row").0, OutcomeTable::OTHER);
    let rows = outcomes.iter().flat_map(|(method, counts)| {
        Outcome::ALL.map(|outcome| (method.clone(), outcome.name(), counts.count(outcome)))
    });
    let mut rows: Vec<Row> = rows.filter(|row| row.2 > 0).collect();
    rows.sort();
    assert_eq!(rows, expected());
    let counts = layer.counts();
    let ended: u64 = Cause::ALL.iter().map(|&cause| counts.ended_with(cause)).sum();
    let all = counts.served + counts.cancelled + ended - counts.upstream_timeout - counts.upstream_failed;
    assert_eq!(rows.iter().map(|row| row.2).sum::<u64>(), all);
}

#[cfg(feature = "opentelemetry")]
mod exported {
    use deadline::Budget;
    use deadline::tower::{PropagateLayer, scope};
    use opentelemetry::KeyValue;
    use opentelemetry::metrics::MeterProvider;
    use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
    use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
    use tower::Layer;

    use super::*;

    /// Value of an attribute in `attributes`.
    fn value<'a>(attributes: impl Iterator<Item = &'a KeyValue>, key: &str) -> Option<String> {
        attributes.filter(|each| each.key.as_str() == key).map(|each| each.value.to_string()).next()
    }

    /// Points of the metric `name`: the values of `keys`, and the count.
    fn points(exporter: &InMemoryMetricExporter, name: &str, keys: &[&str]) -> Vec<(Vec<String>, u64)> {
        let exports = exporter.get_finished_metrics().expect("exports");
        let metrics = exports.last().expect("one").scope_metrics().flat_map(|scope| scope.metrics());
        let metric = metrics.filter(|metric| metric.name() == name).last().expect("the metric");
        let values = |attributes: Vec<KeyValue>| {
            keys.iter().map(|key| value(attributes.iter(), key).expect("the attribute")).collect()
        };
        let mut points: Vec<(Vec<String>, u64)> = match metric.data() {
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                assert!(sum.is_monotonic());
                sum.data_points().map(|p| (values(p.attributes().cloned().collect()), p.value())).collect()
            }
            AggregatedMetrics::U64(MetricData::Gauge(gauge)) => {
                gauge.data_points().map(|p| (values(p.attributes().cloned().collect()), p.value())).collect()
            }
            other => panic!("{other:?}"),
        };
        points.sort();
        points
    }

    //~ deadlines: tower: OpenTelemetry exports the counters of methods, outcomes and failed calls
    #[tokio::test(start_paused = true)]
    async fn the_metrics_are_the_layers_counters() {
        let exporter = InMemoryMetricExporter::default();
        let reader = PeriodicReader::builder(exporter.clone()).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        let meter = provider.meter("test");
        let (layer, client) = (served().await, PropagateLayer::new());
        layer.register_metrics(&meter, "shop");
        client.register_metrics(&meter, "stock");
        let peer = tower::service_fn(|_: axum::http::Request<axum::body::Body>| async {
            Err::<axum::response::Response, _>(std::io::Error::other("reset"))
        });
        scope(Budget::new(ms(50)), client.layer(peer).oneshot(get("/"))).await.unwrap_err();
        provider.force_flush().expect("a collection");

        let keys = ["greenwave.method", "greenwave.outcome", "greenwave.server"];
        let requests = points(&exporter, "greenwave.deadline.requests", &keys);
        let expected: Vec<_> = expected()
            .into_iter()
            .map(|(method, outcome, count)| (vec![method, outcome.to_owned(), "shop".to_owned()], count))
            .collect();
        assert_eq!(requests, expected);
        let waiting = points(&exporter, "greenwave.deadline.waiting", &["greenwave.server"]);
        assert_eq!(waiting, [(vec!["shop".to_owned()], 0)]);
        let failures =
            points(&exporter, "greenwave.deadline.call_failures", &["greenwave.cause", "greenwave.client"]);
        assert_eq!(failures, [(vec!["upstream-failed".to_owned(), "stock".to_owned()], 1)]);
        provider.shutdown().expect("an end");
    }
}
