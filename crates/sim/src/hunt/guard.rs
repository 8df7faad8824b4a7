//! Hunt for losses of the guard's default policy against no guard.
//!
//! A server with two stages on one core, receiving before serving. Families: service laws, loads of
//! 0.1 to 10, Poisson arrivals, bursts at even and at random intervals, on-off arrivals, stalls of 20 ms
//! to 2 s, accept queues of 64 to 4,096, clients that give up after 0.3 to 10 s, costs of receiving and
//! of shedding, SYN floods whose receiving takes up to 0.9 of the core.

use queueing::{Rng, named};

use super::{HuntFigure, HuntTarget, REQUESTS, between, law, on_off};
use crate::world::overload::{AdmissionControl, Config, run};

/// The guard's default policy, against no guard.
pub const MECHANISM: HuntTarget = HuntTarget {
    name: "guard",
    default: "the policy queue-delay",
    nothing: "no guard",
    longer: ("requests", 8),
    known: &[],
    draw,
    compare: |text| Ok(vec![compare(&Config::from_toml(text)?)]),
};

/// Runs both on `config`.
fn compare(config: &Config) -> HuntFigure {
    let policy = named(&guard::POLICIES, "guard", POLICY).expect("the default is a policy");
    let share = |guard| {
        let outcome = run(&Config { guard, ..config.clone() });
        outcome.in_time as f64 / config.requests as f64
    };
    HuntFigure::goodput("goodput", [share(AdmissionControl::Policy(policy)), share(AdmissionControl::None)])
}

/// Case number `case` of `seed`, as the TOML of the world `overload`; it lasts 5 s or longer.
fn draw(seed: u64, case: u64, requests: u64) -> String {
    let mut rng = Rng::seeded(seed).fork(case);
    // As often below the capacity as above.
    let load = if rng.chance(0.5) { 0.1 + 0.9 * rng.unit() } else { 10_f64.powf(rng.unit()) };
    let serve_us = 200.0 * 100_f64.powf(rng.unit());
    let receive_us = serve_us * (0.02 + 0.28 * rng.unit());
    let stall = rng.chance(0.25).then(|| (20.0 * 100_f64.powf(rng.unit()), 0.02 + 0.38 * rng.unit()));
    let serving = 1.0 - stall.map_or(0.0, |(_, share)| share);
    let rate = serving * load * 1e6 / (serve_us + receive_us);
    let arrivals = match rng.below(10) {
        0 | 1 => {
            let size = 5 + rng.below(60);
            format!("burst {size} {}us 0ns", (size as f64 / rate * 1e6) as u64)
        }
        2 | 3 => {
            let period_s = between(&mut rng, 0.05, 4.0);
            on_off(&mut rng, rate, period_s)
        }
        4 | 5 => format!("batches {} {rate:.3}", 5 + rng.below(60)),
        _ => format!("poisson {rate:.3}"),
    };
    let timeout_ms = (300.0 * 33_f64.powf(rng.unit())) as u64;
    let (receive_capacity, serve_capacity) =
        ([512, 1_024, 4_096][rng.below(3) as usize], 64_u64 << rng.below(7));
    // Otherwise a queue that only the run's end empties would count as goodput.
    let duration_s = DURATION_S * requests as f64 / REQUESTS as f64;
    let requests = (requests * serve_capacity.div_ceil(400)).max((duration_s * rate) as u64);
    let (receive, serve) = (law(&mut rng, receive_us), law(&mut rng, serve_us));
    let shed_ns = (receive_us * 1e3 * (0.05 + 0.45 * rng.unit())) as u64;
    // Drawn last, so that the cases of earlier seeds stay what they were.
    let seed = rng.below(1 << 32);
    let flood = rng.chance(0.25).then(|| 0.01 * 90_f64.powf(rng.unit()) * 1e6 / receive_us);
    let flood = flood.map_or_else(String::new, |per_s| format!("flood_per_s = {per_s:.1}\n"));
    let stalls = stall.map_or_else(String::new, |(stall_ms, share)| {
        format!(
            "stall_every = \"{}us\"\nstall = \"{}us\"\n",
            (stall_ms / share * 1e3) as u64,
            (stall_ms * 1e3) as u64
        )
    });
    format!(
        "arrivals = \"{arrivals}\"\nrequests = {requests}\nreceive = \"{receive}\"\nserve = \"{serve}\"\n\
         receive_capacity = {receive_capacity}\nserve_capacity = {serve_capacity}\ntimeout = \"{timeout_ms}ms\"\n\
         shed = \"{shed_ns}ns\"\n{flood}{stalls}seed = {seed}\n"
    )
}

/// Least duration of a case of [`REQUESTS`] requests.
const DURATION_S: f64 = 5.0;
/// Default policy of `guard attach`.
const POLICY: &str = "queue-delay";
