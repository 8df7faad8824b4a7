//! A slow request as a line of OTLP/JSON: one trace with a span for the whole and one for each
//! stage. Pure: identifiers come from a seed, times from the caller.
//!
//! 64-bit numbers are strings, identifiers are hexadecimal, enumerations are numbers, as in the
//! mapping. Source: OpenTelemetry Protocol 1.5 (JSON encoding), W3C Trace Context.

use queueing::{Rng, Span};
use runtime::shard::{RequestEnd, Side, Slow};
use serde_json::{Value, json};

/// Formatter of traces.
#[derive(Debug)]
pub struct Format {
    resource: Value,
    ids: Rng,
}

/// `SpanKind` of an internal span.
const INTERNAL: u8 = 1;
const SERVER: u8 = 2;
const CLIENT: u8 = 3;
/// `Status.code` of an error.
const ERROR: u8 = 2;
/// `Span.flags`: the parent is known to be remote.
const REMOTE_PARENT: u32 = 0x300;

impl Format {
    /// A formatter for the service `name` in process `process`.
    pub fn new(name: &str, process: u32, seed: u64) -> Self {
        let attributes = [
            text("service.name", name),
            text("service.version", env!("CARGO_PKG_VERSION")),
            number("process.pid", process.into()),
        ];
        Self { resource: json!({ "attributes": attributes }), ids: Rng::seeded(seed) }
    }

    /// The line of a request of shard `shard`, whose clock began at `epoch_ns` of Unix time; with
    /// the line's end.
    pub fn line(&mut self, shard: usize, slow: &Slow, epoch_ns: u64) -> String {
        let parent = slow.attributes.parent;
        let trace = hex(&parent.map_or_else(|| self.id(), |parent| parent.trace));
        let root_id = hex(&self.id::<8>());
        let begin_ns = epoch_ns + slow.begun.as_nanos();
        let mut first = json!({ "traceId": trace, "spanId": root_id });
        if let Some(parent) = parent {
            first["parentSpanId"] = hex(&parent.span).into();
            first["flags"] = (REMOTE_PARENT | u32::from(parent.flags)).into();
        }
        let name = if slow.attributes.method.is_empty() { "request" } else { &slow.attributes.method };
        first["name"] = name.into();
        first["kind"] = match slow.side {
            Side::Served => SERVER,
            Side::Called(_) => CLIENT,
        }
        .into();
        times(&mut first, begin_ns, slow.total());
        first["attributes"] = attributes(shard, slow).into();
        if let Some(why) = trouble(slow) {
            first["status"] = json!({ "code": ERROR, "message": why });
        }
        let mut spans = vec![first];
        let mut at_ns = begin_ns;
        for (stage, span) in slow.passage() {
            let id = hex(&self.id::<8>());
            let mut part = json!({ "traceId": trace, "spanId": id, "parentSpanId": root_id });
            part["name"] = stage.into();
            part["kind"] = INTERNAL.into();
            times(&mut part, at_ns, span);
            // Unknown where the application is a separate program.
            if stage == "service" && slow.app > Span::ZERO {
                part["attributes"] = json!([number("greenwave.app_ns", slow.app.as_nanos())]);
            }
            spans.push(part);
            at_ns += span.as_nanos();
        }
        let scope = json!({ "name": "greenwave", "version": env!("CARGO_PKG_VERSION") });
        let scoped = json!([{ "scope": scope, "spans": spans }]);
        format!("{}\n", json!({ "resourceSpans": [{ "resource": self.resource, "scopeSpans": scoped }] }))
    }

    /// The next identifier; never 0, the invalid one.
    fn id<const N: usize>(&mut self) -> [u8; N] {
        loop {
            let id: [u8; N] = std::array::from_fn(|_| self.ids.below(256) as u8);
            if id != [0; N] {
                return id;
            }
        }
    }
}

fn attributes(shard: usize, slow: &Slow) -> Vec<Value> {
    let request = &slow.attributes;
    // A verb without a path is a key-value store's.
    let what = if request.path.is_empty() { "db.operation.name" } else { "http.request.method" };
    let words = [(what, &request.method), ("url.path", &request.path)];
    let words = words.into_iter().filter(|(_, word)| !word.is_empty()).map(|(key, word)| text(key, word));
    let numbers = [
        ("greenwave.class", slow.label.priority.level().into()),
        ("greenwave.shard", shard as u64),
        ("greenwave.request.bytes", slow.request as u64),
        ("greenwave.response.bytes", slow.response as u64),
    ];
    let peer = match slow.side {
        Side::Served => None,
        Side::Called(peer) => Some(peer),
    };
    let peer = peer.map(|peer| {
        [text("server.address", &peer.ip().to_string()), number("server.port", peer.port().into())]
    });
    let numbers = numbers.into_iter().map(|(key, value)| number(key, value));
    words.chain(peer.into_iter().flatten()).chain(numbers).collect()
}

fn trouble(slow: &Slow) -> Option<&'static str> {
    match slow.end {
        RequestEnd::Answered => None,
        RequestEnd::Gone if slow.side != Side::Served => Some("the connection closed before the response"),
        RequestEnd::Gone => Some("the connection closed before the response was sent"),
        RequestEnd::Failed => Some("the application panicked"),
    }
}

fn times(span: &mut Value, begin_ns: u64, length: Span) {
    span["startTimeUnixNano"] = begin_ns.to_string().into();
    span["endTimeUnixNano"] = (begin_ns + length.as_nanos()).to_string().into();
}

fn text(key: &str, value: &str) -> Value {
    json!({ "key": key, "value": { "stringValue": value } })
}

fn number(key: &str, value: u64) -> Value {
    json!({ "key": key, "value": { "intValue": value.to_string() } })
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
