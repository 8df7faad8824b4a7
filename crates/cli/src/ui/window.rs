//! Sliding window over a command's reports: a minute of them, and sums.
//!
//! Pure: `now` is an argument, and the result is a [`Snapshot`] or Prometheus' text. Bounds: a
//! minute of reports, each with its figures and the values of its histograms that occurred (two
//! digits, so at most some thousand each), [`MOVES_MAX`] moves, and 23 numbers for each histogram
//! ever reported.

use std::collections::VecDeque;

use queueing::{Histogram, Span, Time};
use runtime::shard::{Side, Slow};

use super::labels::Labels;
use super::metrics::{self, Buckets};
use super::snapshot::{Figure, MetricDistribution, Move, Owner, RatePoint, SCHEMA, SlowRequest, Snapshot};

/// Description of the reporting command.
#[derive(Clone, Debug)]
pub struct Head {
    /// Subcommand: `serve`, `run`, `sched`, `guard`.
    pub command: &'static str,
    /// Description in a line.
    pub about: String,
    /// The counter whose rate is the command's throughput.
    pub rate: &'static str,
}

/// A command's report at a moment.
#[derive(Debug, Default)]
pub struct MetricsSample<'a> {
    /// Counters since the start, and gauges.
    pub figures: Vec<Figure>,
    /// Histograms since the last report.
    pub spans: Vec<Spans<'a>>,
    /// Core assignment.
    pub owners: Vec<Owner>,
    /// Core moves since the last report.
    pub moves: Vec<Move>,
    /// The slowest requests since the last report, the slowest first.
    pub slow: Vec<Slow>,
}

/// A histogram of the time since the last report.
#[derive(Debug)]
pub struct Spans<'a> {
    /// Name of a histogram metric.
    pub name: &'static str,
    /// Labels.
    pub labels: Labels,
    /// Recorded values.
    pub recorded: &'a Histogram,
}

/// Reports of the last minute, and sums.
#[derive(Debug)]
pub struct Live {
    head: Head,
    began: Time,
    /// Reports, the latest last.
    moments: VecDeque<Moment>,
    owners: Vec<Owner>,
    moves: VecDeque<Move>,
    /// Sums since the start.
    sums: Vec<Buckets>,
}

#[derive(Debug)]
struct Moment {
    at: Time,
    figures: Vec<Figure>,
    spans: Vec<Tally>,
    /// Number of reported moves.
    moves: usize,
    /// The first reported slow requests, at most [`SLOW_SHOWN`].
    slow: Vec<SlowRequest>,
}

/// Values that occurred, with their counts.
#[derive(Debug)]
struct Tally {
    name: &'static str,
    labels: Labels,
    counts: Box<[(Span, u64)]>,
}

/// Interval between two reports.
pub const STEP: Span = Span::from_secs(1);
/// The longest window in seconds; as many reports are kept.
pub const WINDOW_MAX_S: u64 = 60;
/// The default window.
pub const WINDOW_S: u64 = 10;
/// Number of slow requests kept per report and shown per window.
pub const SLOW_SHOWN: usize = 8;
/// Maximum number of core moves kept.
const MOVES_MAX: usize = 512;

impl Live {
    /// An empty window that begins at `now`.
    pub fn new(head: Head, now: Time) -> Self {
        Self {
            head,
            began: now,
            moments: VecDeque::new(),
            owners: Vec::new(),
            moves: VecDeque::new(),
            sums: Vec::new(),
        }
    }

    /// Seconds since the start.
    pub fn seconds(&self, at: Time) -> f64 {
        at.since(self.began).as_secs_f64()
    }

    /// Stores the report of `now`.
    pub fn update(&mut self, now: Time, sample: MetricsSample<'_>) {
        let figures = sample.figures.iter().map(|figure| figure.name.as_str());
        let mut names = figures.chain(sample.spans.iter().map(|spans| spans.name));
        let command = self.head.command;
        debug_assert!(names.all(|name| metrics::is_known(name, command)), "{command}: {sample:?}");
        let mut spans = Vec::new();
        for Spans { name, labels, recorded } in sample.spans {
            self.sum(name, &labels).add(recorded);
            if recorded.count() > 0 {
                let mut coarse = Histogram::coarse();
                coarse.merge(recorded);
                spans.push(Tally { name, labels, counts: coarse.counts().collect() });
            }
        }
        if self.moments.len() > WINDOW_MAX_S as usize {
            self.moments.pop_front();
        }
        let moves = sample.moves.len();
        let slow = sample.slow.iter().take(SLOW_SHOWN).map(|slow| self.request(slow)).collect();
        self.moments.push_back(Moment { at: now, figures: sample.figures, spans, moves, slow });
        self.owners = sample.owners;
        self.moves.extend(sample.moves);
        let too_many = self.moves.len().saturating_sub(MOVES_MAX);
        self.moves.drain(..too_many);
    }

    fn request(&self, slow: &Slow) -> SlowRequest {
        let to = match slow.side {
            Side::Served => "",
            Side::Called(_) => "→ ",
        };
        SlowRequest {
            at_s: self.seconds(slow.begun),
            class: slow.label.priority.level(),
            what: format!("{to}{} {}", slow.attributes.method, slow.attributes.path).trim().to_owned(),
            end: slow.end.to_string(),
            total_ns: slow.total().as_nanos(),
            stages_ns: slow.stages.map(Span::as_nanos),
        }
    }

    fn sum(&mut self, name: &'static str, labels: &Labels) -> &mut Buckets {
        let index = self.sums.iter().position(|sum| sum.name == name && sum.labels == *labels);
        let index = index.unwrap_or_else(|| {
            self.sums.push(Buckets::new(name, labels.clone()));
            self.sums.len() - 1
        });
        &mut self.sums[index]
    }

    /// All figures and sums, for [`metrics::text`].
    pub fn exported(&self, now: Time) -> (Vec<Figure>, Vec<Buckets>) {
        let mut figures = self.moments.back().map_or(Vec::new(), |last| last.figures.clone());
        let program =
            Labels::none().with("command", self.head.command).with("version", env!("CARGO_PKG_VERSION"));
        figures.push(Figure::new("greenwave_build_info", program, 1.0));
        figures.push(Figure::new("greenwave_uptime_seconds", Labels::none(), self.seconds(now)));
        (figures, self.sums.clone())
    }

    /// The snapshot at `now` over the last `window_s` seconds, 1 or more.
    pub fn snapshot(&self, now: Time, window_s: u64) -> Snapshot {
        let window = window_s.clamp(1, WINDOW_MAX_S) as usize;
        let last = self.moments.back();
        let at = last.map_or(self.began, |last| last.at);
        // The report before the window has the counters at its beginning.
        let before = self.moments.len().checked_sub(window + 1);
        let begin = before.map_or(self.began, |index| self.moments[index].at);
        let recent = || self.moments.range(before.map_or(0, |index| index + 1)..);
        let span_s = at.since(begin).as_secs_f64();
        let per_s = |count: f64| if span_s > 0.0 { count / span_s } else { 0.0 };
        let mut figures = last.map_or(Vec::new(), |last| last.figures.clone());
        for figure in &mut figures {
            if metrics::is_counter(&figure.name) {
                let then = before.map_or(0.0, |index| self.moments[index].value(figure));
                figure.per_s = Some(per_s((figure.value - then).max(0.0)));
            }
        }
        let mut spreads = Vec::new();
        for Buckets { name, labels, .. } in &self.sums {
            let tallies = recent().flat_map(|moment| &moment.spans);
            let tallies = tallies.filter(|tally| tally.name == *name && tally.labels == *labels);
            let mut all = Histogram::coarse();
            tallies.flat_map(|tally| tally.counts.iter()).for_each(|&(span, n)| all.record_n(span, n));
            if all.count() > 0 {
                spreads.push(spread(name, labels, &all, per_s(all.count() as f64)));
            }
        }
        let since_s = self.seconds(begin);
        let moves: Vec<Move> = self.moves.iter().filter(|moved| moved.at_s > since_s).cloned().collect();
        let sample: usize = recent().map(|moment| moment.moves).sum();
        let mut slow: Vec<SlowRequest> = recent().flat_map(|moment| &moment.slow).cloned().collect();
        slow.sort_by_key(|request| std::cmp::Reverse(request.total_ns));
        slow.truncate(SLOW_SHOWN);
        Snapshot {
            schema: SCHEMA,
            command: self.head.command.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            about: self.head.about.clone(),
            process: std::process::id(),
            at_s: self.seconds(now),
            silent_s: now.since(at).as_secs_f64(),
            window_s: span_s,
            rate: self.head.rate.to_owned(),
            figures,
            spreads,
            history: self.history(),
            owners: self.owners.clone(),
            moves_lost: sample.saturating_sub(moves.len()) as u64,
            moves,
            slow,
        }
    }

    /// Rates of each interval between reports.
    fn history(&self) -> Vec<RatePoint> {
        let pairs = self.moments.iter().zip(self.moments.iter().skip(1));
        let points = pairs.map(|(before, after)| {
            let seconds = after.at.since(before.at).as_secs_f64().max(1e-9);
            let rate = |name| (after.sum(name) - before.sum(name)).max(0.0) / seconds;
            RatePoint { at_s: self.seconds(after.at), rate: rate(self.head.rate), shed: rate(metrics::SHED) }
        });
        points.collect()
    }
}

impl Moment {
    /// The value of `figure` in that report; 0 where it was missing.
    fn value(&self, figure: &Figure) -> f64 {
        let same = |other: &&Figure| other.name == figure.name && other.labels == figure.labels;
        self.figures.iter().find(same).map_or(0.0, |found| found.value)
    }

    /// Sum of all figures of a name.
    fn sum(&self, name: &str) -> f64 {
        self.figures.iter().filter(|figure| figure.name == name).map(|figure| figure.value).sum()
    }
}

fn spread(name: &str, labels: &Labels, all: &Histogram, per_s: f64) -> MetricDistribution {
    let ns = |q| all.quantile(q).as_nanos();
    MetricDistribution {
        name: name.to_owned(),
        labels: labels.clone(),
        per_s,
        p1_ns: ns(0.01),
        p50_ns: ns(0.5),
        p99_ns: ns(0.99),
        p999_ns: ns(0.999),
        max_ns: all.max().as_nanos(),
    }
}

#[cfg(test)]
mod tests;
