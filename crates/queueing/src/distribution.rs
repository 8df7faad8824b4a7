//! Distributions of spans, such as service times.
//!
//! Written as text (`exp 10us`, `bimodal 1us 1ms 0.005`), sampled with a seeded
//! [`Rng`], with the first two moments, which M/G/1 needs.

use std::fmt;
use std::str::FromStr;

use crate::{Rng, Span};

/// Distribution of spans.
///
/// ```
/// use queueing::{Distribution, Rng, Span};
/// let service: Distribution = "bimodal 1us 1ms 0.005".parse()?;
/// assert_eq!(service.mean(), Span::from_nanos(5_995));
/// assert!(service.sample(&mut Rng::seeded(1)) >= Span::from_micros(1));
/// # Ok::<(), queueing::ParseDistributionError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// Constant: `3us`.
    Constant(Span),
    /// Exponential: `exp 10us`.
    Exponential {
        /// The mean.
        mean: Span,
    },
    /// Uniform between two bounds: `uniform 1us 5us`.
    Uniform {
        /// The shortest.
        min: Span,
        /// The longest, not shorter than `min`.
        max: Span,
    },
    /// Normal, with negative samples cut to zero: `normal 20ms 5ms`. The bound on
    /// `sd` makes these so rare that the moments below ignore them.
    Normal {
        /// The mean.
        mean: Span,
        /// Standard deviation, at most a third of the mean.
        sd: Span,
    },
    /// Lognormal: `lognormal 10us 1.0`.
    LogNormal {
        /// The mean (not the median).
        mean: Span,
        /// Standard deviation of the logarithm, 0 or more.
        sigma: f64,
    },
    /// Short, with a share of long spans: `bimodal 1us 1ms 0.005`.
    Bimodal {
        /// The short span.
        short: Span,
        /// The long span.
        long: Span,
        /// Share of long spans, 0 to 1.
        share_long: f64,
    },
    /// Bounded Pareto: `pareto 1us 10ms 1.2`.
    Pareto {
        /// The shortest, more than zero.
        min: Span,
        /// The longest, more than `min`.
        max: Span,
        /// Tail index, above 0.
        shape: f64,
    },
}

impl Distribution {
    /// Draws a span, rounded to the nanosecond.
    pub fn sample(&self, rng: &mut Rng) -> Span {
        match *self {
            Self::Constant(span) => span,
            Self::Exponential { mean } => nanos(ns(mean) * rng.exponential()),
            Self::Uniform { min, max } => nanos(ns(min) + (ns(max) - ns(min)) * rng.unit()),
            Self::Normal { mean, sd } => nanos(ns(mean) + ns(sd) * rng.normal()),
            Self::LogNormal { mean, sigma } => {
                nanos(ns(mean) * (sigma * rng.normal() - sigma * sigma / 2.0).exp())
            }
            Self::Bimodal { short, long, share_long } => {
                if rng.chance(share_long) {
                    long
                } else {
                    short
                }
            }
            Self::Pareto { min, max, shape } => {
                let kept = 1.0 - rng.unit() * (1.0 - (ns(min) / ns(max)).powf(shape));
                nanos(ns(min) * kept.powf(-1.0 / shape))
            }
        }
    }

    /// The mean.
    #[must_use]
    pub fn mean(&self) -> Span {
        match *self {
            Self::Constant(span) => span,
            Self::Exponential { mean } | Self::Normal { mean, .. } | Self::LogNormal { mean, .. } => mean,
            _ => nanos(self.moment(1) * 1e9),
        }
    }

    /// The second moment, in s².
    #[must_use]
    pub fn second_moment(&self) -> f64 {
        self.moment(2)
    }

    /// The `k`-th moment, k = 1 or 2, in sᵏ.
    fn moment(&self, k: i32) -> f64 {
        let power = |span: Span| span.as_secs_f64().powi(k);
        match *self {
            Self::Constant(span) => power(span),
            Self::Exponential { mean } => power(mean) * f64::from(k),
            Self::Uniform { min, max } if min == max => power(min),
            Self::Uniform { min, max } => {
                let (a, b) = (min.as_secs_f64(), max.as_secs_f64());
                (b.powi(k + 1) - a.powi(k + 1)) / (f64::from(k + 1) * (b - a))
            }
            Self::Normal { mean, sd } => power(mean) + f64::from(k - 1) * power(sd),
            Self::LogNormal { mean, sigma } => {
                power(mean) * (f64::from(k * (k - 1)) * sigma * sigma / 2.0).exp()
            }
            Self::Bimodal { short, long, share_long } => {
                (1.0 - share_long) * power(short) + share_long * power(long)
            }
            Self::Pareto { min, max, shape } => {
                let (a, b, k) = (min.as_secs_f64(), max.as_secs_f64(), f64::from(k));
                let scale = shape * a.powf(shape) / (1.0 - (a / b).powf(shape));
                // The integral of x^(k - shape - 1) from a to b.
                if (k - shape).abs() < 1e-9 {
                    scale * (b / a).ln()
                } else {
                    scale * (b.powf(k - shape) - a.powf(k - shape)) / (k - shape)
                }
            }
        }
    }
}

fn ns(span: Span) -> f64 {
    span.as_nanos() as f64
}

fn nanos(ns: f64) -> Span {
    Span::from_nanos(ns.round() as u64)
}

/// Error for a text that is not a distribution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseDistributionError(String);

impl fmt::Display for ParseDistributionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "distribution {:?} is not one of: SPAN | exp MEAN | uniform MIN MAX (MIN <= MAX) | \
             normal MEAN SD (SD <= MEAN / 3) | lognormal MEAN SIGMA (SIGMA >= 0) | bimodal SHORT LONG SHARE (of long, 0 to 1) | \
             pareto MIN MAX SHAPE (0 < MIN < MAX, SHAPE > 0); spans like 3us",
            self.0
        )
    }
}

impl std::error::Error for ParseDistributionError {}

/// `3us`, `exp 10us`, `uniform 1us 5us`, `normal 20ms 5ms`, `lognormal 10us 1.0`,
/// `bimodal 1us 1ms 0.005`, `pareto 1us 10ms 1.2`.
impl FromStr for Distribution {
    type Err = ParseDistributionError;
    fn from_str(text: &str) -> Result<Self, ParseDistributionError> {
        parse(&text.split_whitespace().collect::<Vec<_>>())
            .ok_or_else(|| ParseDistributionError(text.to_owned()))
    }
}

fn parse(words: &[&str]) -> Option<Distribution> {
    let span = |word: &str| word.parse().ok();
    let number = |word: &str| word.parse().ok().filter(|x: &f64| x.is_finite());
    let distribution = match *words {
        [value] => Distribution::Constant(span(value)?),
        ["exp", mean] => Distribution::Exponential { mean: span(mean)? },
        ["uniform", min, max] => Distribution::Uniform { min: span(min)?, max: span(max)? },
        ["normal", mean, sd] => Distribution::Normal { mean: span(mean)?, sd: span(sd)? },
        ["lognormal", mean, sigma] => Distribution::LogNormal { mean: span(mean)?, sigma: number(sigma)? },
        ["bimodal", short, long, share] => {
            Distribution::Bimodal { short: span(short)?, long: span(long)?, share_long: number(share)? }
        }
        ["pareto", min, max, shape] => {
            Distribution::Pareto { min: span(min)?, max: span(max)?, shape: number(shape)? }
        }
        _ => return None,
    };
    let is_valid = match distribution {
        Distribution::Constant(_) | Distribution::Exponential { .. } => true,
        Distribution::Uniform { min, max } => min <= max,
        Distribution::Normal { mean, sd } => sd * 3 <= mean,
        Distribution::LogNormal { sigma, .. } => sigma >= 0.0,
        Distribution::Bimodal { share_long, .. } => (0.0..=1.0).contains(&share_long),
        Distribution::Pareto { min, max, shape } => Span::ZERO < min && min < max && shape > 0.0,
    };
    is_valid.then_some(distribution)
}

/// The form that [`FromStr`] parses, without loss.
impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Constant(span) => write!(f, "{}", exact(span)),
            Self::Exponential { mean } => write!(f, "exp {}", exact(mean)),
            Self::Uniform { min, max } => write!(f, "uniform {} {}", exact(min), exact(max)),
            Self::Normal { mean, sd } => write!(f, "normal {} {}", exact(mean), exact(sd)),
            Self::LogNormal { mean, sigma } => write!(f, "lognormal {} {sigma:?}", exact(mean)),
            Self::Bimodal { short, long, share_long } => {
                write!(f, "bimodal {} {} {share_long:?}", exact(short), exact(long))
            }
            Self::Pareto { min, max, shape } => {
                write!(f, "pareto {} {} {shape:?}", exact(min), exact(max))
            }
        }
    }
}

/// Text of a span in the largest unit without a fraction.
pub(crate) fn exact(span: Span) -> String {
    let ns = span.as_nanos();
    match [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000)]
        .iter()
        .find(|(_, unit)| ns.is_multiple_of(*unit))
    {
        Some((name, unit)) => format!("{}{name}", ns / unit),
        None => format!("{ns}ns"),
    }
}

#[cfg(test)]
mod tests;
