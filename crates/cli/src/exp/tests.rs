//! Every shipped experiment is complete: it parses, its settings are valid at
//! every point, mode and scale, and every printed number it names exists.

use super::checked::{PointValue, Rules};
use super::registry::{self, Source};
use crate::bound::Bound;
use crate::verdict::ClaimVerdict;

fn each(check: impl Fn(&Source)) {
    let sources = registry::all();
    assert!(sources.len() >= 11, "the figures of ADPS and D2P ship with the program");
    sources.iter().for_each(check);
}

//~ adps: every experiment file describes a world, and every printed number exists
#[test]
fn all_settings_make_a_world() {
    each(|source| {
        let experiment = source.parse().unwrap();
        for (scale_name, scale) in &experiment.scale {
            for (point, mode) in
                experiment.points().iter().flat_map(|p| experiment.modes.iter().map(move |m| (p, m)))
            {
                if !point.has_mode(mode) {
                    continue;
                }
                let settings = experiment.settings_for(scale, point, mode).unwrap();
                let run = (experiment.world().unwrap().prepare)(mode, settings);
                assert_eq!(run.err(), None, "{} {scale_name} {} {mode}", source.name, point.name);
            }
        }
    });
}

//~ adps: every experiment file describes a world, and every printed number exists
#[test]
fn every_printed_number_exists() {
    each(|source| {
        for claim in &source.parse().unwrap().claim {
            if let Some(id) = &claim.paper {
                assert!(source.paper_number(id).is_ok(), "{} claim {}: {id}", source.name, claim.id);
            }
        }
    });
}

//~ results: every claim of every experiment can hold, fail and be undecided; one about single seeds cannot be undecided
#[test]
fn every_claim_can_be_judged() {
    let value = |estimate: f64, spread: f64| PointValue {
        estimate,
        seeds: vec![estimate - spread, estimate, estimate + spread],
    };
    each(|source| {
        for claim in &source.parse().unwrap().claim {
            let label = format!("{} claim {}", source.name, claim.id);
            let rules = Rules::of(claim).unwrap_or_else(|e| panic!("{label}: {e}"));
            let paper = claim.paper.as_ref().map(|id| source.paper_number(id).unwrap());
            let (inside, outside) = match rules.bound {
                Bound::AtMost(x) => (x - 1.0, x + 1.0),
                Bound::AtLeast(x) => (x + 1.0, x - 1.0),
                Bound::Within(low, high) => (f64::midpoint(low, high), high + 1.0),
                Bound::PaperWithinSeeds => (paper.unwrap(), paper.unwrap() + 1.0),
            };
            let verdict = |estimate, spread| rules.judge(&value(estimate, spread), paper);
            assert_eq!(verdict(inside, 0.0), ClaimVerdict::Holds, "{label}");
            assert_eq!(verdict(outside + rules.margin, 0.0), ClaimVerdict::Fails, "{label}");
            if rules.bound != Bound::PaperWithinSeeds {
                assert_eq!(verdict(inside, 1e9), ClaimVerdict::Undecided, "{label}");
            }
        }
    });
}

//~ input: unwritable results and closed pipes cause no panic
#[test]
fn an_unknown_experiment_lists_those_there_are() {
    let error = registry::find("adps/fig9").unwrap_err().to_string();
    assert!(error.contains("adps/fig5"), "{error}");
    assert_eq!(registry::find("adps").unwrap().len(), 9);
}
