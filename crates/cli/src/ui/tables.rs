//! Titled tables of a snapshot, common to the page, `top`, and plain output. Empty tables are left
//! out.

use std::collections::BTreeMap;

use queueing::Span;

use super::labels::Labels;
use super::metrics::{DEPTH, LEFT, METRICS, OFFERED, SHED, WAIT};
use super::snapshot::{Figure, MetricDistribution, Snapshot};
use crate::table::{Table, micros, number};

/// A table with its title.
pub struct TitledTable {
    /// Title.
    pub title: &'static str,
    /// Figures.
    pub table: Table,
}

/// Number of moves shown; `/snapshot.json` has them all.
const MOVES_SHOWN: usize = 12;
/// Maximum width of a text column, so that tables fit in 80 columns.
const WORD_MAX: usize = 34;
/// Maximum width of a slow request's operation, so that its stages fit on the same line.
const REQUEST_MAX: usize = 20;

/// All tables of `snapshot`.
pub fn sections(snapshot: &Snapshot) -> Vec<TitledTable> {
    let all = [
        ("Request time by stage, µs", waits(snapshot)),
        ("Slow requests, µs", slow(snapshot)),
        ("Deadline budget left, µs", budgets(snapshot)),
        ("Other durations, µs", others(snapshot)),
        ("Guard: connections seen and shed", shed(snapshot)),
        ("Tasks", tasks(snapshot)),
        ("Cores", owners(snapshot)),
        ("Core moves", moves(snapshot)),
        ("Queues", queues(snapshot)),
        ("Counters", counted(snapshot)),
        ("Gauges", now(snapshot)),
    ];
    all.into_iter().filter_map(|(title, table)| Some(TitledTable { title, table: table? })).collect()
}

/// Name and uptime in a line.
pub fn headline(snapshot: &Snapshot) -> String {
    let Snapshot { command, about, process, at_s, .. } = snapshot;
    format!("greenwave {command}, {about}; process {process}, up {}", up(*at_s))
}

/// Warning above the figures, if they are old or few.
pub fn caution(snapshot: &Snapshot) -> Option<String> {
    let silent = format!("{} has sent no update for {:.0} s", snapshot.command, snapshot.silent_s);
    snapshot.is_stale().then(|| format!("{silent}: busy or stuck"))
}

/// The throughput over the window as text.
pub fn rate(snapshot: &Snapshot) -> String {
    let total: f64 = snapshot.figures(&snapshot.rate).filter_map(|figure| figure.per_s).sum();
    let shed: f64 = snapshot.figures(SHED).filter_map(|figure| figure.per_s).sum();
    let what = plain(&snapshot.rate);
    let shed = if shed > 0.0 { format!(", {} shed", number(shed)) } else { String::new() };
    format!("{} {what} a second{shed}, over {:.0} s", number(total), snapshot.window_s)
}

/// Uptime in two units: `3 h 12 min`.
pub fn up(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    match (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, min, s) => format!("{min} min {s} s"),
        (0, h, min, _) => format!("{h} h {min} min"),
        (d, h, ..) => format!("{d} d {h} h"),
    }
}

/// Readable name of a metric: `guard seen` for `greenwave_guard_offered_total`.
fn plain(name: &str) -> String {
    let name = name.strip_prefix("greenwave_").unwrap_or(name);
    let name = ["_total", "_seconds"].iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name);
    name.replace('_', " ")
}

fn clip(text: &str) -> String {
    clip_to(text, WORD_MAX)
}

fn clip_to(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most - 1).chain(['…']).collect()
}

fn us(ns: u64) -> String {
    micros(Span::from_nanos(ns))
}

/// Integers without a fraction.
fn count(value: f64) -> String {
    if value.fract() == 0.0 { format!("{value:.0}") } else { number(value) }
}

fn label(labels: &Labels, name: &str) -> String {
    clip(labels.get(name).unwrap_or("–"))
}

fn table<T>(
    words: usize,
    header: &[&str],
    rows: impl IntoIterator<Item = T>,
    cells: impl Fn(T) -> Vec<String>,
) -> Option<Table> {
    let mut table = Table::new(words, header);
    let mut rows = rows.into_iter().peekable();
    rows.peek()?;
    rows.for_each(|row| table.row(cells(row)));
    Some(table)
}

fn spans(spread: &MetricDistribution) -> Vec<String> {
    let MetricDistribution { per_s, p50_ns, p99_ns, p999_ns, max_ns, .. } = spread;
    vec![number(*per_s), us(*p50_ns), us(*p99_ns), us(*p999_ns), us(*max_ns)]
}

fn waits(snapshot: &Snapshot) -> Option<Table> {
    let header = ["class", "stage", "per s", "p50", "p99", "p99.9", "longest"];
    table(2, &header, snapshot.spreads(WAIT), |spread| {
        [vec![label(&spread.labels, "class"), label(&spread.labels, "stage")], spans(spread)].concat()
    })
}

/// Slow requests, the slowest first; the outcome of an unanswered one follows its operation.
fn slow(snapshot: &Snapshot) -> Option<Table> {
    let header = ["s ago", "class", "request", "total", "nic", "tcp", "event", "service", "out"];
    table(3, &header, &snapshot.slow, |request| {
        let ago = format!("{:.1}", (snapshot.at_s - request.at_s).max(0.0));
        let what = match request.end.as_str() {
            "answered" => request.what.clone(),
            end => format!("{end}: {}", request.what),
        };
        let words = vec![ago, request.class.to_string(), clip_to(&what, REQUEST_MAX)];
        let spans = std::iter::once(&request.total_ns).chain(&request.stages_ns).map(|ns| us(*ns));
        words.into_iter().chain(spans).collect()
    })
}

fn budgets(snapshot: &Snapshot) -> Option<Table> {
    let header = ["class", "hop", "per s", "p1", "p50", "max"];
    table(2, &header, snapshot.spreads(LEFT), |spread| {
        let words = [label(&spread.labels, "class"), label(&spread.labels, "hop"), number(spread.per_s)];
        [words, [us(spread.p1_ns), us(spread.p50_ns), us(spread.max_ns)]].concat()
    })
}

fn others(snapshot: &Snapshot) -> Option<Table> {
    let header = ["duration", "labels", "per s", "p50", "p99", "p99.9", "longest"];
    let others = snapshot.spreads.iter().filter(|spread| ![WAIT, LEFT].contains(&spread.name.as_str()));
    table(2, &header, others, |spread| {
        [vec![plain(&spread.name), clip(&spread.labels.words())], spans(spread)].concat()
    })
}

/// A row for each class at a guard, a column for each reason.
fn shed(snapshot: &Snapshot) -> Option<Table> {
    let mut reasons: Vec<&str> = Vec::new();
    for reason in snapshot.figures(SHED).filter_map(|figure| figure.labels.get("reason")) {
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    let header = [&["device", "class", "seen", "per s", "shed/s"][..], &reasons].concat();
    table(2, &header, snapshot.figures(OFFERED), |arrivals| {
        let is_its = |figure: &&Figure| {
            ["device", "class"].iter().all(|name| figure.labels.get(name) == arrivals.labels.get(name))
        };
        let shed: Vec<&Figure> = snapshot.figures(SHED).filter(is_its).collect();
        let per_s: f64 = shed.iter().filter_map(|figure| figure.per_s).sum();
        let total = |reason: &&str| {
            let of = shed.iter().filter(|figure| figure.labels.get("reason") == Some(*reason));
            count(of.map(|figure| figure.value).sum())
        };
        let words =
            [label(&arrivals.labels, "device"), label(&arrivals.labels, "class"), count(arrivals.value)];
        let rates = [number(arrivals.per_s.unwrap_or(0.0)), number(per_s)];
        words.into_iter().chain(rates).chain(reasons.iter().map(total)).collect()
    })
}

/// A row for each task, a column for each metric.
fn tasks(snapshot: &Snapshot) -> Option<Table> {
    const COLUMNS: [(&str, &str); 5] = [
        ("greenwave_sched_cores", "cores"),
        ("greenwave_sched_cpu_cores", "used"),
        ("greenwave_sched_wait_seconds", "wait, µs"),
        ("greenwave_sched_wait_longest_seconds", "longest"),
        ("greenwave_sched_parked", "parked"),
    ];
    let header = ["task", "class"].into_iter().chain(COLUMNS.map(|(_, title)| title)).collect::<Vec<_>>();
    table(2, &header, snapshot.figures(COLUMNS[0].0), |task| {
        let cell = |(name, _): (&str, &str)| {
            let found =
                snapshot.figures.iter().find(|other| other.name == name && other.labels == task.labels);
            let Some(Figure { value, .. }) = found else { return "–".to_owned() };
            match name {
                "greenwave_sched_parked" => if *value > 0.0 { "yes" } else { "no" }.to_owned(),
                "greenwave_sched_cores" => value.to_string(),
                name if name.ends_with("_seconds") => micros(Span::from_secs_f64(value.max(0.0))),
                _ => format!("{value:.2}"),
            }
        };
        let words = [label(&task.labels, "task"), label(&task.labels, "class")];
        words.into_iter().chain(COLUMNS.map(cell)).collect()
    })
}

fn owners(snapshot: &Snapshot) -> Option<Table> {
    table(3, &["core", "task", "state", "for, s"], &snapshot.owners, |owner| {
        let task = owner.task.as_deref().map_or("–".to_owned(), clip);
        let held_s = (snapshot.at_s - owner.since_s).max(0.0);
        vec![owner.core.to_string(), task, owner.how.clone(), format!("{held_s:.1}")]
    })
}

/// Core moves, the latest first.
fn moves(snapshot: &Snapshot) -> Option<Table> {
    let short = |name: &str| -> String { clip(name).chars().take(14).collect() };
    let latest = snapshot.moves.iter().rev().take(MOVES_SHOWN);
    table(5, &["s ago", "core", "from", "to", "why"], latest, |moved| {
        let ago = format!("{:.2}", (snapshot.at_s - moved.at_s).max(0.0));
        vec![ago, moved.core.to_string(), short(&moved.from), short(&moved.to), clip(&moved.why)]
    })
}

/// A row for each queue; a column for each shard, where there are several.
fn queues(snapshot: &Snapshot) -> Option<Table> {
    let mut depths = BTreeMap::<&str, Vec<f64>>::new();
    for figure in snapshot.figures(DEPTH) {
        depths.entry(figure.labels.get("queue").unwrap_or("–")).or_default().push(figure.value);
    }
    table(1, &["queue", "waiting", "max of a shard"], depths, |(queue, values)| {
        let most = values.iter().copied().fold(0.0, f64::max);
        vec![queue.to_owned(), count(values.iter().sum()), count(most)]
    })
}

/// Non-zero counters without a table of their own, summed over the shards.
fn counted(snapshot: &Snapshot) -> Option<Table> {
    let is_shown = |figure: &&Figure| {
        figure.per_s.is_some() && figure.value > 0.0 && ![OFFERED, SHED].contains(&figure.name.as_str())
    };
    let mut rows: Vec<(String, String, f64, f64)> = Vec::new();
    for figure in snapshot.figures.iter().filter(is_shown) {
        let rest = figure.labels.iter().filter(|(name, _)| *name != "shard").map(|(_, value)| value);
        let (what, of) = (plain(&figure.name), rest.collect::<Vec<_>>().join(", "));
        let per_s = figure.per_s.unwrap_or(0.0);
        match rows.iter_mut().find(|row| (&row.0, &row.1) == (&what, &of)) {
            Some(row) => (row.2, row.3) = (row.2 + figure.value, row.3 + per_s),
            None => rows.push((what, of, figure.value, per_s)),
        }
    }
    table(2, &["counter", "labels", "total", "per s"], rows, |(what, of, total, per_s)| {
        vec![what, clip(&of), count(total), number(per_s)]
    })
}

/// Gauges without a table of their own.
fn now(snapshot: &Snapshot) -> Option<Table> {
    let in_tables = |name: &str| name == DEPTH || name.starts_with("greenwave_sched_") && is_of_tasks(name);
    let rest = snapshot.figures.iter().filter(|figure| figure.per_s.is_none() && !in_tables(&figure.name));
    table(2, &["gauge", "labels", "value"], rest, |figure| {
        let value = match figure.name.strip_suffix("_seconds") {
            Some(_) => Span::from_secs_f64(figure.value.max(0.0)).to_string(),
            None => count(figure.value),
        };
        vec![plain(&figure.name), clip(&figure.labels.words()), value]
    })
}

fn is_of_tasks(name: &str) -> bool {
    METRICS.iter().any(|metric| metric.name == name && metric.labels.starts_with("task"))
}

/// `values` as a line of `width` blocks, the latest last; the highest value is the tallest.
pub fn sparkline(values: impl DoubleEndedIterator<Item = f64>, width: usize) -> String {
    const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let mut latest: Vec<f64> = values.rev().take(width).collect();
    latest.reverse();
    let most = latest.iter().copied().fold(0.0, f64::max).max(f64::MIN_POSITIVE);
    latest.iter().map(|value| BLOCKS[((value / most * 7.0).round().max(0.0) as usize).min(7)]).collect()
}

/// Everything as plain text of 80 columns.
pub fn text(snapshot: &Snapshot) -> String {
    let mut lines = vec![headline(snapshot), rate(snapshot)];
    lines.extend(caution(snapshot).map(|caution| format!("note: {caution}")));
    if snapshot.history.len() > 1 {
        lines.push(sparkline(snapshot.history.iter().map(|point| point.rate), 60));
    }
    for TitledTable { title, table } in sections(snapshot) {
        lines.push(format!("\n{title}\n{}", table.to_string().trim_end()));
    }
    let mut text = lines.join("\n");
    text.push('\n');
    text
}

#[cfg(test)]
mod tests;
