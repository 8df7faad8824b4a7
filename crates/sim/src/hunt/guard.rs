//! Hunt for losses of the guard's default policy against no guard.
//!
//! A server with two stages on one core, receiving before serving. Families: service laws, loads of
//! 0.1 to 10, Poisson arrivals and bursts, accept queues of 64 to 4,096, clients that give up after
//! 0.3 to 10 s, costs of receiving and of shedding.

use queueing::{Rng, named};

use super::{CaseGoodput, HuntTarget, law};
use crate::world::overload::{AdmissionControl, Config, run};

/// The guard's default policy, against no guard.
pub const MECHANISM: HuntTarget = HuntTarget {
    name: "guard",
    default: "the policy queue-delay",
    nothing: "no guard",
    price: 0.05,
    is_kept: false,
    draw,
    compare: |text| Ok(compare(&Config::from_toml(text)?)),
};

/// Runs both on `config`.
fn compare(config: &Config) -> CaseGoodput {
    let policy = named(&guard::POLICIES, "guard", POLICY).expect("the default is a policy");
    let share = |guard| {
        let outcome = run(&Config { guard, ..config.clone() });
        outcome.in_time as f64 / config.requests as f64
    };
    CaseGoodput { default: share(AdmissionControl::Policy(policy)), nothing: share(AdmissionControl::None) }
}

/// Case number `case` of `seed`, as the TOML of the world `overload`; it lasts 5 s or longer.
fn draw(seed: u64, case: u64, requests: u64) -> String {
    let mut rng = Rng::seeded(seed).fork(case);
    // As often below the capacity as above.
    let load = if rng.chance(0.5) { 0.1 + 0.9 * rng.unit() } else { 10_f64.powf(rng.unit()) };
    let serve_us = 200.0 * 100_f64.powf(rng.unit());
    let receive_us = serve_us * (0.02 + 0.28 * rng.unit());
    let rate = load * 1e6 / (serve_us + receive_us);
    let requests = requests.max((5.0 * rate) as u64);
    let arrivals = if rng.chance(0.25) {
        let size = 5 + rng.below(60);
        format!("burst {size} {}us 0ns", (size as f64 / rate * 1e6) as u64)
    } else {
        format!("poisson {rate:.3}")
    };
    let timeout_ms = (300.0 * 33_f64.powf(rng.unit())) as u64;
    let (receive_capacity, serve_capacity) = ([512, 1_024, 4_096][rng.below(3) as usize], 64 << rng.below(7));
    let (receive, serve) = (law(&mut rng, receive_us), law(&mut rng, serve_us));
    let shed_ns = (receive_us * 1e3 * (0.05 + 0.45 * rng.unit())) as u64;
    format!(
        "arrivals = \"{arrivals}\"\nrequests = {requests}\nreceive = \"{receive}\"\nserve = \"{serve}\"\n\
         receive_capacity = {receive_capacity}\nserve_capacity = {serve_capacity}\ntimeout = \"{timeout_ms}ms\"\n\
         shed = \"{shed_ns}ns\"\nseed = {}\n",
        rng.below(1 << 32)
    )
}

/// Default policy of `guard attach`.
const POLICY: &str = "queue-delay";
