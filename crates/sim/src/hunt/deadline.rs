//! Hunt for losses of the deadline queue against arrival order without shedding.
//!
//! Families: service laws (deterministic, normal, exponential, lognormal, bounded Pareto,
//! bimodal, correlated, a change of speed), two kinds of request under one name or two, one
//! to three services in series, 1 to 16 servers, Poisson arrivals and bursts, deadlines
//! (short, long, mixed, none), loads 0.3 to 2. In one case of five a share of the clients understates
//! its budgets 2 to 1,000 times; then the goodput of the honest ones is compared.

use deadline::{Order, Shedding};
use queueing::Rng;

use super::{HuntFigure, HuntTarget, law};
use crate::world::services::{Config, Slo, UserClassOutcome, run};

/// The default deadline queue, against arrival order.
pub const MECHANISM: HuntTarget = HuntTarget {
    name: "deadline",
    default: "deadline order, shedding under overload",
    nothing: "arrival order, no shedding",
    longer: ("requests", 8),
    known: &[],
    draw,
    compare: |text| Ok(vec![compare(&Config::from_toml(text)?)]),
};

/// Runs both policies on `config`.
fn compare(config: &Config) -> HuntFigure {
    let is_honest = |class: &UserClassOutcome| class.is_honest;
    let share =
        |order, shedding| run(&Config { order, shedding, ..config.clone() }).on_time_share_of(is_honest);
    let all_honest = config.slos.iter().all(Slo::is_honest);
    HuntFigure::goodput(
        if all_honest { "goodput" } else { "goodput of honest clients" },
        [share(Order::default(), Shedding::default()), share(Order::Fifo, Shedding::None)],
    )
}

/// Settings of case number `case` of `seed`, as the TOML of the world `services`.
fn draw(seed: u64, case: u64, requests: u64) -> String {
    let mut rng = Rng::seeded(seed).fork(case);
    let load = 0.3 + 1.7 * rng.unit();
    let servers = [1, 1, 1, 2, 4, 16][rng.below(6) as usize];
    let mean_us = 1_000.0 * 20_f64.powf(rng.unit());
    let stages = [1, 1, 2, 3][rng.below(4) as usize];
    let (rest, repeats) = (rng.chance(0.5), if rng.chance(0.2) { 4.0 + 60.0 * rng.unit() } else { 1.0 });
    let rate = load * f64::from(servers) * 1e6 / mean_us;
    let duration_us = requests as f64 / rate * 1e6;
    let mut text = String::new();
    if rng.chance(0.2) {
        let size = 5 + rng.below(60);
        let period_us = (size as f64 / rate * 1e6) as u64;
        text += &format!("arrivals = \"burst {size} {period_us}us 0ns\"\n");
    } else {
        text += &format!("arrivals = \"poisson {rate:.3}\"\n");
    }
    text += &format!("requests = {requests}\nwarmup = {}\nseed = {}\n", requests / 20, rng.below(1 << 32));
    text += "order = \"edf\"\nshedding = \"overload\"\n";
    text += &format!("expects = \"{}\"\n", if rest { "rest" } else { "own" });
    // Drawn apart, so that the other cases of a seed stay the same.
    let liars = liars(&mut Rng::seeded(seed ^ LIARS).fork(case));
    text += &format!("slos = [{}]\n", deadlines(&mut rng, mean_us, stages as f64, liars));
    text += "stages = [\n";
    for stage in 0..stages {
        // Later stages are less loaded.
        let mean_us = if stage == 0 { mean_us } else { mean_us * (0.5 + 0.45 * rng.unit()) };
        text += &format!("    {{ name = \"S{}\", servers = {servers}, hop = \"exp 50us\", ", stage + 1);
        text += &service(&mut rng, mean_us);
        if repeats > 1.0 {
            text += &format!(", repeats = {repeats:.1}");
        }
        if stage == 0 && rng.chance(0.15) {
            let factor = if rng.chance(0.7) { 2.0 + 8.0 * rng.unit() } else { 0.1 + 0.4 * rng.unit() };
            let (from, to) = (duration_us * 0.35, duration_us * (0.4 + 0.4 * rng.unit()));
            text += &format!(
                ", change = {{ from = \"{}us\", to = \"{}us\", factor = {factor:.2} }}",
                from as u64, to as u64
            );
        }
        text += " },\n";
    }
    text + "]\n"
}

/// Service law with this mean.
fn service(rng: &mut Rng, mean_us: f64) -> String {
    if rng.chance(0.7) {
        return format!("service = \"{}\"", law(rng, mean_us));
    }
    // Two kinds, of which the rarer one is slower.
    let (ratio, share) = (3.0 + 27.0 * rng.unit(), 0.05 + 0.4 * rng.unit());
    let fast_us = mean_us / (1.0 - share + share * ratio);
    let (fast, slow) = (law(rng, fast_us), law(rng, fast_us * ratio));
    let named = rng.chance(0.5);
    format!(
        "service = \"{fast}\", kinds = [{{ share = {share:.3}, service = \"{slow}\" }}], kinds_named = {named}"
    )
}

/// Share of the clients that understate their budgets, and the factor.
fn liars(rng: &mut Rng) -> (f64, f64) {
    if rng.chance(0.2) { (0.02 + 0.6 * rng.unit(), 2.0 * 500_f64.powf(rng.unit())) } else { (0.0, 1.0) }
}

/// One to three classes of deadlines, in units of the mean service time of all stages, each with a
/// `share` of clients that understate them.
fn deadlines(rng: &mut Rng, mean_us: f64, stages: f64, (lying, understates): (f64, f64)) -> String {
    let classes = 1 + rng.below(3);
    let mut left = 1.0;
    let mut text = Vec::new();
    for class in 0..classes {
        let share = if class + 1 == classes { left } else { left * (0.2 + 0.6 * rng.unit()) };
        left -= share;
        let slo_us = (mean_us * stages * 1.2 * 80_f64.powf(rng.unit())) as u64;
        let slo = if rng.chance(0.15) { String::new() } else { format!(", slo = \"{slo_us}us\"") };
        let has_liars = lying > 0.0 && !slo.is_empty();
        let honest = if has_liars { share * (1.0 - lying) } else { share };
        text.push(format!("{{ name = \"c{class}\", share = {honest}{slo} }}"));
        if has_liars {
            let share = share * lying;
            text.push(format!(
                "{{ name = \"l{class}\", share = {share}{slo}, understates = {understates:.1} }}"
            ));
        }
    }
    text.join(", ")
}

/// Tells the random numbers of liars from those of the other properties.
const LIARS: u64 = 0x6c69_6172;
