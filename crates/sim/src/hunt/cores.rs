//! Hunt for losses of `greenwave sched` at its defaults against the kernel alone.
//!
//! The kernel alone has best effort in its idle class, which is the best that one does by hand.
//! Families: 1 to 16 physical cores with one or two lanes, one or two sockets; one to three services of
//! 10 µs to 20 ms, by eight laws, at a load of 0.02 to 1.2 of the machine together; Poisson arrivals,
//! bursts, changes of the load; guarantees that are too small or too large; up to three best-effort
//! tasks that compute, stream or need the cache, some in phases; DRAM of 5 to 200 GB/s.

use queueing::Rng;

use super::{HuntFigure, HuntTarget, between, law, on_off};
use crate::cores::{Config, CoreMechanism, DramSensor, Needs, Outcome, TaskClass, TaskConfig, memory, run};

/// The defaults of `greenwave sched`, against the kernel's idle class.
pub const MECHANISM: HuntTarget = HuntTarget {
    name: "cores",
    default: "the policy caladan by affinity",
    nothing: "the kernel's idle class",
    longer: ("seed", 1),
    known: &KNOWN,
    draw,
    compare: |text| Ok(compare(&Config::from_toml(text)?)),
};

/// Runs both on `config`.
fn compare(config: &Config) -> Vec<HuntFigure> {
    let [default, nothing] = ["caladan", "linux"].map(|policy| {
        let (mechanism, sensor) = (CoreMechanism::Affinity, DramSensor::Probe);
        run(&Config { policy: policy.to_owned(), mechanism, sensor, ..config.clone() })
    });
    let machine = &config.machine;
    let cores = machine.cores() as f64;
    let is_critical = |number: &usize| config.tasks[*number].class == TaskClass::Critical;
    let services: Vec<usize> = (0..config.tasks.len()).filter(is_critical).collect();
    let answered = |outcome: &Outcome| {
        let its = services.iter().map(|&number| &outcome.tasks[number]);
        let (answered, all) = its.fold((0, 0), |(answered, all), task| {
            (answered + task.answered, all + task.answered + task.unanswered + task.lost)
        });
        answered as f64 / all.max(1) as f64
    };
    let load: f64 = services.iter().map(|&number| config.tasks[number].load()).sum();
    let is_crowded =
        INTERFERENCE * load > cores || is_saturated(config, |task| task.class == TaskClass::Critical);
    let is_saturated = is_saturated(config, |_| true);
    let is_promised = |number: usize| {
        let mut others = services.iter().filter(|&&other| other != number);
        !is_crowded
            && (INTERFERENCE * config.tasks[number].load() <= f64::from(config.tasks[number].guaranteed)
                || others.all(|&other| config.tasks[other].guaranteed == 0))
    };
    let answers = if services.iter().all(|&number| is_promised(number)) { ANSWERED } else { ANSWERED_BEYOND };
    let mut figures = vec![HuntFigure::goodput(answers, [&default, &nothing].map(answered))];
    if services.len() < config.tasks.len() {
        let ran = |outcome: &Outcome| -> f64 {
            let its = outcome.tasks.iter().enumerate().filter(|(number, _)| !is_critical(number));
            // A hundredth of the cores is no loss.
            its.map(|(_, task)| task.ran.as_secs_f64() / outcome.counted.as_secs_f64()).sum::<f64>()
                + 0.01 * cores
        };
        let name = match (is_saturated, is_crowded) {
            (true, _) => BEST_EFFORT_SATURATED,
            (false, true) => BEST_EFFORT_CROWDED,
            (false, false) => BEST_EFFORT,
        };
        figures.push(HuntFigure::goodput(name, [&default, &nothing].map(ran)));
    }
    for &number in &services {
        let p99 =
            [&default, &nothing].map(|outcome| outcome.tasks[number].latency.quantile(0.99).as_secs_f64());
        let name = match (is_promised(number), is_saturated) {
            (false, _) => P99_BEYOND,
            (true, true) => P99_SATURATED,
            (true, false) => P99,
        };
        figures.push(HuntFigure::tail(name.to_owned(), p99));
    }
    figures
}

/// True if the tasks of a `kind` would use most of the memory bandwidth, each on as many cores as it can use.
fn is_saturated(config: &Config, kind: impl Fn(&TaskConfig) -> bool) -> bool {
    let machine = &config.machine;
    let cores = machine.cores() as f64;
    let needs = |task: &TaskConfig| {
        task.phases.iter().map(|phase| phase.needs).chain([task.needs]).collect::<Vec<_>>()
    };
    let footprint =
        |task: &TaskConfig| needs(task).iter().map(|needs| needs.footprint.get()).max().unwrap_or(0) as f64;
    let share = memory::cached_share(machine.cache.get() as f64, config.tasks.iter().map(footprint).sum());
    let traffic = |task: &TaskConfig| {
        // A burst may fill all cores.
        let used = if task.class == TaskClass::Critical { cores } else { f64::from(task.threads) };
        let most = |needs: &Needs| needs.bandwidth_gb * memory::misses(needs.misses, share);
        used.min(cores) * needs(task).iter().map(most).fold(0.0, f64::max)
    };
    let sum: f64 = config.tasks.iter().filter(|task| kind(task)).map(traffic).sum();
    sum > SATURATED * machine.bandwidth_gb * machine.sockets as f64
}

/// Case number `case` of `seed`, as the TOML of the world `cores`.
fn draw(seed: u64, case: u64, requests: u64) -> String {
    let mut rng = Rng::seeded(seed).fork(case);
    let (sockets, lanes) = (1 + u64::from(rng.chance(0.2)), 1 + rng.below(2));
    let physical = between(&mut rng, 1.0, 17.0) as u64;
    let cores = (sockets * physical * lanes) as f64;
    let bandwidth_gb = between(&mut rng, 5.0, 200.0);
    let services = 1 + rng.below(3);
    let load = if rng.chance(0.2) { 0.02 + 0.1 * rng.unit() } else { 0.1 + 1.1 * rng.unit() };
    let weights: Vec<f64> = (0..services).map(|_| 0.1 + rng.unit()).collect();
    let total: f64 = weights.iter().sum();
    let mut guaranteed_left = cores as u64;
    let mut tasks = String::new();
    let mut rate_all = 0.0;
    for (number, weight) in weights.iter().enumerate() {
        let service_us = between(&mut rng, 10.0, 20_000.0);
        let load = load * cores * weight / total;
        let rate = load / service_us * 1e6;
        rate_all += rate;
        let guaranteed = match rng.below(4) {
            0 => 0,
            1 => rng.below(guaranteed_left + 1),
            _ => (load.ceil() as u64).min(guaranteed_left),
        };
        guaranteed_left -= guaranteed;
        let arrivals = |rng: &mut Rng, rate: f64| match rng.below(4) {
            0 => {
                let size = 2 + rng.below(4 * cores as u64);
                format!("burst {size} {}us 0ns", ((size as f64 / rate * 1e6) as u64).max(1))
            }
            1 => {
                let period_s = between(rng, 0.005, 0.5);
                on_off(rng, rate, period_s)
            }
            _ => format!("poisson {rate:.3}"),
        };
        let first = arrivals(&mut rng, rate);
        let service = law(&mut rng, service_us);
        let changes = if rng.chance(0.2) {
            let factor = between(&mut rng, 0.2, 3.0);
            let then = arrivals(&mut rng, rate * factor);
            format!("changes = [{{ at = \"CHANGE\", arrivals = \"{then}\" }}]\n")
        } else {
            String::new()
        };
        let needs = needs(&mut rng, bandwidth_gb / (cores / sockets as f64));
        tasks += &format!(
            "[[tasks]]\nname = \"service {number}\"\nclass = \"LC\"\nguaranteed = {guaranteed}\narrivals = \"{first}\"\n\
             service = \"{service}\"\n{changes}needs = {needs}\n"
        );
    }
    for number in 0..rng.below(4) {
        let threads = between(&mut rng, 1.0, 2.0 * cores + 1.0) as u64;
        let per_core = bandwidth_gb / (cores / sockets as f64);
        let needs = if rng.chance(0.3) {
            let phase = |rng: &mut Rng| {
                format!(
                    "{{ duration = \"{}us\", needs = {} }}",
                    between(rng, 1e3, 3e5) as u64,
                    self::needs(rng, per_core)
                )
            };
            format!("phases = [{}, {}]\n", phase(&mut rng), phase(&mut rng))
        } else {
            format!("needs = {}\n", needs(&mut rng, per_core))
        };
        tasks +=
            &format!("[[tasks]]\nname = \"batch {number}\"\nclass = \"BE\"\nthreads = {threads}\n{needs}");
    }
    let duration_ms = (requests as f64 / rate_all * 1e3).clamp(300.0, 3_000.0) as u64;
    let tasks = tasks.replace("CHANGE", &format!("{}us", (20 + duration_ms / 2) * 1_000));
    format!(
        "policy = \"caladan\"\nduration = \"{duration_ms}ms\"\nwarmup = \"20ms\"\nseed = {}\n\
         machine = {{ sockets = {sockets}, physical = {physical}, lanes = {lanes}, bandwidth_gb = {bandwidth_gb:.1} }}\n{tasks}",
        rng.below(1 << 32)
    )
}

/// Resource use of a task where each core's share of DRAM is `share_gb`.
fn needs(rng: &mut Rng, share_gb: f64) -> String {
    let kind = rng.below(3);
    let (memory, times, footprint_mb, misses) = match kind {
        0 => (0.05 + 0.15 * rng.unit(), 0.05, 1, 0.1),
        1 => (0.6 + 0.35 * rng.unit(), 0.5 + 2.0 * rng.unit(), 64, 1.0),
        _ => (0.2 + 0.3 * rng.unit(), 0.2 * rng.unit(), 2 + rng.below(30), 0.1 + 0.4 * rng.unit()),
    };
    format!(
        "{{ memory = {memory:.2}, bandwidth_gb = {:.3}, footprint = \"{footprint_mb}MB\", misses = {misses:.2}, \
         pressure = {:.2}, sensitivity = {:.2} }}",
        (times * share_gb).max(0.01),
        0.3 + 0.9 * rng.unit(),
        0.1 + 0.6 * rng.unit()
    )
}

/// Figures. Services are crowded if they may need all cores or all memory bandwidth together.
const ANSWERED: &str = "answered requests";
const BEST_EFFORT: &str = "CPU time of best effort";
const P99: &str = "p99 of a service";
const ANSWERED_BEYOND: &str = "answered requests of crowded services, or beyond a guarantee";
const BEST_EFFORT_CROWDED: &str = "CPU time of best effort beside crowded services";
const BEST_EFFORT_SATURATED: &str = "CPU time of best effort where tasks saturate memory";
const P99_BEYOND: &str =
    "p99 of a service that is crowded, or beyond its guarantee beside others within theirs";
const P99_SATURATED: &str = "p99 of a service where tasks saturate memory";
/// These have their reason in the guide.
const KNOWN: [&str; 5] =
    [ANSWERED_BEYOND, BEST_EFFORT_CROWDED, BEST_EFFORT_SATURATED, P99_BEYOND, P99_SATURATED];
/// Use of memory bandwidth from which tasks saturate it.
const SATURATED: f64 = 0.7;
/// Factor by which siblings and memory may slow a service.
const INTERFERENCE: f64 = 2.0;
