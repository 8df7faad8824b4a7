//! Quantities in rules: ports, lengths, times, shares.

use queueing::Span;
use toml::de::{DeTable, DeValue};

use super::super::condition::{Range, loss_order};
use super::Result;
use super::item::{Item, integer, items};

/// Type of a quantity.
pub(super) struct Quantity {
    min: u64,
    max: u64,
    /// Parser of one value.
    read: fn(&str) -> Option<u64>,
    /// True if a single value is allowed, not only a comparison.
    exact: bool,
    valid: &'static str,
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

pub(super) const PORT: Quantity = Quantity {
    min: 1,
    max: 65_535,
    read: number,
    exact: true,
    valid: "1..=65535, such as 80 or \"8000-8099\"",
};
pub(super) const DSCP: Quantity =
    Quantity { min: 0, max: 63, read: number, exact: true, valid: "0..=63, such as 46 or \"40-46\"" };
pub(super) const LENGTH: Quantity =
    Quantity { min: 0, max: 65_535, read: number, exact: true, valid: "0..=65535 bytes, such as \"> 1000\"" };
pub(super) const RECEIVED: Quantity = Quantity {
    min: 0,
    max: u64::MAX,
    read: byte_count,
    exact: false,
    valid: "a comparison of bytes (B, kB, MB, GB, KiB, MiB, GiB), such as \"> 1MB\"",
};
pub(super) const RTT: Quantity = Quantity {
    min: 0,
    max: u64::MAX,
    read: |text| text.parse().ok().map(Span::as_nanos),
    exact: false,
    valid: "a comparison of time (ns, us, ms, s), such as \"> 50ms\"",
};
/// Expected service time, as [`RTT`].
pub(super) const SERVICE: Quantity =
    Quantity { valid: "a comparison of time (ns, us, ms, s), such as \"> 1ms\"", ..RTT };
pub(super) const LOSS: Quantity = Quantity {
    min: 0,
    max: 1.0f32.to_bits() as u64,
    read: |text| text.parse().ok().filter(|loss: &f32| *loss >= 0.0).map(loss_order),
    exact: false,
    valid: "a comparison of a share 0.0..=1.0, such as \"> 0.01\"",
};

fn byte_count(text: &str) -> Option<u64> {
    let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let scale = match unit.trim() {
        "" | "B" => 1,
        "kB" | "KB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "KiB" => 1 << 10,
        "MiB" => 1 << 20,
        "GiB" => 1 << 30,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(scale)
}

impl Quantity {
    /// Reads `> 5`, `>= 5`, `< 5`, `<= 5`, `5-9` or `5`.
    fn parse(&self, text: &str) -> Option<Range> {
        let text = text.trim();
        let read = |text: &str| (self.read)(text.trim());
        let range = if let Some(value) = text.strip_prefix(">=") {
            Range { min: read(value)?, max: self.max }
        } else if let Some(value) = text.strip_prefix('>') {
            Range { min: read(value)?.checked_add(1)?, max: self.max }
        } else if let Some(value) = text.strip_prefix("<=") {
            Range { min: self.min, max: read(value)? }
        } else if let Some(value) = text.strip_prefix('<') {
            Range { min: self.min, max: read(value)?.checked_sub(1)? }
        } else if let Some((min, max)) = text.split_once('-') {
            Range { min: read(min)?, max: read(max)? }
        } else {
            let value = read(text).filter(|_| self.exact)?;
            Range { min: value, max: value }
        };
        (self.min <= range.min && range.min <= range.max && range.max <= self.max).then_some(range)
    }
}

impl Item<'_, '_> {
    pub(super) fn range(&self, quantity: &Quantity) -> Result<Range> {
        let range = match self.value {
            DeValue::String(text) => quantity.parse(text),
            DeValue::Integer(_) => integer(self.value).and_then(|n| quantity.parse(&n.to_string())),
            DeValue::Table(table) => return self.range_of_ends(table, quantity),
            _ => None,
        };
        match range {
            Some(range) => Ok(range),
            None => self.fail(format!("{} {} is not in {}", self.key, self.shown(), quantity.valid)),
        }
    }

    /// Parses `{ min = 5, max = 9 }`; a missing end is open.
    fn range_of_ends(&self, table: &DeTable<'_>, quantity: &Quantity) -> Result<Range> {
        let mut range = Range { min: quantity.min, max: quantity.max };
        for item in items(self.text, table) {
            let end = match item.key {
                "min" => &mut range.min,
                "max" => &mut range.max,
                _ => return item.unknown(self.key, &["min", "max"]),
            };
            let value = match item.value {
                DeValue::String(text) => (quantity.read)(text.trim()),
                _ => integer(item.value).and_then(|n| (quantity.read)(&n.to_string())),
            };
            match value.filter(|value| (quantity.min..=quantity.max).contains(value)) {
                Some(value) => *end = value,
                None => {
                    return item.fail(format!(
                        "{} {} {} is not in {}",
                        self.key,
                        item.key,
                        item.shown(),
                        quantity.valid
                    ));
                }
            }
        }
        if range.min > range.max {
            return self.fail(format!("{} {} has its min above its max", self.key, self.shown()));
        }
        Ok(range)
    }
}
