//! Tests of the SVG output.

use super::*;

fn named(points: &[(f64, f64)]) -> Vec<(String, Vec<(f64, f64)>)> {
    vec![("none".to_owned(), points.to_vec())]
}

#[track_caller]
fn is_plot(svg: &str, parts: &[&str]) {
    assert!(svg.starts_with("<svg"), "{svg}");
    for part in parts {
        assert!(svg.contains(part), "{part} in {svg}");
    }
}

//~ demo: `report.html` is self-contained and shows a CDF per class and the stages of p99
#[test]
fn a_distribution_shows_its_nines() {
    let svg = cdf_plot("LS", &named(&[(5.0, 0.5), (80.0, 0.99), (400.0, 1.0)]));
    is_plot(&svg, &["LS", "none", "99.9 %", "latency, µs", "1000"]);
}

//~ demo: `report.html` is self-contained and shows a CDF per class and the stages of p99
#[test]
fn bars_show_their_parts_and_their_sum() {
    let parts = vec![("nic".to_owned(), 30.0), ("event".to_owned(), 12.5)];
    let svg = stacked_bars("p99", "µs", &[("adps LS".to_owned(), parts)]);
    is_plot(&svg, &["adps LS", "nic", "event", "42.5"]);
}

#[test]
fn bars_of_very_different_lengths_show_shares_and_their_sums() {
    let bar = |name: &str, us: f64| {
        (name.to_owned(), vec![("nic".to_owned(), us * 0.75), ("tcp".to_owned(), us * 0.25)])
    };
    let svg = stacked_bars("p99", "µs", &[bar("none", 40_000.0), bar("adps", 20.0)]);
    is_plot(&svg, &["share, %", "40\u{202f}000", ">\n20\n<"]);
}

#[test]
fn long_bars_are_in_seconds() {
    let bar = |us: f64| (String::new(), vec![("p99".to_owned(), us)]);
    is_plot(
        &stacked_bars("p99", "µs", &[bar(3_380_609.0), bar(450_000.0)]),
        &[">\ns\n<", ">\n3.38\n<", ">\n0.45\n<"],
    );
    is_plot(&stacked_bars("p99", "µs", &[bar(338_060.9)]), &[">\nms\n<", ">\n338\n<"]);
    is_plot(&stacked_bars("p99", "µs", &[bar(33_806.0)]), &[">\nµs\n<", "33\u{202f}806"]);
    is_plot(&stacked_bars("loss", "1", &[bar(3_380_609.0)]), &["3\u{202f}380\u{202f}609"]);
}

#[test]
fn points_decades_apart_get_a_logarithmic_axis() {
    let points = [(1.0, 2.0), (100.0, 3.0), (10_000.0, 4.0)];
    is_plot(&line_plot("t", "service", "y", false, &named(&points)), &[">\n1\n<", "10\u{202f}000"]);
}

#[test]
fn lines_may_be_logarithmic() {
    let points = [(0.1, 10.0), (0.9, 10_000.0)];
    let svg = line_plot("t", "load", "p99, µs", true, &named(&points));
    is_plot(&svg, &["load", "p99, µs", "10\u{202f}000"]);
    is_plot(&line_plot("t", "load", "share", false, &named(&points)), &["share"]);
}

//~ demo: `report.html` is self-contained and shows a CDF per class and the stages of p99
#[test]
fn an_axis_of_long_times_has_the_unit_at_each_mark() {
    let axis = [(1.0, 80.0), (2.0, 2_000_000.0)];
    let svg = line_plot("t", "seed", "p99, µs", true, &named(&axis));
    is_plot(&svg, &[">\np99\n<", ">\n100 µs\n<", ">\n1 ms\n<", ">\n10 s\n<"]);
    is_plot(
        &line_plot("t", "age, µs", "share", false, &named(&[(4e5, 0.5), (6e5, 0.5)])),
        &[">\nage\n<", " ms"],
    );
    is_plot(&cdf_plot("LS", &named(&[(5.0, 0.5), (300_000.0, 0.99)])), &[">\nlatency\n<", ">\n100 ms\n<"]);
}

#[test]
fn a_line_with_a_repeated_colour_is_dashed() {
    let line = |i: usize| (format!("mode {i}"), vec![(1.0, i as f64), (2.0, i as f64 + 1.0)]);
    let lines: Vec<_> = (0..13).map(line).collect();
    let count = |lines, element: &str| line_plot("t", "x", "y", false, lines).matches(element).count();
    let last = |element: &str| count(&lines, element) - count(&lines[..12], element);
    assert!(last("<polyline") > 1, "a dashed line is several");
    assert_eq!(last("<circle"), 2, "a mark at each point");
}

#[test]
fn nothing_measured_is_an_empty_plot() {
    is_plot(&cdf_plot("t", &named(&[])), &["none"]);
    is_plot(&line_plot("t", "x", "y", true, &named(&[(1.0, 0.0), (f64::NAN, 1.0)])), &[]);
    is_plot(&stacked_bars("t", "µs", &[]), &[]);
}
