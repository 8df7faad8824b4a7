//! A server that accepts at once and queues by itself, guarded at the door of
//! connections by what it tells of its requests.

use std::collections::{BTreeMap, VecDeque};

use guard::app_queue::{CombinedSignals, QueueReport, SILENT};
use proptest::prelude::{prop_assert, proptest};

use super::*;

/// From an answer to the connection's next request.
const THINK: Span = Span::from_millis(20);

/// Connections of some requests each, served one after the other.
struct Service {
    rng: Rng,
    now: Time,
    per_s: f64,
    /// Requests that a connection makes.
    each: u32,
    tells: bool,
    budget: Option<Span>,
    /// When each that waits came, and how many follow on its connection.
    waiting: VecDeque<(Time, u32)>,
    /// When the next comes of those connections that have none waiting, and how
    /// many then follow.
    thinking: BTreeMap<(Time, u64), u32>,
    free_at: Time,
    next: Time,
    told: QueueReport,
    joined: CombinedSignals,
    policy: Box<dyn Policy>,
    door: AdmissionController,
    /// Connections and whether they came in, and requests answered, since the last look.
    signals: Signals,
}

/// What was seen over some looks.
#[derive(Default)]
struct Found {
    offered: u64,
    shed: u64,
    served: u64,
    delay_max: Span,
}

fn policy() -> Box<dyn Policy> {
    by_name("queue-delay", &Params::default()).expect("a policy")
}

impl Service {
    fn new(per_s: f64, each: u32, seed: u64) -> Self {
        Self {
            rng: Rng::seeded(seed),
            now: Time::ZERO,
            per_s,
            each,
            tells: true,
            budget: None,
            waiting: VecDeque::new(),
            thinking: BTreeMap::new(),
            free_at: Time::ZERO,
            next: Time::ZERO,
            told: QueueReport::default(),
            joined: CombinedSignals::new(1),
            policy: policy(),
            door: AdmissionController::new(1),
            signals: Signals::default(),
        }
    }

    /// For `span`, so many times the connections come that it can serve.
    fn goes_on(&mut self, span: Span, times: f64) -> Found {
        let mut found = Found::default();
        let rate_per_s = times * self.per_s / f64::from(self.each);
        let ends = self.now + span;
        self.next = self.now;
        while self.now < ends {
            // It tells between two looks.
            self.works_until(self.now + LOOK / 2, rate_per_s, &mut found);
            self.tell();
            self.works_until(self.now + LOOK / 2, rate_per_s, &mut found);
            self.look();
            let delay = self.waiting.front().map_or(Span::ZERO, |(came, _)| self.now.since(*came));
            found.delay_max = found.delay_max.max(delay);
        }
        found
    }

    fn works_until(&mut self, end: Time, rate_per_s: f64, found: &mut Found) {
        loop {
            let asks = self.thinking.first_key_value().map_or(Time::MAX, |(&(at, _), _)| at);
            let free = self.waiting.front().map_or(Time::MAX, |(came, _)| self.free_at.max(*came));
            let first = self.next.min(asks).min(free);
            if first >= end {
                break;
            }
            if first == self.next {
                self.signals.offered += 1;
                found.offered += 1;
                if self.door.try_admit(first, Class::FIRST, 0) {
                    self.signals.admitted += 1;
                    self.comes(first, self.each - 1);
                } else {
                    found.shed += 1;
                }
                self.next = first + Span::from_secs_f64(self.rng.exponential() / rate_per_s);
            } else if first == asks {
                let (_, follow) = self.thinking.pop_first().expect("just seen");
                self.comes(first, follow);
            } else {
                let (_, follow) = self.waiting.pop_front().expect("just seen");
                self.free_at = first + Span::from_secs_f64(2.0 * self.rng.unit() / self.per_s);
                self.told.served += 1;
                found.served += 1;
                if follow > 0 {
                    self.thinking.insert((self.free_at + THINK, self.told.served), follow - 1);
                }
            }
        }
        self.now = end;
    }

    fn comes(&mut self, at: Time, follow: u32) {
        self.told.came += 1;
        self.waiting.push_back((at, follow));
    }

    fn tell(&mut self) {
        if self.tells {
            self.told.turn += 1;
            self.told.waiting = self.waiting.len() as u64;
            self.told.delay = self.waiting.front().map_or(Span::ZERO, |(came, _)| self.now.since(*came));
            self.told.budget = self.budget;
        }
    }

    /// As who guards a kernel's server does: everybody was accepted at once.
    fn look(&mut self) {
        let seen = Signals { served: self.signals.admitted, ..self.signals };
        self.joined.hear(self.now, 0, self.told);
        let signals = self.joined.join(self.now, seen);
        if self.joined.is_stale() {
            self.policy = policy();
        }
        self.door.set(self.now, self.policy.tick(self.now, &signals));
        self.signals = Signals::default();
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(24))]

    /// Its door knows nothing of what waits inside but what it is told.
    #[test]
    fn a_service_that_tells_serves_what_it_can_and_soon(
        per_s in 300.0..10_000.0_f64, times in 1.3..10.0_f64, seed in 0..1_000_u64,
    ) {
        let mut service = Service::new(per_s, 1, seed);
        service.goes_on(seconds(2), times);
        let found = service.goes_on(seconds(4), times);
        let share = found.served as f64 / (4.0 * per_s);
        prop_assert!(share > 0.93, "served {share} of what it could");
        prop_assert!(found.delay_max < Params::default().delay_target * 4, "{}", found.delay_max);
    }

    /// Where connections make several requests, too.
    #[test]
    fn connections_of_several_requests_are_shed_as_connections(
        per_s in 1_000.0..10_000.0_f64, times in 1.3..5.0_f64, each in 2..8_u32, seed in 0..1_000_u64,
    ) {
        let mut service = Service::new(per_s, each, seed);
        service.goes_on(seconds(4), times);
        let found = service.goes_on(seconds(4), times);
        let share = found.served as f64 / (4.0 * per_s);
        prop_assert!(share > 0.85, "served {share} of what it could");
        prop_assert!(found.delay_max < Params::default().delay_target * 8, "{}", found.delay_max);
    }

    #[test]
    fn a_service_that_keeps_up_sheds_nobody(
        per_s in 2_000.0..10_000.0_f64, times in 0.1..0.8_f64, each in 1..8_u32, seed in 0..1_000_u64,
    ) {
        let mut service = Service::new(per_s, each, seed);
        let found = service.goes_on(seconds(3), times);
        prop_assert!(found.shed == 0, "{} of {}", found.shed, found.offered);
    }
}

#[test]
fn without_a_word_nobody_is_shed_and_all_wait() {
    let mut service = Service::new(1_000.0, 1, 1);
    service.tells = false;
    let found = service.goes_on(seconds(2), 2.0);
    assert_eq!(found.shed, 0, "of {}", found.offered);
    assert!(found.delay_max > Span::from_millis(900), "{}", found.delay_max);
}

/// Those who can spare 12 ms would be late behind the target of 20.
#[test]
fn a_budget_that_is_shorter_than_the_target_is_the_target() {
    let wait = |budget| {
        let mut service = Service::new(5_000.0, 1, 1);
        service.budget = budget;
        service.goes_on(seconds(2), 2.0);
        service.goes_on(seconds(4), 2.0).delay_max
    };
    let (without, with) = (wait(None), wait(Some(Span::from_millis(12))));
    assert!(without > Span::from_millis(15) && with < Span::from_millis(15), "{without}, {with}");
}

#[test]
fn who_falls_silent_is_open_to_all_after_half_a_second_and_is_heard_again() {
    let mut service = Service::new(1_000.0, 1, 1);
    assert!(service.goes_on(seconds(2), 3.0).shed > 3_000);
    service.tells = false;
    service.goes_on(SILENT + LOOK * 2, 3.0);
    let found = service.goes_on(seconds(1), 3.0);
    assert_eq!(found.shed, 0, "of {}", found.offered);
    service.tells = true;
    assert!(service.goes_on(seconds(1), 3.0).shed > 1_500);
}
