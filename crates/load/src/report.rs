//! Report of a run: requests never sent and sent late come before any latency.

use queueing::{Histogram, Span};
use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

/// Result of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Report {
    /// Environment: `sim`, `memory`, `kernel`, or a device's name.
    pub world: String,
    /// Seed.
    pub seed: u64,
    /// Machine, if it matters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Connections opened again during the run.
    pub reconnects: u64,
    /// Connections closed because of malformed responses.
    pub garbled: u64,
    /// Results by class, in the plan's order.
    pub classes: Vec<ClassReport>,
    /// Punctuality of the generator.
    #[serde(skip)]
    pub pace: Pace,
}

/// Punctuality of the generator, whatever the server does.
#[derive(Clone, Debug)]
pub struct Pace {
    /// Time from a request's due time until the generator came to it.
    pub lag: Histogram,
    /// Requests to which it came more than the plan's `late_after` after they were due.
    pub lagging: u64,
    /// Time from the start of the run until the last request was handed to TCP.
    pub last_sent: Span,
}

impl Default for Pace {
    fn default() -> Self {
        Self { lag: Histogram::coarse(), lagging: 0, last_sent: Span::ZERO }
    }
}

impl Report {
    /// Result of the class called `name`.
    #[must_use]
    pub fn class(&self, name: &str) -> Option<&ClassReport> {
        self.classes.iter().find(|c| c.name == name)
    }

    /// Requests due, all classes.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.classes.iter().map(|c| c.requests).sum()
    }

    /// Requests without a good response, all classes: never sent, unanswered, or answered by an error.
    #[must_use]
    pub fn errors(&self) -> u64 {
        self.classes.iter().map(|c| c.never_sent + c.unanswered + c.errors).sum()
    }

    /// Requests answered in time, all classes.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.classes.iter().map(ClassReport::answered).sum()
    }
}

/// Result of a class. Serialised as one flat row; times are integers in ns, null if no request was answered.
#[derive(Clone, Debug, Default)]
pub struct ClassReport {
    /// Class name.
    pub name: String,
    /// Requests due after the warm-up.
    pub requests: u64,
    /// Requests not handed to TCP before their timeout or the end of the run.
    pub never_sent: u64,
    /// Requests handed to TCP more than `late_after` after they were due; if answered, they
    /// count in `latency` too.
    pub late: u64,
    /// Requests sent, but lost with their connection or not answered before their timeout.
    pub unanswered: u64,
    /// Requests answered by an error, such as HTTP's status 400 or above; they are also in `latency`.
    pub errors: u64,
    /// Latency of answered requests, from the time they were due.
    pub latency: Histogram,
    /// Latency of answered requests, from the time they were handed to TCP: not corrected for
    /// coordinated omission.
    pub latency_from_send: Histogram,
    /// Breakdown of requests near the 99th percentile.
    pub at_p99: Breakdown,
}

impl ClassReport {
    /// Requests answered in time.
    #[must_use]
    pub fn answered(&self) -> u64 {
        self.requests.saturating_sub(self.never_sent + self.unanswered)
    }

    /// Median latency.
    #[must_use]
    pub fn p50(&self) -> Span {
        self.latency.quantile(0.5)
    }

    /// 99th percentile of latency.
    #[must_use]
    pub fn p99(&self) -> Span {
        self.latency.quantile(0.99)
    }

    /// 99.9th percentile of latency.
    #[must_use]
    pub fn p999(&self) -> Span {
        self.latency.quantile(0.999)
    }

    /// Maximum latency.
    #[must_use]
    pub fn max(&self) -> Span {
        self.latency.max()
    }

    /// Cumulative distribution, for plots: latencies, and the share of answered requests with
    /// at most that latency. Increasing; the last share is 1. Empty if nothing was answered.
    #[must_use]
    pub fn cdf(&self) -> Vec<(Span, f64)> {
        if self.latency.count() == 0 {
            return Vec::new();
        }
        let steps = (0..100).map(|i| f64::from(i) / 100.0);
        // Beyond p99, ten points per decade.
        let tail =
            (2..7).flat_map(|d| (0..10).map(move |i| 1.0 - 10f64.powf(-f64::from(d) - f64::from(i) / 10.0)));
        let mut points: Vec<(Span, f64)> = steps.chain(tail).map(|q| (self.latency.quantile(q), q)).collect();
        points.push((self.latency.max(), 1.0));
        points.dedup_by(|later, kept| {
            let same = later.0 == kept.0;
            if same {
                kept.1 = later.1;
            }
            same
        });
        points
    }
}

impl Serialize for ClassReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Latency is unknown if nothing was answered.
        let has_latency = self.latency.count() > 0;
        let ns = |span: Span| has_latency.then(|| span.as_nanos());
        let mut row = serializer.serialize_struct("ClassReport", 11)?;
        row.serialize_field("class", &self.name)?;
        row.serialize_field("requests", &self.requests)?;
        row.serialize_field("never_sent", &self.never_sent)?;
        row.serialize_field("late", &self.late)?;
        row.serialize_field("unanswered", &self.unanswered)?;
        row.serialize_field("mean_ns", &ns(self.latency.mean()))?;
        row.serialize_field("p50_ns", &ns(self.p50()))?;
        row.serialize_field("p99_ns", &ns(self.p99()))?;
        row.serialize_field("p999_ns", &ns(self.p999()))?;
        row.serialize_field("max_ns", &ns(self.max()))?;
        row.serialize_field("at_p99", &self.at_p99)?;
        row.end()
    }
}

/// Time per stage; the parts add up to the latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Breakdown {
    /// Before the server's device and after its worker: client, both directions of the link,
    /// retransmissions.
    pub client_and_wire: Span,
    /// In the NIC queue.
    pub nic: Span,
    /// In TCP.
    pub tcp: Span,
    /// In the event queue.
    pub event: Span,
    /// In service on a worker.
    pub service: Span,
}

impl Breakdown {
    /// Name and time of each stage, in order.
    #[must_use]
    pub fn stages(&self) -> [(&'static str, Span); 5] {
        [
            ("client and wire", self.client_and_wire),
            ("nic queue", self.nic),
            ("tcp", self.tcp),
            ("event queue", self.event),
            ("service", self.service),
        ]
    }

    /// Sum of all stages.
    #[must_use]
    pub fn total(&self) -> Span {
        self.stages().into_iter().map(|(_, span)| span).sum()
    }
}

impl Serialize for Breakdown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut row = serializer.serialize_struct("Breakdown", 5)?;
        row.serialize_field("client_and_wire_ns", &self.client_and_wire.as_nanos())?;
        row.serialize_field("nic_ns", &self.nic.as_nanos())?;
        row.serialize_field("tcp_ns", &self.tcp.as_nanos())?;
        row.serialize_field("event_ns", &self.event.as_nanos())?;
        row.serialize_field("service_ns", &self.service.as_nanos())?;
        row.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(latencies: impl IntoIterator<Item = u64>) -> ClassReport {
        let mut latency = Histogram::new();
        let mut requests = 3;
        for ns in latencies {
            latency.record(Span::from_nanos(ns));
            requests += 1;
        }
        let name = "ls".to_owned();
        ClassReport {
            name,
            requests,
            never_sent: 1,
            late: 0,
            unanswered: 2,
            errors: 0,
            latency_from_send: latency.clone(),
            latency,
            at_p99: Breakdown::default(),
        }
    }

    #[test]
    fn the_cumulative_distribution_ends_at_1() {
        let points = report((1..5000).map(|n| n * n)).cdf();
        assert!(points.is_sorted_by(|a, b| a.0 < b.0 && a.1 <= b.1), "{points:?}");
        assert_eq!(points.last().map(|p| p.1), Some(1.0));
        assert!(report([]).cdf().is_empty());
    }

    //~ load: requests never sent are counted and reported first
    #[test]
    fn the_report_lists_unsent_requests_before_latencies() {
        let row = serde_json::to_string(&report([1000])).unwrap();
        let at = |key: &str| row.find(key).unwrap_or_else(|| panic!("{key} in {row}"));
        assert!(at("never_sent") < at("late") && at("late") < at("unanswered"), "{row}");
        assert!(at("unanswered") < at("p50_ns") && at("p999_ns") < at("at_p99"), "{row}");
    }

    #[test]
    fn without_responses_the_latency_is_unknown() {
        let row = serde_json::to_value(report([])).unwrap();
        assert!(["mean_ns", "p50_ns", "p999_ns", "max_ns"].iter().all(|key| row[key].is_null()), "{row}");
        assert_eq!(serde_json::to_value(report([7])).unwrap()["max_ns"], 7);
    }

    #[test]
    fn answered_is_sent_minus_failed() {
        assert_eq!(report([5, 6]).answered(), 2);
    }
}
