//! Open-loop arrival processes: the times at which requests are meant to be sent.
//!
//! The times depend on the process alone, never on responses, and do not drift.
//! Latency counts from them, even if the sender is late.

use std::fmt;
use std::str::FromStr;

use crate::distribution::exact;
use crate::{Rng, Span, Time};

/// Arrival process.
///
/// ```
/// use queueing::{Arrivals, Rng, Span, Time};
/// let bursts: Arrivals = "burst 2 1ms 100ns".parse()?;
/// let at_ns: Vec<_> = bursts.times(Time::ZERO, Rng::seeded(1)).take(4).map(Time::as_nanos).collect();
/// assert_eq!(at_ns, [0, 100, 1_000_000, 1_000_100]);
/// # Ok::<(), queueing::ParseArrivalsError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arrivals {
    /// Poisson arrivals: `poisson 10000` (per second).
    Poisson {
        /// Arrivals per second.
        rate_per_s: f64,
    },
    /// Evenly spaced arrivals: `uniform 10000` (per second).
    Uniform {
        /// Arrivals per second.
        rate_per_s: f64,
    },
    /// All requests of a period back to back, as MCC sends them:
    /// `burst 10000 1s 0ns`.
    Burst {
        /// Requests per burst.
        size: u64,
        /// Distance between the starts of two bursts. A burst longer than this delays
        /// the next.
        period: Span,
        /// Distance between two requests of a burst; with zero the link paces them.
        spacing: Span,
    },
    /// Batches of requests at once, at random times (a Poisson process): `batches 20 10000` (requests per
    /// second).
    Batches {
        /// Requests per batch.
        size: u64,
        /// Requests per second.
        rate_per_s: f64,
    },
}

impl Arrivals {
    /// Intended send times from `start` on, in order. Infinite, or empty if the
    /// rate or the burst size is zero.
    #[must_use]
    pub const fn times(self, start: Time, rng: Rng) -> ArrivalTimes {
        ArrivalTimes { arrivals: self, start, rng, sent: 0, offset_ns: 0.0, burst: start, last: start }
    }

    /// Long-run arrivals per second.
    #[must_use]
    pub fn rate_per_s(&self) -> f64 {
        match *self {
            Self::Poisson { rate_per_s }
            | Self::Uniform { rate_per_s }
            | Self::Batches { rate_per_s, .. } => rate_per_s,
            Self::Burst { size, period, spacing } => size as f64 / period.max(spacing * size).as_secs_f64(),
        }
    }
}

/// Intended send times of an arrival process.
#[derive(Clone, Debug)]
pub struct ArrivalTimes {
    arrivals: Arrivals,
    start: Time,
    rng: Rng,
    sent: u64,
    /// Poisson, batches: time of the last arrival after the start, in ns.
    offset_ns: f64,
    /// Burst: start of the current burst, and its last request.
    burst: Time,
    last: Time,
}

impl Iterator for ArrivalTimes {
    type Item = Time;

    fn next(&mut self) -> Option<Time> {
        let sent = self.sent;
        self.sent += 1;
        match self.arrivals {
            Arrivals::Poisson { rate_per_s } => self.after_random_time(rate_per_s),
            Arrivals::Batches { size, rate_per_s } => match sent.checked_rem(size)? {
                0 => self.after_random_time(rate_per_s / size as f64),
                _ => Some(self.start + Span::from_nanos(self.offset_ns as u64)),
            },
            Arrivals::Uniform { rate_per_s } => {
                if rate_per_s <= 0.0 {
                    return None;
                }
                Some(self.start + Span::from_secs_f64(sent as f64 / rate_per_s))
            }
            Arrivals::Burst { size, period, spacing } => {
                let index = sent.checked_rem(size)?;
                if index == 0 && sent > 0 {
                    self.burst = (self.burst + period).max(self.last + spacing);
                }
                self.last = self.burst + spacing * index;
                Some(self.last)
            }
        }
    }
}

impl ArrivalTimes {
    /// An exponential time after the last arrival, with this mean rate.
    fn after_random_time(&mut self, rate_per_s: f64) -> Option<Time> {
        if rate_per_s <= 0.0 {
            return None;
        }
        self.offset_ns += self.rng.exponential() / rate_per_s * 1e9;
        Some(self.start + Span::from_nanos(self.offset_ns as u64))
    }
}

/// Error for a text that is not an arrival process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseArrivalsError(String);

impl fmt::Display for ParseArrivalsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "arrivals {:?} is not one of: poisson RATE | uniform RATE (per second, more than 0) | \
             burst SIZE PERIOD SPACING (SIZE > 0, PERIOD > 0), such as burst 10000 1s 0ns | \
             batches SIZE RATE (requests per second)",
            self.0
        )
    }
}

impl std::error::Error for ParseArrivalsError {}

/// `poisson 10000`, `uniform 10000`, `burst 10000 1s 0ns`, `batches 20 10000`.
impl FromStr for Arrivals {
    type Err = ParseArrivalsError;
    fn from_str(text: &str) -> Result<Self, ParseArrivalsError> {
        parse(&text.split_whitespace().collect::<Vec<_>>()).ok_or_else(|| ParseArrivalsError(text.to_owned()))
    }
}

fn parse(words: &[&str]) -> Option<Arrivals> {
    let rate = |word: &str| word.parse().ok().filter(|&rate: &f64| rate.is_finite() && rate > 0.0);
    let span = |word: &str| word.parse::<Span>().ok();
    match *words {
        ["poisson", per_s] => Some(Arrivals::Poisson { rate_per_s: rate(per_s)? }),
        ["uniform", per_s] => Some(Arrivals::Uniform { rate_per_s: rate(per_s)? }),
        ["burst", size, period, spacing] => Some(Arrivals::Burst {
            size: size.parse().ok().filter(|&size| size > 0)?,
            period: span(period).filter(|&period| period > Span::ZERO)?,
            spacing: span(spacing)?,
        }),
        ["batches", size, per_s] => Some(Arrivals::Batches {
            size: size.parse().ok().filter(|&size| size > 0)?,
            rate_per_s: rate(per_s)?,
        }),
        _ => None,
    }
}

/// The form that [`FromStr`] parses, without loss.
impl fmt::Display for Arrivals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Poisson { rate_per_s } => write!(f, "poisson {rate_per_s}"),
            Self::Uniform { rate_per_s } => write!(f, "uniform {rate_per_s}"),
            Self::Burst { size, period, spacing } => {
                write!(f, "burst {size} {} {}", exact(period), exact(spacing))
            }
            Self::Batches { size, rate_per_s } => write!(f, "batches {size} {rate_per_s}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(text: &str, n: usize) -> Vec<Time> {
        let arrivals: Arrivals = text.parse().expect(text);
        assert_eq!(arrivals.to_string(), text);
        arrivals.times(Time::from_nanos(500), Rng::seeded(11)).take(n).collect()
    }

    //~ queueing: seeded Poisson, uniform and burst arrivals have the rate and variance of their distribution and replay
    #[test]
    fn poisson_arrivals_have_their_rate_and_vary_as_much_as_their_mean() {
        let times = times("poisson 100000", 200_000);
        let gaps: Vec<f64> = times.windows(2).map(|pair| pair[1].since(pair[0]).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean / 1e-5 - 1.0).abs() < 0.01, "mean {mean}");
        assert!((deviation / mean - 1.0).abs() < 0.02, "deviation {deviation}");
    }

    //~ queueing: seeded Poisson, uniform and burst arrivals have the rate and variance of their distribution and replay
    #[test]
    fn uniform_arrivals_do_not_drift() {
        let times = times("uniform 3", 3_000_001);
        assert_eq!(times[3_000_000], Time::from_nanos(500) + Span::from_secs(1_000_000));
    }

    //~ queueing: seeded Poisson, uniform and burst arrivals have the rate and variance of their distribution and replay
    #[test]
    fn a_burst_is_back_to_back_and_starts_on_its_period() {
        let at: Vec<_> = times("burst 3 1us 10ns", 7).into_iter().map(Time::as_nanos).collect();
        assert_eq!(at, [500, 510, 520, 1500, 1510, 1520, 2500]);
        let at_once: Vec<_> = times("burst 2 1us 0s", 4).into_iter().map(Time::as_nanos).collect();
        assert_eq!(at_once, [500, 500, 1500, 1500]);
    }

    #[test]
    fn a_burst_longer_than_its_period_delays_the_next() {
        let at: Vec<_> = times("burst 3 1us 600ns", 5).into_iter().map(Time::as_nanos).collect();
        assert_eq!(at, [500, 1100, 1700, 2300, 2900]);
    }

    #[test]
    fn the_rate_of_bursts_is_their_size_over_their_period() {
        let arrivals = Arrivals::Burst { size: 500, period: Span::from_millis(10), spacing: Span::ZERO };
        assert_eq!(arrivals.rate_per_s(), 50_000.0);
    }

    //~ queueing: seeded Poisson, uniform and burst arrivals have the rate and variance of their distribution and replay
    #[test]
    fn batches_come_at_once_at_random_times() {
        let times = times("batches 4 100000", 400_000);
        assert!(times.chunks(4).all(|batch| batch.iter().all(|at| at == &batch[0])));
        let gaps = times.chunks(4).map(|batch| batch[0]).collect::<Vec<_>>();
        let gaps: Vec<f64> = gaps.windows(2).map(|pair| pair[1].since(pair[0]).as_secs_f64()).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let deviation = (gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64).sqrt();
        assert!((mean / 4e-5 - 1.0).abs() < 0.01, "mean {mean}");
        assert!((deviation / mean - 1.0).abs() < 0.02, "deviation {deviation}");
    }

    #[test]
    fn processes_without_arrivals_are_refused() {
        for text in [
            "",
            "poisson",
            "poisson 0",
            "poisson -1",
            "uniform inf",
            "burst 0 1s 0ns",
            "burst 1 0s 0ns",
            "batches 0 9",
        ] {
            assert!(text.parse::<Arrivals>().is_err(), "{text:?}");
        }
        let silent = Arrivals::Uniform { rate_per_s: 0.0 };
        assert_eq!(silent.times(Time::ZERO, Rng::seeded(1)).next(), None);
    }
}
