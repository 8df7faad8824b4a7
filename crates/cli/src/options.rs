//! Arguments that several commands share, and their parsers.

use std::fmt;
use std::str::FromStr;

use queueing::Span;
use runtime::threads::ThreadSettings;

/// A burst, `300/10ms`: size and period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Burst {
    /// Requests per burst, 1 or more.
    pub size: u64,
    /// From the start of one burst to the next, more than 0.
    pub period: Span,
}

impl FromStr for Burst {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("burst {text:?} is not SIZE/PERIOD with both above 0, such as 300/10ms");
        let (size, period) = text.split_once('/').ok_or_else(bad)?;
        let (size, period) = (size.parse().map_err(|_| bad())?, period.parse().map_err(|_| bad())?);
        if size == 0 || period == Span::ZERO { Err(bad()) } else { Ok(Self { size, period }) }
    }
}

impl fmt::Display for Burst {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} every {}", self.size, self.period)
    }
}

/// `20us`: time that an idle thread polls for work.
pub fn busy_poll(text: &str) -> Result<Span, String> {
    up_to(text, ThreadSettings::SPIN_MAX)
}

/// `30us`: time that responses are collected.
pub fn tx_coalesce(text: &str) -> Result<Span, String> {
    up_to(text, ThreadSettings::HOLD_MAX)
}

/// `20ms`: target waiting time of a request.
pub fn target_delay(text: &str) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|e| format!("{e}"))?;
    let valid = Span::from_micros(100)..=Span::from_secs(10);
    if valid.contains(&span) { Ok(span) } else { Err(format!("{text:?} is outside 100us..=10s")) }
}

fn up_to(text: &str, max: Span) -> Result<Span, String> {
    let span: Span = text.parse().map_err(|e| format!("{e}"))?;
    if span > max { Err(format!("{text:?} is more than {max}")) } else { Ok(span) }
}

/// `10k`, `1M`: a count of 1 or more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count(pub u64);

impl FromStr for Count {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (digits, unit) = match text.strip_suffix(['k', 'K']) {
            Some(digits) => (digits, 1_000),
            None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1_000_000)),
        };
        let count = digits.parse().ok().and_then(|n: u64| n.checked_mul(unit)).filter(|n| *n > 0);
        count.map(Self).ok_or_else(|| format!("{text:?} is not a count above 0, such as 10000, 10k or 1M"))
    }
}

/// Workers of priorities: `low=1,2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Steer {
    /// Levels, as [`sched::dispatch::Steering::from_lists`] names them.
    pub levels: String,
    /// Workers, from 0.
    pub workers: Vec<usize>,
}

impl FromStr for Steer {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("{text:?} is not LEVELS=WORKERS, such as high=0 or 4-7=1,2");
        let (levels, workers) = text.split_once('=').ok_or_else(bad)?;
        let workers = workers.split(',').map(|worker| worker.parse().map_err(|_| bad()));
        Ok(Self { levels: levels.to_owned(), workers: workers.collect::<Result<_, _>>()? })
    }
}

/// 16 unpredictable bytes for a stack's `secret`.
///
/// # Errors
/// The kernel offers no random bytes.
pub fn secret() -> Result<[u8; 16], crate::Error> {
    use std::io::Read;
    let path = std::path::Path::new("/dev/urandom");
    let mut bytes = [0; 16];
    let read = std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut bytes));
    read.map(|()| bytes).map_err(|e| crate::Error::file(path, &e))
}

/// A random hardware address for a device that has none: locally administered, and different each
/// time, so that no stale ARP entry fits it.
///
/// # Errors
/// The errors of [`secret`].
pub fn random_mac() -> Result<[u8; 6], crate::Error> {
    let drawn = secret()?;
    Ok([2, drawn[0] ^ drawn[8], drawn[1], drawn[2], drawn[3], drawn[4]])
}

/// Bytes that depend only on `seed` and `which`, for runs that must replay.
#[must_use]
pub fn secret_of(seed: u64, which: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&seed.to_be_bytes());
    bytes[8..].copy_from_slice(&which.to_be_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bursts_read_as_they_are_written() {
        assert_eq!("300/10ms".parse(), Ok(Burst { size: 300, period: Span::from_millis(10) }));
        for text in ["300", "0/10ms", "300/0ms", "x/10ms", "300/10"] {
            assert!(text.parse::<Burst>().is_err(), "{text:?} is no burst");
        }
    }

    #[test]
    fn counts_may_have_units() {
        for (text, count) in [("1", 1), ("10k", 10_000), ("1M", 1_000_000)] {
            assert_eq!(text.parse(), Ok(Count(count)));
        }
        for text in ["", "0", "k", "-1", "1.5M", "1G", "99999999999999999999", "99999999999999999M"] {
            assert!(text.parse::<Count>().is_err(), "{text:?} is no count");
        }
    }

    #[test]
    fn steering_names_levels_and_lists_workers() {
        let steer = Steer { levels: "4-7".to_owned(), workers: vec![1, 2] };
        assert_eq!("4-7=1,2".parse(), Ok(steer));
        for text in ["low", "low=", "low=1,", "low=1;2", "low=-1", "low=high"] {
            assert!(text.parse::<Steer>().is_err(), "{text:?} steers nothing");
        }
    }
}
