//! Metrics of the layers by OpenTelemetry.
//!
//! Asynchronous instruments: a collection reads the layers' own counters, so a request costs nothing more. The
//! number of time series is bounded by [`Settings::methods_max`](super::Settings::methods_max). Names and attributes
//! are stable, and listed in the guide. No exporter here: the application has one.
//! Source: OpenTelemetry, metrics API (asynchronous counter).

use opentelemetry::KeyValue;
use opentelemetry::metrics::Meter;

use super::{DeadlineLayer, PropagateLayer};
use crate::{Cause, Outcome};

impl<A> DeadlineLayer<A> {
    /// Registers with `meter` the counter `greenwave.deadline.requests`: requests that have ended, by the attributes
    /// `greenwave.server` (`server`), `greenwave.method` and `greenwave.outcome` ([`Outcome::name`]). And
    /// `greenwave.deadline.waiting`: requests in the queue.
    ///
    /// Call it once for a layer, not for its clones.
    pub fn register_metrics(&self, meter: &Meter, server: &str) {
        let server = KeyValue::new("greenwave.server", server.to_owned());
        let (limiter, of_server) = (self.limiter(), server.clone());
        meter
            .u64_observable_counter("greenwave.deadline.requests")
            .with_description("Requests that have ended, by method and outcome.")
            .with_unit("{request}")
            .with_callback(move |observer| {
                for (method, outcomes) in limiter.outcomes() {
                    let method = KeyValue::new("greenwave.method", method);
                    for outcome in Outcome::ALL {
                        let count = outcomes.count(outcome);
                        if count > 0 {
                            let outcome = KeyValue::new("greenwave.outcome", outcome.name());
                            observer.observe(count, &[of_server.clone(), method.clone(), outcome]);
                        }
                    }
                }
            })
            .build();
        let limiter = self.limiter();
        meter
            .u64_observable_gauge("greenwave.deadline.waiting")
            .with_description("Requests in the queue.")
            .with_unit("{request}")
            .with_callback(move |observer| {
                observer.observe(limiter.counts().waiting as u64, std::slice::from_ref(&server))
            })
            .build();
    }
}

impl PropagateLayer {
    /// Registers with `meter` the counter `greenwave.deadline.call_failures`: calls that were refused or failed, by the
    /// attributes `greenwave.client` (`client`) and `greenwave.cause` ([`Cause::name`]).
    ///
    /// Call it once for a layer, not for its clones.
    pub fn register_metrics(&self, meter: &Meter, client: &str) {
        let (layer, client) = (self.clone(), KeyValue::new("greenwave.client", client.to_owned()));
        meter
            .u64_observable_counter("greenwave.deadline.call_failures")
            .with_description("Calls that were refused or failed, by cause.")
            .with_unit("{call}")
            .with_callback(move |observer| {
                for cause in Cause::ALL {
                    let count = layer.failures(cause);
                    if count > 0 {
                        observer.observe(
                            count,
                            &[client.clone(), KeyValue::new("greenwave.cause", cause.name())],
                        );
                    }
                }
            })
            .build();
    }
}
