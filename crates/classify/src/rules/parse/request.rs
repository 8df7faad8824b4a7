//! Parser of request conditions and of message framing.

use std::sync::Arc;

use super::super::pattern::{HttpPattern, METHOD_LEN_MAX, Pattern};
use super::super::request_match::{Field, RequestCondition, RequestMatch, ServerName, Value};
use super::Result;
use super::item::{Item, integer};
use crate::l7::framing::{FrameLength, LOOK_BYTES_MAX, MARK_BYTES_MAX};
use crate::l7::{KEY_BYTES_MAX, L7Protocol, MessageLayout};

impl Item<'_, '_> {
    /// Condition on requests of `protocol`.
    pub(super) fn request(&self, protocol: L7Protocol) -> Result<RequestMatch> {
        let condition = match (self.value.as_str(), &protocol) {
            (Some("any"), _) => RequestCondition::Any,
            (_, L7Protocol::Http) => {
                let (start, fields) = self.http(true)?;
                RequestCondition::Http { start, fields }
            }
            (_, L7Protocol::Resp | L7Protocol::Memcached) => self.command()?,
            (_, L7Protocol::Tls) => RequestCondition::Server(self.server()?),
            (_, L7Protocol::Message(layout)) => {
                let (at, bytes) = self.bytes()?;
                let end = at + bytes.len();
                if end > layout.shown_len {
                    return self.fail(format!(
                        "{} reads byte {end} of a message; valid: the first {LOOK_BYTES_MAX} bytes",
                        self.key
                    ));
                }
                RequestCondition::Bytes(Pattern::At(at, bytes.into()))
            }
        };
        Ok(RequestMatch { protocol, condition })
    }

    /// Start of a request line, and header fields if `sees_headers`.
    pub(super) fn http(&self, sees_headers: bool) -> Result<(HttpPattern, Vec<Field>)> {
        let (mut http, mut fields) = (HttpPattern { method: None, path: None }, Vec::new());
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
                "header" if sees_headers => {
                    for text in item.strings("a header in quotes, such as \"x-tier: gold\", or a list")? {
                        let Some(field) = field(text) else {
                            return item.fail(format!(
                                "header {text:?} is not a name, or \"name: value\", such as \"x-tier: gold\""
                            ));
                        };
                        fields.push(field);
                    }
                }
                "header" => {
                    return item.fail(
                        "`header` is not available at layer = \"driver\"; valid: layer = \"transport\"",
                    );
                }
                _ => return item.unknown("http", &["method", "path", "header"]),
            }
        }
        if http.method.is_none() && http.path.is_none() && fields.is_empty() {
            return self.fail("http has no condition; add method = \"GET\" or path = \"/api\"");
        }
        Ok((http, fields))
    }

    fn command(&self) -> Result<RequestCondition> {
        let (mut verbs, mut key) = (Vec::new(), None);
        for item in self.table(&format!("{} = {{ verb = \"get\" }}, or \"any\"", self.key))? {
            match item.key {
                "verb" => {
                    for verb in item.strings("a verb in quotes, such as \"get\", or a list of some")? {
                        let letters = verb.bytes().all(|byte| byte.is_ascii_graphic());
                        if !letters || !(1..=KEY_BYTES_MAX / 4).contains(&verb.len()) {
                            return item.fail(format!(
                                "verb {verb:?} is not 1 to 64 letters without a space, such as \"get\""
                            ));
                        }
                        verbs.push(verb.to_owned());
                    }
                }
                "key" => {
                    let text = item.string("the start of a key in quotes, such as \"session:\"")?;
                    if !(1..=KEY_BYTES_MAX).contains(&text.len()) {
                        return item.fail(format!("key {text:?} is not 1 to {KEY_BYTES_MAX} bytes"));
                    }
                    key = Some(text.to_owned());
                }
                _ => return item.unknown(self.key, &["verb", "key"]),
            }
        }
        if verbs.is_empty() && key.is_none() {
            let what = self.key;
            return self.fail(format!(
                "{what} has no condition; add verb = \"get\" or key = \"session:\", or write {what} = \"any\""
            ));
        }
        Ok(RequestCondition::Command { verbs, key })
    }

    fn server(&self) -> Result<ServerName> {
        let mut server = None;
        for item in self.table("tls = { sni = \"shop.example\" }")? {
            match item.key {
                "sni" => {
                    let text = item.string("a name in quotes, such as \"shop.example\"")?;
                    let (below, name) = match text.strip_prefix("*.") {
                        Some(name) => (true, name),
                        None => (false, text),
                    };
                    let sound = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
                    if !name.bytes().all(sound) || !(1..=255).contains(&name.len()) {
                        return item.fail(format!(
                            "sni {text:?} is not a name such as \"shop.example\" or \"*.example\""
                        ));
                    }
                    server = Some(ServerName { name: name.to_ascii_lowercase(), below });
                }
                _ => return item.unknown("tls", &["sni"]),
            }
        }
        match server {
            Some(server) => Ok(server),
            None => self.fail("tls has no condition; add sni = \"shop.example\", or write tls = \"any\""),
        }
    }

    /// Framing of custom messages.
    pub(super) fn layout(&self) -> Result<Arc<MessageLayout>> {
        let (mut at, mut bytes, mut adds, mut end) = (None, 4, 0, None);
        let (mut kind_at, mut kind_bytes) = (0, 1);
        for item in self.table("[message] with length_at = 8 or end = \"\\n\"")? {
            match item.key {
                "length_at" => at = Some(item.count(0..=LOOK_BYTES_MAX - 8)?),
                "length_bytes" => bytes = item.count(1..=8)?,
                "length_adds" => match integer(item.value).and_then(|n| u64::try_from(n).ok()) {
                    Some(n) => adds = n,
                    None => return item.fail(format!("length_adds {} is not 0 or more", item.shown())),
                },
                "end" => {
                    let text = item.string("the bytes behind each message in quotes, such as \"\\n\"")?;
                    if !(1..=MARK_BYTES_MAX).contains(&text.len()) {
                        return item.fail(format!("end {text:?} is not 1 to {MARK_BYTES_MAX} bytes"));
                    }
                    end = Some(text.as_bytes());
                }
                "kind_at" => kind_at = item.count(0..=LOOK_BYTES_MAX - 8)?,
                "kind_bytes" => kind_bytes = item.count(1..=8)?,
                _ => return item.unknown("[message]", &MESSAGE_KEYS),
            }
        }
        let extent = match (at, end) {
            (Some(at), None) => FrameLength::Length { at, bytes, adds },
            (None, Some(end)) => FrameLength::Mark(end.into()),
            _ => return self.fail("[message] has either `length_at` or `end`, such as length_at = 8"),
        };
        Ok(Arc::new(MessageLayout { extent, kind: (kind_at, kind_bytes), shown_len: LOOK_BYTES_MAX }))
    }
}

const MESSAGE_KEYS: [&str; 6] = ["length_at", "length_bytes", "length_adds", "end", "kind_at", "kind_bytes"];

/// Parses `name`, `name: value` or `name: prefix*`.
fn field(text: &str) -> Option<Field> {
    let (name, value) = match text.split_once(':') {
        Some((name, value)) => (name, Some(value.trim())),
        None => (text, None),
    };
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    if name.is_empty() || !name.bytes().all(is_token) {
        return None;
    }
    let value = value.map(|value| match value.strip_suffix('*') {
        Some(start) => Value { text: start.to_owned(), prefix: true },
        None => Value { text: value.to_owned(), prefix: false },
    });
    Some(Field { name: name.to_owned(), value })
}
