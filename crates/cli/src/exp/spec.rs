//! File format of an experiment: settings, variations and claims.
//!
//! `experiments/<paper>/<name>.toml` holds one world's settings and the differences of its points,
//! modes and scales, each as `path = value` ("load.classes.*.service" sets it for every class). The
//! paper's own numbers are kept apart in `paper.csv`, so that no claim can be tuned by editing the
//! number that it is compared with.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::{Table, Value};

use super::claim::MetricExpr;
use super::world::World;
use crate::bound::Bound;

/// One experiment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Experiment {
    /// One line: the effect that the experiment shows.
    pub title: String,
    /// Paper section and figure.
    pub source: String,
    /// Modes to run, in the order of the table.
    pub modes: Vec<String>,
    /// Class whose tail the figure shows.
    pub class: String,
    /// World in which the experiment runs; `server` if absent.
    #[serde(default = "server")]
    world: String,
    /// Settings that all runs share: the world's `Config` without mode and seed.
    pub settings: Table,
    /// Differences per mode.
    #[serde(default)]
    pub mode: BTreeMap<String, Overrides>,
    /// Differences per scale: `smoke` and `paper`.
    pub scale: BTreeMap<String, Scale>,
    /// Title of the plot's x axis: the parameter that the points vary.
    #[serde(default)]
    pub varies: Option<String>,
    /// Points; if none, one unnamed point.
    #[serde(default)]
    pub point: Vec<GridPoint>,
    /// Claims.
    pub claim: Vec<Claim>,
}

/// `path = value` pairs laid over the settings.
pub type Overrides = BTreeMap<String, Value>;

/// Size of the experiment.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// Seeds to average over.
    pub runs: u64,
    /// Differences.
    #[serde(default)]
    pub set: Overrides,
    /// Points to run; all when absent. Claims at other points are skipped and listed.
    pub points: Option<Vec<String>>,
    /// Modes to run; all when absent.
    pub modes: Option<Vec<String>>,
}

impl Scale {
    /// True if the scale includes the point called `name`.
    #[must_use]
    pub fn runs_point(&self, name: &str) -> bool {
        self.points.as_ref().is_none_or(|names| names.iter().any(|point| point == name))
    }

    /// True if the scale includes `mode`.
    #[must_use]
    pub fn runs_mode(&self, mode: &str) -> bool {
        self.modes.as_ref().is_none_or(|names| names.iter().any(|known| known == mode))
    }
}

/// One point of the figure.
#[derive(Debug, Default, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GridPoint {
    /// Name in tables and claims.
    pub name: String,
    /// Differences.
    #[serde(default)]
    pub set: Overrides,
    /// Modes that the point has; all when absent.
    pub modes: Option<Vec<String>>,
}

impl GridPoint {
    /// True if the point has `mode`.
    #[must_use]
    pub fn has_mode(&self, mode: &str) -> bool {
        self.modes.as_ref().is_none_or(|names| names.iter().any(|known| known == mode))
    }
}

/// One claim.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Short name.
    pub id: String,
    /// Claim in words.
    pub says: String,
    /// Measured quantity, as a [`MetricExpr`].
    pub metric: String,
    /// Bound on the value, as a [`Bound`].
    pub holds: String,
    /// Row of `paper.csv` shown for comparison, if the paper prints one.
    pub paper: Option<String>,
    /// Unit of the metric; `ratio` when absent.
    #[serde(default = "ratio")]
    pub unit: String,
    /// Points at which the claim must hold; all if absent.
    pub at: Option<Vec<String>>,
    /// True if one point that keeps the bound is enough.
    #[serde(default)]
    pub best: bool,
    /// Non-inferiority margin, at least 0, in the unit of the metric: the claim holds if the 95 %
    /// interval lies inside the bound moved outwards by this. Stated before the run, with its reason.
    #[serde(default)]
    pub margin: f64,
    /// True if the claim needs a 95 % interval: without one, as after a single run, it is undecided.
    #[serde(default)]
    pub significant: bool,
    /// Known reason of a failure; shown when the claim fails.
    pub why: Option<String>,
}

fn server() -> String {
    "server".to_owned()
}

fn ratio() -> String {
    "ratio".to_owned()
}

impl Experiment {
    /// Parses and checks an experiment file; every metric and bound must parse and every name it
    /// uses must exist.
    ///
    /// # Errors
    /// One line: the given value and the valid ones.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |e| crate::toml_error::of(text, &e, |line| format!("line {line}"));
        let experiment: Self = toml::from_str(text).map_err(|e| wrong(e).parts().0.to_owned())?;
        experiment.check()?;
        Ok(experiment)
    }

    /// World that it runs in.
    ///
    /// # Errors
    /// One line: the worlds that exist.
    pub fn world(&self) -> Result<&'static World, String> {
        World::named(&self.world)
    }

    fn check(&self) -> Result<(), String> {
        let world = self.world()?;
        for scale in ["smoke", "paper"] {
            let Some(Scale { runs, points, .. }) = self.scale.get(scale) else {
                return Err(format!("scale {scale} is missing; [scale.smoke] and [scale.paper] are needed"));
            };
            if *runs == 0 || points.as_ref().is_some_and(Vec::is_empty) || self.modes.is_empty() {
                return Err(format!(
                    "scale {scale} runs nothing; at least 1 run, 1 point and 1 mode are needed"
                ));
            }
        }
        if let Some(mode) = self.mode.keys().find(|m| !self.modes.contains(m)) {
            return Err(format!("[mode.{mode}] is not among modes {:?}", self.modes));
        }
        let of_points = self.point.iter().filter_map(|point| point.modes.as_ref());
        let named = self.scale.values().filter_map(|scale| scale.modes.as_ref()).chain(of_points);
        for name in named.flatten() {
            if !self.modes.contains(name) {
                return Err(format!("mode {name:?} is not one of {:?}", self.modes));
            }
        }
        let points = self.points();
        let known = |name: &String| points.iter().any(|p| p.name == *name);
        let named = self.claim.iter().filter_map(|c| c.at.as_ref());
        for name in named.chain(self.scale.values().filter_map(|s| s.points.as_ref())).flatten() {
            if !known(name) {
                return Err(format!("point {name:?} is not one of {:?}", self.point_names()));
            }
        }
        for claim in &self.claim {
            let bound = Bound::parse(&claim.holds).map_err(|e| format!("claim {}: {e}", claim.id))?;
            let at = claim.at.as_ref().map_or(points.len(), Vec::len);
            if bound == Bound::PaperWithinSeeds && (claim.paper.is_none() || at != 1) {
                return Err(format!("claim {}: {bound} needs the paper's figure, at one point", claim.id));
            }
            if !(claim.margin >= 0.0 && claim.margin.is_finite()) {
                return Err(format!("claim {}: margin {} is not a number from 0 on", claim.id, claim.margin));
            }
            let metric = MetricExpr::parse(&claim.metric).map_err(|e| format!("claim {}: {e}", claim.id))?;
            metric.value(&|reference| {
                if !self.modes.contains(&reference.mode) {
                    return Err(format!(
                        "claim {}: mode {:?} is not one of {:?}",
                        claim.id, reference.mode, self.modes
                    ));
                }
                world.stat(&reference.stat).map_err(|e| format!("claim {}: {e}", claim.id))?;
                let is_at = |point: &&GridPoint| match (&reference.point, &claim.at) {
                    (Some(name), _) => point.name == *name,
                    (None, Some(at)) => at.contains(&point.name),
                    (None, None) => true,
                };
                if let Some(point) =
                    points.iter().filter(is_at).find(|point| !point.has_mode(&reference.mode))
                {
                    let message = format!("point {:?} has no mode {:?}", point.name, reference.mode);
                    return Err(format!("claim {}: {message}; at = [those that do]", claim.id));
                }
                match reference.named_point() {
                    Some(name) if !points.iter().any(|point| point.name == name) => Err(format!(
                        "claim {}: point {name:?} is not one of {:?}",
                        claim.id,
                        self.point_names()
                    )),
                    _ => Ok(1.0),
                }
            })?;
        }
        Ok(())
    }

    /// Points; one unnamed point when the file lists none.
    #[must_use]
    pub fn points(&self) -> Vec<GridPoint> {
        if self.point.is_empty() { vec![GridPoint::default()] } else { self.point.clone() }
    }

    fn point_names(&self) -> Vec<&str> {
        self.point.iter().map(|p| p.name.as_str()).collect()
    }

    /// Settings of one run: the shared settings, overlaid with those of scale, point and mode, in
    /// this order.
    ///
    /// # Errors
    /// One line: the path that does not exist.
    pub fn settings_for(&self, scale: &Scale, point: &GridPoint, mode: &str) -> Result<Table, String> {
        let mut settings = Value::Table(self.settings.clone());
        let of_mode = self.mode.get(mode);
        for (path, value) in [Some(&scale.set), Some(&point.set), of_mode].into_iter().flatten().flatten() {
            let steps: Vec<&str> = path.split('.').collect();
            set_path(&mut settings, &steps, value).map_err(|e| format!("{path:?}: {e}"))?;
        }
        let Value::Table(settings) = settings else { unreachable!("laying over a table leaves a table") };
        Ok(settings)
    }
}

/// Sets the value at `steps` below `target` and creates missing tables; `*` stands for every
/// element of an array.
///
/// # Errors
/// One line: the step that does not exist.
pub fn set_path(target: &mut Value, steps: &[&str], value: &Value) -> Result<(), String> {
    let Some((step, rest)) = steps.split_first() else {
        *target = value.clone();
        return Ok(());
    };
    match target {
        Value::Array(elements) if *step == "*" => {
            elements.iter_mut().try_for_each(|e| set_path(e, rest, value))
        }
        Value::Array(elements) => {
            let count = elements.len();
            let element = step.parse::<usize>().ok().and_then(|i| elements.get_mut(i));
            set_path(element.ok_or(format!("{step:?} is neither * nor an index below {count}"))?, rest, value)
        }
        Value::Table(table) => {
            let child = table.entry(step.to_owned()).or_insert_with(|| Value::Table(Table::new()));
            set_path(child, rest, value)
        }
        other => Err(format!("{step:?} lies below {other}, which is no table")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
        title = "t"
        source = "s"
        modes = ["none", "adps"]
        class = "LS"
        [settings]
        workers = 2
        load.classes = [{ service = "1us" }, { service = "2us" }]
        [mode.adps]
        "steering.low" = [1]
        [scale.smoke]
        runs = 1
        points = ["a"]
        [scale.paper]
        runs = 4
        set = { "workers" = 3 }
        [[point]]
        name = "a"
        [[point]]
        name = "b"
        set = { "load.classes.*.service" = "9us", "workers" = 4 }
        [[claim]]
        id = "c"
        says = "x"
        metric = "adps.LS.p99 / none.LS.p99"
        holds = "<= 1"
    "#;

    #[test]
    fn later_layers_win_and_modes_differ_only_in_their_settings() {
        let experiment = Experiment::parse(FILE).unwrap();
        let (paper, b) = (&experiment.scale["paper"], &experiment.points()[1]);
        let none = experiment.settings_for(paper, b, "none").unwrap();
        assert_eq!(none["workers"].as_integer(), Some(4));
        assert_eq!(none["load"]["classes"][1]["service"].as_str(), Some("9us"));
        assert!(none.get("steering").is_none());
        let adps = experiment.settings_for(paper, b, "adps").unwrap();
        assert_eq!(adps["steering"]["low"][0].as_integer(), Some(1));
    }

    #[test]
    fn unknown_names_are_refused() {
        let check = |from: &str, to: &str, says: &str| {
            let error = Experiment::parse(&FILE.replace(from, to)).expect_err(to);
            assert!(error.contains(says), "{error}");
        };
        check("adps.LS.p99 /", "fast.LS.p99 /", "\"fast\" is not one of");
        check("adps.LS.p99 /", "adps.LS.p98 /", "\"p98\" is not one of");
        check("class = \"LS\"", "class = \"LS\"\nworld = \"flat\"", "\"flat\" is not one of server");
        check("points = [\"a\"]", "points = [\"z\"]", "\"z\" is not one of");
        check("points = [\"a\"]", "points = []", "scale smoke runs nothing");
        check("runs = 4", "runs = 0", "scale paper runs nothing");
        check("points = [\"a\"]", "modes = [\"fast\"]", "\"fast\" is not one of");
        check("[mode.adps]", "[mode.lns]", "mode.lns");
        check("name = \"a\"", "name = \"a\"\nmodes = [\"fast\"]", "\"fast\" is not one of");
        check("name = \"a\"", "name = \"a\"\nmodes = [\"adps\"]", "point \"a\" has no mode \"none\"");
        check("\"<= 1\"", "\"among seeds\"", "needs the paper's figure");
        check("\"<= 1\"", "\"small\"", "small");
        check("runs = 4", "runs = 4\nwalks = 3", "walks");
        check("[scale.smoke]\n        runs = 1\n        points = [\"a\"]", "", "smoke");
    }

    #[test]
    fn a_path_below_a_number_is_refused() {
        let experiment = Experiment::parse(&FILE.replace("\"workers\" = 4", "\"workers.x\" = 4")).unwrap();
        let (scale, b) = (&experiment.scale["smoke"], &experiment.points()[1]);
        assert!(experiment.settings_for(scale, b, "none").unwrap_err().contains("workers.x"));
    }
}
