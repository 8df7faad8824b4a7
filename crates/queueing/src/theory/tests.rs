//! Formulas against independent seeded simulations: a Lindley recursion for first
//! come first served, single events for priorities.

use std::collections::VecDeque;

use super::mg1::Mg1Class;
use super::*;
use crate::{Distribution, Rng};

const REQUESTS: usize = 2_000_000;

/// Measurements of `REQUESTS` requests.
struct Measured {
    waits_s: Vec<f64>,
    sojourns_s: Vec<f64>,
    lost: usize,
}

/// First come first served by `servers`, with capacity for `capacity` requests in all.
fn fcfs(servers: usize, capacity: usize, rate_per_s: f64, service: &Distribution) -> Measured {
    let mut rng = Rng::seeded(42);
    let mut measured = Measured { waits_s: Vec::new(), sojourns_s: Vec::new(), lost: 0 };
    let mut free_at = vec![0.0_f64; servers];
    let mut departures = VecDeque::new();
    let mut now = 0.0;
    for _ in 0..REQUESTS {
        now += rng.exponential() / rate_per_s;
        while departures.front().is_some_and(|&departure| departure <= now) {
            departures.pop_front();
        }
        if capacity < usize::MAX && departures.len() == capacity {
            measured.lost += 1;
            continue;
        }
        let server = (0..servers).min_by(|&a, &b| free_at[a].total_cmp(&free_at[b])).expect("a server");
        let begin = free_at[server].max(now);
        free_at[server] = begin + service.sample(&mut rng).as_secs_f64();
        if capacity < usize::MAX {
            departures.push_back(free_at[server]);
        }
        measured.waits_s.push(begin - now);
        measured.sojourns_s.push(free_at[server] - now);
    }
    measured
}

/// Mean sojourn minus service of each class at one server, most urgent first.
fn priorities(classes: &[Mg1Class], preemptive: bool) -> Vec<f64> {
    let mut rng = Rng::seeded(43);
    let mut arrivals: Vec<f64> = classes.iter().map(|class| rng.exponential() / class.rate_per_s).collect();
    // Requests present per class: arrival, service, remaining service.
    let mut present: Vec<VecDeque<(f64, f64, f64)>> = vec![VecDeque::new(); classes.len()];
    let (mut waited_s, mut served) = (vec![0.0; classes.len()], vec![0_u32; classes.len()]);
    let (mut now, mut serving) = (0.0, None);
    for _ in 0..2 * REQUESTS {
        let next = (0..classes.len()).min_by(|&a, &b| arrivals[a].total_cmp(&arrivals[b])).expect("a class");
        if preemptive || serving.is_none() {
            serving = present.iter().position(|queue| !queue.is_empty());
        }
        if let Some(class) = serving {
            let (arrived, service, left) = present[class][0];
            if now + left <= arrivals[next] {
                now += left;
                present[class].pop_front();
                waited_s[class] += now - arrived - service;
                served[class] += 1;
                serving = None;
                continue;
            }
            present[class][0].2 = left - (arrivals[next] - now);
        }
        now = arrivals[next];
        let service = classes[next].service.sample(&mut rng).as_secs_f64();
        present[next].push_back((now, service, service));
        arrivals[next] += rng.exponential() / classes[next].rate_per_s;
    }
    waited_s.iter().zip(&served).map(|(sum, &n)| sum / f64::from(n)).collect()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn quantile(values: &[f64], q: f64) -> f64 {
    let mut sorted = values.to_vec();
    let index = (q * values.len() as f64) as usize;
    *sorted.select_nth_unstable_by(index, f64::total_cmp).1
}

#[track_caller]
fn agree(what: &str, formula: Option<Span>, simulated_s: f64) {
    let formula_s = formula.expect("a steady state").as_secs_f64();
    assert!(
        (simulated_s / formula_s - 1.0).abs() < 0.02,
        "{what}: formula {formula_s:.4e} s, simulated {simulated_s:.4e} s"
    );
}

const SERVICE: Span = Span::from_micros(10);
const MEMORYLESS: Distribution = Distribution::Exponential { mean: SERVICE };

//~ queueing: closed forms of M/M/1, M/M/1/K, M/M/c and M/G/1 agree with simulation within 2 %
#[test]
fn mm1_agrees_with_simulation() {
    for rate_per_s in [30_000.0, 70_000.0] {
        let measured = fcfs(1, usize::MAX, rate_per_s, &MEMORYLESS);
        agree("mean wait", mm1::wait_mean(rate_per_s, SERVICE), mean(&measured.waits_s));
        agree("mean sojourn", mm1::sojourn_mean(rate_per_s, SERVICE), mean(&measured.sojourns_s));
        for q in [0.5, 0.9, 0.99] {
            agree(
                "sojourn",
                mm1::sojourn_quantile(rate_per_s, SERVICE, q),
                quantile(&measured.sojourns_s, q),
            );
        }
        agree("wait", mm1::wait_quantile(rate_per_s, SERVICE, 0.9), quantile(&measured.waits_s, 0.9));
    }
}

//~ queueing: closed forms of M/M/1, M/M/1/K, M/M/c and M/G/1 agree with simulation within 2 %
#[test]
fn mm1k_agrees_with_simulation() {
    for (k, rate_per_s) in [(1, 50_000.0), (5, 80_000.0), (5, 100_000.0), (20, 150_000.0)] {
        let measured = fcfs(1, k as usize, rate_per_s, &MEMORYLESS);
        let (formula, simulated) =
            (mm1k::loss(k, rate_per_s, SERVICE), measured.lost as f64 / REQUESTS as f64);
        assert!((simulated / formula - 1.0).abs() < 0.02, "K = {k}: {formula} and {simulated}");
        agree("mean sojourn", Some(mm1k::sojourn_mean(k, rate_per_s, SERVICE)), mean(&measured.sojourns_s));
    }
}

//~ queueing: closed forms of M/M/1, M/M/1/K, M/M/c and M/G/1 agree with simulation within 2 %
#[test]
fn mmc_agrees_with_simulation() {
    for (servers, rate_per_s) in [(2, 140_000.0), (8, 640_000.0)] {
        let measured = fcfs(servers as usize, usize::MAX, rate_per_s, &MEMORYLESS);
        let share = mmc::wait_share(servers, rate_per_s, SERVICE).expect("a steady state");
        let waited = measured.waits_s.iter().filter(|&&wait| wait > 0.0).count() as f64 / REQUESTS as f64;
        assert!((waited / share - 1.0).abs() < 0.02, "{servers} servers: {share} and {waited}");
        agree("mean wait", mmc::wait_mean(servers, rate_per_s, SERVICE), mean(&measured.waits_s));
        agree("mean sojourn", mmc::sojourn_mean(servers, rate_per_s, SERVICE), mean(&measured.sojourns_s));
        for q in [0.9, 0.99] {
            agree(
                "wait",
                mmc::wait_quantile(servers, rate_per_s, SERVICE, q),
                quantile(&measured.waits_s, q),
            );
        }
    }
}

//~ queueing: closed forms of M/M/1, M/M/1/K, M/M/c and M/G/1 agree with simulation within 2 %
#[test]
fn mg1_agrees_with_simulation() {
    for text in ["10us", "uniform 0s 20us", "lognormal 10us 0.8", "bimodal 5us 105us 0.05"] {
        let service: Distribution = text.parse().expect(text);
        let measured = fcfs(1, usize::MAX, 60_000.0, &service);
        agree(text, mg1::wait_mean(60_000.0, &service), mean(&measured.waits_s));
        agree(text, mg1::sojourn_mean(60_000.0, &service), mean(&measured.sojourns_s));
    }
}

fn three_classes() -> [Mg1Class; 3] {
    let class = |rate_per_s, service: &str| Mg1Class { rate_per_s, service: service.parse().expect(service) };
    [class(100_000.0, "2us"), class(20_000.0, "exp 10us"), class(4_000.0, "uniform 20us 120us")]
}

//~ queueing: closed forms of M/M/1, M/M/1/K, M/M/c and M/G/1 agree with simulation within 2 %
#[test]
fn mg1_with_nonpreemptive_priorities_agrees_with_simulation() {
    let classes = three_classes();
    for (index, waited_s) in priorities(&classes, false).into_iter().enumerate() {
        agree(&format!("class {index}"), mg1::wait_mean_nonpreemptive(&classes, index), waited_s);
    }
}

//~ queueing: closed forms of M/M/1, M/M/1/K, M/M/c and M/G/1 agree with simulation within 2 %
#[test]
fn mg1_with_preemptive_priorities_agrees_with_simulation() {
    let classes = three_classes();
    for (index, waited_s) in priorities(&classes, true).into_iter().enumerate() {
        agree(&format!("class {index}"), mg1::wait_mean_preemptive(&classes, index), waited_s);
    }
}

#[test]
fn a_full_server_has_no_steady_state() {
    assert_eq!(mm1::wait_mean(100_000.0, SERVICE), None);
    assert_eq!(mmc::wait_mean(2, 200_000.0, SERVICE), None);
    assert_eq!(mg1::wait_mean(100_000.0, &MEMORYLESS), None);
    let classes = [50_000.0, 60_000.0].map(|rate_per_s| Mg1Class { rate_per_s, service: MEMORYLESS });
    assert_eq!(mg1::wait_mean_preemptive(&classes, 1), None);
    assert!(
        mg1::wait_mean_preemptive(&classes, 0).is_some(),
        "the other class does not delay the urgent one"
    );
}

#[test]
fn losses_stay_finite_at_any_load_and_capacity() {
    for (k, rate_per_s) in [(1, 0.0), (10_000, 1.0), (10_000, 1e9), (3, 100_000.0)] {
        let loss = mm1k::loss(k, rate_per_s, SERVICE);
        assert!((0.0..=1.0).contains(&loss), "K = {k} at {rate_per_s}: {loss}");
    }
    assert!(
        (mm1k::loss(3, 100_000.0, SERVICE) - 0.25).abs() < 1e-12,
        "at load 1 all numbers present are equally likely"
    );
}

/// Simulated outcomes with reneging: served, lost, reneged.
fn reneging_simulated(k: u32, rate_per_s: f64, service_mean: Span, patience_mean: Span) -> [f64; 3] {
    let mut rng = Rng::seeded(45);
    let (serve_per_s, renege_per_s) = (1.0 / service_mean.as_secs_f64(), 1.0 / patience_mean.as_secs_f64());
    let (mut present, mut arrived, mut outcomes) = (0_u32, 0_u32, [0_u32; 3]);
    for _ in 0..REQUESTS {
        let serve = if present > 0 { serve_per_s } else { 0.0 };
        let renege = f64::from(present.saturating_sub(1)) * renege_per_s;
        let next = rng.unit() * (rate_per_s + serve + renege);
        if next < rate_per_s {
            arrived += 1;
            if present == k { outcomes[1] += 1 } else { present += 1 }
        } else {
            present -= 1;
            outcomes[if next < rate_per_s + serve { 0 } else { 2 }] += 1;
        }
    }
    outcomes.map(|count| f64::from(count) / f64::from(arrived))
}

//~ guard: M/M/1/K with reneging agrees with Ancker and Gafarian; a long queue serves impatient clients in vain
#[test]
fn reneging_requests_follow_ancker_and_gafarian() {
    let service = Span::from_millis(1);
    for (k, rate_per_s, patience_ms) in
        [(5, 800.0, 4), (50, 1_500.0, 20), (200, 4_000.0, 50), (500, 700.0, 1)]
    {
        let reneging::RenegingOutcome { served, lost, reneged } =
            reneging::outcome(k, rate_per_s, service, Span::from_millis(patience_ms));
        let measured = reneging_simulated(k, rate_per_s, service, Span::from_millis(patience_ms));
        for (formula, measured) in [served, lost, reneged].into_iter().zip(measured) {
            assert!((formula - measured).abs() < 0.005, "{k} {rate_per_s}: {formula} {measured}");
        }
        assert!((served + lost + reneged - 1.0).abs() < 1e-9);
    }
}

//~ guard: M/M/1/K with reneging agrees with Ancker and Gafarian; a long queue serves impatient clients in vain
#[test]
fn long_queues_and_short_patience_waste_service() {
    let (rate_per_s, service, timeout) =
        (1_300.0, Distribution::Exponential { mean: Span::from_millis(1) }, Span::from_millis(30));
    let mut shares = Vec::new();
    for k in [8, 20, 200] {
        let measured = fcfs(1, k as usize, rate_per_s, &service);
        let within = measured.sojourns_s.iter().filter(|&&s| s <= timeout.as_secs_f64()).count();
        let measured = within as f64 / REQUESTS as f64;
        let formula = mm1k::within(k, rate_per_s, service.mean(), timeout);
        assert!((formula - measured).abs() < 0.005, "K = {k}: {formula} {measured}");
        shares.push(formula);
    }
    assert!(shares[1] > 0.7 && shares[2] < 0.01, "K = 20 serves in time, K = 200 does not: {shares:?}");
}

/// Mean sojourn of `requests` with multi-level feedback, event by event.
fn feedback_simulated(points: &[(f64, f64)], load: f64, thresholds: &[f64], requests: usize) -> f64 {
    let sizes = feedback::SizeDistribution::new(points.to_vec()).expect("a distribution");
    let mut rng = Rng::seeded(44);
    let draw = |rng: &mut Rng| {
        let unit = rng.unit();
        let pair = points.windows(2).find(|pair| unit < pair[1].1).expect("shares end at 1");
        let ((from, low), (to, high)) = (pair[0], pair[1]);
        from + (to - from) * (unit - low) / (high - low)
    };
    // Requests present per level: arrival, attained service, size.
    let mut levels: Vec<VecDeque<(f64, f64, f64)>> = vec![VecDeque::new(); thresholds.len() + 1];
    let mean_gap = sizes.mean() / load;
    let (mut now, mut arrival, mut sum, mut done) = (0.0, 0.0, 0.0, 0);
    while done < requests {
        let busy = levels.iter().position(|level| !level.is_empty());
        let head = busy.map(|level| (level, levels[level][0]));
        let ends = head.map_or(f64::INFINITY, |(level, (_, attained, size))| {
            now + thresholds.get(level).map_or(size, |&threshold| size.min(threshold)) - attained
        });
        if ends > arrival {
            if let Some((level, _)) = head {
                levels[level][0].1 += arrival - now;
            }
            now = arrival;
            levels[0].push_back((now, 0.0, draw(&mut rng)));
            arrival += rng.exponential() * mean_gap;
            continue;
        }
        let (level, (arrived, _, size)) = head.expect("a request was served");
        now = ends;
        levels[level].pop_front();
        match thresholds.get(level) {
            Some(&threshold) if threshold < size => levels[level + 1].push_back((arrived, threshold, size)),
            _ => {
                sum += now - arrived;
                done += 1;
            }
        }
    }
    sum / requests as f64
}

const SIZES: [(f64, f64); 5] = [(1.0, 0.0), (1.0, 0.3), (3.0, 0.7), (10.0, 0.95), (40.0, 1.0)];

#[test]
fn multi_level_feedback_agrees_with_simulation() {
    let sizes = feedback::SizeDistribution::new(SIZES.to_vec()).expect("a distribution");
    for (load, thresholds) in [(0.5, &[][..]), (0.7, &[2.0]), (0.7, &[1.0, 5.0, 20.0]), (0.8, &[4.0, 12.0])] {
        let formula = feedback::sojourn_mean(&sizes, load, thresholds).expect("a steady state");
        let simulated = feedback_simulated(&SIZES, load, thresholds, 1_000_000);
        assert!(
            (simulated / formula - 1.0).abs() < 0.02,
            "load {load}, thresholds {thresholds:?}: formula {formula:.3}, simulated {simulated:.3}"
        );
    }
}

#[test]
fn one_level_is_first_come_first_served() {
    let sizes = feedback::SizeDistribution::new(SIZES.to_vec()).expect("a distribution");
    let (mean, load) = (sizes.mean(), 0.6);
    let one = feedback::sojourn_mean(&sizes, load, &[]).expect("a steady state");
    let wait = mg1::wait_mean_of(load / mean, mean, sizes.second_moment()).expect("a steady state");
    assert!((one - mean - wait.as_secs_f64()).abs() < 1e-6, "{one}");
}

//~ fabric: computed thresholds equal the best found by trying all, and are no worse than published ones
#[test]
fn the_best_thresholds_equal_an_exhaustive_search() {
    let sizes = feedback::SizeDistribution::new(SIZES.to_vec()).expect("a distribution");
    for load in [0.2, 0.6, 0.9] {
        let mean = |thresholds: &[u64]| {
            let thresholds: Vec<f64> = thresholds.iter().map(|&amount| amount as f64).collect();
            feedback::sojourn_mean(&sizes, load, &thresholds).expect("a steady state")
        };
        let two = (1..40).map(|a| mean(&[a])).fold(f64::INFINITY, f64::min);
        let pairs = (1..39).flat_map(|a| (a + 1..40).map(move |b| [a, b]));
        let three = pairs.map(|pair| mean(&pair)).fold(f64::INFINITY, f64::min);
        for (levels, least) in [(2, two), (3, three)] {
            let best = feedback::thresholds_best(&sizes, load, levels).expect("a load below 1");
            assert!(best.len() < levels);
            assert!((mean(&best) / least - 1.0).abs() < 1e-9, "{load}: {best:?} is not {least}");
        }
        let more =
            (1..=8).map(|levels| feedback::thresholds_best(&sizes, load, levels).expect("a load below 1"));
        let means: Vec<f64> = more.map(|best| mean(&best)).collect();
        assert!(
            means.windows(2).all(|pair| pair[1] <= pair[0]),
            "more levels never increase the mean: {means:?}"
        );
    }
}

#[test]
fn invalid_loads_thresholds_and_points_give_none() {
    let sizes = || feedback::SizeDistribution::new(SIZES.to_vec()).expect("a distribution");
    assert_eq!(feedback::sojourn_mean(&sizes(), 1.0, &[]), None);
    assert_eq!(feedback::sojourn_mean(&sizes(), 0.5, &[4.0, 4.0]), None);
    assert_eq!(feedback::thresholds_best(&sizes(), 1.0, 8), None);
    for points in [vec![], vec![(1.0, 0.0)], vec![(2.0, 0.0), (1.0, 1.0)], vec![(1.0, 0.2), (2.0, 1.0)]] {
        assert_eq!(feedback::SizeDistribution::new(points.clone()), None, "{points:?}");
    }
}
