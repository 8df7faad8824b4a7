//! Model against a seeded event simulation of the same server.

//~ guard: throughput of a simulated server agrees with (1) to (7) within 5 %

use proptest::prelude::{prop_assert, proptest};

use super::*;
use crate::Rng;

const EVENTS: usize = 1_000_000;

/// Shares of arrivals: lost receiving, lost serving, served.
fn simulated(server: &TwoStages, rate_per_s: f64) -> [f64; 3] {
    let mut rng = Rng::seeded(44);
    let (mut receiving, mut serving) = (0, 0);
    let (mut arrived, mut outcomes) = (0_u32, [0_u32; 3]);
    for _ in 0..EVENTS {
        let receive = if receiving > 0 { server.receive_per_s } else { 0.0 };
        // Receiving preempts serving.
        let serve = if receiving == 0 && serving > 0 { server.serve_per_s } else { 0.0 };
        let next = rng.unit() * (rate_per_s + receive + serve);
        if next < rate_per_s {
            arrived += 1;
            if receiving == server.receive_room { outcomes[0] += 1 } else { receiving += 1 }
        } else if next < rate_per_s + receive {
            receiving -= 1;
            if serving == server.serve_room { outcomes[1] += 1 } else { serving += 1 }
        } else {
            serving -= 1;
            outcomes[2] += 1;
        }
    }
    outcomes.map(|count| f64::from(count) / f64::from(arrived))
}

/// The paper's machine: receives eleven times as fast as it serves.
const PAPER: TwoStages =
    TwoStages { receive_per_s: 33_000.0, serve_per_s: 3_000.0, receive_room: 64, serve_room: 128 };

#[test]
fn throughput_agrees_with_a_simulated_server_within_five_percent_of_its_peak() {
    for rate_per_s in
        [600.0, 1_500.0, 2_400.0, 2_700.0, 3_000.0, 4_000.0, 6_000.0, 12_000.0, 24_000.0, 30_000.0]
    {
        let [_, _, served] = simulated(&PAPER, rate_per_s);
        let (model, simulated) = (PAPER.outcome(rate_per_s).served * rate_per_s, served * rate_per_s);
        assert!(
            (model - simulated).abs() < 0.05 * simulated.max(0.05 * PAPER.serve_per_s),
            "{rate_per_s}: {model} {simulated}"
        );
    }
}

//~ guard: in overload throughput falls on a line of slope -µ2/µ1
#[test]
fn in_overload_throughput_falls_on_a_line_of_slope_minus_mu2_over_mu1() {
    let at = |rate_per_s: f64| PAPER.outcome(rate_per_s).served * rate_per_s;
    let slope = (at(20_000.0) - at(8_000.0)) / 12_000.0;
    let line = -PAPER.serve_per_s / PAPER.receive_per_s;
    assert!((slope / line - 1.0).abs() < 0.01, "{slope} is not {line}");
    assert!((at(20_000.0) / PAPER.throughput_overloaded(20_000.0) - 1.0).abs() < 0.01);
    assert_eq!(PAPER.throughput_overloaded(40_000.0), 0.0);
}

proptest! {
    //~ guard: shedding pays when it is cheaper than receiving
    #[test]
    fn every_request_has_one_outcome(
        rates in [10.0..1e6_f64, 10.0..1e6_f64, 10.0..1e7_f64],
        capacities in [1..300_u32, 1..300_u32],
        shed_ns in 0..20_000_u64,
    ) {
        let [receive_per_s, serve_per_s, rate_per_s] = rates;
        let server = TwoStages { receive_per_s, serve_per_s, receive_room: capacities[0], serve_room: capacities[1] };
        let shed = Span::from_nanos(shed_ns);
        let admitted = server.admitted_best(rate_per_s, shed);
        for outcome in [server.outcome(rate_per_s), server.outcome_shedding(rate_per_s, admitted, shed)] {
            let LivelockOutcome { lost_receiving, lost_serving, served } = outcome;
            prop_assert!((lost_receiving + lost_serving + served - 1.0).abs() < 1e-9, "{outcome:?}");
            prop_assert!([lost_receiving, lost_serving, served].iter().all(|share| (-1e-9..=1.0 + 1e-9).contains(share)));
        }
    }

    //~ guard: shedding pays when it is cheaper than receiving
    /// In heavy overload, shedding pays if it costs less than receiving.
    #[test]
    fn shedding_pays_when_it_is_cheaper_than_receiving(times in 3.0..10.0_f64, cost in 0.0..0.8_f64) {
        let rate_per_s = times * PAPER.serve_per_s;
        let shed = Span::from_secs_f64(cost / PAPER.receive_per_s);
        let admitted = PAPER.admitted_best(rate_per_s, shed);
        let guarded = PAPER.outcome_shedding(rate_per_s, admitted, shed).served;
        prop_assert!(guarded > PAPER.outcome(rate_per_s).served, "{times} {cost}: {guarded}");
    }
}

//~ guard: shedding pays when it is cheaper than receiving
#[test]
fn without_overload_no_request_is_shed_and_nothing_changes() {
    let free = Span::ZERO;
    assert_eq!(PAPER.admitted_best(1_000.0, free), 1_000.0);
    assert_eq!(PAPER.outcome_shedding(1_000.0, 1_000.0, free), PAPER.outcome(1_000.0));
}
