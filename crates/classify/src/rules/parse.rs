//! TOML parser of policies, with errors that name the line.

use std::sync::Arc;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::condition::{Conditions, Range};
use super::matcher::REQUEST_RULES_MAX;
use super::pattern::Pattern;
use super::request_match::RequestCondition;
use super::{Policy, PolicyError, Rule};
use crate::l7::{L7Protocol, MessageLayout};
use crate::{Layer, Verdict};

mod item;
mod quantity;
mod request;

use item::{Item, items, line};
use quantity::{DSCP, LENGTH, LOSS, PORT, RECEIVED, RTT, SERVICE};

type Result<T> = std::result::Result<T, PolicyError>;

pub(super) fn policy(text: &str) -> Result<Policy> {
    let table = DeTable::parse(text).map_err(|error| {
        let line = error.span().map_or(1, |span| line(text, span.start));
        PolicyError { line, message: error.message().trim().to_owned() }
    })?;
    let (mut rules, mut default, mut trusted, mut lines) = (Vec::new(), None, None, Vec::new());
    let items = items(text, table.get_ref());
    let layout = items.iter().find(|item| item.key == "message").map(Item::layout).transpose()?;
    for item in items {
        match (item.key, item.value) {
            ("default", _) => default = Some(item.level()?),
            ("trusted", _) => trusted = Some((line(text, item.value_at.start), item.cidrs()?)),
            ("message", _) => {}
            ("rule", DeValue::Array(all)) => {
                for rule in all.iter() {
                    lines.push(line(text, rule.span().start));
                    rules.push(self::rule(text, rule, rules.len() + 1, layout.as_ref())?);
                }
            }
            ("rule", _) => return item.fail("`rule` is not a list: write [[rule]] before each rule"),
            _ => return item.unknown("a policy", &["default", "trusted", "message", "rule"]),
        }
    }
    if default.is_none() && rules.is_empty() {
        return Err(PolicyError {
            line: 1,
            message: "the policy has neither a [[rule]] nor a default".to_owned(),
        });
    }
    for (i, later) in rules.iter().enumerate() {
        let message = hidden(&rules[..i], later).or_else(|| foreign(&rules[..i], later));
        if let Some(message) = message {
            return Err(PolicyError { line: lines[i], message });
        }
    }
    if let Some(i) =
        (0..rules.len()).filter(|i| rules[*i].conditions.request.is_some()).nth(REQUEST_RULES_MAX)
    {
        let message = format!(
            "rule {:?} is beyond the limit: at most {REQUEST_RULES_MAX} rules may have a request condition",
            rules[i].name
        );
        return Err(PolicyError { line: lines[i], message });
    }
    let reads_http = |rule: &Rule| {
        rule.conditions.request.as_ref().is_some_and(|request| request.protocol == L7Protocol::Http)
    };
    if let Some((line, _)) = trusted.as_ref().filter(|_| !rules.iter().any(reads_http)) {
        let message = "`trusted` is about the field Priority of HTTP requests, which no rule reads; \
                       add a rule with layer = \"transport\" and http = \"any\"";
        return Err(PolicyError { line: *line, message: message.to_owned() });
    }
    if let Some(layout) = layout {
        limit_payload_reads(&mut rules, &layout);
    }
    Ok(Policy::new(rules, default, trusted.map_or(Vec::new(), |(_, trusted)| trusted)))
}

/// Error if an earlier rule hides `later`.
fn hidden(before: &[Rule], later: &Rule) -> Option<String> {
    let mut earlier = before.iter().filter(|rule| rule.layer == later.layer);
    let first = earlier.find(|rule| rule.conditions.cover(&later.conditions))?;
    Some(format!(
        "rule {:?} can never be reached: rule {:?} before it matches everything that it matches; \
         put it first or narrow the other",
        later.name, first.name
    ))
}

/// Error if an earlier rule reads another protocol on the same port.
fn foreign(before: &[Rule], later: &Rule) -> Option<String> {
    let speaks = |rule: &Rule| rule.conditions.request.as_ref().map(|request| request.protocol.clone());
    let ports = |rule: &Rule| rule.conditions.port.unwrap_or(Range::FULL);
    let protocol = speaks(later)?;
    let mut others = before.iter().filter_map(|rule| Some((rule, speaks(rule)?)));
    let (other, spoken) =
        others.find(|(rule, spoken)| *spoken != protocol && ports(rule).meets(ports(later)))?;
    Some(format!(
        "rule {:?} reads {} where rule {:?} reads {}, and a port has one protocol; \
         give each its own port, such as port = 80",
        later.name,
        protocol.name(),
        other.name,
        spoken.name()
    ))
}

/// Limits the reported part of a message to the bytes that rules read.
fn limit_payload_reads(rules: &mut [Rule], layout: &MessageLayout) {
    let bytes_read = |rule: &Rule| match rule.conditions.request.as_ref().map(|request| &request.condition) {
        Some(RequestCondition::Bytes(Pattern::At(at, bytes))) => at + bytes.len(),
        _ => 1,
    };
    let learns = rules.iter().any(|rule| rule.conditions.service.is_some());
    let kind = if learns { layout.kind.0 + layout.kind.1 } else { 1 };
    let shown_len = rules.iter().map(bytes_read).fold(kind, usize::max);
    let layout = Arc::new(MessageLayout { shown_len, ..layout.clone() });
    for request in rules.iter_mut().filter_map(|rule| rule.conditions.request.as_mut()) {
        if let L7Protocol::Message(of_rule) = &mut request.protocol {
            *of_rule = Arc::clone(&layout);
        }
    }
}

const RULE_KEYS: [&str; 18] = [
    "name",
    "layer",
    "port",
    "source",
    "dscp",
    "length",
    "bytes",
    "http",
    "resp",
    "memcached",
    "tls",
    "message",
    "service",
    "received",
    "rtt",
    "loss",
    "priority",
    "drop",
];

fn rule(
    text: &str,
    rule: &Spanned<DeValue<'_>>,
    number: usize,
    layout: Option<&Arc<MessageLayout>>,
) -> Result<Rule> {
    let fail = |message: String| Err(PolicyError { line: line(text, rule.span().start), message });
    let DeValue::Table(table) = rule.get_ref() else {
        return fail("a rule is a table: write [[rule]]".to_owned());
    };
    let (mut name, mut layer, mut verdict) = (format!("rule {number}"), None, None);
    let mut conditions = Conditions::default();
    let items = items(text, table);
    // The meaning of a key depends on the layer.
    let at_driver = items.iter().any(|i| i.key == "layer" && i.value.as_str() == Some("driver"));
    for item in &items {
        let protocol = match item.key {
            "http" if !at_driver => Some(L7Protocol::Http),
            "resp" => Some(L7Protocol::Resp),
            "memcached" => Some(L7Protocol::Memcached),
            "tls" => Some(L7Protocol::Tls),
            "message" => match layout {
                Some(layout) => Some(L7Protocol::Message(Arc::clone(layout))),
                None => {
                    return item.fail(
                        "the framing of messages is missing; add [message] with length_at = 8 or end = \"\\n\"",
                    );
                }
            },
            _ => None,
        };
        match (item.key, protocol) {
            (_, Some(protocol)) => {
                if let Some(other) = &conditions.request {
                    return item.fail(format!(
                        "`{}` and `{}` in one rule: a connection has one protocol",
                        other.protocol.name(),
                        item.key
                    ));
                }
                conditions.request = Some(item.request(protocol)?);
            }
            ("name", _) => name = item.string("a name in quotes")?.to_owned(),
            ("layer", _) => {
                layer = Some(match item.value.as_str() {
                    Some("driver") => Layer::Driver,
                    Some("transport") => Layer::Transport,
                    _ => {
                        return item
                            .fail(format!("layer {} is neither \"driver\" nor \"transport\"", item.shown()));
                    }
                });
            }
            ("port", _) => conditions.port = Some(item.range(&PORT)?),
            ("source", _) => conditions.source = Some(item.cidr()?),
            ("dscp", _) => conditions.dscp = Some(item.range(&DSCP)?),
            ("length", _) => conditions.length = Some(item.range(&LENGTH)?),
            ("bytes", _) => conditions.bytes = Some(item.bytes()?),
            ("http", None) => conditions.http = Some(item.http(false)?.0),
            ("service", _) => conditions.service = Some(item.range(&SERVICE)?),
            ("received", _) => conditions.received = Some(item.range(&RECEIVED)?),
            ("rtt", _) => conditions.rtt = Some(item.range(&RTT)?),
            ("loss", _) => conditions.loss = Some(item.range(&LOSS)?),
            ("priority" | "drop", _) if verdict.is_some() => {
                return item.fail("a rule has either `priority` or `drop`, not both");
            }
            ("priority", _) => verdict = Some(Verdict::Level(item.level()?)),
            ("drop", _) if item.value.as_bool() == Some(true) => verdict = Some(Verdict::Drop),
            ("drop", _) => {
                return item.fail(format!("drop {} is not true; leave it out to keep packets", item.shown()));
            }
            _ => return item.unknown("a rule", &RULE_KEYS),
        }
    }
    let Some(layer) = layer else {
        return fail(format!("{name} has no layer; add layer = \"driver\" or layer = \"transport\""));
    };
    let Some(verdict) = verdict else {
        return fail(format!("{name} has no verdict; add priority = 0..7 or drop = true"));
    };
    let hidden: &[&str] = match layer {
        Layer::Driver => &["received", "rtt", "loss", "resp", "memcached", "tls", "message", "service"],
        Layer::Transport => &["dscp"],
    };
    if let Some(item) = items.iter().find(|item| hidden.contains(&item.key)) {
        let other = if layer == Layer::Driver { Layer::Transport } else { Layer::Driver };
        return item.fail(format!(
            "`{}` is not available at layer = \"{layer}\"; valid: layer = \"{other}\"",
            item.key
        ));
    }
    if let Some(item) = items.iter().find(|item| item.key == "service")
        && conditions.request.as_ref().is_none_or(|request| request.protocol == L7Protocol::Tls)
    {
        return item.fail("`service` needs a request condition in the same rule; add http = \"any\", resp = \"any\", memcached = \"any\" or message = \"any\"");
    }
    Ok(Rule { name, layer, conditions, verdict })
}
