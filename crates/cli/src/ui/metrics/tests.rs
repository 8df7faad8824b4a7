//! The text follows Prometheus' format, and the guide's table of metrics is correct.

use std::collections::{BTreeMap, BTreeSet};

use super::super::fixture::{at, sched, serve};
use super::super::window::Live;
use super::*;

/// A sample as a strict parser of the text format reads it.
#[derive(Debug)]
struct Sample {
    family: String,
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

fn is_name(text: &str) -> bool {
    let mut letters = text.bytes();
    letters.next().is_some_and(|b| b.is_ascii_alphabetic() || b == b'_')
        && letters.all(|b| b.is_ascii_alphanumeric() || b == b'_')
}

/// The labels between braces, and the rest.
fn labels(text: &str) -> (BTreeMap<String, String>, &str) {
    let mut labels = BTreeMap::new();
    let Some(mut rest) = text.strip_prefix('{') else { return (labels, text) };
    loop {
        let (name, after) = rest.split_once("=\"").expect("a label has a value in quotes");
        assert!(is_name(name), "{name:?}");
        let (mut value, mut chars) = (String::new(), after.char_indices());
        let end = loop {
            match chars.next().expect("a closing quote") {
                (at, '"') => break at + 1,
                (_, '\\') => value.push(match chars.next().expect("an escaped letter").1 {
                    'n' => '\n',
                    letter @ ('\\' | '"') => letter,
                    other => panic!("\\{other} is no escape"),
                }),
                (_, letter) => value.push(letter),
            }
        };
        assert!(labels.insert(name.to_owned(), value).is_none(), "{name} is there twice");
        rest = &after[end..];
        match rest.strip_prefix(',') {
            Some(more) => rest = more,
            None => return (labels, rest.strip_prefix('}').expect("a closing brace")),
        }
    }
}

/// Parses `text` strictly by the format's specification.
fn read(text: &str) -> Vec<Sample> {
    assert!(text.is_empty() || text.ends_with('\n'));
    let (mut samples, mut family) = (Vec::<Sample>::new(), None::<(String, String)>);
    let (mut families, mut seen) = (BTreeSet::new(), BTreeSet::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(help) = line.strip_prefix("# HELP ") {
            let (name, words) = help.split_once(' ').expect("help has words");
            assert!(is_name(name) && !words.contains('\\'), "{line}");
            assert!(families.insert(name.to_owned()), "{name} is there twice");
            let kind = lines.next().and_then(|line| line.strip_prefix(&format!("# TYPE {name} ")));
            let kind = kind.expect("a type follows the help");
            assert!(["counter", "gauge", "histogram"].contains(&kind), "{kind}");
            family = Some((name.to_owned(), kind.to_owned()));
            continue;
        }
        let (family, kind) = family.clone().expect("samples follow their family");
        let name: String = line.chars().take_while(|c| !"{ ".contains(*c)).collect();
        let (labels, value) = labels(&line[name.len()..]);
        let value = value.strip_prefix(' ').expect("a space before the value");
        let value = match value {
            "+Inf" => f64::INFINITY,
            text => text.parse().expect("a number"),
        };
        let ends: &[&str] = if kind == "histogram" { &["_bucket", "_sum", "_count"] } else { &[""] };
        assert!(ends.iter().any(|end| name == format!("{family}{end}")), "{name} is not of {family}");
        assert!(kind != "counter" || (name.ends_with("_total") && value >= 0.0), "{line}");
        assert!(seen.insert(format!("{name}{labels:?}")), "{line} is there twice");
        samples.push(Sample { family, name, labels, value });
    }
    samples
}

fn exported(live: &Live, seconds: f64) -> String {
    let (figures, sums) = live.exported(at(seconds));
    text(&figures, &sums)
}

#[test]
fn a_strict_reader_reads_the_text() {
    let serve = read(&exported(&serve(5), 5.0));
    let value = |name: &str| serve.iter().find(|sample| sample.name == name).map(|sample| sample.value);
    assert_eq!(value("greenwave_responses_total"), Some(5_000.0));
    assert_eq!(value("greenwave_uptime_seconds"), Some(5.0));
    let sched = read(&exported(&sched(), 2.0));
    let batch = sched.iter().find(|sample| sample.labels.get("task").is_some_and(|task| task == "<batch>"));
    assert!(batch.is_some(), "{sched:?}");
    for sample in serve.iter().chain(&sched) {
        let renamed = renames::METRICS.iter().find(|(old, _)| *old == sample.family);
        let metric = find(renamed.map_or(&*sample.family, |(_, new)| new)).expect("it is in the table");
        let documented: BTreeSet<&str> = metric.labels.split(", ").filter(|name| !name.is_empty()).collect();
        let there: BTreeSet<&str> =
            sample.labels.keys().map(String::as_str).filter(|name| *name != "le").collect();
        assert_eq!(documented, there, "{sample:?}");
    }
}

/// A figure or a histogram of the metric `name`, without labels.
fn exported_alone(Metric { name, kind, .. }: &Metric) -> String {
    match kind {
        MetricKind::Histogram => text(&[], &[Buckets::new(name, Labels::default())]),
        MetricKind::Counter | MetricKind::Gauge => text(&[Figure::new(name, Labels::default(), 7.0)], &[]),
    }
}

//~ views: a renamed metric is exported under its old name, too, for one release
#[test]
fn every_renamed_metric_is_exported_under_both_names() {
    for (old, new) in renames::METRICS {
        let metric = find(new).unwrap_or_else(|| panic!("{new} is not in the table"));
        assert!(find(old).is_none(), "{old} names another metric");
        let samples = read(&exported_alone(metric));
        let of = |family: &str| -> Vec<_> {
            let own = samples.iter().filter(|sample| sample.family == family);
            own.map(|sample| (sample.name.replacen(family, "", 1), &sample.labels, sample.value)).collect()
        };
        assert!(!of(new).is_empty(), "{new}");
        assert_eq!(of(old), of(new), "{old}");
        let help = format!("# HELP {old} Renamed to {new}; removed in the next release.\n");
        assert!(exported_alone(metric).contains(&help), "{old}");
    }
}

#[test]
fn buckets_grow_to_the_count_and_the_sum_is_the_sum() {
    let samples = read(&exported(&serve(5), 5.0));
    let of = |name: &str| -> Vec<&Sample> {
        let class = |sample: &&Sample| sample.labels.get("class").is_some_and(|class| class == "0");
        samples.iter().filter(|sample| sample.name == name).filter(class).collect()
    };
    let buckets = of("greenwave_stage_wait_seconds_bucket");
    assert_eq!(buckets.len(), BOUNDS_NS.len() + 1);
    assert!(buckets.windows(2).all(|pair| pair[0].value <= pair[1].value));
    let below = |le: &str| buckets.iter().find(|bucket| bucket.labels["le"] == le).map(|bucket| bucket.value);
    // A value recorded at a bound may be stored a thousandth above it.
    assert!(below("0.00005").is_some_and(|count| (245.0..=250.0).contains(&count)));
    assert_eq!((below("0.0001"), below("+Inf")), (Some(500.0), Some(500.0)));
    assert_eq!(of("greenwave_stage_wait_seconds_count")[0].value, 500.0);
    let sum = of("greenwave_stage_wait_seconds_sum")[0].value;
    assert!((sum - 500.0 * 50.5e-6).abs() < 1e-6, "{sum}");
}

#[test]
fn names_say_what_they_are() {
    let names: BTreeSet<_> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), METRICS.len(), "a name is there twice");
    for Metric { name, kind, labels, by, help } in METRICS {
        assert!(is_name(name) && name.starts_with("greenwave_"), "{name}");
        assert_eq!(name.ends_with("_total"), *kind == MetricKind::Counter, "{name}");
        assert!(*kind != MetricKind::Histogram || name.ends_with("_seconds"), "{name}");
        assert!(labels.split(", ").all(|label| label.is_empty() || is_name(label)), "{name}");
        let commands = ["all", "serve", "run", "sched", "guard"];
        assert!(by.split(", ").all(|by| commands.contains(&by)), "{name} by {by}");
        assert!(help.ends_with('.') && !help.contains(['\\', '\n', '|']), "{name}");
    }
    assert!(BOUNDS_NS.windows(2).all(|pair| pair[0] < pair[1]));
    assert_eq!((BOUNDS_NS[0], BOUNDS_NS[21]), (1_000, 10_000_000_000));
}

/// The table as the guide has it.
fn documented() -> String {
    let rows = METRICS.iter().map(|Metric { name, kind, labels, by, help }| {
        format!("| `{name}` | {} | {labels} | {by} | {help} |\n", kind.name())
    });
    let head = "| metric | kind | labels | by | what it says |\n|---|---|---|---|---|\n";
    rows.fold(head.to_owned(), |table, row| table + &row).replace("|  |", "| |")
}

#[test]
fn the_guides_table_is_this_one() {
    let guide = include_str!("../../../../../docs/guide/watch.md");
    let table = documented();
    assert!(guide.contains(&table), "docs/guide/watch.md should have this table:\n{table}");
}

#[test]
fn the_dashboard_queries_only_exported_metrics() {
    let text = include_str!("../../../../../deploy/grafana/greenwave.json");
    let board: serde_json::Value = serde_json::from_str(text).expect("the dashboard is JSON");
    let mut expressions = Vec::new();
    for panel in board["panels"].as_array().expect("panels") {
        let targets = panel["targets"].as_array().map_or(&[][..], Vec::as_slice);
        expressions.extend(targets.iter().map(|target| target["expr"].as_str().expect("an expression")));
        assert!(panel["title"].as_str().is_some_and(|title| !title.is_empty()), "{panel}");
    }
    assert!(expressions.len() > 10, "{expressions:?}");
    for expression in expressions {
        let words = expression.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        let names: Vec<&str> = words.filter(|word| word.starts_with("greenwave_")).collect();
        assert!(!names.is_empty(), "{expression}");
        for name in names {
            let bare = ["_bucket", "_sum", "_count"].iter().find_map(|end| name.strip_suffix(end));
            let metric =
                find(name).or_else(|| find(bare?).filter(|metric| metric.kind == MetricKind::Histogram));
            assert!(metric.is_some(), "{name} of {expression:?} is not exported");
        }
    }
}
