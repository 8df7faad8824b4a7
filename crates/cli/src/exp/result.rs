//! What an experiment found: tables for people, JSON for programs, a page to look at.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::catalogue::Source;
use super::claim::{Bound, Metric};
use super::figures::interval;
use super::grid::{Measured, Run};
use super::spec::Experiment;
use super::world::{Kind, Noise, Stat, World};
use crate::error::Error;
use crate::report::{self, Section};
use crate::table::{Table, in_unit, number};

/// A claim, checked.
struct Checked {
    id: String,
    says: String,
    paper: Option<f64>,
    ours: f64,
    /// What each seed gave, those that are numbers, in ascending order.
    seeds: Vec<f64>,
    /// Half the 95 % interval over the seeds, where there are several.
    interval: Option<f64>,
    within_interval: bool,
    /// Both ends of the interval must keep the bound; there must be one.
    significant: bool,
    bound: Bound,
    unit: String,
    /// Where it was checked, if not everywhere.
    at: String,
    /// Why it fails, where that is known.
    why: Option<String>,
}

impl Checked {
    fn holds(&self) -> bool {
        if self.bound == Bound::PaperWithinSeeds {
            let ends = self.seeds.first().zip(self.seeds.last()).zip(self.paper);
            return ends.is_some_and(|((least, most), paper)| (least..=most).contains(&&paper));
        }
        if self.significant {
            let ends = |off: f64| [-off, off].into_iter().all(|off| self.bound.holds(self.ours + off));
            return self.interval.is_some_and(ends);
        }
        let tolerance = self.interval.filter(|_| self.within_interval).unwrap_or(0.0);
        [0.0, -tolerance, tolerance].into_iter().any(|off| self.bound.holds(self.ours + off))
    }
}

/// An experiment with its figures and checked claims.
pub struct ExperimentResult {
    name: String,
    world: &'static World,
    experiment: Experiment,
    scale: &'static str,
    seed: u64,
    measured: Measured,
    claims: Vec<Checked>,
    /// Claims whose points or modes this scale does not run.
    left_out: Vec<String>,
}

impl ExperimentResult {
    /// Checks the claims of `experiment` against what was measured.
    ///
    /// # Errors
    /// When a claim names a figure that does not exist.
    pub fn new(
        source: &Source,
        experiment: Experiment,
        scale: &'static str,
        seed: u64,
        measured: Measured,
    ) -> Result<Self, Error> {
        let mut points: Vec<&str> = measured.runs.iter().map(|run| run.point.as_str()).collect();
        points.dedup();
        let scale_runs = &experiment.scale[scale];
        let mut claims = Vec::new();
        let mut left_out = Vec::new();
        for claim in &experiment.claim {
            let error =
                |e: String| Error::new(format!("experiment {}, claim {}: {e}", source.name, claim.id));
            let wanted = |p: &&&str| claim.at.as_ref().is_none_or(|at| at.iter().any(|name| name == **p));
            let at: Vec<&str> = points.iter().filter(wanted).copied().collect();
            let metric = Metric::parse(&claim.metric).map_err(error)?;
            let bound = Bound::parse(&claim.holds).map_err(error)?;
            if !metric.needs_only(&|r| scale_runs.runs_mode(&r.mode)) {
                left_out.push(claim.id.clone());
                continue;
            }
            let value = |point: &str| {
                metric.value(&|r| {
                    r.at(point, &points, &|point| measured.figures.mean(point, &r.mode, &r.class, &r.stat))
                })
            };
            let of_run = |run: usize, point: &str| {
                metric.value(&|r| {
                    let figure =
                        |point: &str| measured.figures.of_run(run, point, &r.mode, &r.class, &r.stat);
                    r.at(point, &points, &figure)
                })
            };
            let values = at.iter().map(|point| value(point)).collect::<Result<Vec<_>, _>>().map_err(error)?;
            let of_all = values.iter().copied();
            let Some(ours) = (if claim.best { bound.best(of_all) } else { bound.worst(of_all) }) else {
                left_out.push(claim.id.clone());
                continue;
            };
            let worst = values.iter().position(|value| value.total_cmp(&ours).is_eq()).unwrap_or(0);
            let seeds = (0..measured.seeds as usize).map(|run| of_run(run, at[worst]));
            let mut seeds = seeds.collect::<Result<Vec<_>, _>>().map_err(error)?;
            seeds.retain(|value| !value.is_nan());
            seeds.sort_by(f64::total_cmp);
            claims.push(Checked {
                id: claim.id.clone(),
                says: claim.says.clone(),
                paper: claim.paper.as_deref().map(|id| source.printed(id)).transpose()?,
                ours,
                interval: interval(&seeds),
                seeds,
                within_interval: claim.within_interval,
                significant: claim.significant,
                bound,
                unit: claim.unit.clone(),
                at: match &claim.at {
                    _ if claim.best => at[worst].to_owned(),
                    Some(_) => at.join(", "),
                    None => String::new(),
                },
                why: claim.why.clone(),
            });
        }
        let world = experiment.world().map_err(Error::new)?;
        Ok(Self { name: source.name.clone(), world, experiment, scale, seed, measured, claims, left_out })
    }

    /// Whether every claim that was checked holds.
    #[must_use]
    pub fn all_hold(&self) -> bool {
        self.claims.iter().all(Checked::holds)
    }

    /// The claims about what single seeds gave.
    fn of_seeds(&self) -> impl Iterator<Item = &Checked> {
        self.claims.iter().filter(|claim| claim.bound == Bound::PaperWithinSeeds)
    }

    /// Tables and one closing line.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}  {}\n", self.name, self.experiment.title);
        let _ = writeln!(text, "{}; world {}; {}\n", self.experiment.source, self.place(), self.world.note);
        let _ = writeln!(text, "{}", self.figure_table());
        let _ = writeln!(text, "{}", self.claim_table());
        if self.of_seeds().next().is_some() {
            let _ = writeln!(text, "what single seeds gave:\n{}", self.seed_table());
        }
        for id in &self.left_out {
            let _ = writeln!(
                text,
                "claim {id} was not checked: scale {} does not run its points or modes",
                self.scale
            );
        }
        for claim in self.claims.iter().filter(|claim| !claim.holds()) {
            if let Some(why) = &claim.why {
                let _ = writeln!(text, "claim {} fails: {why}", claim.id);
            }
        }
        let _ = writeln!(text, "{}\n", self.closing());
        text
    }

    /// Which world, and which machine where that decides.
    fn place(&self) -> String {
        match self.world.kind {
            Kind::Sim => "sim".to_owned(),
            Kind::Host { .. } => format!("host ({}) on {}", self.world.name, host::Machine::this()),
        }
    }

    fn closing(&self) -> String {
        let noise = self.measured.noise.map(|Noise { late, beyond }| {
            format!("; at worst {late} late to send, services {beyond} longer than planned")
        });
        let hold = self.claims.iter().filter(|c| c.holds()).count();
        format!(
            "{hold} of {} claims hold   ({}, scale {}, seed {}, {} each, {} events{})",
            self.claims.len(),
            self.world.kind.name(),
            self.scale,
            self.seed,
            if self.measured.seeds == 1 {
                "1 run".to_owned()
            } else {
                format!("{} runs", self.measured.seeds)
            },
            self.measured.events,
            noise.unwrap_or_default(),
        )
    }

    fn figure_table(&self) -> Table {
        let varies = self.experiment.varies.as_deref().unwrap_or("");
        let shown: Vec<&Stat> = self.world.stats.iter().filter(|stat| !stat.column.is_empty()).collect();
        let columns = shown.iter().map(|stat| stat.column);
        let header: Vec<&str> = [varies, "mode", "class"].into_iter().chain(columns).collect();
        let mut table = Table::new(3, &header).groups(self.world.groups);
        for run in &self.measured.runs {
            for class in run.rows.iter().map(|row| row.class.as_str()) {
                let mean = |stat: &Stat| {
                    let mean = self.measured.figures.mean(&run.point, &run.mode, class, stat.name);
                    in_unit(stat.unit, mean.unwrap_or(f64::NAN))
                };
                let words = [run.point.clone(), run.mode.clone(), class.to_owned()];
                table.row(words.into_iter().chain(shown.iter().map(|stat| mean(stat))).collect());
            }
        }
        table
    }

    fn claim_table(&self) -> Table {
        let mut table =
            Table::new(1, &["claim", "paper", "ours", "±", "ours/paper", "must be", "holds", "at"]);
        for claim in &self.claims {
            table.row(vec![
                claim.id.clone(),
                claim.paper.map_or("–".to_owned(), number),
                number(claim.ours),
                claim.interval.map_or("–".to_owned(), number),
                claim.paper.map_or("–".to_owned(), |paper| number(claim.ours / paper)),
                claim.bound.to_string(),
                if claim.holds() { "yes" } else { "NO" }.to_owned(),
                claim.at.clone(),
            ]);
        }
        table
    }

    /// How the paper's figure lies among those of single seeds.
    fn seed_table(&self) -> Table {
        let header = ["claim", "paper", "least", "25 %", "median", "75 %", "most", "seeds", "below paper"];
        let mut table = Table::new(1, &header);
        for claim in self.of_seeds() {
            let of = |q: f64| {
                let place = (q * claim.seeds.len().saturating_sub(1) as f64).round() as usize;
                number(claim.seeds.get(place).copied().unwrap_or(f64::NAN))
            };
            let paper = claim.paper.unwrap_or(f64::NAN);
            let below = claim.seeds.iter().filter(|&&value| value < paper).count();
            let mut cells = vec![claim.id.clone(), number(paper)];
            cells.extend([0.0, 0.25, 0.5, 0.75, 1.0].map(of));
            cells.extend([claim.seeds.len().to_string(), below.to_string()]);
            table.row(cells);
        }
        table
    }

    /// Per claim about single seeds, the share of them up to each value; the
    /// paper's figure is an upright line.
    fn seed_plot(&self) -> String {
        let mut series = Vec::new();
        for claim in self.of_seeds() {
            let share = |n: usize| (n + 1) as f64 / claim.seeds.len() as f64;
            let curve = claim.seeds.iter().enumerate().map(|(n, &value)| (value, share(n)));
            series.push((claim.id.clone(), curve.collect()));
            let paper = claim.paper.unwrap_or(f64::NAN);
            series.push(("its paper's".to_owned(), vec![(paper, 0.0), (paper, 1.0)]));
        }
        report::line_plot("Single seeds", "value", "share of seeds up to it", false, &series)
    }

    /// The same figures as one JSON object.
    #[must_use]
    pub fn json(&self) -> Value {
        let figures = self.measured.runs.iter().flat_map(|run| {
            run.rows.iter().map(move |class| {
                let mean = |stat| self.measured.figures.mean(&run.point, &run.mode, &class.class, stat);
                let stats = self.world.stats.iter();
                let stats = stats.map(|stat| (stat.name.to_owned(), json!(mean(stat.name).ok())));
                let mut row: serde_json::Map<_, _> = stats.collect();
                row.insert("point".to_owned(), json!(run.point));
                row.insert("mode".to_owned(), json!(run.mode));
                row.insert("class".to_owned(), json!(class.class));
                Value::Object(row)
            })
        });
        let units: serde_json::Map<_, _> =
            self.world.stats.iter().map(|s| (s.name.to_owned(), json!(s.unit))).collect();
        let claims = self.claims.iter().map(|c| {
            json!({
                "id": c.id, "says": c.says, "paper": c.paper, "ours": c.ours, "interval": c.interval,
                "unit": c.unit, "seeds": c.seeds,
                "bound": c.bound.to_string(), "holds": c.holds(), "why": c.why,
            })
        });
        let runs = self
            .measured
            .runs
            .iter()
            .map(|run| json!({"point": run.point, "mode": run.mode, "settings": run.settings}));
        let real = self.world.kind != Kind::Sim;
        let machine = real.then(|| host::Machine::this().to_string());
        let noise = self
            .measured
            .noise
            .map(|Noise { late, beyond }| json!({"late": late.as_nanos(), "beyond": beyond.as_nanos()}));
        json!({
            "experiment": self.name,
            "title": self.experiment.title,
            "source": self.experiment.source,
            "world": self.world.kind.name(),
            "machine": machine,
            "noise_ns": noise,
            "scale": self.scale,
            "seed": self.seed,
            "runs": self.measured.seeds,
            "events": self.measured.events,
            "settings": runs.collect::<Vec<_>>(),
            "units": units,
            "figures": figures.collect::<Vec<_>>(),
            "claims": claims.collect::<Vec<_>>(),
            "not_checked": self.left_out,
        })
    }

    /// Writes JSON and page into `folder`; returns the JSON's path.
    ///
    /// # Errors
    /// When the folder or a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, Error> {
        std::fs::create_dir_all(folder).map_err(|e| Error::file(folder, &e))?;
        let stem = self.name.trim_end_matches(".toml").trim_matches(['.', '/']).replace('/', "-");
        let json = folder.join(format!("{stem}.json"));
        let page = folder.join(format!("{stem}.html"));
        let mut result = self.json();
        result["date"] = json!(host::today());
        std::fs::write(&json, format!("{result:#}\n")).map_err(|e| Error::file(&json, &e))?;
        std::fs::write(&page, self.page()).map_err(|e| Error::file(&page, &e))?;
        Ok(json)
    }

    fn page(&self) -> String {
        let says: String = self.claims.iter().map(|c| format!("{}: {}\n", c.id, c.says)).collect();
        let mut sections = vec![
            Section::text("Source", &format!("{}\n{}", self.experiment.source, self.closing())),
            Section::new("Figure", self.plots()),
            Section::new("Claims", self.claim_table().html()),
            Section::text("What the claims say", &says),
            Section::new("Figures, mean over runs", self.figure_table().html()),
            Section::text("Settings of the first run", &self.settings_text()),
        ];
        if self.of_seeds().next().is_some() {
            let body = format!("{}{}", self.seed_table().html(), self.seed_plot());
            sections.insert(3, Section::new("Single seeds", body));
        }
        report::page(&self.experiment.title, &sections)
    }

    fn settings_text(&self) -> String {
        self.measured.runs.first().map(|run| run.settings.to_string()).unwrap_or_default()
    }

    /// p99 over the points where they are numbers, and where the p99 was spent;
    /// distributions where there is only one point.
    fn plots(&self) -> String {
        let class = &self.experiment.class;
        let runs = &self.measured.runs;
        let drawn = self.world.stats.iter().find(|stat| stat.name == self.world.drawn);
        let drawn = drawn.expect("a world draws a figure that it has");
        let numeric = |point: &str| point.parse::<f64>().ok();
        let several = runs.iter().any(|run| run.point != runs[0].point);
        let mean =
            |point: &str, mode: &str, stat: &str| self.measured.figures.mean(point, mode, class, stat).ok();
        let mut plots = String::new();
        if several && runs.iter().any(|run| numeric(&run.point).is_some()) {
            let line = |mode: &String| {
                let of_mode = runs.iter().filter(|run| run.mode == *mode);
                let points = of_mode
                    .filter_map(|run| Some((numeric(&run.point)?, mean(&run.point, mode, drawn.name)?)));
                (mode.clone(), points.collect::<Vec<_>>())
            };
            let series: Vec<_> = self.experiment.modes.iter().map(line).collect();
            let varies = self.experiment.varies.as_deref().unwrap_or("point");
            let axis = format!("{}, {}", drawn.name, drawn.unit);
            let log = drawn.unit == "µs";
            plots += &report::line_plot(&format!("{} of {class}", drawn.name), varies, &axis, log, &series);
        }
        if self.experiment.point.is_empty() {
            let curve = |run: &Run| {
                let row = run.rows.iter().find(|row| row.class == *class);
                (run.mode.clone(), row.map(|row| row.cdf.clone()).unwrap_or_default())
            };
            let series: Vec<_> = runs.iter().map(curve).collect();
            plots += &report::cdf_plot(&format!("Latency of {class}, first seed"), &series);
        }
        if self.world.parts.is_empty() {
            return plots;
        }
        let bar = |run: &Run| {
            let part = |stat: &&str| Some(((*stat).to_owned(), mean(&run.point, &run.mode, stat)?));
            let label = format!("{} {}", run.point, run.mode);
            (label.trim().to_owned(), self.world.parts.iter().filter_map(part).collect::<Vec<_>>())
        };
        let bars: Vec<_> = runs.iter().map(bar).collect();
        plots + &report::stacked_bars(&format!("Where the {} of {class} was spent", drawn.name), &bars)
    }
}
