//! Accounting of requests per class.
//!
//! Counters and a histogram cover all requests. The breakdown by stage is kept for a bounded
//! sample, because the requests near p99 are known only at the end.
//! Source of the sampling: Vitter, *Random sampling with a reservoir* (1985), algorithm R.

use queueing::{Histogram, Rng, Span, Time};

use crate::plan::Plan;
use crate::report::{Breakdown, ClassReport, Pace};

/// Maximum number of samples per class, 24 B each.
const SAMPLES_MAX: usize = 1 << 16;

/// Time of a request per stage, as reported by the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ServerStages {
    /// In the NIC queue.
    pub nic: Span,
    /// In TCP.
    pub tcp: Span,
    /// In the event queue.
    pub event: Span,
    /// In service on a worker.
    pub service: Span,
}

/// Latency and stage times of a request; 32-bit floats are exact to 1 in 10⁷.
#[derive(Clone, Copy, Debug)]
struct Sample {
    latency_ns: u64,
    stages_ns: [f32; 4],
}

/// Counters of one class.
struct Account {
    requests: u64,
    never_sent: u64,
    late: u64,
    unanswered: u64,
    errors: u64,
    latency: Histogram,
    latency_from_send: Histogram,
    seen: u64,
    samples: Vec<Sample>,
}

/// Recorder of all requests that are due after the warm-up.
pub(crate) struct Recorder {
    warmup: Span,
    late_after: Span,
    rng: Rng,
    names: Vec<String>,
    accounts: Vec<Account>,
    pace: Pace,
}

impl Recorder {
    pub fn new(plan: &Plan) -> Self {
        let account = |_| Account {
            requests: 0,
            never_sent: 0,
            late: 0,
            unanswered: 0,
            errors: 0,
            latency: Histogram::new(),
            latency_from_send: Histogram::coarse(),
            seen: 0,
            samples: Vec::new(),
        };
        Self {
            warmup: plan.warmup,
            late_after: plan.late_after,
            rng: Rng::seeded(plan.seed).fork(u64::from(u32::MAX)),
            names: plan.classes.iter().map(|c| c.name.clone()).collect(),
            accounts: plan.classes.iter().map(account).collect(),
            pace: Pace::default(),
        }
    }

    /// Account of the class; `None` if a request due at `intended`, counted from the start of
    /// the run, falls into the warm-up.
    fn account(&mut self, class: u16, intended: Time) -> Option<&mut Account> {
        (intended >= Time::ZERO + self.warmup).then(|| &mut self.accounts[usize::from(class)])
    }

    /// Records a request due at `intended`, which the generator came to at `now`.
    pub fn due(&mut self, class: u16, intended: Time, now: Time) {
        let lag = now.since(intended);
        let is_late = lag > self.late_after;
        if let Some(account) = self.account(class, intended) {
            account.requests += 1;
            self.pace.lag.record(lag);
            self.pace.lagging += u64::from(is_late);
        }
    }

    pub fn sent(&mut self, class: u16, intended: Time, sent: Time) {
        let late = sent.since(intended) > self.late_after;
        self.pace.last_sent = self.pace.last_sent.max(sent.since(Time::ZERO));
        if let Some(account) = self.account(class, intended)
            && late
        {
            account.late += 1;
        }
    }

    pub fn never_sent(&mut self, class: u16, intended: Time) {
        if let Some(account) = self.account(class, intended) {
            account.never_sent += 1;
        }
    }

    pub fn unanswered(&mut self, class: u16, intended: Time) {
        if let Some(account) = self.account(class, intended) {
            account.unanswered += 1;
        }
    }

    /// Records an answered request that responded with an error.
    pub fn error(&mut self, class: u16, intended: Time) {
        if let Some(account) = self.account(class, intended) {
            account.errors += 1;
        }
    }

    pub fn answered(&mut self, class: u16, intended: Time, sent: Time, answered: Time, stages: ServerStages) {
        if intended < Time::ZERO + self.warmup {
            return;
        }
        let latency = answered.since(intended);
        let account = &mut self.accounts[usize::from(class)];
        account.latency.record(latency);
        account.latency_from_send.record(answered.since(sent));
        account.seen += 1;
        let ServerStages { nic, tcp, event, service } = stages;
        let sample = Sample {
            latency_ns: latency.as_nanos(),
            stages_ns: [nic, tcp, event, service].map(|s| s.as_nanos() as f32),
        };
        if account.samples.len() < SAMPLES_MAX {
            account.samples.push(sample);
        } else {
            let slot = self.rng.below(account.seen) as usize;
            if let Some(kept) = account.samples.get_mut(slot) {
                *kept = sample;
            }
        }
    }

    pub fn pace(&self) -> Pace {
        self.pace.clone()
    }

    pub fn report(&self) -> Vec<ClassReport> {
        let of = |(name, account): (&String, &Account)| ClassReport {
            name: name.clone(),
            requests: account.requests,
            never_sent: account.never_sent,
            late: account.late,
            unanswered: account.unanswered,
            errors: account.errors,
            latency: account.latency.clone(),
            latency_from_send: account.latency_from_send.clone(),
            at_p99: at_p99(&account.samples),
        };
        self.names.iter().zip(&self.accounts).map(of).collect()
    }
}

/// Mean of the samples between p98.5 and p99.5, at least one sample.
fn at_p99(samples: &[Sample]) -> Breakdown {
    let mut sorted: Vec<&Sample> = samples.iter().collect();
    sorted.sort_by_key(|s| s.latency_ns);
    let rank = |q: f64| ((sorted.len() as f64 * q).ceil() as usize).clamp(1, sorted.len());
    let Some(_) = sorted.first() else { return Breakdown::default() };
    let near = &sorted[rank(0.985) - 1..rank(0.995)];
    let mean = |of: &dyn Fn(&Sample) -> f64| {
        let sum: f64 = near.iter().map(|s| of(s)).sum();
        Span::from_nanos((sum / near.len() as f64).round() as u64)
    };
    let stage = |i: usize| mean(&|s| s.stages_ns[i].into());
    let outside = |s: &Sample| s.latency_ns as f64 - s.stages_ns.iter().copied().map(f64::from).sum::<f64>();
    Breakdown {
        client_and_wire: mean(&|s| outside(s).max(0.0)),
        nic: stage(0),
        tcp: stage(1),
        event: stage(2),
        service: stage(3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(latency: u64, event: u64) -> Sample {
        Sample { latency_ns: latency, stages_ns: [0.0, 0.0, event as f32, 1.0] }
    }

    //~ demo: the breakdown of p99 is that of the requests near p99
    #[test]
    fn the_breakdown_averages_the_requests_near_p99() {
        let mut samples: Vec<Sample> = (1..=1000).map(|n| sample(n * 100, 10)).collect();
        for s in &mut samples[984..995] {
            s.stages_ns[2] = 50_000.0;
        }
        samples.reverse();
        let at = at_p99(&samples);
        assert_eq!(
            (at.event, at.service, at.nic),
            (Span::from_nanos(50_000), Span::from_nanos(1), Span::ZERO)
        );
        assert_eq!(at.client_and_wire, Span::from_nanos(99_000 - 50_001));
    }

    #[test]
    fn the_p99_of_one_request_is_itself_and_of_none_is_none() {
        assert_eq!(at_p99(&[sample(100, 40)]).event, Span::from_nanos(40));
        assert_eq!(at_p99(&[]), Breakdown::default());
    }

    #[test]
    fn stages_that_exceed_the_latency_leave_nothing_for_the_wire() {
        assert_eq!(at_p99(&[sample(10, 40)]).client_and_wire, Span::ZERO);
    }
}
