//! One `key = value` of a policy, with errors that name its line.

use std::net::IpAddr;
use std::ops::{Range as Bytes, RangeInclusive};

use queueing::Priority;
use toml::de::{DeTable, DeValue};

use super::super::PolicyError;
use super::super::condition::{Cidr, bits};
use super::Result;

/// One `key = value` and its position.
pub(super) struct Item<'t, 'v> {
    pub(super) text: &'t str,
    pub(super) key: &'v str,
    pub(super) key_at: Bytes<usize>,
    pub(super) value: &'v DeValue<'v>,
    pub(super) value_at: Bytes<usize>,
}

impl<'v> Item<'_, 'v> {
    pub(super) fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(PolicyError { line: line(self.text, self.value_at.start), message: message.into() })
    }

    pub(super) fn unknown<T>(&self, of: &str, valid: &[&str]) -> Result<T> {
        let message = format!("unknown key `{}` in {of}; valid: {}", self.key, valid.join(", "));
        Err(PolicyError { line: line(self.text, self.key_at.start), message })
    }

    /// Value as written.
    pub(super) fn shown(&self) -> &str {
        self.text.get(self.value_at.clone()).unwrap_or_default()
    }

    pub(super) fn level(&self) -> Result<u8> {
        match integer(self.value).and_then(|n| u8::try_from(n).ok()).and_then(Priority::new) {
            Some(priority) => Ok(priority.level()),
            None => self.fail(format!("{} {} is outside 0..=7", self.key, self.shown())),
        }
    }

    pub(super) fn string(&self, valid: &str) -> Result<&'v str> {
        match self.value.as_str() {
            Some(text) => Ok(text),
            None => self.fail(format!("{} {} is not {valid}", self.key, self.shown())),
        }
    }

    /// One string, or a list of strings.
    pub(super) fn strings(&self, valid: &str) -> Result<Vec<&'v str>> {
        let texts = match self.value {
            DeValue::Array(values) => values.iter().map(|value| value.get_ref().as_str()).collect(),
            value => value.as_str().map(|text| vec![text]),
        };
        match texts.filter(|texts: &Vec<_>| !texts.is_empty()) {
            Some(texts) => Ok(texts),
            None => self.fail(format!("{} {} is not {valid}", self.key, self.shown())),
        }
    }

    /// Integer in `valid`.
    pub(super) fn count(&self, valid: RangeInclusive<usize>) -> Result<usize> {
        match integer(self.value).and_then(|n| usize::try_from(n).ok()).filter(|n| valid.contains(n)) {
            Some(n) => Ok(n),
            None => self.fail(format!("{} {} is outside {valid:?}", self.key, self.shown())),
        }
    }

    pub(super) fn cidrs(&self) -> Result<Vec<Cidr>> {
        let all = self.strings("an address in quotes, such as \"10.0.0.0/8\", or a list")?;
        all.into_iter().map(|text| self.cidr_of(text)).collect()
    }

    pub(super) fn cidr(&self) -> Result<Cidr> {
        self.cidr_of(self.string("an address in quotes, such as \"10.0.0.0/8\"")?)
    }

    fn cidr_of(&self, text: &str) -> Result<Cidr> {
        let key = self.key;
        let (addr, prefix) = text.split_once('/').map_or((text, None), |(addr, len)| (addr, Some(len)));
        let addr = addr.parse::<IpAddr>().ok();
        let len_max = if addr.is_some_and(|addr| addr.is_ipv6()) { 128 } else { 32 };
        let prefix = prefix.map_or(Some(len_max), |len| len.parse().ok().filter(|len| *len <= len_max));
        let (Some(addr), Some(prefix)) = (addr, prefix) else {
            return self.fail(format!("{key} {text:?} is not an IP prefix, such as \"10.0.0.0/8\""));
        };
        let cidr = Cidr::new(addr, prefix);
        if cidr.net != bits(addr) {
            let net = cidr.addr();
            return self.fail(format!("{key} {text:?} has bits set after its prefix; valid: {net}/{prefix}"));
        }
        Ok(cidr)
    }

    pub(super) fn bytes(&self) -> Result<(usize, Vec<u8>)> {
        let (mut offset, mut bytes) = (0, None);
        for item in self.table(&format!("{} = {{ offset = 0, equals = \"GW\" }}", self.key))? {
            match item.key {
                "offset" => match integer(item.value).filter(|n| (0..=65_535).contains(n)) {
                    Some(n) => offset = n as usize,
                    None => return item.fail(format!("offset {} is outside 0..=65535", item.shown())),
                },
                "equals" | "hex" if bytes.is_some() => {
                    return item.fail(format!("{} has either `equals` or `hex`, not both", self.key));
                }
                "equals" => bytes = Some(item.string("text in quotes")?.as_bytes().to_vec()),
                "hex" => match unhex(item.string("hex digits in quotes, such as \"4757\"")?) {
                    Some(unhexed) => bytes = Some(unhexed),
                    None => {
                        return item.fail(format!(
                            "hex {} is not pairs of hex digits, such as \"4757\"",
                            item.shown()
                        ));
                    }
                },
                _ => return item.unknown(self.key, &["offset", "equals", "hex"]),
            }
        }
        match bytes.filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => Ok((offset, bytes)),
            None => self
                .fail(format!("{} has nothing to compare; add equals = \"GW\" or hex = \"4757\"", self.key)),
        }
    }

    pub(super) fn table(&self, valid: &str) -> Result<Vec<Item<'_, 'v>>> {
        match self.value {
            DeValue::Table(table) => Ok(items(self.text, table)),
            _ => self.fail(format!("{} {} is not a table, such as {valid}", self.key, self.shown())),
        }
    }
}

/// Entries of `table` in the order of the text.
pub(super) fn items<'t, 'v>(text: &'t str, table: &'v DeTable<'_>) -> Vec<Item<'t, 'v>> {
    let mut items: Vec<_> = table
        .iter()
        .map(|(key, value)| Item {
            text,
            key: key.get_ref(),
            key_at: key.span(),
            value: value.get_ref(),
            value_at: value.span(),
        })
        .collect();
    items.sort_by_key(|item| item.key_at.start);
    items
}

pub(super) fn integer(value: &DeValue<'_>) -> Option<i64> {
    match value {
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok(),
        _ => None,
    }
}

pub(super) fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

pub(super) fn line(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count()
}
