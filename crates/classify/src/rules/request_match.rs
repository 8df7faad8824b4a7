//! Request conditions of rules, for all protocols.

use std::fmt;

use super::pattern::{HttpPattern, Pattern};
use crate::l7::{L7Protocol, RequestHead};

/// Protocol and request condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestMatch {
    pub protocol: L7Protocol,
    pub condition: RequestCondition,
}

/// Condition on a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestCondition {
    /// Any request.
    Any,
    /// HTTP request.
    Http { start: HttpPattern, fields: Vec<Field> },
    /// RESP or memcached command: any of these verbs, in any case, if there are some; and a prefix
    /// of the first key.
    Command { verbs: Vec<String>, key: Option<String> },
    /// TLS connection.
    Server(ServerName),
    /// Message with bytes at an offset.
    Bytes(Pattern),
}

/// Required header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    pub name: String,
    /// Required value; `None` for any.
    pub value: Option<Value>,
}

/// Value of a header field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Value {
    pub text: String,
    /// True if `text` is a prefix.
    pub prefix: bool,
}

/// Server name in lower case; if `below`, all its subdomains (`*.name`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerName {
    pub name: String,
    pub below: bool,
}

impl RequestMatch {
    /// True if `request`, which is of this protocol, fulfils the condition.
    pub fn hold(&self, request: &RequestHead<'_>) -> bool {
        match (&self.condition, request) {
            (RequestCondition::Any, _) => true,
            (RequestCondition::Http { start, fields }, RequestHead::Http { method, path, headers }) => {
                start.method.as_ref().is_none_or(|wanted| wanted == method)
                    && start.path.as_ref().is_none_or(|wanted| path.starts_with(wanted.as_str()))
                    && fields.iter().all(|field| headers.iter().any(|h| field.holds(h.name, h.value)))
            }
            (RequestCondition::Command { verbs, key }, RequestHead::Command { verb, key: given }) => {
                let same = |wanted: &String| wanted.as_bytes().eq_ignore_ascii_case(verb);
                (verbs.is_empty() || verbs.iter().any(same))
                    && key.as_ref().is_none_or(|wanted| given.starts_with(wanted.as_bytes()))
            }
            (RequestCondition::Server(server), RequestHead::ClientHello { name: Some(name) }) => {
                server.holds(name)
            }
            (RequestCondition::Bytes(pattern), RequestHead::Message { bytes }) => pattern.matches(bytes),
            _ => false,
        }
    }

    /// True if every request that fulfils `other` fulfils this condition. False negatives are
    /// possible, false positives are not.
    pub fn cover(&self, other: &Self) -> bool {
        self.protocol == other.protocol && self.condition.cover(&other.condition)
    }
}

impl RequestCondition {
    fn cover(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (Self::Http { start, fields }, Self::Http { start: other_start, fields: other_fields }) => {
                (start.method.is_none() || start.method == other_start.method)
                    && starts(&start.path, &other_start.path)
                    && fields.iter().all(|field| other_fields.iter().any(|their| field.covers(their)))
            }
            (Self::Command { verbs, key }, Self::Command { verbs: other_verbs, key: other_key }) => {
                let known = |verb: &String| verbs.iter().any(|own| own.eq_ignore_ascii_case(verb));
                (verbs.is_empty() || (!other_verbs.is_empty() && other_verbs.iter().all(known)))
                    && starts(key, other_key)
            }
            (Self::Server(this), Self::Server(other)) => {
                this == other || (this.below && is_below(other.name.as_bytes(), &this.name))
            }
            (Self::Bytes(this), Self::Bytes(other)) => this.implied_by(other),
            _ => false,
        }
    }
}

/// True if every text with the prefix `other` has the prefix `this`.
fn starts(this: &Option<String>, other: &Option<String>) -> bool {
    match (this, other) {
        (None, _) => true,
        (Some(this), Some(other)) => other.starts_with(this.as_str()),
        (Some(_), None) => false,
    }
}

impl Field {
    fn holds(&self, name: &str, value: &[u8]) -> bool {
        name.eq_ignore_ascii_case(&self.name)
            && self.value.as_ref().is_none_or(|wanted| {
                let value = value.trim_ascii();
                match wanted.prefix {
                    true => value.starts_with(wanted.text.as_bytes()),
                    false => value == wanted.text.as_bytes(),
                }
            })
    }

    fn covers(&self, other: &Self) -> bool {
        let values = match (&self.value, &other.value) {
            (None, _) => true,
            (Some(this), Some(other)) if this.prefix => other.text.starts_with(&this.text),
            (Some(this), Some(other)) => !other.prefix && this.text == other.text,
            (Some(_), None) => false,
        };
        values && self.name.eq_ignore_ascii_case(&other.name)
    }
}

impl ServerName {
    fn holds(&self, name: &[u8]) -> bool {
        // A name may end with the dot of the DNS root.
        let name = name.strip_suffix(b".").unwrap_or(name);
        if self.below { is_below(name, &self.name) } else { name.eq_ignore_ascii_case(self.name.as_bytes()) }
    }
}

/// True if `name` is a subdomain of `parent`.
fn is_below(name: &[u8], parent: &str) -> bool {
    let Some(at) = name.len().checked_sub(parent.len() + 1) else { return false };
    at > 0 && name[at] == b'.' && name[at + 1..].eq_ignore_ascii_case(parent.as_bytes())
}

impl fmt::Display for RequestCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any request"),
            Self::Http { start, fields } => {
                let start = [start.method.as_deref(), start.path.as_deref()];
                write!(f, "{}", start.into_iter().flatten().collect::<Vec<_>>().join(" "))?;
                fields.iter().try_for_each(|field| match &field.value {
                    None => write!(f, " [{}]", field.name),
                    Some(value) => {
                        let more = if value.prefix { "*" } else { "" };
                        write!(f, " [{}: {}{more}]", field.name, value.text)
                    }
                })
            }
            Self::Command { verbs, key } => {
                let verbs = if verbs.is_empty() { "any verb".to_owned() } else { verbs.join("|") };
                match key {
                    None => f.write_str(&verbs),
                    Some(key) => write!(f, "{verbs} {key}*"),
                }
            }
            Self::Server(server) => write!(f, "{}{}", if server.below { "*." } else { "" }, server.name),
            Self::Bytes(Pattern::At(at, bytes)) => write!(f, "{} at {at}", bytes.escape_ascii()),
            Self::Bytes(Pattern::AfterSpace(bytes)) => write!(f, "{}", bytes.escape_ascii()),
        }
    }
}
