//! A server whose threads accept at once and share a core: what waits is not in
//! its accept queue. Guarded by who waits for an answer, and by who waits to be accepted.

use std::collections::VecDeque;

use guard::{AdmissionController, Class, Params, Policy, Signals, WaitEnd, by_name};
use proptest::prelude::{prop_assert, proptest};
use queueing::{Rng, Span, Time};

use super::{LOOK, seconds};

/// As many at once as there are threads, each with the same share of the core.
struct Threads {
    rng: Rng,
    now: Time,
    per_s: f64,
    threads: usize,
    /// When each came that has no thread yet.
    queue: VecDeque<Time>,
    /// When each came that has one, and how much of the core it still takes, in seconds.
    active: Vec<(Time, f64)>,
    next: Time,
    until: WaitEnd,
    policy: Box<dyn Policy>,
    door: AdmissionController,
}

/// What was seen over some looks.
#[derive(Default)]
struct Seen {
    offered: u64,
    shed: u64,
    answered: u64,
    latency: Span,
    latency_max: Span,
}

impl Seen {
    fn latency_mean(&self) -> Span {
        self.latency / self.answered.max(1)
    }
}

impl Threads {
    fn new(per_s: f64, threads: usize, until: WaitEnd, seed: u64) -> Self {
        Self {
            rng: Rng::seeded(seed),
            now: Time::ZERO,
            per_s,
            threads,
            queue: VecDeque::new(),
            active: Vec::new(),
            next: Time::ZERO,
            until,
            policy: by_name("queue-delay", &Params::default()).expect("a policy"),
            door: AdmissionController::new(1),
        }
    }

    /// For `span`, so many times the connections come that it can serve.
    fn goes_on(&mut self, span: Span, times: f64) -> Seen {
        let mut seen = Seen::default();
        let ends = self.now + span;
        self.next = self.now;
        while self.now < ends {
            let look = self.now + LOOK;
            let mut signals = Signals::default();
            let mut accepted = 0;
            loop {
                accepted += self.accept();
                // Of those that share the core, who is done first.
                let least = self.active.iter().map(|&(_, left_s)| left_s).fold(f64::INFINITY, f64::min);
                let sharing = self.active.len() as f64;
                let done = match least {
                    f64::INFINITY => Time::MAX,
                    least_s => self.now + Span::from_secs_f64(least_s * sharing),
                };
                let at = self.next.min(done).min(look);
                let each_s = at.since(self.now).as_secs_f64() / sharing.max(1.0);
                self.active.iter_mut().for_each(|(_, left_s)| *left_s -= each_s);
                self.now = at;
                if at == look {
                    break;
                } else if at == done {
                    let is_least = |(_, left_s): &&(Time, f64)| *left_s <= least - each_s;
                    let who = self.active.iter().position(|entry| is_least(&entry)).expect("just seen");
                    let (came, _) = self.active.swap_remove(who);
                    seen.latency += at.since(came);
                    seen.latency_max = seen.latency_max.max(at.since(came));
                    signals.served += 1;
                } else {
                    signals.offered += 1;
                    let present = (self.queue.len() + self.active.len()) as u64;
                    if self.door.try_admit(at, Class::FIRST, present) {
                        signals.admitted += 1;
                        self.queue.push_back(at);
                    }
                    self.next = at + Span::from_secs_f64(self.rng.exponential() / (times * self.per_s));
                }
            }
            seen.offered += signals.offered;
            seen.shed += signals.offered - signals.admitted;
            seen.answered += signals.served;
            self.look(signals, accepted);
        }
        seen
    }

    /// Those that find a thread are taken off the queue.
    fn accept(&mut self) -> u64 {
        let free = self.threads - self.active.len();
        let taken: Vec<Time> = self.queue.drain(..free.min(self.queue.len())).collect();
        let work = |came| (came, 2.0 * self.rng.unit() / self.per_s);
        self.active.extend(taken.iter().copied().map(work).collect::<Vec<_>>());
        taken.len() as u64
    }

    fn look(&mut self, seen: Signals, accepted: u64) {
        let oldest =
            |of: &mut dyn Iterator<Item = Time>| of.min().map_or(Span::ZERO, |came| self.now.since(came));
        let queued = oldest(&mut self.queue.iter().copied());
        let signals = match self.until {
            WaitEnd::Accept => {
                Signals { served: accepted, waiting: self.queue.len() as u64, delay: queued, ..seen }
            }
            WaitEnd::Answer => {
                let active = oldest(&mut self.active.iter().map(|&(came, _)| came));
                let waiting = (self.queue.len() + self.active.len()) as u64;
                Signals { waiting, delay: queued.max(active), reordered: true, ..seen }
            }
        };
        self.door.set(self.now, self.policy.tick(self.now, &signals));
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(16))]

    /// Whether all have a thread at once or some wait for one. The target is what the mean takes: who
    /// takes much of the core takes longer where it is shared.
    #[test]
    fn threads_serve_what_they_can_and_soon(
        per_s in 300.0..3_000.0_f64, threads in 8..1_000_usize, times in 1.3..10.0_f64, seed in 0..1_000_u64,
    ) {
        let mut server = Threads::new(per_s, threads, WaitEnd::Answer, seed);
        server.goes_on(seconds(2), times);
        let seen = server.goes_on(seconds(4), times);
        let share = seen.answered as f64 / (4.0 * per_s);
        prop_assert!(share > 0.93, "answered {share} of what it could");
        let (mean, target) = (seen.latency_mean(), Params::default().delay_target);
        prop_assert!(mean < target * 3, "{mean}");
        prop_assert!(seen.latency_max < target * 20, "{}", seen.latency_max);
    }

    #[test]
    fn threads_that_keep_up_shed_nobody(
        per_s in 2_000.0..10_000.0_f64, threads in 8..1_000_usize, times in 0.1..0.7_f64, seed in 0..1_000_u64,
    ) {
        let mut server = Threads::new(per_s, threads, WaitEnd::Answer, seed);
        let seen = server.goes_on(seconds(3), times);
        prop_assert!(seen.shed == 0, "{} of {}", seen.shed, seen.offered);
    }
}

/// Apache with 400 threads at four times its 250 a second.
#[test]
fn an_accept_queue_hides_who_waits_for_a_thread_s_turn() {
    let latency_max = |until| {
        let mut server = Threads::new(250.0, 400, until, 1);
        server.goes_on(seconds(2), 4.0);
        server.goes_on(seconds(4), 4.0).latency_max
    };
    let (accept, answer) = (latency_max(WaitEnd::Accept), latency_max(WaitEnd::Answer));
    assert!(accept > Span::from_secs(1), "{accept}: all threads are taken before anybody is seen to wait");
    assert!(answer < Span::from_millis(200), "{answer}");
}
