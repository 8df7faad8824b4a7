//! Result of an experiment: tables on the terminal, JSON for programs, an HTML page.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::checked::{Checked, PointValue, Rules, seed_plot};
use super::checkpoint::Checkpoint;
use super::claim::MetricExpr;
use super::fingerprint;
use super::grid::{self, GridResults, GridRun};
use super::plots;
use super::registry::{Source, stem};
use super::spec::Experiment;
use super::world::{MetricColumn, Noise, TimeKind, World};
use crate::bound::Bound;
use crate::error::Error;
use crate::report::{self, Plot, ResultHeader};
use crate::table::{Table, in_unit, number, number_or_dash};
use crate::verdict::{ClaimVerdict, VerdictCounts};

/// An experiment with its figures and checked claims.
pub struct ExperimentResult {
    name: String,
    world: &'static World,
    experiment: Experiment,
    scale: &'static str,
    seed: u64,
    measured: GridResults,
    header: ResultHeader,
    /// Fingerprint of the program and the experiment's files: [`fingerprint::of_experiment`].
    program: String,
    claims: Vec<Checked>,
    /// Claims whose points or modes this scale does not run.
    left_out: Vec<String>,
}

impl ExperimentResult {
    /// Checks the claims of `experiment` against the measured figures.
    ///
    /// # Errors
    /// A claim names a figure that does not exist, or this program cannot be read.
    pub fn new(
        source: &Source,
        experiment: Experiment,
        scale: &'static str,
        seed: u64,
        measured: GridResults,
    ) -> Result<Self, Error> {
        let world = experiment.world().map_err(Error::new)?;
        let header = header(world, seed);
        let program = fingerprint::of_experiment(source)?;
        let name = source.name.clone();
        let (claims, left_out) = check(source, &experiment, scale, &measured)?;
        Ok(Self { name, world, experiment, scale, seed, measured, header, program, claims, left_out })
    }

    /// Runs `count` further seeds and checks the claims again; returns the number of runs made.
    ///
    /// # Errors
    /// The errors of [`new`](Self::new), or a run fails.
    pub fn add_seeds(
        &mut self,
        source: &Source,
        count: u64,
        checkpoint: Option<&Checkpoint>,
    ) -> Result<usize, Error> {
        let next = self.seed + self.measured.seeds;
        let (experiment, scale) = (&self.experiment, &self.experiment.scale[self.scale]);
        let seeds = next..next + count;
        let runs_made = grid::extend(&mut self.measured, &self.name, experiment, scale, seeds, checkpoint)?;
        (self.claims, self.left_out) = check(source, &self.experiment, self.scale, &self.measured)?;
        Ok(runs_made)
    }

    /// Seeds that were run.
    #[must_use]
    pub fn seeds(&self) -> u64 {
        self.measured.seeds
    }

    /// Claims about the values of single seeds.
    fn seed_claims(&self) -> impl Iterator<Item = &Checked> {
        self.claims.iter().filter(|claim| claim.rules.bound == Bound::PaperWithinSeeds)
    }

    /// Tables and one closing line.
    #[must_use]
    pub fn text(&self) -> String {
        let mut text = format!("{}  {}\n", self.name, self.experiment.title);
        let _ = writeln!(text, "{}; world {}; {}\n", self.experiment.source, self.place(), self.world.note);
        let _ = writeln!(text, "{}", self.figure_table());
        let _ = writeln!(text, "{}", self.claim_table());
        if self.seed_claims().next().is_some() {
            let _ = writeln!(text, "results of single seeds:\n{}", self.seed_table());
        }
        for id in &self.left_out {
            let _ = writeln!(
                text,
                "claim {id} was not checked: scale {} does not run its points or modes",
                self.scale
            );
        }
        for claim in &self.claims {
            let why = claim.why.as_ref().map_or(String::new(), |why| format!("; {why}"));
            let _ = match claim.verdict() {
                ClaimVerdict::Holds => Ok(()),
                ClaimVerdict::Undecided => {
                    writeln!(text, "claim {} is undecided: {}{why}", claim.id, claim.more_runs_in_words())
                }
                ClaimVerdict::Fails => match &claim.why {
                    Some(why) => writeln!(text, "claim {} fails: {why}", claim.id),
                    None => Ok(()),
                },
            };
        }
        let _ = writeln!(text, "{}\n", self.closing());
        text
    }

    /// The world, and the machine where results depend on it.
    fn place(&self) -> String {
        match self.world.kind {
            TimeKind::Sim => "sim".to_owned(),
            TimeKind::Host { .. } => format!("host ({}) on {}", self.world.name, host::Machine::this()),
        }
    }

    /// Number of claims by verdict.
    #[must_use]
    pub fn counts(&self) -> VerdictCounts {
        self.claims.iter().map(Checked::verdict).collect()
    }

    /// Largest number of further runs that an undecided claim needs; `None` if there is no such
    /// claim, or none that a number of runs would decide.
    #[must_use]
    pub fn more_runs(&self) -> Option<u64> {
        self.claims.iter().filter_map(Checked::more_runs).max()
    }

    fn closing(&self) -> String {
        let noise = self.measured.noise.map(|Noise { late, excess }| {
            format!("; worst: {late} late to send, service times {excess} longer than planned")
        });
        format!(
            "{}   ({}, scale {}, seed {}, {} each, {} events{})",
            self.counts(),
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
        let stats: Vec<&MetricColumn> = self.columns().collect();
        let columns = stats.iter().map(|stat| stat.column);
        let header: Vec<&str> = [varies, "mode", "class"].into_iter().chain(columns).collect();
        let mut table = Table::new(3, &header).groups(self.world.groups);
        for run in &self.measured.runs {
            for class in run.rows.iter().map(|row| row.class.as_str()) {
                let mean = |stat: &MetricColumn| {
                    let mean = self.measured.figures.mean(&run.point, &run.mode, class, stat.name);
                    in_unit(stat.unit, mean.unwrap_or(f64::NAN))
                };
                let words = [run.point.clone(), run.mode.clone(), class.to_owned()];
                table.row(words.into_iter().chain(stats.iter().map(|stat| mean(stat))).collect());
            }
        }
        table
    }

    fn claim_table(&self) -> Table {
        let mut table =
            Table::new(1, &["claim", "paper", "ours", "±", "ours/paper", "bound", "verdict", "at"]);
        for claim in &self.claims {
            table.row(vec![
                claim.id.clone(),
                number_or_dash(claim.paper),
                number(claim.measured.estimate),
                number_or_dash(claim.measured.interval()),
                number_or_dash(claim.paper.map(|paper| claim.measured.estimate / paper)),
                claim.rules.bound.with_margin(claim.rules.margin),
                claim.verdict().word().to_owned(),
                claim.at.clone(),
            ]);
        }
        table
    }

    /// Table of the paper's figure among those of single seeds.
    fn seed_table(&self) -> Table {
        let header = ["claim", "paper", "least", "25 %", "median", "75 %", "most", "seeds", "below paper"];
        let mut table = Table::new(1, &header);
        for claim in self.seed_claims() {
            let seeds = claim.measured.sorted();
            let of = |q: f64| {
                let place = (q * seeds.len().saturating_sub(1) as f64).round() as usize;
                number(seeds.get(place).copied().unwrap_or(f64::NAN))
            };
            let paper = claim.paper.unwrap_or(f64::NAN);
            let below = seeds.iter().filter(|&&value| value < paper).count();
            let mut cells = vec![claim.id.clone(), number(paper)];
            cells.extend([0.0, 0.25, 0.5, 0.75, 1.0].map(of));
            cells.extend([seeds.len().to_string(), below.to_string()]);
            table.row(cells);
        }
        table
    }

    /// All figures as one JSON object, with all data that a page needs (`spec/results.md`).
    #[must_use]
    pub fn json(&self) -> Value {
        let figures = self.measured.runs.iter().flat_map(|run| {
            run.rows.iter().map(move |class| self.figure_row(&run.point, &run.mode, &class.class))
        });
        let units: serde_json::Map<_, _> =
            self.world.stats.iter().map(|s| (s.name.to_owned(), json!(s.unit))).collect();
        let claims = self.claims.iter().map(|c| {
            json!({
                "id": c.id, "says": c.says, "paper": c.paper, "ours": c.measured.estimate,
                "interval": c.measured.interval(), "unit": c.unit, "seeds": c.measured.seeds, "at": c.at,
                "bound": c.rules.bound.to_string(), "margin": c.rules.margin,
                "holds": c.verdict() == ClaimVerdict::Holds, "verdict": c.verdict(),
                "more_runs": c.more_runs(), "why": c.why,
            })
        });
        let runs = self
            .measured
            .runs
            .iter()
            .map(|run| json!({"point": run.point, "mode": run.mode, "settings": run.settings}));
        let noise = self
            .measured
            .noise
            .map(|Noise { late, excess }| json!({"late": late.as_nanos(), "beyond": excess.as_nanos()}));
        let header = self.header.clone();
        let result = json!({
            "experiment": self.name,
            "title": self.experiment.title,
            "source": self.experiment.source,
            "world": header.world,
            "machine": header.machine,
            "noise_ns": noise,
            "program": self.program,
            "scale": self.scale,
            "seed": self.seed,
            "runs": self.measured.seeds,
            "events": self.measured.events,
            "settings": runs.collect::<Vec<_>>(),
            "units": units,
            "shown": self.columns().map(|stat| stat.name).collect::<Vec<_>>(),
            "figures": figures.collect::<Vec<_>>(),
            "claims": claims.collect::<Vec<_>>(),
            "not_checked": self.left_out,
            "plots": self.plots(),
        });
        let mut command = report::repeat_arguments(&result);
        if self.measured.seeds != self.experiment.scale[self.scale].runs {
            command.extend(["--runs".to_owned(), self.measured.seeds.to_string()]);
        }
        ResultHeader { command, ..header }.stamp(result)
    }

    /// Metrics that are columns of the printed table.
    fn columns(&self) -> impl Iterator<Item = &'static MetricColumn> {
        self.world.stats.iter().filter(|stat| !stat.column.is_empty())
    }

    /// Means of all figures, and the values of each seed for those with a column.
    fn figure_row(&self, point: &str, mode: &str, class: &str) -> Value {
        let figures = &self.measured.figures;
        let mut row = serde_json::Map::new();
        row.extend(
            [("point", point), ("mode", mode), ("class", class)].map(|(k, v)| (k.to_owned(), json!(v))),
        );
        let mean = |stat: &MetricColumn| {
            (stat.name.to_owned(), json!(figures.mean(point, mode, class, stat.name).ok()))
        };
        row.extend(self.world.stats.iter().map(mean));
        let seeds = |stat: &MetricColumn| {
            let values = figures.by_seed(point, mode, class, stat.name).unwrap_or_default();
            (stat.name.to_owned(), json!(values.into_iter().map(rounded).collect::<Vec<_>>()))
        };
        row.insert("seeds".to_owned(), Value::Object(self.columns().map(seeds).collect()));
        Value::Object(row)
    }

    /// Writes JSON and page into `folder`; returns the JSON's path.
    ///
    /// # Errors
    /// The folder or a file cannot be written.
    pub fn write(&self, folder: &Path) -> Result<PathBuf, Error> {
        std::fs::create_dir_all(folder).map_err(|e| Error::file(folder, &e))?;
        let stem = stem(&self.name);
        let json = folder.join(format!("{stem}.json"));
        let result = self.json();
        let run = report::ParsedResult::read(&result).expect("a written result is valid");
        report::whole(&json, &format!("{result:#}\n"))?;
        report::whole(&folder.join(format!("{stem}.html")), &report::page_of(&[run]))?;
        Ok(json)
    }

    /// Plots of the world, and distributions if there is only one point.
    fn plots(&self) -> Vec<Plot> {
        let class = &self.experiment.class;
        let runs = &self.measured.runs;
        let mut plots = Vec::new();
        if runs.iter().all(|run| run.point == runs[0].point) {
            let curve = |run: &GridRun| {
                let row = run.rows.iter().find(|row| row.class == *class);
                (run.mode.clone(), row.map(|row| row.cdf.clone()).unwrap_or_default())
            };
            let curves = runs.iter().map(curve).filter(|(_, points)| !points.is_empty());
            let plot = Plot::cdf(format!("Latency of {class}, first seed"), curves);
            plots.extend(
                runs.iter().any(|run| run.rows.iter().any(|row| !row.cdf.is_empty())).then_some(plot),
            );
        }
        let mean =
            |point: &str, mode: &str, stat: &str| self.measured.figures.mean(point, mode, class, stat).ok();
        let runs: Vec<_> = runs.iter().map(|run| (run.point.as_str(), run.mode.as_str())).collect();
        plots.extend(plots::of(&self.experiment, self.world, &runs, mean));
        plots.extend(seed_plot(self.seed_claims()));
        plots
    }
}

/// Claims of `experiment` with their values, and the ids of those that `scale` cannot check.
fn check(
    source: &Source,
    experiment: &Experiment,
    scale: &str,
    measured: &GridResults,
) -> Result<(Vec<Checked>, Vec<String>), Error> {
    let mut points: Vec<&str> = measured.runs.iter().map(|run| run.point.as_str()).collect();
    points.dedup();
    let scale_runs = &experiment.scale[scale];
    let mut claims = Vec::new();
    let mut left_out = Vec::new();
    for claim in &experiment.claim {
        let error = |e: String| Error::new(format!("experiment {}, claim {}: {e}", source.name, claim.id));
        let is_checked = |p: &&&str| claim.at.as_ref().is_none_or(|at| at.iter().any(|name| name == **p));
        let at: Vec<&str> = points.iter().filter(is_checked).copied().collect();
        let metric = MetricExpr::parse(&claim.metric).map_err(error)?;
        let rules = Rules::of(claim).map_err(error)?;
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
                let figure = |point: &str| measured.figures.of_run(run, point, &r.mode, &r.class, &r.stat);
                r.at(point, &points, &figure)
            })
        };
        let at_point = |point: &&str| {
            let seeds = (0..measured.seeds as usize).map(|run| of_run(run, point));
            Ok(PointValue { estimate: value(point)?, seeds: seeds.collect::<Result<Vec<_>, _>>()? })
        };
        let mut values = at.iter().map(at_point).collect::<Result<Vec<_>, _>>().map_err(error)?;
        let paper = claim.paper.as_deref().map(|id| source.paper_number(id)).transpose()?;
        let Some(deciding) = rules.deciding(&values, paper) else {
            left_out.push(claim.id.clone());
            continue;
        };
        claims.push(Checked {
            id: claim.id.clone(),
            says: claim.says.clone(),
            paper,
            measured: values.swap_remove(deciding),
            rules,
            unit: claim.unit.clone(),
            at: match &claim.at {
                _ if claim.best => at[deciding].to_owned(),
                Some(_) => at.join(", "),
                None => String::new(),
            },
            why: claim.why.clone(),
        });
    }
    Ok((claims, left_out))
}

/// `value` rounded to six digits, more than a run's precision, to keep results of thirty seeds
/// small.
fn rounded(value: f64) -> f64 {
    format!("{value:.5e}").parse().unwrap_or(value)
}

/// Header of the result; for real services with the doctor's report on the mechanisms they use.
fn header(world: &World, seed: u64) -> ResultHeader {
    let areas: &[&str] = match world.name {
        "egress" => &["egress"],
        "httpd" => &["guard"],
        "colocated" => &["sched"],
        "tiers" => &["egress", "sched"],
        "pages" => &["serve"],
        _ => &[],
    };
    match world.kind {
        TimeKind::Sim => ResultHeader::of_sim("experiment", Some(seed)),
        TimeKind::Host { .. } => ResultHeader::of_host("experiment", Some(seed)).with_doctor(areas),
    }
}
