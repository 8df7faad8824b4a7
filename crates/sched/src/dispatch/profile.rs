//! Profile of request types: service times and arrival shares, for DARC.
//!
//! Holds a running mean of the service time and a count per type, from which each
//! type's share of the machine follows. Clients invent types, so their number is
//! bounded; types beyond the bound are not profiled.

use std::collections::BTreeMap;

use queueing::Span;

use super::RequestType;

/// Profile of one request type.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Share {
    /// The type.
    pub kind: RequestType,
    /// Mean service time in nanoseconds.
    pub mean_ns: f64,
    /// Share of all requests, 0.0..=1.0.
    pub ratio: f64,
    /// Share of all service time, 0.0..=1.0.
    pub demand: f64,
}

/// Service times in the current window.
#[derive(Clone, Debug, Default)]
pub struct Profile {
    kinds: BTreeMap<RequestType, TypeRecord>,
    samples: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct TypeRecord {
    mean_ns: f64,
    count: u64,
    /// Demand at the end of the previous window.
    demand_last: f64,
}

/// Maximum number of types in a profile.
pub(super) const KINDS_MAX: usize = 256;

impl Profile {
    /// Records that a request of `kind` took `service`.
    pub fn record(&mut self, kind: RequestType, service: Span) {
        if self.kinds.len() >= KINDS_MAX && !self.kinds.contains_key(&kind) {
            return;
        }
        let record = self.kinds.entry(kind).or_default();
        record.count += 1;
        record.mean_ns += (service.as_nanos() as f64 - record.mean_ns) / record.count as f64;
        self.samples += 1;
    }

    /// Requests in this window.
    #[must_use]
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Mean service time of `kind`; `None` if none was recorded.
    #[must_use]
    pub fn mean_ns(&self, kind: RequestType) -> Option<f64> {
        self.kinds.get(&kind).map(|record| record.mean_ns)
    }

    /// All types of this window, in order of number.
    #[must_use]
    pub fn shares(&self) -> Vec<Share> {
        let total = self.service_ns();
        let share = |(&kind, record): (&RequestType, &TypeRecord)| Share {
            kind,
            mean_ns: record.mean_ns,
            ratio: record.count as f64 / self.samples.max(1) as f64,
            demand: record.demand(total),
        };
        self.kinds.iter().filter(|(_, record)| record.count > 0).map(share).collect()
    }

    /// Largest change of a type's demand since the previous window, as a share of
    /// the machine; 1.0 if a type appeared or vanished.
    #[must_use]
    pub fn demand_change(&self) -> f64 {
        let total = self.service_ns();
        let change = |record: &TypeRecord| match (record.count > 0, record.demand_last > 0.0) {
            (true, true) => (record.demand(total) - record.demand_last).abs(),
            (false, false) => 0.0,
            _ => 1.0,
        };
        self.kinds.values().map(change).fold(0.0, f64::max)
    }

    /// Starts a new window. Means remain until the first record of the type.
    pub fn restart(&mut self) {
        let total = self.service_ns();
        for record in self.kinds.values_mut() {
            record.demand_last = record.demand(total);
            record.count = 0;
        }
        self.samples = 0;
    }

    /// Halves all counts, so that older records of a long window weigh less.
    pub fn halve_counts(&mut self) {
        self.kinds.values_mut().for_each(|record| record.count = record.count.div_ceil(2));
        self.samples = self.kinds.values().map(|record| record.count).sum();
    }

    fn service_ns(&self) -> f64 {
        self.kinds.values().map(|record| record.mean_ns * record.count as f64).sum()
    }
}

impl TypeRecord {
    /// Share of the service time; above zero for any recorded type, even of zero service.
    fn demand(&self, total_ns: f64) -> f64 {
        match self.count {
            0 => 0.0,
            n => (self.mean_ns * n as f64 / total_ns.max(1.0)).max(f64::MIN_POSITIVE),
        }
    }
}
