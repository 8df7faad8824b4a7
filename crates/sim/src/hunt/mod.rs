//! Search for workloads on which a default configuration loses against doing nothing.
//!
//! A case is the text of a world, drawn from stated families by a seed and a number. The default
//! and "do nothing" run on the same trace in virtual time; the regret is the goodput that the
//! default lacks. A finding is shrunk to a small file, which replays it.

mod deadline;
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
    /// Largest regret that the default is promised to have.
    pub price: f64,
    /// Draws case number `case` of `seed`, with about `requests` requests.
    pub draw: fn(seed: u64, case: u64, requests: u64) -> String,
    /// Goodput of both on one case.
    pub compare: fn(&str) -> Result<CaseGoodput, BadConfig>,
}

/// All mechanisms of `exp hunt`.
pub const MECHANISMS: [HuntTarget; 2] = [deadline::MECHANISM, guard::MECHANISM];

/// Goodput on one case: share of the requests that were answered in time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CaseGoodput {
    /// Goodput of the default.
    pub default: f64,
    /// Goodput of doing nothing.
    pub nothing: f64,
}

/// Result of one case.
#[derive(Clone, Debug, PartialEq)]
pub struct CaseResult {
    /// Number of the case.
    pub case: u64,
    /// Goodput of both.
    pub compared: CaseGoodput,
    /// Text of the case that was run.
    pub text: String,
}

impl CaseGoodput {
    /// Goodput that the default lacks, as a share of that of doing nothing; negative if it has more.
    #[must_use]
    pub fn regret(&self) -> f64 {
        if self.nothing > 0.0 { 1.0 - self.default / self.nothing } else { -1.0 }
    }
}

impl HuntTarget {
    /// The mechanism of this name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        MECHANISMS.iter().find(|mechanism| mechanism.name == name)
    }

    /// Runs case number `case` of `seed`. A case above the price is run again with [`LONGER`]
    /// times as many requests, and with [`REPEATS`] seeds, since a few requests more or less are
    /// chance.
    ///
    /// # Errors
    /// The case cannot be run: an error of its family.
    pub fn run(&self, seed: u64, case: u64) -> Result<CaseResult, BadConfig> {
        let mut text = (self.draw)(seed, case, REQUESTS);
        let mut compared = (self.compare)(&text)?;
        if compared.regret() > self.price {
            text = (self.draw)(seed, case, LONGER * REQUESTS);
            compared = self.repeat(&text)?;
        }
        Ok(CaseResult { case, compared, text })
    }

    /// Runs the case `text`, longer if it is above the price, as [`run`](Self::run) does.
    ///
    /// # Errors
    /// The case cannot be run: an error of its family.
    pub fn replay(&self, text: &str) -> Result<CaseGoodput, BadConfig> {
        let compared = (self.compare)(text)?;
        match with_number(text, "requests", |requests| requests.saturating_mul(LONGER)) {
            Some(longer) if compared.regret() > self.price => self.repeat(&longer),
            _ => Ok(compared),
        }
    }

    /// Mean goodput on the case `text` with its seed and the next ones.
    fn repeat(&self, text: &str) -> Result<CaseGoodput, BadConfig> {
        let mut mean = CaseGoodput { default: 0.0, nothing: 0.0 };
        for n in 0..REPEATS {
            let repeat = with_number(text, "seed", |seed| seed.wrapping_add(n));
            let compared = (self.compare)(repeat.as_deref().unwrap_or(text))?;
            mean.default += compared.default / REPEATS as f64;
            mean.nothing += compared.nothing / REPEATS as f64;
        }
        Ok(mean)
    }

    /// Simpler case that still has most of the regret of `found`.
    #[must_use]
    pub fn shrink(&self, found: &CaseResult) -> String {
        let enough = f64::midpoint(self.price, found.compared.regret());
        shrink(&found.text, |text| (self.compare)(text).is_ok_and(|compared| compared.regret() >= enough))
    }
}

/// The case `text` with another number at `key`; `None` if it has no number there.
fn with_number(text: &str, key: &str, change: impl FnOnce(u64) -> u64) -> Option<String> {
    let mut case: toml::Table = text.parse().ok()?;
    let number = case.get(key)?.as_integer()?;
    case.insert(key.to_owned(), i64::try_from(change(number.try_into().ok()?)).ok()?.into());
    Some(case.to_string())
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
/// A case above the price is run again with this many times the requests, and this many seeds.
const LONGER: u64 = 8;
const REPEATS: u64 = 8;
