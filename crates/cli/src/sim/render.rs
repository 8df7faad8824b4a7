//! Output of fabric simulations: tables, JSON, a page.

use std::fmt::Write as _;

use serde_json::{Value, json};
use sim::fabric::{LOCATIONS, Outcome};

use super::args::Args;
use super::plan::SimPlan;
use crate::confidence::interval;
use crate::exp::metrics::GridFigures;
use crate::exp::world::fabric::{WORLD, rows};
use crate::report::{self, Plot, ResultHeader, Section};
use crate::table::{Table, in_unit, number, with_half};

/// The outcomes of a plan, prepared for output.
pub struct Shown<'a> {
    args: &'a Args,
    plan: &'a SimPlan,
    /// In the order of the plan's points.
    outcomes: &'a [Outcome],
    figures: GridFigures,
    classes: Vec<String>,
}

impl<'a> Shown<'a> {
    pub fn new(args: &'a Args, plan: &'a SimPlan, outcomes: &'a [Outcome]) -> Self {
        let mut figures = GridFigures::new(&WORLD);
        let mut classes = Vec::new();
        for (point, outcome) in plan.points.iter().zip(outcomes) {
            let rows = rows(outcome);
            figures.add("", &point.scheduler, &rows);
            classes = rows.into_iter().map(|row| row.class).collect();
        }
        let mut shown = Self { args, plan, outcomes, figures, classes };
        let flows = |class: &String| shown.mean(&args.scheduler[0], class, "flows") > 0.0;
        let classes = shown.classes.iter().filter(|class| flows(class)).cloned().collect();
        shown.classes = classes;
        shown
    }

    fn seeds(&self) -> usize {
        self.plan.points.len() / self.args.scheduler.len()
    }

    fn mean(&self, scheduler: &str, class: &str, stat: &str) -> f64 {
        self.figures.mean("", scheduler, class, stat).unwrap_or(f64::NAN)
    }

    /// `stat` for each seed.
    fn by_seed(&self, scheduler: &str, class: &str, stat: &str) -> Vec<f64> {
        let of_run = |run| self.figures.of_run(run, "", scheduler, class, stat).unwrap_or(f64::NAN);
        (0..self.seeds()).map(of_run).collect()
    }

    fn interval(&self, scheduler: &str, class: &str, stat: &str) -> Option<f64> {
        interval(&self.by_seed(scheduler, class, stat))
    }

    fn outcomes_of(&self, scheduler: usize) -> &'a [Outcome] {
        &self.outcomes[scheduler * self.seeds()..][..self.seeds()]
    }

    /// Tables, and a line of comparison.
    pub fn text(&self) -> String {
        let mut text = format!("{}\n\n{}\n{}\n", self.title(), self.completions(), self.network());
        let _ = writeln!(text, "{}", self.closing());
        text
    }

    fn title(&self) -> String {
        let config = &self.plan.points[0].config;
        let load = self.plan.load.map(|load| format!(" at load {}", number(load))).unwrap_or_default();
        format!(
            "sim fabric  {}, {} hosts; {}{load}; world sim",
            self.args.topology,
            config.topology.hosts(),
            self.plan.flows
        )
    }

    fn completions(&self) -> Table {
        let several = self.seeds() > 1;
        let columns: &[(&str, &str, bool)] = &[
            ("flows", "flows", false),
            ("unfin. %", "unfinished", false),
            ("mean", "mean", true),
            ("p50", "p50", false),
            ("p99", "p99", true),
            ("mean", "slowdown", false),
            ("p99", "slowdown_p99", false),
            ("retx %", "again", false),
        ];
        let mut header = vec!["scheduler", "class"];
        for (title, _, spread) in columns {
            header.push(title);
            header.extend((several && *spread).then_some("±"));
        }
        let completion = if several { 5 } else { 3 };
        let groups = [("", 4), ("completion, µs", completion), ("slowdown", 2), ("", 1)];
        let mut table = Table::new(2, &header).groups(&groups);
        for scheduler in &self.args.scheduler {
            for class in &self.classes {
                let mut cells = vec![scheduler.clone(), class.clone()];
                for (_, stat, spread) in columns {
                    let unit = WORLD.stat(stat).map_or("", |index| WORLD.stats[index].unit);
                    cells.push(in_unit(unit, self.mean(scheduler, class, stat)));
                    if several && *spread {
                        let half = self.interval(scheduler, class, stat).unwrap_or(f64::NAN);
                        cells.push(in_unit(unit, half));
                    }
                }
                table.row(cells);
            }
        }
        table
    }

    fn network(&self) -> Table {
        let header = [
            "scheduler",
            "packets",
            "drop %",
            "mark %",
            "timeouts",
            "out p99",
            "most",
            "in p99",
            "most",
            "core p99",
            "most",
        ];
        // In the order of PLACES.
        let groups = [("", 5), ("queues: egress, to hosts, core", 6)];
        let mut table = Table::new(1, &header).groups(&groups);
        for (index, scheduler) in self.args.scheduler.iter().enumerate() {
            let outcomes = self.outcomes_of(index);
            let sent = mean(outcomes.iter().map(|outcome| outcome.counters.sent as f64));
            let stat = |stat| self.mean(scheduler, "all", stat);
            let mut cells = vec![scheduler.clone(), format!("{sent:.0}")];
            cells.extend([number(stat("dropped")), number(stat("marked")), number(stat("timeouts"))]);
            for location in 0..LOCATIONS.len() {
                let [p99, most] = waiting(outcomes, location);
                let shown =
                    |packets: f64| if packets.is_nan() { "–".to_owned() } else { format!("{packets:.0}") };
                cells.extend([shown(p99), shown(most)]);
            }
            table.row(cells);
        }
        table
    }

    /// Comparison of the last scheduler with the first, seed by seed; a single scheduler is
    /// compared with an empty network.
    fn closing(&self) -> String {
        let class = self.classes.get(1).or(self.classes.first()).map_or("all", String::as_str);
        let (first, last) = (&self.args.scheduler[0], &self.args.scheduler[self.args.scheduler.len() - 1]);
        let missing = [first, last].into_iter().find(|name| self.mean(name, class, "mean").is_nan());
        let found = if let Some(scheduler) = missing {
            format!("{scheduler}: no {class} flow finished in time")
        } else if first == last {
            let slowdown = number(self.mean(first, class, "slowdown"));
            format!("{first}: {class} flows have a mean slowdown of {slowdown}")
        } else {
            let [mean, p99] = ["mean", "p99"].map(|stat| self.ratio(class, stat));
            format!("{last} over {first}, {class} flows: mean {mean}, p99 {p99}")
        };
        let hops: u64 = self.outcomes.iter().map(|outcome| outcome.counters.hops).sum();
        let runs = self.outcomes.len();
        let runs = if runs == 1 { "1 run".to_owned() } else { format!("{runs} runs") };
        format!("{found}\n({}, {runs}, {:.1} M packet-hops)", self.args.seeds, hops as f64 / 1e6)
    }

    /// Ratio of the last scheduler's figure to the first's, with its interval.
    fn ratio(&self, class: &str, stat: &str) -> String {
        let schedulers = &self.args.scheduler;
        let (first, last) = (&schedulers[0], &schedulers[schedulers.len() - 1]);
        let ratio = self.mean(last, class, stat) / self.mean(first, class, stat);
        let pairs = self.by_seed(last, class, stat).into_iter().zip(self.by_seed(first, class, stat));
        let half = interval(&pairs.map(|(last, first)| last / first).collect::<Vec<_>>());
        half.map_or_else(|| number(ratio), |half| with_half("", ratio, half))
    }

    /// All results as one JSON object.
    pub fn json(&self) -> Value {
        let config = &self.plan.points[0].config;
        let figures = self.args.scheduler.iter().flat_map(|scheduler| {
            self.classes.iter().map(move |class| {
                let stats = WORLD.stats.iter().map(|stat| {
                    let mean = self.mean(scheduler, class, stat.name);
                    let interval = self.interval(scheduler, class, stat.name);
                    (stat.name.to_owned(), json!({"mean": mean, "interval": interval}))
                });
                let mut row: serde_json::Map<_, _> = stats.collect();
                row.insert("scheduler".to_owned(), json!(scheduler));
                row.insert("class".to_owned(), json!(class));
                let seeds = WORLD
                    .stats
                    .iter()
                    .map(|stat| (stat.name.to_owned(), json!(self.by_seed(scheduler, class, stat.name))));
                row.insert("seeds".to_owned(), Value::Object(seeds.collect()));
                Value::Object(row)
            })
        });
        let network = self.args.scheduler.iter().enumerate().map(|(index, scheduler)| {
            let outcomes = self.outcomes_of(index);
            let count = |of: fn(&sim::fabric::Counters) -> u64| {
                mean(outcomes.iter().map(|outcome| of(&outcome.counters) as f64))
            };
            let locations = LOCATIONS.iter().enumerate().map(|(location, name)| {
                let [p99, most] = waiting(outcomes, location);
                let waited = mean(outcomes.iter().map(|outcome| outcome.occupancy.queues[location].mean()));
                json!({"place": name, "mean": waited, "p99": p99, "most": most})
            });
            json!({
                "scheduler": scheduler,
                "sent": count(|c| c.sent), "delivered": count(|c| c.delivered),
                "dropped": count(|c| c.dropped), "marked": count(|c| c.marked),
                "hops": count(|c| c.hops), "left": count(|c| c.left),
                "waiting_packets": locations.collect::<Vec<_>>(),
            })
        });
        let units: serde_json::Map<_, _> =
            WORLD.stats.iter().map(|stat| (stat.name.to_owned(), json!(stat.unit))).collect();
        ResultHeader::of_sim("sim-fabric", Some(*self.args.seeds.0.start())).stamp(json!({
            "world": "sim",
            "topology": self.args.topology,
            "hosts": config.topology.hosts(),
            "flows": self.plan.flows,
            "load": self.plan.load,
            "arrivals": config.planned.is_none().then(|| config.arrivals.to_string()),
            "thresholds_segments": self.plan.thresholds,
            "room": self.args.buffer_packets,
            "mark": self.args.ecn_threshold,
            "seeds": [self.args.seeds.0.start(), self.args.seeds.0.end()],
            "units": units,
            "figures": figures.collect::<Vec<_>>(),
            "network": network.collect::<Vec<_>>(),
            "plots": self.plots(),
        }))
    }

    /// Distributions, slowdowns and queues of each scheduler's first seed.
    fn plots(&self) -> Vec<Plot> {
        let first = || self.args.scheduler.iter().cloned().zip(self.outcomes.iter().step_by(self.seeds()));
        let mut plots = Vec::new();
        for class in &self.classes {
            let cdf = |(name, outcome): (String, &Outcome)| {
                let row = rows(outcome).into_iter().find(|row| row.class == *class);
                (name, row.map(|row| row.cdf).unwrap_or_default())
            };
            plots.push(Plot::cdf(format!("Completion of {class} flows"), first().map(cdf)));
        }
        let lines = first().map(|(name, outcome)| (name, slowdowns(outcome)));
        plots.push(Plot::line("Slowdown by size, mean", ("flow size, bytes", "slowdown"), true, lines));
        for (index, name) in LOCATIONS.iter().enumerate() {
            let lines: Vec<_> =
                first().map(|(scheduler, outcome)| (scheduler, fullest(outcome, index))).collect();
            if lines.iter().any(|(_, points)| !points.is_empty()) {
                let title = format!("Packets at the fullest port {name}");
                plots.push(Plot::line(title, ("ms", "packets"), false, lines));
            }
        }
        plots
    }

    /// A page with the same tables, and plots of each scheduler's first seed.
    pub fn page(&self) -> String {
        let thresholds: Vec<String> = self.plan.thresholds.iter().map(u64::to_string).collect();
        let pairs = [
            ("world", "sim: virtual time, replays from the seed".to_owned()),
            ("thresholds", format!("{} segments", thresholds.join(", "))),
            (
                "buffer, ECN threshold (packets)",
                format!("{}, {}", self.args.buffer_packets, self.args.ecn_threshold),
            ),
            ("found", self.closing()),
        ];
        let plots: String = self.plots().iter().map(Plot::html).collect();
        let sections = [
            Section::pairs("Set-up", &pairs),
            Section::new("Completion times, mean over runs", self.completions().html()),
            Section::new("Network", self.network().html()),
            Section::new("Plots, first seed", plots),
        ];
        report::page(&self.title(), &sections)
    }
}

/// Packets queued at ports of a place: p99 over time, mean of the runs; and the maximum of all.
fn waiting(outcomes: &[Outcome], index: usize) -> [f64; 2] {
    let queues = || outcomes.iter().map(|outcome| &outcome.occupancy.queues[index]);
    if queues().all(|queue| queue.ports == 0) {
        return [f64::NAN; 2];
    }
    let most = queues().map(|queue| queue.quantile(1.0)).max().unwrap_or_default();
    [mean(queues().map(|queue| queue.quantile(0.99) as f64)), most as f64]
}

/// Number of points of a plot over time or sizes.
const POINTS: usize = 100;

/// Longest queue in packets at any port of a place, over time in ms.
fn fullest(outcome: &Outcome, index: usize) -> Vec<(f64, f64)> {
    let occupancy = &outcome.occupancy;
    let series = if occupancy.queues[index].ports == 0 { &[][..] } else { &occupancy.queues[index].series };
    let step = series.len().div_ceil(POINTS).max(1);
    let at_ms = |n: usize| occupancy.interval.as_secs_f64() * 1e3 * (n * step) as f64;
    let most = |(n, chunk): (usize, &[(f64, usize)])| {
        let most = chunk.iter().map(|&(_, most)| most).max().unwrap_or_default();
        (at_ms(n), most as f64)
    };
    series.chunks(step).enumerate().map(most).collect()
}

/// Bytes and mean slowdown of a run's flows, in groups by size.
fn slowdowns(outcome: &Outcome) -> Vec<(f64, f64)> {
    let flows = outcome.flows.iter().filter_map(|flow| Some((flow.bytes() as f64, flow.slowdown()?)));
    let mut flows: Vec<(f64, f64)> = flows.collect();
    flows.sort_by(|a, b| a.0.total_cmp(&b.0));
    let group = flows.len().div_ceil(POINTS / 4).max(1);
    let centre =
        |flows: &[(f64, f64)]| (flows[flows.len() / 2].0, mean(flows.iter().map(|&(_, slowdown)| slowdown)));
    flows.chunks(group).map(centre).collect()
}

fn mean(values: impl Iterator<Item = f64> + Clone) -> f64 {
    values.clone().sum::<f64>() / values.count() as f64
}
