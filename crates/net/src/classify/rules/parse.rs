//! From TOML to rules, with every complaint at its line.

use std::net::IpAddr;
use std::ops::Range as Bytes;

use queueing::{Priority, Span};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::condition::{Cidr, Conditions, Http, METHOD_LEN_MAX, Range, bits, loss_order};
use super::{Policy, PolicyError, Rule};
use crate::classify::{Layer, Verdict};

type Result<T> = std::result::Result<T, PolicyError>;

/// One `key = value`, and where it stands.
struct Item<'t, 'v> {
    text: &'t str,
    key: &'v str,
    key_at: Bytes<usize>,
    value: &'v DeValue<'v>,
    value_at: Bytes<usize>,
}

pub(super) fn policy(text: &str) -> Result<Policy> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line(text, span.start));
        PolicyError { line, message: error.message().trim().to_owned() }
    })?;
    let mut policy = Policy { rules: Vec::new(), default: None };
    let mut lines = Vec::new();
    for item in items(text, table.get_ref()) {
        match (item.key, item.value) {
            ("default", _) => policy.default = Some(item.level()?),
            ("rule", DeValue::Array(rules)) => {
                for rule in rules.iter() {
                    lines.push(line(text, rule.span().start));
                    let parsed = self::rule(text, rule, policy.rules.len() + 1)?;
                    policy.rules.push(parsed);
                }
            }
            ("rule", _) => return item.fail("`rule` is not a list: write [[rule]] before each rule"),
            _ => return item.unknown("a policy", &["default", "rule"]),
        }
    }
    if policy.default.is_none() && policy.rules.is_empty() {
        return Err(PolicyError {
            line: 1,
            message: "the policy has neither a [[rule]] nor a default".to_owned(),
        });
    }
    for (i, later) in policy.rules.iter().enumerate() {
        let mut earlier = policy.rules[..i].iter().filter(|rule| rule.layer == later.layer);
        if let Some(first) = earlier.find(|rule| rule.conditions.cover(&later.conditions)) {
            let message = format!(
                "rule {:?} can never be reached: rule {:?} before it matches everything that it matches; \
                 put it first or narrow the other",
                later.name, first.name
            );
            return Err(PolicyError { line: lines[i], message });
        }
    }
    Ok(policy)
}

const RULE_KEYS: [&str; 13] = [
    "name", "layer", "port", "source", "dscp", "length", "bytes", "http", "received", "rtt", "loss",
    "priority", "drop",
];

fn rule(text: &str, rule: &Spanned<DeValue<'_>>, number: usize) -> Result<Rule> {
    let fail = |message: String| Err(PolicyError { line: line(text, rule.span().start), message });
    let DeValue::Table(table) = rule.get_ref() else {
        return fail("a rule is a table: write [[rule]]".to_owned());
    };
    let (mut name, mut layer, mut verdict) = (format!("rule {number}"), None, None);
    let mut conditions = Conditions::default();
    let items = items(text, table);
    for item in &items {
        match item.key {
            "name" => name = item.string("a name in quotes")?.to_owned(),
            "layer" => {
                layer = Some(match item.value.as_str() {
                    Some("driver") => Layer::Driver,
                    Some("transport") => Layer::Transport,
                    _ => {
                        return item
                            .fail(format!("layer {} is neither \"driver\" nor \"transport\"", item.shown()));
                    }
                });
            }
            "port" => conditions.port = Some(item.range(&PORT)?),
            "source" => conditions.source = Some(item.cidr()?),
            "dscp" => conditions.dscp = Some(item.range(&DSCP)?),
            "length" => conditions.length = Some(item.range(&LENGTH)?),
            "bytes" => conditions.bytes = Some(item.bytes()?),
            "http" => conditions.http = Some(item.http()?),
            "received" => conditions.received = Some(item.range(&RECEIVED)?),
            "rtt" => conditions.rtt = Some(item.range(&RTT)?),
            "loss" => conditions.loss = Some(item.range(&LOSS)?),
            "priority" | "drop" if verdict.is_some() => {
                return item.fail("a rule has either `priority` or `drop`, not both");
            }
            "priority" => verdict = Some(Verdict::Level(item.level()?)),
            "drop" if item.value.as_bool() == Some(true) => verdict = Some(Verdict::Drop),
            "drop" => {
                return item.fail(format!("drop {} is not true; leave it out to keep packets", item.shown()));
            }
            _ => return item.unknown("a rule", &RULE_KEYS),
        }
    }
    let Some(layer) = layer else {
        return fail(format!("{name} has no layer; add layer = \"driver\" or layer = \"transport\""));
    };
    let Some(verdict) = verdict else {
        return fail(format!("{name} decides nothing; add priority = 0..7 or drop = true"));
    };
    let hidden: &[&str] = match layer {
        Layer::Driver => &["received", "rtt", "loss"],
        Layer::Transport => &["dscp"],
    };
    if let Some(item) = items.iter().find(|item| hidden.contains(&item.key)) {
        let other = if layer == Layer::Driver { Layer::Transport } else { Layer::Driver };
        return item.fail(format!(
            "`{}` cannot be seen at layer = \"{layer}\"; it is known at layer = \"{other}\"",
            item.key
        ));
    }
    Ok(Rule { name, layer, conditions, verdict })
}

/// A quantity that conditions compare.
struct Quantity {
    min: u64,
    max: u64,
    /// How one value is written.
    read: fn(&str) -> Option<u64>,
    /// Whether one value alone makes sense, and not only a comparison.
    exact: bool,
    valid: &'static str,
}

fn number(text: &str) -> Option<u64> {
    text.parse().ok()
}

const PORT: Quantity = Quantity {
    min: 1,
    max: 65_535,
    read: number,
    exact: true,
    valid: "1..=65535, such as 80 or \"8000-8099\"",
};
const DSCP: Quantity =
    Quantity { min: 0, max: 63, read: number, exact: true, valid: "0..=63, such as 46 or \"40-46\"" };
const LENGTH: Quantity =
    Quantity { min: 0, max: 65_535, read: number, exact: true, valid: "0..=65535 bytes, such as \"> 1000\"" };
const RECEIVED: Quantity = Quantity {
    min: 0,
    max: u64::MAX,
    read: byte_count,
    exact: false,
    valid: "a comparison of bytes (B, kB, MB, GB, KiB, MiB, GiB), such as \"> 1MB\"",
};
const RTT: Quantity = Quantity {
    min: 0,
    max: u64::MAX,
    read: |text| text.parse().ok().map(Span::as_nanos),
    exact: false,
    valid: "a comparison of time (ns, us, ms, s), such as \"> 50ms\"",
};
const LOSS: Quantity = Quantity {
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

impl<'v> Item<'_, 'v> {
    fn fail<T>(&self, message: impl Into<String>) -> Result<T> {
        Err(PolicyError { line: line(self.text, self.value_at.start), message: message.into() })
    }

    fn unknown<T>(&self, of: &str, valid: &[&str]) -> Result<T> {
        let message = format!("unknown key `{}` in {of}; valid: {}", self.key, valid.join(", "));
        Err(PolicyError { line: line(self.text, self.key_at.start), message })
    }

    /// The value as it was written.
    fn shown(&self) -> &str {
        self.text.get(self.value_at.clone()).unwrap_or_default()
    }

    fn level(&self) -> Result<u8> {
        match integer(self.value).and_then(|n| u8::try_from(n).ok()).and_then(Priority::new) {
            Some(priority) => Ok(priority.level()),
            None => self.fail(format!("{} {} is outside 0..=7", self.key, self.shown())),
        }
    }

    fn string(&self, valid: &str) -> Result<&'v str> {
        match self.value.as_str() {
            Some(text) => Ok(text),
            None => self.fail(format!("{} {} is not {valid}", self.key, self.shown())),
        }
    }

    fn range(&self, quantity: &Quantity) -> Result<Range> {
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

    /// `{ min = 5, max = 9 }`; an end that is left out is open.
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

    fn cidr(&self) -> Result<Cidr> {
        let text = self.string("an address in quotes, such as \"10.0.0.0/8\"")?;
        let (addr, prefix) = text.split_once('/').map_or((text, None), |(addr, len)| (addr, Some(len)));
        let addr = addr.parse::<IpAddr>().ok();
        let len_max = if addr.is_some_and(|addr| addr.is_ipv6()) { 128 } else { 32 };
        let prefix = prefix.map_or(Some(len_max), |len| len.parse().ok().filter(|len| *len <= len_max));
        let (Some(addr), Some(prefix)) = (addr, prefix) else {
            return self.fail(format!("source {text:?} is not an IP prefix, such as \"10.0.0.0/8\""));
        };
        let cidr = Cidr::new(addr, prefix);
        if cidr.net != bits(addr) {
            let net = cidr.addr();
            return self.fail(format!(
                "source {text:?} has bits set behind its prefix; {net}/{prefix} would be valid"
            ));
        }
        Ok(cidr)
    }

    fn bytes(&self) -> Result<(usize, Vec<u8>)> {
        let (mut offset, mut bytes) = (0, None);
        for item in self.table("bytes = { offset = 0, equals = \"GW\" }")? {
            match item.key {
                "offset" => match integer(item.value).filter(|n| (0..=65_535).contains(n)) {
                    Some(n) => offset = n as usize,
                    None => return item.fail(format!("offset {} is outside 0..=65535", item.shown())),
                },
                "equals" | "hex" if bytes.is_some() => {
                    return item.fail("bytes has either `equals` or `hex`, not both");
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
                _ => return item.unknown("bytes", &["offset", "equals", "hex"]),
            }
        }
        match bytes.filter(|bytes| !bytes.is_empty()) {
            Some(bytes) => Ok((offset, bytes)),
            None => self.fail("bytes compares with nothing; add equals = \"GW\" or hex = \"4757\""),
        }
    }

    fn http(&self) -> Result<Http> {
        let mut http = Http { method: None, path: None };
        for item in self.table("http = { method = \"GET\", path = \"/api\" }")? {
            match item.key {
                "method" => {
                    let method = item.string("a method in quotes, such as \"GET\"")?;
                    let letters = method.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'-');
                    if !letters || !(1..=METHOD_LEN_MAX).contains(&method.len()) {
                        return item.fail(format!(
                            "method {method:?} is not 1 to 16 capital letters, such as \"GET\""
                        ));
                    }
                    http.method = Some(method.to_owned());
                }
                "path" => {
                    let path = item.string("a path in quotes, such as \"/api\"")?;
                    if !path.starts_with('/') || path.contains(|c: char| c.is_whitespace() || c.is_control())
                    {
                        return item
                            .fail(format!("path {path:?} does not start with / or has a space in it"));
                    }
                    http.path = Some(path.to_owned());
                }
                _ => return item.unknown("http", &["method", "path"]),
            }
        }
        if http.method.is_none() && http.path.is_none() {
            return self.fail("http asks for nothing; add method = \"GET\" or path = \"/api\"");
        }
        Ok(http)
    }

    fn table(&self, valid: &str) -> Result<Vec<Item<'_, 'v>>> {
        match self.value {
            DeValue::Table(table) => Ok(items(self.text, table)),
            _ => self.fail(format!("{} {} is not a table, such as {valid}", self.key, self.shown())),
        }
    }
}

/// The entries of `table` in the order in which they were written.
fn items<'t, 'v>(text: &'t str, table: &'v DeTable<'_>) -> Vec<Item<'t, 'v>> {
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

fn integer(value: &DeValue<'_>) -> Option<i64> {
    match value {
        DeValue::Integer(n) => i64::from_str_radix(n.as_str(), n.radix()).ok(),
        _ => None,
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u8>> = text.chars().map(|c| c.to_digit(16).map(|digit| digit as u8)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

fn line(text: &str, at: usize) -> usize {
    1 + text.as_bytes().iter().take(at).filter(|&&byte| byte == b'\n').count()
}
