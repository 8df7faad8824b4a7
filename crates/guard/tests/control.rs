//! Policies in a control loop with a simulated server: properties of every policy.

use std::collections::VecDeque;

use guard::{AdmissionController, Class, Limit, POLICIES, Params, Policy, Signals, by_name};
use proptest::prelude::{prop_assert, proptest};
use queueing::{Rng, Span, Time};

#[path = "control/other_policies.rs"]
mod other_policies;
#[path = "control/queue_reports.rs"]
mod queue_reports;
#[path = "control/target.rs"]
mod target;
#[path = "control/threads.rs"]
mod threads;

const TICK: Span = Span::from_millis(10);

/// Server that serves one request at a time, with service times drawn around a mean, and the
/// requests that it admitted.
struct Server {
    rng: Rng,
    now: Time,
    per_s: f64,
    /// Arrival time and class of each request in the server.
    waiting: VecDeque<(Time, u8)>,
    /// True: the first class is served first. False: order of arrival.
    by_class: bool,
    free_at: Time,
    policy: Box<dyn Policy>,
    admission: AdmissionController,
    next: Time,
}

/// Number of requests that fill the server's memory.
const IN_MEMORY: f64 = 1_000.0;

/// Observations over several ticks.
#[derive(Default)]
struct Observed {
    offered: u64,
    shed: [u64; 2],
    served: u64,
    delays: Vec<Span>,
    /// Requests in the server at each tick.
    waiting: Vec<u64>,
}

impl Server {
    fn new(policy: &str, per_s: f64, seed: u64) -> Self {
        Self {
            rng: Rng::seeded(seed),
            now: Time::ZERO,
            per_s,
            waiting: VecDeque::new(),
            by_class: false,
            free_at: Time::ZERO,
            policy: by_name(policy, &Params::default()).expect("a policy"),
            admission: AdmissionController::new(2),
            next: Time::ZERO,
        }
    }

    /// Runs for `span`, with Poisson arrivals at `rates_per_s` by class.
    fn run(&mut self, span: Span, rates_per_s: [f64; 2]) -> Observed {
        let mut observed = Observed::default();
        let ends = self.now + span;
        let rate_per_s: f64 = rates_per_s.iter().sum();
        let of_first = rates_per_s[0] / rate_per_s;
        self.next = self.now;
        while self.now < ends {
            let tick = self.now + TICK;
            let mut signals = Signals::default();
            let mut answered_in = Span::ZERO;
            loop {
                let free = self.waiting.front().map_or(Time::MAX, |&(arrived, _)| self.free_at.max(arrived));
                if self.next.min(free) >= tick {
                    break;
                }
                if self.next <= free {
                    let class = u8::from(self.rng.unit() >= of_first);
                    signals.offered += 1;
                    if self.admission.try_admit(self.next, Class::new(class), self.waiting.len() as u64) {
                        signals.admitted += 1;
                        self.waiting.push_back((self.next, class));
                    } else {
                        observed.shed[class as usize] += 1;
                    }
                    self.next += Span::from_secs_f64(self.rng.exponential() / rate_per_s);
                } else {
                    let next = self.waiting.iter().position(|&(_, class)| self.by_class && class == 0);
                    let (arrived, _) =
                        self.waiting.remove(next.unwrap_or(0)).expect("the queue is not empty");
                    signals.served += 1;
                    self.free_at = free + Span::from_secs_f64(2.0 * self.rng.unit() / self.per_s);
                    answered_in += self.free_at.since(arrived);
                }
            }
            self.now = tick;
            signals.waiting = self.waiting.len() as u64;
            signals.delay = self.waiting.front().map_or(Span::ZERO, |&(arrived, _)| tick.since(arrived));
            signals.reordered = self.by_class;
            signals.present = signals.waiting;
            signals.latency = (signals.served > 0).then(|| answered_in / signals.served.max(1));
            signals.memory_share = signals.waiting as f64 / IN_MEMORY;
            self.admission.set(tick, self.policy.tick(tick, &signals));
            observed.offered += signals.offered;
            observed.served += signals.served;
            observed.delays.push(signals.delay);
            observed.waiting.push(signals.waiting);
        }
        observed
    }
}

fn seconds(s: u64) -> Span {
    Span::from_secs(s)
}

/// Longest delay in lasting overload: this many targets, or what a slow server takes for 40 requests.
fn delay_max(targets: u64, per_s: f64) -> Span {
    (Params::default().delay_target * targets).max(Span::from_secs_f64(40.0 / per_s))
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(48))]

    //~ guard: `queue-delay` sheds no request below its target
    /// A server below its capacity sheds nothing, whatever its speed.
    #[test]
    fn below_the_target_nothing_is_shed(per_s in 2_000.0..50_000.0_f64, load in 0.1..0.8_f64, seed in 0..1_000_u64) {
        let mut server = Server::new("queue-delay", per_s, seed);
        let observed = server.run(seconds(3), [load * per_s, 1.0]);
        prop_assert!(observed.delays.iter().all(|&delay| delay <= Params::default().delay_target));
        prop_assert!(observed.shed == [0, 0], "{:?} of {}", observed.shed, observed.offered);
    }

    //~ guard: overload costs neither throughput nor response time
    /// In overload the server runs at its full rate. After two seconds the delay stays below
    /// three targets (or 40 services): no oscillation.
    #[test]
    fn overload_costs_neither_throughput_nor_time(per_s in 300.0..30_000.0_f64, times in 1.3..20.0_f64, seed in 0..1_000_u64) {
        let mut server = Server::new("queue-delay", per_s, seed);
        server.run(seconds(2), [times * per_s, 1.0]);
        let observed = server.run(seconds(4), [times * per_s, 1.0]);
        let share = observed.served as f64 / (4.0 * per_s);
        prop_assert!(share > 0.95, "served {share} of capacity");
        let worst = observed.delays.iter().max().expect("ticks");
        prop_assert!(*worst < delay_max(3, per_s), "{worst}");
    }

    //~ guard: admission recovers within a second of the overload's end and learns a changed capacity
    /// A second after load has fallen nothing is shed.
    #[test]
    fn it_recovers_within_a_second(per_s in 2_000.0..30_000.0_f64, times in 2.0..20.0_f64, seed in 0..1_000_u64) {
        let mut server = Server::new("queue-delay", per_s, seed);
        server.run(seconds(3), [times * per_s, 1.0]);
        server.run(seconds(1), [0.6 * per_s, 1.0]);
        let observed = server.run(seconds(2), [0.6 * per_s, 1.0]);
        prop_assert!(observed.shed == [0, 0], "{:?} of {}", observed.shed, observed.offered);
    }

    //~ guard: admission recovers within a second of the overload's end and learns a changed capacity
    /// Three seconds after a change of the service rate the new rate is used.
    #[test]
    fn it_learns_what_a_server_can_do_now(per_s in 1_000.0..20_000.0_f64, change in 0.3..3.0_f64, seed in 0..1_000_u64) {
        let mut server = Server::new("queue-delay", per_s, seed);
        server.run(seconds(2), [8.0 * per_s, 1.0]);
        server.per_s = change * per_s;
        server.run(seconds(3), [8.0 * per_s, 1.0]);
        let observed = server.run(seconds(3), [8.0 * per_s, 1.0]);
        let share = observed.served as f64 / (3.0 * server.per_s);
        prop_assert!(share > 0.95, "served {share} of capacity, {change} of the rate before");
        let worst = observed.delays.iter().max().expect("ticks");
        prop_assert!(*worst < delay_max(4, server.per_s), "{worst}");
    }

    //~ guard: slower requests than before, at light load, are not shed
    /// Fast requests, such as health checks, teach a rate at which a few slow ones look late.
    #[test]
    fn slower_requests_are_no_overload(per_s in 1_000.0..50_000.0_f64, slower in 2.0..200.0_f64, load in 0.1..0.6_f64, seed in 0..1_000_u64) {
        let mut server = Server::new("queue-delay", per_s, seed);
        server.run(seconds(3), [0.9 * per_s, 1.0]);
        server.per_s = per_s / slower;
        let observed = server.run(seconds(20), [load * server.per_s, 0.01]);
        prop_assert!(observed.shed == [0, 0], "{:?} of {}", observed.shed, observed.offered);
    }

    //~ guard: the last class is shed first
    /// A first class that fits the service rate is admitted, whatever the load of the second.
    #[test]
    fn the_last_class_is_shed_first(per_s in 1_000.0..30_000.0_f64, first in 0.1..0.7_f64, times in 2.0..20.0_f64, seed in 0..1_000_u64) {
        let mut server = Server::new("queue-delay", per_s, seed);
        server.run(seconds(2), [first * per_s, times * per_s]);
        let observed = server.run(seconds(4), [first * per_s, times * per_s]);
        let share = observed.shed[0] as f64 / (4.0 * first * per_s);
        prop_assert!(share < 0.02, "{share} of the first class");
        prop_assert!(observed.shed[1] > 0);
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(6))]

    //~ guard: slight overload for minutes neither grows the queue nor costs throughput
    /// Ten minutes; a limit that drifts with what it measures shows here.
    #[test]
    fn slight_overload_for_minutes_does_not_drift(per_s in 300.0..2_000.0_f64, times in 1.02..1.3_f64, seed in 0..1_000_u64) {
        let mut server = Server::new("queue-delay", per_s, seed);
        server.run(seconds(540), [times * per_s, 1.0]);
        let observed = server.run(seconds(60), [times * per_s, 1.0]);
        let share = observed.served as f64 / (60.0 * per_s);
        prop_assert!(share > 0.95, "served {share} of capacity");
        // A queue of 81 keeps a server busy for 99.5 % of the time at 1.02 of its capacity (M/M/1/K).
        let worst = observed.delays.iter().max().expect("ticks");
        prop_assert!(*worst < Span::from_secs_f64(256.0 / per_s), "{worst}");
    }
}

proptest! {
    #![proptest_config(proptest::test_runner::Config::with_cases(48))]

    //~ guard: a class that is served first is not shed for the classes behind it
    /// With the first class served first, the second may wait for long; the first is not shed
    /// for that.
    #[test]
    fn a_class_served_first_is_not_shed_for_those_behind(per_s in 200.0..20_000.0_f64, first in 0.5..0.75_f64, second in 0.5..1.5_f64, seed in 0..1_000_u64) {
        let mut server = Server { by_class: true, ..Server::new("queue-delay", per_s, seed) };
        let mut first_shed = 0;
        let mut served = 0;
        for _ in 0..2 {
            let observed = server.run(seconds(4), [first * per_s, second * per_s]);
            (first_shed, served) = (first_shed + observed.shed[0], observed.served);
        }
        let share = first_shed as f64 / (8.0 * first * per_s);
        prop_assert!(share < 0.01, "{share} of the first class");
        prop_assert!(served as f64 > 0.95 * 4.0 * per_s, "{served}");
    }
}

fn tick(policy: &mut dyn Policy, ms: u64, signals: Signals) -> Limit {
    policy.tick(Time::ZERO + Span::from_millis(ms), &signals)
}

//~ guard: the paper's rule, the memory rule and the gradient have hysteresis
#[test]
fn the_papers_rule_wants_both_and_lets_go_below_nine_tenths() {
    let mut policy = by_name("syn-paper", &Params::default()).unwrap();
    let mut limit = |kernel_share, sockets| {
        tick(&mut *policy, 1, Signals { kernel_share, sockets, ..Signals::default() })
    };
    for (kernel_share, sockets, expected) in [
        (0.9, 100, Limit::Open),
        (0.5, 500, Limit::Open),
        (0.76, 129, Limit::Closed),
        (0.70, 120, Limit::Closed),
        (0.67, 120, Limit::Open),
        (0.76, 120, Limit::Closed),
        (0.76, 115, Limit::Open),
    ] {
        assert_eq!(limit(kernel_share, sockets), expected, "{kernel_share} {sockets}");
    }
}

//~ guard: the paper's rule, the memory rule and the gradient have hysteresis
#[test]
fn memory_closes_above_its_share_and_opens_below_nine_tenths_of_it() {
    let mut policy = by_name("memory", &Params::default()).unwrap();
    let shares = [0.89, 0.91, 0.85, 0.82, 0.80, 0.89];
    let limits =
        shares.map(|memory_share| tick(&mut *policy, 1, Signals { memory_share, ..Signals::default() }));
    use Limit::{Closed, Open};
    assert_eq!(limits, [Open, Closed, Closed, Closed, Open, Open]);
}

//~ guard: the paper's rule, the memory rule and the gradient have hysteresis
#[test]
fn a_gradient_lets_in_fewer_while_answers_are_slow_and_more_while_they_are_not() {
    let mut policy = by_name("gradient", &Params::default()).unwrap();
    let mut settles = |ms, from| {
        let mut present = 100;
        for n in 0..300_u64 {
            let latency = Some(Span::from_millis(ms));
            let signals = Signals { latency, present, ..Signals::default() };
            let Limit::Concurrency { max } = tick(&mut *policy, from + n * 10, signals) else {
                panic!("a limit")
            };
            present = max;
        }
        present
    };
    let usual = settles(10, 0);
    let slow = settles(100, 10_000);
    assert!(slow < usual / 4, "ten times slower than usual: {slow} of {usual}");
    assert!(settles(10, 20_000) > 4 * slow, "as fast as at first");
}

//~ guard: a request budget shorter than the target becomes the target
#[test]
fn the_shortest_allowed_delay_is_the_target() {
    let late_after = |delay, budget| {
        let mut policy = by_name("queue-delay", &Params::default()).unwrap();
        // Twice as many requests come as are served.
        let signals = Signals {
            offered: 60,
            admitted: 60,
            served: 30,
            waiting: 9,
            delay,
            budget,
            ..Signals::default()
        };
        (1..20).any(|n| tick(&mut *policy, 10 * n, signals) != Limit::Open)
    };
    let late = |budget| late_after(Span::from_millis(12), budget);
    assert!(!late(None) && !late(Some(Span::from_secs(1))));
    assert!(late(Some(Span::from_millis(8))), "half of the waiting requests are late");
    assert!(!late_after(Span::from_millis(1), Some(Span::ZERO)), "a budget of zero sets no limit");
}

//~ guard: a burst, a stall or a slow service below capacity sheds no request
/// Twenty seconds each; loads are 0.1 to 0.8 of the capacity.
#[test]
fn below_its_capacity_a_server_sheds_nobody() {
    // Requests of 20 ms; fifty at once; a pause of 300 ms; pauses of 50 ms at 20 requests a second;
    // pauses of 1.86 s, after which more than two bursts wait; a second's pauses at half the capacity.
    for (name, arrivals_per_tick, every, served_per_tick, stall, stall_every) in [
        ("slow service", 1, 3, 0.5, 0..0, 100),
        ("burst", 50, 70, 1.0, 0..0, 100),
        ("stall", 5, 1, 10.0, 50..80, 100),
        ("light load", 1, 5, 10.0, 50..55, 100),
        ("bursts and stalls", 55, 124, 1.0, 346..532, 532),
        ("half load and stalls", 25, 1, 50.0, 300..400, 400),
    ] {
        let mut policy = by_name("queue-delay", &Params::default()).unwrap();
        let mut admission = AdmissionController::new(1);
        let (mut queue, mut capacity) = (VecDeque::new(), 0.0_f64);
        for n in 1..2_000_u64 {
            let now = Time::ZERO + TICK * n;
            let offered = if n % every == 0 { arrivals_per_tick } else { 0 };
            queue.extend(std::iter::repeat_n(n, offered as usize));
            let shed = (0..offered).filter(|_| !admission.try_admit(now + TICK / 2, Class::FIRST, 0)).count();
            assert_eq!(shed, 0, "{name}: of {offered} in tick {n}, {} wait", queue.len());
            let is_stalled = stall.contains(&(n % stall_every));
            capacity = if is_stalled {
                0.0
            } else {
                (capacity + served_per_tick).min(f64::max(served_per_tick, 1.0))
            };
            let served = (capacity as usize).min(queue.len());
            capacity -= served as f64;
            queue.drain(..served);
            let (served, waiting) = (served as u64, queue.len() as u64);
            let delay = queue.front().map_or(Span::ZERO, |arrived| TICK * (n - arrived));
            let signals =
                Signals { offered, admitted: offered, served, waiting, delay, ..Signals::default() };
            admission.set(now, policy.tick(now, &signals));
        }
    }
}

//~ guard: a dry run admits everything and counts
#[test]
fn a_watching_guard_admits_everything_and_counts() {
    let mut admission = AdmissionController::new(1).dry_run();
    admission.set(Time::ZERO, Limit::Closed);
    assert!((0..7).all(|_| admission.try_admit(Time::ZERO, Class::FIRST, 0)));
    assert_eq!((admission.counts()[0].offered, admission.counts()[0].shed), (7, 7));
}

#[test]
fn a_late_arrival_does_not_fill_the_bucket_twice() {
    let at = |ms: u64| Time::ZERO + Span::from_millis(ms);
    let mut admission = AdmissionController::new(1);
    admission.set(Time::ZERO, Limit::Rate { per_s: 1_000.0, burst: 10.0 });
    // Threads read the clock before they call.
    let admitted = (0..1_000)
        .filter(|n| admission.try_admit(at(if n % 2 == 0 { 10 } else { 0 }), Class::FIRST, 0))
        .count();
    assert!(admitted <= 12, "{admitted} of 10 ms at 1,000 a second");
}

#[test]
fn a_burst_is_at_most_that_of_the_limit() {
    let mut admission = AdmissionController::new(1);
    admission.set(Time::ZERO, Limit::Rate { per_s: 1_000.0, burst: 10.0 });
    let at = |ms| Time::ZERO + Span::from_millis(ms);
    let admitted = (0..5_000).filter(|&n| admission.try_admit(at(n / 5), Class::FIRST, 0)).count();
    assert!((990..=1_010).contains(&admitted), "{admitted} in a second");
    let after_a_pause = (0..100).filter(|_| admission.try_admit(at(9_000), Class::FIRST, 0)).count();
    assert_eq!(after_a_pause, 10);
}

#[test]
fn a_first_class_within_the_rate_is_admitted_whatever_the_rest() {
    for per_s in [50.0, 215.0, 3_000.0] {
        // The first class fills four fifths of the rate; the second has the same load.
        let mut rng = Rng::seeded(3);
        let mut admission = AdmissionController::new(2);
        admission.set(Time::ZERO, Limit::Rate { per_s, burst: 4.0 });
        let (mut now, mut admitted) = (Time::ZERO, [0.0; 2]);
        let requests = 40_000;
        for _ in 0..requests {
            now += Span::from_secs_f64(rng.exponential() / (1.6 * per_s));
            let place = u8::from(rng.chance(0.5));
            admitted[place as usize] += f64::from(u8::from(admission.try_admit(now, Class::new(place), 0)));
        }
        let shed = admission.counts().iter().map(|counts| counts.shed as f64 / counts.offered as f64);
        let shed: Vec<f64> = shed.collect();
        assert!(shed[0] < 0.01 && shed[1] > 0.6, "at {per_s}: {shed:?}");
        let rate = admitted.iter().sum::<f64>() / now.since(Time::ZERO).as_secs_f64() / per_s;
        assert!((0.97..1.01).contains(&rate), "{rate} of the limit is admitted");
    }
}

#[test]
fn every_policy_has_its_name_and_nothing_to_see_is_no_overload() {
    for (name, _) in POLICIES {
        let mut policy = by_name(name, &Params::default()).expect("a known policy");
        for ms in 1..50 {
            let limit = tick(&mut *policy, 10 * ms, Signals::default());
            assert!(matches!(limit, Limit::Open | Limit::Concurrency { max: 8.. }), "{name}: {limit:?}");
        }
    }
    let error = by_name("best", &Params::default()).map(drop).unwrap_err().to_string();
    assert!(error.contains("best") && error.contains("queue-delay"), "{error}");
}
