//! Fault rates of a path, and their textual form.

use std::fmt;
use std::str::FromStr;

use queueing::Span;

/// Fault rates of a path; probabilities are per frame, 0 to 1.
///
/// ```
/// use net::device::fault_injector::Rates;
/// let rates: Rates = "loss=1%,reorder=5%,delay=10ms..12ms,duplicate=0.1%,corrupt=0.01%".parse()?;
/// assert_eq!(rates.loss, 0.01);
/// let error = "lots=1%".parse::<Rates>().unwrap_err();
/// assert!(error.to_string().starts_with("fault \"lots=1%\" is not one of loss=P"));
/// # Ok::<(), net::device::fault_injector::BadRates>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rates {
    /// Probability of a loss: `loss=1%`.
    pub loss: f64,
    /// Losses in bursts: `burst=0.1%/25%`.
    pub burst: Option<BurstLoss>,
    /// Probability of a duplicate: `duplicate=0.1%`.
    pub duplicate: f64,
    /// Probability of one flipped bit: `corrupt=0.01%`.
    pub corrupt: f64,
    /// Probability of a delay that lets later frames overtake: `reorder=5%`.
    pub reorder: f64,
    /// Upper bound of that delay, uniformly distributed from 0: `late=1ms`.
    pub late: Span,
    /// Bounds of each frame's delay, uniformly distributed: `delay=10ms` or `delay=10ms..12ms`. It
    /// does not reorder frames.
    pub delay: (Span, Span),
}

/// Losses in bursts: the model of Gilbert (Bell System Technical Journal, 1960) and Elliott (1963),
/// with [`Rates::loss`] outside bursts and all frames lost within them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BurstLoss {
    /// Probability that a burst begins with a frame.
    pub begin: f64,
    /// Probability per frame of a burst that the burst ends after it.
    pub end: f64,
}

impl Rates {
    /// A path without faults.
    pub const NONE: Self = Self {
        loss: 0.0,
        burst: None,
        duplicate: 0.0,
        corrupt: 0.0,
        reorder: 0.0,
        late: Span::from_millis(1),
        delay: (Span::ZERO, Span::ZERO),
    };
}

impl Default for Rates {
    fn default() -> Self {
        Self::NONE
    }
}

/// Error of parsing fault rates.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BadRates {
    /// Unknown fault.
    Unknown(String),
    /// Known fault with an invalid amount.
    Amount {
        /// The text given.
        input: String,
        /// Description of valid amounts.
        valid: &'static str,
    },
}

impl fmt::Display for BadRates {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(input) => write!(
                f,
                "fault {input:?} is not one of loss=P, burst=P/P, duplicate=P, corrupt=P, reorder=P, \
                 late=SPAN, delay=SPAN, delay=SPAN..SPAN (P such as 1%, SPAN such as 10ms)"
            ),
            Self::Amount { input, valid } => write!(f, "fault {input:?} needs {valid}"),
        }
    }
}

impl std::error::Error for BadRates {}

/// `loss=1%,reorder=5%,delay=10ms..12ms`: faults in any order; others do not occur.
impl FromStr for Rates {
    type Err = BadRates;
    fn from_str(text: &str) -> Result<Self, BadRates> {
        let mut rates = Self::NONE;
        for input in text.split(',').map(str::trim) {
            let unknown = || BadRates::Unknown(input.to_owned());
            let (name, amount) = input.split_once('=').ok_or_else(unknown)?;
            let read = match name {
                "loss" => chance(amount).map(|p| rates.loss = p),
                "burst" => burst(amount).map(|burst| rates.burst = Some(burst)),
                "duplicate" => chance(amount).map(|p| rates.duplicate = p),
                "corrupt" => chance(amount).map(|p| rates.corrupt = p),
                "reorder" => chance(amount).map(|p| rates.reorder = p),
                "late" => amount.parse().ok().map(|late| rates.late = late),
                "delay" => delay(amount).map(|delay| rates.delay = delay),
                _ => return Err(unknown()),
            };
            let valid = match name {
                "burst" => "how likely it begins and ends at a frame, such as burst=0.1%/25%",
                "late" => "a span with its unit (ns, us, ms, s), such as late=1ms",
                "delay" => "a span or a range from small to large, such as delay=10ms..12ms",
                _ => "a share from 0% to 100%, such as 0.1%",
            };
            read.ok_or_else(|| BadRates::Amount { input: input.to_owned(), valid })?;
        }
        Ok(rates)
    }
}

/// `1%` is 0.01.
fn chance(text: &str) -> Option<f64> {
    let percent: f64 = text.strip_suffix('%')?.parse().ok()?;
    (0.0..=100.0).contains(&percent).then_some(percent / 100.0)
}

fn burst(text: &str) -> Option<BurstLoss> {
    let (begin, end) = text.split_once('/')?;
    Some(BurstLoss { begin: chance(begin)?, end: chance(end)? })
}

fn delay(text: &str) -> Option<(Span, Span)> {
    let (least, most) = text.split_once("..").unwrap_or((text, text));
    let (least, most) = (least.parse().ok()?, most.parse().ok()?);
    (least <= most).then_some((least, most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_has_a_text() {
        let text =
            "loss=1%, burst=0.5%/25%,duplicate=0.1%,corrupt=0.01%,reorder=5%,late=300us,delay=10ms..12ms";
        let expected = Rates {
            loss: 0.01,
            burst: Some(BurstLoss { begin: 0.005, end: 0.25 }),
            duplicate: 0.001,
            corrupt: 0.0001,
            reorder: 0.05,
            late: Span::from_micros(300),
            delay: (Span::from_millis(10), Span::from_millis(12)),
        };
        assert_eq!(text.parse(), Ok(expected));
        let ten = (Span::from_millis(10), Span::from_millis(10));
        assert_eq!("delay=10ms".parse(), Ok(Rates { delay: ten, ..Rates::NONE }));
    }

    #[test]
    fn errors_contain_the_given_and_the_valid_values() {
        let error = |text: &str| text.parse::<Rates>().unwrap_err().to_string();
        let share = "needs a share from 0% to 100%, such as 0.1%";
        for input in ["loss=101%", "duplicate=-1%", "corrupt=NaN%", "reorder=5"] {
            assert_eq!(error(input), format!("fault {input:?} {share}"));
        }
        let burst = "needs how likely it begins and ends at a frame, such as burst=0.1%/25%";
        assert_eq!(error("loss=1%,burst=5%"), format!("fault \"burst=5%\" {burst}"));
        let delay = "needs a span or a range from small to large, such as delay=10ms..12ms";
        for input in ["delay=10", "delay=12ms..10ms", "delay=..1ms"] {
            assert_eq!(error(input), format!("fault {input:?} {delay}"));
        }
        for input in ["", "lossy", "lost=1%", "loss=1%,,late=1ms"] {
            assert!(error(input).contains("is not one of loss=P"), "{input:?}: {}", error(input));
        }
    }
}
