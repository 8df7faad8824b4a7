//! Server that accepts at once and queues requests itself, guarded at its accept queue by its
//! queue reports.

//~ guard: a service that reports its own queue is protected before it; at least 93 % of its capacity is served

use std::collections::{BTreeMap, VecDeque};

use guard::app_queue::{CombinedSignals, QueueReport, STALE_AFTER};
use proptest::prelude::{prop_assert, proptest};

use super::*;

/// Time from a response to the connection's next request.
const THINK: Span = Span::from_millis(20);

/// Connections with several requests each, served one at a time.
struct Service {
    rng: Rng,
    now: Time,
    per_s: f64,
    /// Requests per connection.
    requests_per_connection: u32,
    reports: bool,
    budget: Option<Span>,
    /// Arrival time of each waiting request, and the number that follow on its connection.
    waiting: VecDeque<(Time, u32)>,
    /// Time of the next request on each idle connection, and the number that follow it.
    thinking: BTreeMap<(Time, u64), u32>,
    free_at: Time,
    next: Time,
    report: QueueReport,
    combined: CombinedSignals,
    policy: Box<dyn Policy>,
    admission: AdmissionController,
    /// Connections offered and admitted since the last tick.
    signals: Signals,
}

/// Observations over several ticks.
#[derive(Default)]
struct Observed {
    offered: u64,
    shed: u64,
    served: u64,
    delay_max: Span,
}

fn policy() -> Box<dyn Policy> {
    by_name("queue-delay", &Params::default()).expect("a policy")
}

impl Service {
    fn new(per_s: f64, requests_per_connection: u32, seed: u64) -> Self {
        Self {
            rng: Rng::seeded(seed),
            now: Time::ZERO,
            per_s,
            requests_per_connection,
            reports: true,
            budget: None,
            waiting: VecDeque::new(),
            thinking: BTreeMap::new(),
            free_at: Time::ZERO,
            next: Time::ZERO,
            report: QueueReport::default(),
            combined: CombinedSignals::new(1),
            policy: policy(),
            admission: AdmissionController::new(1),
            signals: Signals::default(),
        }
    }

    /// Runs for `span` at `times` the service's capacity.
    fn run(&mut self, span: Span, times: f64) -> Observed {
        let mut observed = Observed::default();
        let rate_per_s = times * self.per_s / f64::from(self.requests_per_connection);
        let ends = self.now + span;
        self.next = self.now;
        while self.now < ends {
            // Reports fall between two ticks.
            self.serve_until(self.now + TICK / 2, rate_per_s, &mut observed);
            self.publish_report();
            self.serve_until(self.now + TICK / 2, rate_per_s, &mut observed);
            self.tick();
            let delay = self.waiting.front().map_or(Span::ZERO, |(arrived, _)| self.now.since(*arrived));
            observed.delay_max = observed.delay_max.max(delay);
        }
        observed
    }

    fn serve_until(&mut self, end: Time, rate_per_s: f64, observed: &mut Observed) {
        loop {
            let asks = self.thinking.first_key_value().map_or(Time::MAX, |(&(at, _), _)| at);
            let free = self.waiting.front().map_or(Time::MAX, |(arrived, _)| self.free_at.max(*arrived));
            let first = self.next.min(asks).min(free);
            if first >= end {
                break;
            }
            if first == self.next {
                self.signals.offered += 1;
                observed.offered += 1;
                if self.admission.try_admit(first, Class::FIRST, 0) {
                    self.signals.admitted += 1;
                    self.enqueue(first, self.requests_per_connection - 1);
                } else {
                    observed.shed += 1;
                }
                self.next = first + Span::from_secs_f64(self.rng.exponential() / rate_per_s);
            } else if first == asks {
                let (_, follow) = self.thinking.pop_first().expect("just seen");
                self.enqueue(first, follow);
            } else {
                let (_, follow) = self.waiting.pop_front().expect("just seen");
                self.free_at = first + Span::from_secs_f64(2.0 * self.rng.unit() / self.per_s);
                self.report.served += 1;
                observed.served += 1;
                if follow > 0 {
                    self.thinking.insert((self.free_at + THINK, self.report.served), follow - 1);
                }
            }
        }
        self.now = end;
    }

    fn enqueue(&mut self, at: Time, follow: u32) {
        self.report.arrived += 1;
        self.waiting.push_back((at, follow));
    }

    fn publish_report(&mut self) {
        if self.reports {
            self.report.sequence += 1;
            self.report.waiting = self.waiting.len() as u64;
            self.report.delay =
                self.waiting.front().map_or(Span::ZERO, |(arrived, _)| self.now.since(*arrived));
            self.report.budget = self.budget;
        }
    }

    /// Tick of a guard in front of a kernel's server: every connection is accepted at once.
    fn tick(&mut self) {
        let connections = Signals { served: self.signals.admitted, ..self.signals };
        self.combined.record(self.now, 0, self.report);
        let signals = self.combined.combine(self.now, connections);
        if self.combined.is_stale() {
            self.policy = policy();
        }
        self.admission.set(self.now, self.policy.tick(self.now, &signals));
        self.signals = Signals::default();
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(24))]

    /// The guard knows the queue inside from reports only.
    #[test]
    fn a_service_that_tells_serves_what_it_can_and_soon(
        per_s in 300.0..10_000.0_f64, times in 1.3..10.0_f64, seed in 0..1_000_u64,
    ) {
        let mut service = Service::new(per_s, 1, seed);
        service.run(seconds(2), times);
        let observed = service.run(seconds(4), times);
        let share = observed.served as f64 / (4.0 * per_s);
        prop_assert!(share > 0.93, "served {share} of capacity");
        prop_assert!(observed.delay_max < Params::default().delay_target * 4, "{}", observed.delay_max);
    }

    /// With several requests per connection.
    #[test]
    fn connections_of_several_requests_are_shed_as_connections(
        per_s in 1_000.0..10_000.0_f64, times in 1.3..5.0_f64, requests_per_connection in 2..8_u32, seed in 0..1_000_u64,
    ) {
        let mut service = Service::new(per_s, requests_per_connection, seed);
        service.run(seconds(4), times);
        let observed = service.run(seconds(4), times);
        let share = observed.served as f64 / (4.0 * per_s);
        prop_assert!(share > 0.85, "served {share} of capacity");
        let connections_per_s = per_s / f64::from(requests_per_connection);
        prop_assert!(observed.delay_max < super::delay_max(8, 0.6 * connections_per_s), "{}", observed.delay_max);
    }

    #[test]
    fn a_service_that_keeps_up_sheds_nothing(
        per_s in 2_000.0..10_000.0_f64, times in 0.1..0.8_f64, requests_per_connection in 1..8_u32, seed in 0..1_000_u64,
    ) {
        let mut service = Service::new(per_s, requests_per_connection, seed);
        let observed = service.run(seconds(3), times);
        prop_assert!(observed.shed == 0, "{} of {}", observed.shed, observed.offered);
    }
}

#[test]
fn without_reports_nothing_is_shed() {
    let mut service = Service::new(1_000.0, 1, 1);
    service.reports = false;
    let observed = service.run(seconds(2), 2.0);
    assert_eq!(observed.shed, 0, "of {}", observed.offered);
    assert!(observed.delay_max > Span::from_millis(900), "{}", observed.delay_max);
}

/// Requests that can wait for 12 ms would be late at the target of 20.
#[test]
fn a_budget_that_is_shorter_than_the_target_is_the_target() {
    let wait = |budget| {
        let mut service = Service::new(5_000.0, 1, 1);
        service.budget = budget;
        service.run(seconds(2), 2.0);
        service.run(seconds(4), 2.0).delay_max
    };
    let (without, with) = (wait(None), wait(Some(Span::from_millis(12))));
    assert!(without > Span::from_millis(15) && with < Span::from_millis(15), "{without}, {with}");
}

#[test]
fn a_service_without_reports_is_open_after_half_a_second_until_it_reports_again() {
    let mut service = Service::new(1_000.0, 1, 1);
    assert!(service.run(seconds(2), 3.0).shed > 3_000);
    service.reports = false;
    service.run(STALE_AFTER + TICK * 2, 3.0);
    let observed = service.run(seconds(1), 3.0);
    assert_eq!(observed.shed, 0, "of {}", observed.offered);
    service.reports = true;
    assert!(service.run(seconds(1), 3.0).shed > 1_500);
}
