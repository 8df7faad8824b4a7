//! Rates as text, in the notation of Linux's `tc`.

use std::fmt;
use std::str::FromStr;

use super::Rate;

/// Units and their bits per second.
const RATE_UNITS: [(&str, u64); 5] =
    [("tbit", 1_000_000_000_000), ("gbit", 1_000_000_000), ("mbit", 1_000_000), ("kbit", 1_000), ("bit", 1)];

/// In the largest unit that leaves a whole number or at most three decimals: `9.5gbit`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let fits = |&&(_, bits): &&(&str, u64)| self.0 >= bits && (self.0 * 1_000).is_multiple_of(bits);
        let (unit, bits) = RATE_UNITS.iter().find(fits).unwrap_or(&RATE_UNITS[4]);
        f.pad(&format!("{}{unit}", self.0 as f64 / *bits as f64))
    }
}

/// Error for a text that is not a rate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseRateError(String);

impl fmt::Display for ParseRateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "rate {:?} is not a number above 0 with a unit (bit, kbit, mbit, gbit, tbit), such as 9.5gbit",
            self.0
        )
    }
}

impl std::error::Error for ParseRateError {}

/// `9.5gbit`, `400mbit`, `64kbit`, per second.
impl FromStr for Rate {
    type Err = ParseRateError;
    fn from_str(text: &str) -> Result<Self, ParseRateError> {
        let bad = || ParseRateError(text.to_owned());
        let split = text.find(|c: char| c != '.' && !c.is_ascii_digit()).ok_or_else(bad)?;
        let (number, unit) = text.split_at(split);
        let number: f64 = number.parse().map_err(|_| bad())?;
        let (_, bits) =
            RATE_UNITS.iter().find(|(known, _)| *known == unit.to_ascii_lowercase()).ok_or_else(bad)?;
        let rate = (number * *bits as f64).round();
        if (1.0..1e18).contains(&rate) { Ok(Self(rate as u64)) } else { Err(bad()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_parse_and_print_alike() {
        for (text, bits) in
            [("9.5gbit", 9_500_000_000), ("400mbit", 400_000_000), ("64kbit", 64_000), ("7bit", 7)]
        {
            let rate = Rate::from_bits_per_sec(bits);
            assert_eq!((text.parse(), rate.to_string()), (Ok(rate), text.to_owned()));
        }
        assert_eq!("1.5Gbit".parse(), Ok(Rate::from_bits_per_sec(1_500_000_000)));
        for text in
            ["", "0gbit", "5", "gbit", "-1gbit", "1.2.3mbit", "1e9bit", "5 gbit", "9999999999tbit", "3gbps"]
        {
            assert!(text.parse::<Rate>().is_err(), "{text:?} is no rate");
        }
    }
}
