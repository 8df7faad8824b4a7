//! The rule for overload against the test vectors shared with the Java implementation.

//~ deadlines: the rule for overload decides alike in Rust and Java, by one file of vectors

use std::collections::BTreeMap;

use deadline::{DeadlineQueue, DequeueResult, EnqueueResult, Forecast, QueueSettings, Work};
use queueing::{Entry, Label, Priority, Span, Time};
use serde_json::Value;

struct Request {
    name: String,
    left: Option<Span>,
    forecast: Forecast,
}

impl Entry for Request {
    fn label(&self) -> Label {
        Label { priority: Priority::LOWEST, deadline: self.left }
    }
}

impl Work for Request {
    fn forecast(&self) -> Forecast {
        self.forecast.clone()
    }
}

fn ns(value: &Value) -> u64 {
    value.as_u64().expect("a number of ns")
}

fn list(value: &Value) -> &[Value] {
    value.as_array().expect("a list")
}

#[test]
fn forecasts_and_decisions_are_those_of_the_vectors() {
    let text = include_str!("../../../spec/deadline/shedding.json");
    let vectors: Value = serde_json::from_str(text).expect("the vectors are JSON");
    let mut kinds = BTreeMap::new();
    for vector in list(&vectors["forecasts"]) {
        let samples: Vec<Span> = list(&vector["samples"]).iter().map(|n| Span::from_nanos(ns(n))).collect();
        let forecast = Forecast::from_samples(&samples);
        assert_eq!(forecast.mean(), Span::from_nanos(ns(&vector["mean"])));
        for pair in list(&vector["within"]) {
            let left = Span::from_nanos(ns(&pair[0]));
            assert_eq!(forecast.probability_within(left), ns(&pair[1]), "{} within {left}", vector["kind"]);
        }
        kinds.insert(vector["kind"].as_str().expect("a name"), forecast);
    }
    let mut pops = 0;
    for vector in list(&vectors["queues"]) {
        let settings =
            QueueSettings { age_max: Span::from_nanos(ns(&vector["age_max"])), ..QueueSettings::default() };
        let mut queue = DeadlineQueue::new(settings).with_servers(ns(&vector["servers"]) as usize);
        for step in list(&vector["steps"]) {
            let now = Time::from_nanos(ns(&step[1]));
            if step[0] == "push" {
                let left = step[4].as_u64().map(Span::from_nanos);
                let forecast = kinds[step[3].as_str().expect("a kind")].clone();
                let request = Request { name: step[2].as_str().expect("a name").to_owned(), left, forecast };
                let is_expired = left == Some(Span::ZERO);
                assert_eq!(matches!(queue.enqueue(now, request), EnqueueResult::Queued), !is_expired);
                continue;
            }
            let result = queue.dequeue(now).map(|result| match result {
                DequeueResult::Serve(request) => format!("+{}", request.name),
                DequeueResult::Shed(request, _) => format!("-{}", request.name),
            });
            assert_eq!(result.as_deref(), step[2].as_str(), "{step}");
            pops += 1;
        }
    }
    assert!(pops > 100, "{pops} decisions");
}
