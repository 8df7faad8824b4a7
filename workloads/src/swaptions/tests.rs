//! Simulation and formula against each other, and against known values.

//~ workloads: a simulated swaption agrees with its formula

use super::*;

fn estimate(swaption: Swaption, paths: u64) -> MeanEstimate {
    let mut simulation = Simulation::new(swaption, 7);
    simulation.add(paths);
    simulation.estimate()
}

#[test]
fn the_simulated_price_matches_the_closed_form() {
    let base = Swaption::default();
    for swaption in [
        base,
        Swaption { strike: 0.06, ..base },
        Swaption { strike: 0.02, volatility: 0.03, ..base },
        Swaption { expiry: 1, payments: 1, period: 1, step: 1.0, ..base },
        Swaption { expiry: 4, payments: 3, slope: -0.001, ..base },
    ] {
        let found = estimate(swaption, 20_000);
        assert!(found.holds(swaption.price()), "{swaption:?}: {found:?} for {}", swaption.price());
    }
}

#[test]
fn a_wrong_price_is_outside_the_interval() {
    let base = Swaption::default();
    let found = estimate(base, 20_000);
    for wrong in [
        Swaption { volatility: 0.014, ..base },
        Swaption { strike: 0.05, ..base },
        Swaption { expiry: 30, ..base },
    ] {
        assert!(!found.holds(wrong.price()), "{wrong:?}: {found:?} for {}", wrong.price());
    }
}

#[test]
fn without_volatility_an_option_is_worth_its_payoff() {
    let swaption = Swaption { volatility: 1e-9, ..Swaption::default() };
    let swap: f64 = swaption.coupons().map(|(at, pays)| pays * swaption.bond(swaption.expiry, at)).sum();
    let pays = swaption.bond(0, swaption.expiry) * (1.0 - swap);
    assert!(pays > 0.001, "this one pays: {pays}");
    assert!((swaption.price() - pays).abs() < 1e-9, "{} for {pays}", swaption.price());
}

#[test]
fn kept_paths_are_bounded_and_change_nothing() {
    let swaption = Swaption::default();
    let path = (swaption.expiry + 1) * swaption.steps() * 8;
    let mut simulation = Simulation::new(swaption, 7).keeping(3 * path + 1);
    simulation.add(100);
    assert_eq!(simulation.estimate(), estimate(swaption, 100));
    assert_eq!(simulation.kept.len(), 3);
}
