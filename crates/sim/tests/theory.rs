//! Simulated server against queueing theory.
//!
//! The whole system runs: client, cable, TCP, dispatcher. The stack's work costs nothing, so
//! that latency minus the wire is the time in an M/G/c queue. Many connections, so that two
//! requests rarely share one.

use load::{Plan, RequestClass, Spread};
use queueing::{Arrivals, Distribution, Span, theory};
use runtime::mode::Mode;
use sim::CostModel;
use sim::world::server::{self, Config, Driver, WorkerPlacement};

const REQUESTS: u64 = 60_000;

/// Mean time in the system, without the wire, of requests at `load` of `workers`.
fn sojourn_mean(
    workers: usize,
    cores: WorkerPlacement,
    load: f64,
    service: &str,
    seeds: std::ops::Range<u64>,
) -> f64 {
    let service: Distribution = service.parse().unwrap();
    let runs = seeds.end - seeds.start;
    let mean_ns = |seed| {
        let class = RequestClass { service, ..class() };
        let mut plan =
            Plan::new(2000, Arrivals::Poisson { rate_per_s: rate(workers, load, &service) }, vec![class]);
        plan.requests = Some(REQUESTS);
        let mut config = Config::new(Mode::None, plan);
        config.costs = Some(CostModel::ZERO);
        config.workers = workers;
        config.cores = cores;
        config.seed = seed;
        let class = &server::run(&config, &mut |_| {}).report.classes[0];
        assert_eq!(class.answered(), REQUESTS);
        class.latency.mean().as_nanos() as f64
    };
    seeds.map(mean_ns).sum::<f64>() / runs as f64 - wire_ns()
}

fn class() -> RequestClass {
    let service = Distribution::Constant(Span::ZERO);
    RequestClass { name: "all".into(), share: 1.0, service, length: 32, kind: 0, priority: 0 }
}

/// Mean time in the system, without the wire, of the urgent and the other half of requests at
/// `load` of one core under preemptive priority.
fn sojourn_means_preemptive(load: f64, service: &Distribution, seeds: std::ops::Range<u64>) -> [f64; 2] {
    let half = |name: &str, priority| RequestClass {
        name: name.into(),
        share: 0.5,
        service: *service,
        priority,
        ..class()
    };
    let runs = (seeds.end - seeds.start) as f64;
    let mut sums = [0.0; 2];
    for seed in seeds {
        let classes = vec![half("urgent", 0), half("other", 7)];
        let mut plan = Plan::new(2000, Arrivals::Poisson { rate_per_s: rate(1, load, service) }, classes);
        plan.requests = Some(REQUESTS);
        plan.spread = Spread::PerClass;
        let mut config = Config::new(Mode::Adps, plan);
        config.scenario.driver = Some(Driver::Tag);
        config.costs = Some(CostModel::ZERO);
        config.cores = WorkerPlacement::Preemptive;
        config.seed = seed;
        let report = server::run(&config, &mut |_| {}).report;
        for (sum, class) in sums.iter_mut().zip(&report.classes) {
            *sum += class.latency.mean().as_nanos() as f64;
        }
    }
    sums.map(|sum| sum / runs - wire_ns())
}

/// Arrival rate that loads `workers` to `load`.
fn rate(workers: usize, load: f64, service: &Distribution) -> f64 {
    load * workers as f64 / service.mean().as_secs_f64()
}

/// Latency of a single request without service time.
fn wire_ns() -> f64 {
    let mut plan = Plan::new(1, Arrivals::Uniform { rate_per_s: 1000.0 }, vec![class()]);
    plan.requests = Some(10);
    let mut config = Config::new(Mode::None, plan);
    config.costs = Some(CostModel::ZERO);
    server::run(&config, &mut |_| {}).report.classes[0].p50().as_nanos() as f64
}

fn assert_within_2_percent(simulated_ns: f64, theory: Option<Span>) {
    let theory_ns = theory.expect("the load is below 1").as_nanos() as f64;
    let ratio = simulated_ns / theory_ns;
    assert!((0.98..=1.02).contains(&ratio), "simulated {simulated_ns:.0} ns, theory {theory_ns:.0} ns");
}

//~ sim: M/M/1, M/G/1, M/M/4 and preemptive priority agree with theory within 2 %
#[test]
fn exponential_service_is_an_mm1_queue() {
    let service = "exp 10us";
    let distribution: Distribution = service.parse().unwrap();
    let simulated = sojourn_mean(1, WorkerPlacement::Own, 0.5, service, 1..4);
    assert_within_2_percent(
        simulated,
        theory::mm1::sojourn_mean(rate(1, 0.5, &distribution), distribution.mean()),
    );
}

//~ sim: M/M/1, M/G/1, M/M/4 and preemptive priority agree with theory within 2 %
#[test]
fn bimodal_service_is_an_mg1_queue() {
    let service = "bimodal 5us 50us 0.1";
    let distribution: Distribution = service.parse().unwrap();
    let simulated = sojourn_mean(1, WorkerPlacement::Own, 0.5, service, 1..4);
    assert_within_2_percent(simulated, theory::mg1::sojourn_mean(rate(1, 0.5, &distribution), &distribution));
}

//~ sim: M/M/1, M/G/1, M/M/4 and preemptive priority agree with theory within 2 %
#[test]
fn four_workers_are_an_mm4_queue() {
    let service = "exp 10us";
    let distribution: Distribution = service.parse().unwrap();
    let simulated = sojourn_mean(4, WorkerPlacement::Own, 0.6, service, 1..4);
    assert_within_2_percent(
        simulated,
        theory::mmc::sojourn_mean(4, rate(4, 0.6, &distribution), distribution.mean()),
    );
}

#[test]
fn without_costs_a_shared_core_is_the_same_queue() {
    let service = "exp 10us";
    let distribution: Distribution = service.parse().unwrap();
    let simulated = sojourn_mean(1, WorkerPlacement::Shared, 0.5, service, 1..3);
    assert_within_2_percent(
        simulated,
        theory::mm1::sojourn_mean(rate(1, 0.5, &distribution), distribution.mean()),
    );
}

//~ sim: M/M/1, M/G/1, M/M/4 and preemptive priority agree with theory within 2 %
#[test]
fn preemptive_cores_keep_the_urgent_half_to_itself() {
    let distribution: Distribution = "exp 10us".parse().unwrap();
    let half = || theory::mg1::Mg1Class { rate_per_s: rate(1, 0.25, &distribution), service: distribution };
    let classes = [half(), half()];
    let simulated = sojourn_means_preemptive(0.5, &distribution, 1..4);
    for (index, mean) in simulated.into_iter().enumerate() {
        assert_within_2_percent(mean, theory::mg1::sojourn_mean_preemptive(&classes, index));
    }
}
