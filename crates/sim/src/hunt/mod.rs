//! Search for workloads on which a default configuration loses against doing nothing.
//!
//! A case is the text of a world, drawn from stated families by a seed and a number. The default
//! and "do nothing" run on the same trace in virtual time; the regret is the goodput that the
//! default lacks, or the time that a tail is longer. A finding is shrunk to a small file, which
//! replays it.

mod cores;
mod deadline;
mod egress;
mod guard;
mod shrink;

use queueing::Rng;

use crate::BadConfig;
pub use shrink::shrink;

/// Mechanism with a default configuration, and the inputs on which it is tried.
#[derive(Clone, Copy, Debug)]
pub struct HuntTarget {
    /// Name on the command line.
    pub name: &'static str,
    /// Default configuration, in a few words.
    pub default: &'static str,
    /// The alternative that it is compared with, in a few words.
    pub nothing: &'static str,
    /// Key of a case whose number makes it longer, and how many times as long a case above a price
    /// is run.
    pub longer: (&'static str, u64),
    /// Names of figures that are known to exceed their price in some cases, and promise nothing.
    pub known: &'static [&'static str],
    /// Draws case number `case` of `seed`, with about `requests` requests.
    pub draw: fn(seed: u64, case: u64, requests: u64) -> String,
    /// Figures of both on one case, always the same ones for a case.
    pub compare: fn(&str) -> Result<Vec<HuntFigure>, BadConfig>,
}

/// All mechanisms of `exp hunt`.
pub const MECHANISMS: [HuntTarget; 4] =
    [deadline::MECHANISM, guard::MECHANISM, egress::MECHANISM, cores::MECHANISM];

/// Figure of the default and of doing nothing on one case.
#[derive(Clone, Debug, PartialEq)]
pub struct HuntFigure {
    /// Name.
    pub name: String,
    /// Figure of the default.
    pub default: f64,
    /// Figure of doing nothing.
    pub nothing: f64,
    /// Largest regret that the default is promised to have.
    pub price: f64,
    /// True if less is better.
    pub is_cost: bool,
}

/// Result of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseResult {
    /// Number of the case.
    pub case: u64,
    /// Figures of both, the first one the mechanism's goodput.
    pub figures: Vec<HuntFigure>,
    /// Text of the case that was run.
    pub text: String,
}

impl HuntFigure {
    /// Goodput: share of the requests that were answered in time, or of a line's rate.
    #[must_use]
    pub fn goodput(name: &str, [default, nothing]: [f64; 2]) -> Self {
        Self { name: name.to_owned(), default, nothing, price: GOODPUT_PRICE, is_cost: false }
    }

    /// A percentile of `name`'s times, in seconds.
    #[must_use]
    pub fn tail(name: String, [default, nothing]: [f64; 2]) -> Self {
        Self { name, default, nothing, price: TAIL_PRICE, is_cost: true }
    }

    /// Loss of the default, as a share of the figure of doing nothing; negative if it is better.
    #[must_use]
    pub fn regret(&self) -> f64 {
        let Self { default, nothing, .. } = self;
        match (*nothing > 0.0, self.is_cost) {
            (true, false) => 1.0 - default / nothing,
            (true, true) => default / nothing - 1.0,
            (false, _) => -1.0,
        }
    }

    /// True if the default loses more than the price.
    #[must_use]
    pub fn is_finding(&self) -> bool {
        self.regret() > self.price
    }

    /// Regret in units of the price.
    #[must_use]
    pub fn excess(&self) -> f64 {
        self.regret() / self.price
    }

    /// The figure with the largest regret for its price.
    ///
    /// # Panics
    /// If there is none.
    #[must_use]
    pub fn worst(figures: &[Self]) -> &Self {
        figures.iter().max_by(|a, b| a.excess().total_cmp(&b.excess())).expect("a case has a figure")
    }
}

impl CaseResult {
    /// The figure with the largest regret for its price.
    #[must_use]
    pub fn worst(&self) -> &HuntFigure {
        HuntFigure::worst(&self.figures)
    }
}

impl HuntTarget {
    /// The mechanism of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        MECHANISMS.iter().find(|mechanism| mechanism.name == name)
    }

    /// Runs case number `case` of `seed`. A case above a price is run again for [longer](Self::longer)
    /// and with [`REPEATS`] seeds, since a few requests more or less are chance.
    ///
    /// # Errors
    /// The case cannot be run: an error of its family.
    pub fn run(&self, seed: u64, case: u64) -> Result<CaseResult, BadConfig> {
        let quick = self.run_once(seed, case)?;
        if !HuntFigure::worst(&quick.figures).is_finding() {
            return Ok(quick);
        }
        let text = (self.draw)(seed, case, self.longer.1 * REQUESTS);
        Ok(CaseResult { case, figures: self.repeat(&text)?, text })
    }

    /// Runs case number `case` of `seed`, once.
    ///
    /// # Errors
    /// The case cannot be run: an error of its family.
    pub fn run_once(&self, seed: u64, case: u64) -> Result<CaseResult, BadConfig> {
        let text = (self.draw)(seed, case, REQUESTS);
        Ok(CaseResult { case, figures: (self.compare)(&text)?, text })
    }

    /// Runs the case `text`, longer if it is above a price, as [`run`](Self::run) does.
    ///
    /// # Errors
    /// The case cannot be run: an error of its family.
    pub fn replay(&self, text: &str) -> Result<Vec<HuntFigure>, BadConfig> {
        let figures = (self.compare)(text)?;
        let (key, times) = self.longer;
        match with_number(text, key, |number| number.saturating_mul(times)) {
            Some(longer) if HuntFigure::worst(&figures).is_finding() => self.repeat(&longer),
            _ => Ok(figures),
        }
    }

    /// True if a figure exceeds its price although it is not [known](Self::known) to do so.
    #[must_use]
    pub fn breaks_promise(&self, figures: &[HuntFigure]) -> bool {
        let is_known = |figure: &HuntFigure| self.known.contains(&figure.name.as_str());
        figures.iter().any(|figure| figure.is_finding() && !is_known(figure))
    }

    /// Mean figures on the case `text` with its seed and the next ones.
    fn repeat(&self, text: &str) -> Result<Vec<HuntFigure>, BadConfig> {
        let mut mean: Vec<HuntFigure> = Vec::new();
        for n in 0..REPEATS {
            let repeat = with_number(text, "seed", |seed| seed.wrapping_add(n));
            let figures = (self.compare)(repeat.as_deref().unwrap_or(text))?;
            let zero = |figure: &HuntFigure| HuntFigure { default: 0.0, nothing: 0.0, ..figure.clone() };
            if mean.is_empty() {
                mean = figures.iter().map(zero).collect();
            }
            for (mean, figure) in mean.iter_mut().zip(figures) {
                mean.default += figure.default / REPEATS as f64;
                mean.nothing += figure.nothing / REPEATS as f64;
            }
        }
        Ok(mean)
    }

    /// Simpler case that still has most of the regret of `found`, by the rule of
    /// [`replay`](Self::replay); at most [`SHRINKS`] are tried.
    #[must_use]
    pub fn shrink(&self, found: &CaseResult) -> String {
        let HuntFigure { name, price, .. } = found.worst();
        let enough = f64::midpoint(*price, found.worst().regret());
        let loses = |figures: Vec<HuntFigure>| {
            figures.iter().any(|figure| figure.name == *name && figure.regret() >= enough)
        };
        let mut left = SHRINKS;
        shrink(&found.text, |text| {
            left = left.saturating_sub(1);
            // One seed is quick, and most simplifications fail with it.
            left > 0 && (self.compare)(text).is_ok_and(loses) && self.replay(text).is_ok_and(loses)
        })
    }
}

/// The case `text` with another number at `key`; `None` if it has no number there.
fn with_number(text: &str, key: &str, change: impl FnOnce(u64) -> u64) -> Option<String> {
    let mut case: toml::Table = text.parse().ok()?;
    let number = case.get(key)?.as_integer()?;
    case.insert(key.to_owned(), i64::try_from(change(number.try_into().ok()?)).ok()?.into());
    Some(case.to_string())
}

/// Number between `least` and `most`, uniform in the logarithm.
fn between(rng: &mut Rng, least: f64, most: f64) -> f64 {
    least * (most / least).powf(rng.unit())
}

/// Arrivals of `rate` per second that are on for a part of each period, at a constant rate.
fn on_off(rng: &mut Rng, rate: f64, period_s: f64) -> String {
    let on = 0.1 + 0.8 * rng.unit();
    let size = (period_s * rate).ceil().max(2.0);
    let period_us = (size / rate * 1e6).max(1.0);
    format!("burst {size} {}us {}ns", period_us as u64, (on * period_us / size * 1e3) as u64)
}

/// Law of times with this mean: deterministic, normal, exponential, lognormal, uniform, bimodal or
/// bounded Pareto.
fn law(rng: &mut Rng, mean_us: f64) -> String {
    let us = |us: f64| format!("{}ns", (us * 1e3) as u64);
    match rng.below(8) {
        0 => us(mean_us),
        1 => format!("normal {} {}", us(mean_us), us(mean_us * 0.3)),
        2 => format!("exp {}", us(mean_us)),
        3 => format!("lognormal {} 1.0", us(mean_us)),
        4 => format!("lognormal {} 1.5", us(mean_us)),
        5 => format!("uniform {} {}", us(mean_us * 0.2), us(mean_us * 1.8)),
        6 => {
            let (ratio, share) = (5.0 + 45.0 * rng.unit(), 0.01 + 0.2 * rng.unit());
            let short_us = mean_us / (1.0 - share + share * ratio);
            format!("bimodal {} {} {share:.4}", us(short_us), us(short_us * ratio))
        }
        _ => {
            // Mean of a Pareto law with this index, cut at 1,000 times its minimum.
            let shape = 1.1 + 0.8 * rng.unit();
            let mean_of_min =
                shape / (shape - 1.0) * (1.0 - 1_000_f64.powf(1.0 - shape)) / (1.0 - 1_000_f64.powf(-shape));
            let min_us = mean_us / mean_of_min;
            format!("pareto {} {} {shape:.3}", us(min_us), us(min_us * 1_000.0))
        }
    }
}

/// Requests per case.
const REQUESTS: u64 = 4_000;
/// Simplifications that are tried of a finding.
const SHRINKS: u32 = 60;
/// Seeds of a case above a price.
const REPEATS: u64 = 8;
/// Largest regret of goodput, and of a tail.
const GOODPUT_PRICE: f64 = 0.05;
const TAIL_PRICE: f64 = 0.25;
