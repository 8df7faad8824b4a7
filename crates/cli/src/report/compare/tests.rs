//! Tests of comparisons, from two results to verdicts.

use serde_json::{Value, json};

use super::*;
use crate::report::header::ResultHeader;
use ClaimVerdict::{Fails, Holds, Undecided};

/// Result of an experiment with one claim, `p99 <= 4`, and values `seeds`.
fn result(name: &str, seed: u64, seeds: &[f64]) -> Value {
    let mean = seeds.iter().sum::<f64>() / seeds.len() as f64;
    ResultHeader::of_sim("experiment", Some(seed)).stamp(json!({
        "experiment": name, "title": name, "scale": "smoke", "seed": seed, "runs": seeds.len(),
        "claims": [{"id": "p99", "ours": mean, "seeds": seeds, "bound": "<= 4", "holds": mean <= 4.0}],
        "units": {"p99": "µs"}, "shown": ["p99"],
        "figures": [{"point": "", "mode": "fish", "class": "LS", "p99": mean, "seeds": {"p99": seeds}}],
        "settings": [{"point": "", "mode": "fish", "settings": {"load": seed, "workers": 2}}],
    }))
}

fn run(name: &str, seed: u64, seeds: &[f64]) -> ParsedResult {
    ParsedResult::read(&result(name, seed, seeds)).expect("a valid result")
}

fn compared(a: ParsedResult, b: ParsedResult) -> Comparison {
    let (mut comparisons, unpaired) = pairs(vec![a], vec![b]).expect("runs of the same name");
    assert_eq!(unpaired, [""; 0]);
    comparisons.remove(0)
}

#[track_caller]
fn check(a: &[f64], b: &[f64], verdict: ClaimChange, differs: Option<bool>) {
    let compared = compared(run("a/one", 1, a), run("a/one", 1, b));
    let claim = &compared.claims[0];
    assert_eq!((claim.verdict, claim.difference.and_then(|d| d.differs)), (verdict, differs));
    let expected = if matches!(verdict, ClaimChange::Now { verdict: Fails, .. }) { Fails } else { Holds };
    assert_eq!(compared.verdicts().collect::<Vec<_>>(), [expected]);
}

#[test]
fn a_claim_under_its_old_id_is_compared_with_the_new_one() {
    let named = |id: &str| {
        let mut result = result("fish/fig2", 1, &[3.0]);
        result["claims"][0]["id"] = json!(id);
        ParsedResult::read(&result).expect("a valid result")
    };
    let compared = compared(named("apart"), named("no-shared-path-control"));
    let claims: Vec<_> = compared.claims.iter().map(|claim| (claim.id.as_str(), claim.verdict)).collect();
    assert_eq!(claims, [("no-shared-path-control", ClaimChange::Both(Holds))]);
}

//~ cli: a comparison of single runs shows their quantiles
#[test]
fn runs_without_intervals_are_compared_by_their_quantiles() {
    let demo = |p99: u64| {
        let class = json!({"class": "LS", "requests": 10, "p50_ns": 7000, "p99_ns": p99});
        let modes = json!([{"mode": "adps", "report": {"classes": [class]}}]);
        ParsedResult::read(&ResultHeader::of_host("demo", Some(1)).stamp(json!({"modes": modes}))).unwrap()
    };
    let text = text(&[compared(demo(40_000), demo(80_000))], &[]);
    let row = text.lines().find(|line| line.contains("p99")).unwrap_or_else(|| panic!("{text}"));
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words[words.len() - 5..], ["40", "80", "2.00", "–", "–"], "{text}");
    assert!(text.contains("cannot be judged") && !text.contains("requests"), "{text}");
}

#[test]
fn each_claim_has_a_verdict_and_whether_its_figure_moved() {
    check(&[3.0, 3.2, 3.1], &[3.1, 3.1, 3.2], ClaimChange::Both(Holds), Some(false));
    check(&[3.0, 3.2, 3.1], &[2.0, 2.2, 2.1], ClaimChange::Both(Holds), Some(true));
    check(&[3.0, 3.2, 3.1], &[5.0, 5.2, 5.1], ClaimChange::Now { verdict: Fails, was: Holds }, Some(true));
    check(&[5.0, 9.0, 4.0], &[3.9, 4.1, 3.9], ClaimChange::Now { verdict: Holds, was: Fails }, Some(false));
    check(&[5.0], &[6.0], ClaimChange::Both(Fails), None);
}

//~ results: `report --compare` shows which claims are undecided in either result
#[test]
fn a_claim_that_held_and_is_undecided_is_no_failure_and_no_success() {
    let with_verdict = |verdict: ClaimVerdict| {
        let mut result = result("a/one", 1, &[3.0, 3.2]);
        result["claims"][0]["verdict"] = json!(verdict);
        ParsedResult::read(&result).unwrap()
    };
    let check = |was, verdict, words, expected| {
        let compared = compared(with_verdict(was), with_verdict(verdict));
        assert_eq!(compared.claims[0].verdict.words(), words);
        assert_eq!(compared.verdicts().collect::<Vec<_>>(), [expected]);
        assert!(text(&[compared], &[]).ends_with(&format!("claims: 1 {words}\n")));
    };
    check(Holds, Undecided, "now undecided", Undecided);
    check(Fails, Undecided, "now undecided", Holds);
    check(Undecided, Undecided, "undecided in both", Holds);
    check(Undecided, Fails, "now FAILS", Fails);
    check(Undecided, Holds, "now holds", Holds);
}

//~ results: results of earlier versions are judged again by their value, interval and bound
#[test]
fn a_claim_of_an_earlier_version_is_undecided_where_its_interval_contains_the_bound() {
    let mut old = result("a/one", 1, &[3.0, 3.2]);
    old["claims"][0]["interval"] = json!(1.3);
    let compared = compared(run("a/one", 1, &[3.0, 3.2]), ParsedResult::read(&old).unwrap());
    assert_eq!(compared.claims[0].verdict, ClaimChange::Now { verdict: Undecided, was: Holds });
}

#[test]
fn a_removed_claim_is_reported_and_is_no_failure() {
    let mut without = result("a/one", 1, &[3.0]);
    without["claims"] = json!([]);
    let without = || ParsedResult::read(&without).unwrap();
    let removed = compared(run("a/one", 1, &[3.0]), without());
    assert_eq!(
        (removed.claims[0].verdict, removed.verdicts().collect()),
        (ClaimChange::OnlyInA, vec![Holds])
    );
    let new = compared(without(), run("a/one", 1, &[5.0]));
    assert_eq!((new.claims[0].verdict, new.verdicts().collect()), (ClaimChange::OnlyInB, vec![Holds]));
}

#[test]
fn same_seeds_are_paired_and_others_are_not() {
    let method_for = |seed| {
        let compared = compared(run("a/one", 1, &[3.0, 3.2]), run("a/one", seed, &[3.1, 3.3]));
        (compared.claims[0].difference.unwrap().method, compared.figures[0].difference.method)
    };
    assert_eq!(method_for(1), (Method::Seed, Method::Seed));
    assert_eq!(method_for(2), (Method::Welch, Method::Welch));
    let mut old = result("a/one", 1, &[3.0, 3.2]);
    old.as_object_mut().unwrap().remove("greenwave");
    let old = compared(ParsedResult::read(&old).unwrap(), run("a/one", 1, &[3.1, 3.3]));
    assert_eq!(old.claims[0].difference.unwrap().method, Method::Welch);
}

#[test]
fn folders_are_paired_by_name_and_unpaired_runs_are_named() {
    let several = |names: [&str; 2]| names.map(|name| run(name, 1, &[3.0])).to_vec();
    let (comparisons, unpaired) = pairs(several(["a/one", "b/two"]), several(["c/three", "a/one"])).unwrap();
    assert_eq!(comparisons.len(), 1);
    assert_eq!(unpaired, ["b/two is only in A", "c/three is only in B"]);
    let error = pairs(vec![run("a/one", 1, &[3.0])], vec![run("b/two", 1, &[3.0])]).unwrap_err().to_string();
    assert!(error.starts_with("error: A has a/one, B has b/two: nothing to compare\n  try: "), "{error}");
}

#[test]
fn the_comparison_fits_80_columns_and_names_its_method() {
    let mut long = result("a/one", 1, &[3.0, 3.2, 3.1]);
    long["claims"][0]["id"] = json!("a-claim-whose-name-takes-more-than-there-is-room-for");
    long["figures"][0]["mode"] = json!("a mode with a name that takes more room than there is");
    let mut worse = result("a/one", 1, &[123_456.0, 123_458.5, 123_457.0]);
    for key in ["id", "bound"] {
        worse["claims"][0][key] = long["claims"][0][key].clone();
    }
    worse["figures"][0]["mode"] = long["figures"][0]["mode"].clone();
    worse["settings"][0]["settings"]["load"] = json!(9);
    let (comparisons, unpaired) =
        pairs(vec![ParsedResult::read(&long).unwrap()], vec![ParsedResult::read(&worse).unwrap()]).unwrap();
    let text = text(&comparisons, &unpaired);
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    for part in ["now FAILS", "setting load: 1 in A, 9 in B", "2 paired by seed", "claims: 1 now FAILS\n"] {
        assert!(text.contains(part), "{part:?} in {text}");
    }
    let page = page(&comparisons, &unpaired);
    for part in ["there-is-room-for", "now FAILS", "Settings that differ", "&lt;= 4"] {
        assert!(page.contains(part), "{part:?} in {page}");
    }
}
