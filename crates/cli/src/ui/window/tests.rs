//! Reports add up over any window.

use super::super::fixture::{at, sched, serve};
use super::super::metrics::WAIT;
use super::*;

#[test]
fn rates_and_quantiles_are_those_of_the_window() {
    let live = serve(30);
    for window_s in [1, 10, 30, 60] {
        let seen = live.snapshot(at(30.0), window_s);
        assert_eq!(seen.window_s, window_s.min(30) as f64);
        let rate: Vec<_> = seen.figures("greenwave_responses_total").map(|figure| figure.per_s).collect();
        assert_eq!(rate, [Some(1_000.0)], "over {window_s} s");
        assert!(seen.figures("greenwave_connections").all(|gauge| gauge.per_s.is_none()));
        let urgent = seen.spreads(WAIT).next().expect("class 0 waited");
        assert_eq!(urgent.per_s, 100.0);
        let close = |ns: u64, us: f64| (ns as f64 / 1e3 - us).abs() <= us * 0.01;
        assert!(close(urgent.p50_ns, 50.0) && close(urgent.p99_ns, 99.0), "{urgent:?}");
        assert_eq!(urgent.max_ns, 100_000);
    }
}

#[test]
fn samples_older_than_the_window_are_ignored() {
    let mut live = serve(3);
    for second in 4..=9 {
        live.update(at(f64::from(second)), MetricsSample::default());
    }
    assert_eq!(live.snapshot(at(9.0), 5).spreads(WAIT).count(), 0);
    assert_eq!(live.snapshot(at(9.0), 8).spreads(WAIT).count(), 2);
}

#[test]
fn a_minute_is_kept_and_not_more() {
    let live = serve(200);
    assert_eq!(live.moments.len(), 61);
    let seen = live.snapshot(at(200.0), 1_000);
    assert_eq!((seen.window_s, seen.history.len()), (60.0, 60));
    assert!(seen.history.iter().all(|point| (point.rate, point.shed) == (1_000.0, 5.0)));
}

#[test]
fn a_command_without_updates_is_silent_and_stale() {
    let live = serve(3);
    let (fresh, stale) = (live.snapshot(at(4.0), 1), live.snapshot(at(13.0), 1));
    assert_eq!((fresh.silent_s, fresh.is_stale()), (1.0, false));
    assert_eq!((stale.at_s, stale.silent_s, stale.is_stale()), (13.0, 10.0, true));
    let unborn = serve(0).snapshot(at(0.0), 10);
    assert_eq!((unborn.window_s, unborn.figures.len(), unborn.is_stale()), (0.0, 0, false));
}

#[test]
fn moves_beyond_what_is_kept_are_counted() {
    let mut live = sched();
    let moved = live.snapshot(at(2.0), 10).moves[0].clone();
    let many = (0..600).map(|n| Move { at_s: 2.5 + f64::from(n) / 1e4, ..moved.clone() });
    live.update(at(3.0), MetricsSample { moves: many.collect(), ..MetricsSample::default() });
    let seen = live.snapshot(at(3.0), 1);
    assert_eq!((seen.moves.len(), seen.moves_lost), (512, 88));
    assert_eq!(live.snapshot(at(3.0), 10).moves_lost, 90);
}

#[test]
fn a_snapshot_survives_a_round_trip_as_json() {
    for live in [serve(5), sched()] {
        let mut seen = live.snapshot(at(5.0), 10);
        // JSON objects return labels in the order of their names.
        let text = serde_json::to_string(&seen).expect("JSON");
        let mut back: Snapshot = serde_json::from_str(&text).expect("a snapshot");
        for labels in [&mut seen, &mut back].into_iter().flat_map(|s| &mut s.figures) {
            let mut pairs: Vec<_> = labels.labels.iter().map(|(n, v)| (n.to_owned(), v.to_owned())).collect();
            pairs.sort();
            labels.labels = pairs.iter().fold(Labels::none(), |labels, (n, v)| labels.with(n, v));
        }
        assert_eq!(back.figures, seen.figures);
        assert_eq!((back.moves, back.owners, back.history), (seen.moves, seen.owners, seen.history));
        assert_eq!(back.spreads.len(), seen.spreads.len());
    }
}
