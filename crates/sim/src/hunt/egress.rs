//! Hunt for losses of the egress policy `fish` against one FIFO.
//!
//! Families: lines of 10 Mbit/s to 10 Gbit/s; 0 to 120 bulk flows with packets of 1,514 to 65,536
//! bytes; short flows at a load of 0.02 to 1; kept connections that pause for 1 ms to 1 s, new ones
//! and ones that sent like bulk before; constant rates that answer no loss, slow ones and floods; flows of the
//! machine itself and of a router; prio of fq, and HTB.

use queueing::Rng;
use queueing::egress::Line;

use super::{HuntFigure, HuntTarget, REQUESTS, between, law};
use crate::world::egress::{Config, FlowGroup, FlowKind, Outcome, Queues, fish, log_mean, run};

/// The policy `fish`, against one FIFO.
pub const MECHANISM: HuntTarget = HuntTarget {
    name: "egress",
    default: "the policy fish",
    nothing: "one FIFO",
    longer: ("duration_ms", 2),
    known: &KNOWN,
    draw,
    compare: |text| Ok(compare(&Config::from_toml(text)?)),
};

/// Runs both on `config`.
fn compare(config: &Config) -> Vec<HuntFigure> {
    let [default, nothing] =
        [config.queues, Queues::Fifo].map(|queues| run(&Config { queues, ..config.clone() }));
    let has = |kind: fn(&FlowGroup) -> bool| config.groups.iter().any(kind);
    let goodput = match (config.local, has(|group| group.kind == FlowKind::Bulk)) {
        (true, true) => GOODPUT,
        (false, true) => GOODPUT_ROUTER,
        (_, false) => GOODPUT_LIGHT,
    };
    let mut figures = vec![HuntFigure::goodput(goodput, [default.utilization, nothing.utilization])];
    let line_bits = config.rate.bits_per_sec() as f64;
    let short_load: f64 = config.groups.iter().map(FlowGroup::load_bits).sum::<f64>() / line_bits;
    // Flows that send like bulk, at the same level as short ones.
    let is_new = |group: &FlowGroup| {
        matches!(group.kind, FlowKind::Bulk | FlowKind::Kept)
            && group.sent == 0
            && group.rate_bits() > Line::STEADY * line_bits
    };
    let is_crowded = short_load > CROWDED || config.groups.iter().any(is_new);
    for (number, group) in config.groups.iter().enumerate() {
        let share = group.rate_bits() / line_bits;
        let is_steady = share <= Line::STEADY && group.sent <= fish::THRESHOLDS[0];
        let class = match group.kind {
            FlowKind::Short if is_crowded => SHORT_CROWDED,
            FlowKind::Short => SHORT,
            FlowKind::Kept if is_steady => KEPT,
            FlowKind::Constant if is_steady => CONSTANT,
            FlowKind::Kept => KEPT_SUNK,
            FlowKind::Constant if share <= SLOW => CONSTANT_SUNK,
            FlowKind::Constant | FlowKind::Bulk => continue,
        };
        let by = if config.queues == Queues::Htb { " by HTB" } else { "" };
        let p99 = |outcome: &Outcome| outcome.p99(number).map_or(0.0, |span| span.as_secs_f64());
        figures.push(HuntFigure::tail(format!("{class}{by}"), [p99(&default), p99(&nothing)]));
    }
    figures
}

/// Case number `case` of `seed`, as the TOML of the world `egress`.
fn draw(seed: u64, case: u64, requests: u64) -> String {
    let mut rng = Rng::seeded(seed).fork(case);
    let rate_bits = 1e7 * 1_000_f64.powf(rng.unit());
    let bytes_per_s = rate_bits / 8.0;
    let is_light = rng.chance(0.15);
    let packet = |rng: &mut Rng| [1_514, 3_028, 12_500, 65_536][rng.below(4) as usize];
    let rtt = |rng: &mut Rng| format!("{}us", (20.0 * 2_500_f64.powf(rng.unit())) as u64);
    let mut groups = Vec::new();
    let has_bulk = !is_light && rng.chance(0.8);
    let packet_bulk = packet(&mut rng);
    let packet_mean = if has_bulk { f64::from(packet_bulk.min(20_000)) } else { 1_514.0 };
    let seconds = (PACKETS * packet_mean / bytes_per_s).clamp(0.2, 20.0);
    if has_bulk {
        let flows = between(&mut rng, 1.0, 121.0) as u64;
        let sent = if rng.chance(0.8) { 4_000_000 } else { 0 };
        groups.push(format!(
            "kind = \"bulk\", flows = {flows}.0, packet = {packet_bulk}, sent = {sent}, rtt = \"{}\"",
            rtt(&mut rng)
        ));
    }
    if is_light || rng.chance(0.75) {
        let load = between(&mut rng, 0.02, if is_light { 0.3 } else { 0.8 });
        let least = between(&mut rng, 100.0, 20_000.0);
        let most = least * between(&mut rng, 1.0, 200.0);
        groups.push(format!(
            "kind = \"short\", flows = {:.3}, bytes = [{}, {}], packet = {}, rtt = \"{}\"",
            (load * bytes_per_s / log_mean(least, most)).min(PACKETS / seconds),
            least as u64,
            most as u64,
            packet(&mut rng),
            rtt(&mut rng)
        ));
    }
    for _ in 0..rng.below(3) {
        let mean_us = between(&mut rng, 1e3, 1e6);
        let flows_max = (PACKETS / seconds * mean_us / 1e6).clamp(2.0, 100.0);
        let flows = between(&mut rng, 1.0, flows_max) as u64;
        let least = between(&mut rng, 100.0, 50_000.0);
        let most = least * between(&mut rng, 1.0, 20.0);
        let pause = law(&mut rng, mean_us);
        let is_fast = log_mean(least, most) / mean_us * 1e6 > Line::STEADY * bytes_per_s;
        let sent = if is_fast && rng.chance(0.5) || rng.chance(0.1) { 4_000_000 } else { 0 };
        groups.push(format!(
            "kind = \"kept\", flows = {flows}.0, bytes = [{}, {}], pause = \"{pause}\", packet = {}, sent = {sent}, \
             rtt = \"{}\"",
            least as u64,
            most as u64,
            packet(&mut rng),
            rtt(&mut rng)
        ));
    }
    if rng.chance(0.3) {
        let (flows, share) = (1 + rng.below(20), between(&mut rng, 0.000_1, SLOW));
        let sent = if rng.chance(0.5) && share > Line::STEADY { 4_000_000 } else { 0 };
        groups.push(format!(
            "kind = \"constant\", flows = {flows}.0, rate = \"{}bit\", packet = {}, sent = {sent}",
            (share * rate_bits) as u64,
            100 + rng.below(1_400)
        ));
    }
    if !is_light && rng.chance(0.15) {
        let share = 0.3 + 0.9 * rng.unit();
        groups.push(format!(
            "kind = \"constant\", flows = 1.0, rate = \"{}bit\", packet = 1514, sent = 4000000",
            (share * rate_bits) as u64
        ));
    }
    let duration_ms = (seconds * 1e3 * requests as f64 / REQUESTS as f64) as u64;
    let queues = if rng.chance(0.5) { "fq" } else { "htb" };
    let local = rng.chance(0.7);
    let seed = rng.below(1 << 32);
    let groups = groups.iter().fold(String::new(), |text, group| text + &format!("    {{ {group} }},\n"));
    format!(
        "rate = \"{}bit\"\nqueues = \"{queues}\"\nlocal = {local}\n\
         duration_ms = {duration_ms}\nseed = {seed}\ngroups = [\n{groups}]\n",
        rate_bits as u64
    )
}

/// Classes of flows that are not bulk. Those that sank send more than the policy's steady share, or sent
/// like bulk before.
const SHORT: &str = "p99 of short flows";
const SHORT_CROWDED: &str = "p99 of short flows beside new ones";
const KEPT: &str = "p99 of kept connections";
const CONSTANT: &str = "p99 of constant rates";
const KEPT_SUNK: &str = "p99 of kept connections that sank";
const CONSTANT_SUNK: &str = "p99 of constant rates that sank";
/// These have their reason in the guide.
const KNOWN: [&str; 11] = [
    GOODPUT_ROUTER,
    GOODPUT_LIGHT,
    SHORT_CROWDED,
    KEPT_SUNK,
    CONSTANT_SUNK,
    "p99 of short flows by HTB",
    "p99 of short flows beside new ones by HTB",
    "p99 of kept connections by HTB",
    "p99 of constant rates by HTB",
    "p99 of kept connections that sank by HTB",
    "p99 of constant rates that sank by HTB",
];
const GOODPUT: &str = "goodput";
const GOODPUT_ROUTER: &str = "goodput of a router";
const GOODPUT_LIGHT: &str = "goodput without bulk";
/// Load of short flows from which they wait for one another.
const CROWDED: f64 = 0.1;
/// Largest share of the line of a constant rate that is not bulk.
const SLOW: f64 = 0.01;
/// Packets of a case, about.
const PACKETS: f64 = 6_000.0;
