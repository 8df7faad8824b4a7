//! Trace lines follow the OTLP mapping, and a full file ends nothing.

//~ views: traces are OTLP/JSON, and a `traceparent` is kept
//~ views: a full disk or slow writer costs counted traces, not the server

use std::collections::BTreeSet;

use queueing::{Label, Priority};
use runtime::app::{Parent, RequestAttributes};
use runtime::shard::{RequestEnd, STAGE_NAMES, Side};
use serde_json::Value;

use super::*;

fn slow(level: u8) -> Slow {
    let ns = |ns| Span::from_nanos(ns);
    Slow {
        side: Side::Served,
        label: Label::new(Priority::new(level).expect("a level")),
        begun: Time::from_nanos(1_000),
        stages: [ns(10), ns(20), ns(30_000), ns(400), ns(5)],
        app: ns(390),
        request: 70,
        response: 126,
        end: RequestEnd::Answered,
        attributes: RequestAttributes { method: "GET".to_owned(), path: "/pay".to_owned(), parent: None },
    }
}

/// The resource and the spans of `line`, after validation.
fn spans(line: &str) -> Vec<Value> {
    assert_eq!(line.matches('\n').count(), 1, "a line, with its end");
    let value: Value = serde_json::from_str(line).expect("JSON");
    let [resource] = value["resourceSpans"].as_array().expect("a list").as_slice() else { panic!("{line}") };
    assert_eq!(attribute(&resource["resource"], "service.name"), "greenwave serve");
    let [scoped] = resource["scopeSpans"].as_array().expect("a list").as_slice() else { panic!("{line}") };
    assert_eq!(scoped["scope"]["name"], "greenwave");
    let spans = scoped["spans"].as_array().expect("a list").clone();
    for span in &spans {
        holds_to_the_mapping(span);
    }
    spans
}

fn holds_to_the_mapping(span: &Value) {
    let is_hex = |value: &Value, len: usize| {
        let text = value.as_str().expect("identifiers are text");
        text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit()) && text.bytes().any(|b| b != b'0')
    };
    let fields = span.as_object().expect("an object");
    for (name, value) in fields {
        let holds = match name.as_str() {
            "traceId" => is_hex(value, 32),
            "spanId" | "parentSpanId" => is_hex(value, 16),
            "name" => value.is_string(),
            "kind" => matches!(value.as_u64(), Some(1..=5)),
            "flags" => value.as_u64().is_some_and(|flags| flags <= u32::MAX.into()),
            "startTimeUnixNano" | "endTimeUnixNano" => {
                value.as_str().is_some_and(|text| text.parse::<u64>().is_ok())
            }
            "status" => matches!(value["code"].as_u64(), Some(0..=2)) && value["message"].is_string(),
            "attributes" => value.as_array().expect("a list").iter().all(is_attribute),
            _ => false,
        };
        assert!(holds, "{name}: {value}");
    }
    for name in ["traceId", "spanId", "name", "kind", "startTimeUnixNano", "endTimeUnixNano"] {
        assert!(fields.contains_key(name), "{name} is missing: {span}");
    }
}

fn is_attribute(attribute: &Value) -> bool {
    let typed = attribute["value"].as_object().filter(|typed| typed.len() == 1);
    let value = typed.and_then(|typed| typed.iter().next());
    attribute["key"].is_string()
        && value.is_some_and(|(kind, value)| match kind.as_str() {
            "stringValue" => value.is_string(),
            "intValue" => value.as_str().is_some_and(|text| text.parse::<i64>().is_ok()),
            _ => false,
        })
}

fn attribute(of: &Value, key: &str) -> String {
    let all = of["attributes"].as_array().expect("a list");
    let found = all.iter().find(|attribute| attribute["key"] == key).expect(key);
    let typed = found["value"].as_object().expect("a typed value");
    typed.values().next().and_then(Value::as_str).expect("text").to_owned()
}

fn ns(span: &Value, at: &str) -> u64 {
    span[at].as_str().and_then(|text| text.parse().ok()).expect("a time")
}

#[test]
fn a_line_is_one_trace_whose_stages_are_contiguous_and_complete() {
    let mut format = Format::new("greenwave serve", 7, 1);
    let spans = spans(&format.line(3, &slow(2), 1_700_000_000_000_000_000));
    let (root, stages) = spans.split_first().expect("spans");
    assert_eq!((&root["name"], &root["kind"]), (&"GET".into(), &2.into()));
    assert!(root.get("parentSpanId").is_none() && root.get("status").is_none());
    assert_eq!(ns(root, "startTimeUnixNano"), 1_700_000_000_000_001_000);
    assert_eq!(ns(root, "endTimeUnixNano"), 1_700_000_000_000_001_000 + 30_435);
    for (key, expected) in [
        ("url.path", "/pay"),
        ("greenwave.class", "2"),
        ("greenwave.shard", "3"),
        ("greenwave.request.bytes", "70"),
        ("greenwave.response.bytes", "126"),
    ] {
        assert_eq!(attribute(root, key), expected);
    }
    assert_eq!(stages.iter().map(|stage| stage["name"].as_str().unwrap()).collect::<Vec<_>>(), STAGE_NAMES);
    let mut at = ns(root, "startTimeUnixNano");
    for stage in stages {
        assert_eq!((&stage["traceId"], &stage["parentSpanId"]), (&root["traceId"], &root["spanId"]));
        assert_eq!(ns(stage, "startTimeUnixNano"), at, "no gap");
        at = ns(stage, "endTimeUnixNano");
    }
    assert_eq!(at, ns(root, "endTimeUnixNano"));
    assert_eq!(attribute(&stages[3], "greenwave.app_ns"), "390");
}

//~ views: requests that a program sends become client spans that name the server
#[test]
fn a_call_is_a_clients_span_that_names_its_server_and_is_sent_before_it_is_served() {
    let side = Side::Called("10.77.0.9:8080".parse().unwrap());
    let spans = spans(&Format::new("greenwave serve", 7, 1).line(0, &Slow { side, ..slow(0) }, 0));
    let (root, stages) = spans.split_first().unwrap();
    assert_eq!(root["kind"], 3);
    assert_eq!(["server.address", "server.port"].map(|key| attribute(root, key)), ["10.77.0.9", "8080"]);
    let ns = |span: &Value, at: &str| span[at].as_str().unwrap().parse::<u64>().unwrap();
    let mut at = ns(root, "startTimeUnixNano");
    for (stage, (name, length)) in
        stages.iter().zip([("transmit", 5), ("service", 400), ("nic", 10), ("tcp", 20), ("event", 30_000)])
    {
        assert_eq!((&stage["name"], ns(stage, "startTimeUnixNano")), (&name.into(), at), "no gap");
        at += length;
        assert_eq!(ns(stage, "endTimeUnixNano"), at);
    }
    assert_eq!(ns(root, "endTimeUnixNano"), at);
}

#[test]
fn a_parent_is_kept() {
    let parent = Parent { trace: [0xab; 16], span: [0x01; 8], flags: 1 };
    let attributes = RequestAttributes { parent: Some(parent), ..slow(0).attributes };
    let spans = spans(&Format::new("greenwave serve", 7, 1).line(0, &Slow { attributes, ..slow(0) }, 0));
    assert!(spans.iter().all(|span| span["traceId"] == "ab".repeat(16)));
    assert_eq!((&spans[0]["parentSpanId"], &spans[0]["flags"]), (&"01".repeat(8).into(), &0x301.into()));
    assert_ne!(spans[0]["spanId"], spans[0]["parentSpanId"]);
}

#[test]
fn identifiers_follow_from_the_seed_and_are_unique() {
    let lines = |seed| {
        let mut format = Format::new("greenwave serve", 7, seed);
        (0..100).map(|_| format.line(0, &slow(0), 0)).collect::<Vec<_>>()
    };
    assert_eq!(lines(4), lines(4));
    let all: Vec<Value> = lines(4).iter().chain(&lines(5)).flat_map(|line| spans(line)).collect();
    let ids: BTreeSet<&str> = all.iter().filter_map(|span| span["spanId"].as_str()).collect();
    let traces: BTreeSet<&str> = all.iter().filter_map(|span| span["traceId"].as_str()).collect();
    assert_eq!((ids.len(), traces.len()), (1_200, 200));
}

#[test]
fn a_request_without_a_response_has_a_reason() {
    for (end, why) in [(RequestEnd::Gone, "closed"), (RequestEnd::Failed, "panicked")] {
        let line = Format::new("greenwave serve", 7, 1).line(0, &Slow { end, ..slow(0) }, 0);
        let status = &spans(&line)[0]["status"];
        assert_eq!(status["code"], 2);
        assert!(status["message"].as_str().is_some_and(|text| text.contains(why)), "{status}");
    }
    let nameless = Slow { attributes: RequestAttributes::default(), ..slow(0) };
    assert_eq!(spans(&Format::new("greenwave serve", 7, 1).line(0, &nameless, 0))[0]["name"], "request");
}

/// Writes ten requests into the file at `path`; returns the summary.
fn ten_into(path: &Path, size_max: u64) -> String {
    let file = File::create(path).expect("it can be opened");
    let format = Format::new("greenwave serve", 7, 1);
    let writer = Writer { path: path.to_owned(), file, format, size_max, done: Done::default() };
    let mut traces = writer.start().expect("a thread");
    traces.write(Time::from_nanos(2_000), Vec::new());
    traces.write(Time::from_nanos(2_000), (0..10).map(|_| (0, slow(0))).collect());
    traces.end(2)
}

#[test]
fn a_file_takes_whole_lines_up_to_its_limit_and_the_rest_is_counted() {
    let path = std::env::temp_dir().join(format!("greenwave-traces-{}", std::process::id()));
    let summary = ten_into(&path, u64::MAX);
    let text = std::fs::read_to_string(&path).expect("it is there");
    let limited = ten_into(&path, text.len() as u64 - 1);
    let short = std::fs::read_to_string(&path).expect("it is there");
    std::fs::remove_file(&path).expect("it is ours");
    let left_out =
        "2 left out because more than the allowed number of slower requests came in the same second";
    let shown_path = path.display();
    assert_eq!(
        summary,
        format!("traces: 10 slow requests in {shown_path}, {} bytes; {left_out}", text.len())
    );
    assert_eq!(text.split_inclusive('\n').map(|line| spans(line).len()).sum::<usize>(), 60);
    assert_eq!(short.split_inclusive('\n').map(|line| spans(line).len()).sum::<usize>(), 54);
    let why = format!("1 not written: the limit of {} bytes is reached", text.len() - 1);
    assert_eq!(
        limited,
        format!("traces: 9 slow requests in {shown_path}, {} bytes; {why}; {left_out}", short.len())
    );
}

#[test]
fn a_full_disk_loses_only_traces() {
    let full = Path::new("/dev/full");
    if !full.exists() {
        // Bypasses the test harness, which hides the output of passing tests.
        let why = "skipped: a_full_disk_loses_only_traces: there is no /dev/full\n";
        let _ = std::io::stderr().write_all(why.as_bytes());
        return;
    }
    let summary = ten_into(full, u64::MAX);
    assert!(
        summary.contains("0 slow requests in /dev/full, 0 bytes; 10 not written: No space left"),
        "{summary}"
    );
}

#[test]
fn traces_that_overflow_the_queue_are_dropped_and_counted() {
    let (queue, batches) = sync_channel(1);
    let writer = std::thread::spawn(Done::default);
    let mut traces = Traces { queue, writer, dropped: 0, path: PathBuf::from("t") };
    for _ in 0..3 {
        traces.write(Time::ZERO, vec![(0, slow(0)), (1, slow(0))]);
    }
    assert_eq!(batches.try_iter().count(), 1);
    let summary = traces.end(0);
    assert_eq!(
        summary,
        "traces: 0 slow requests in t, 0 bytes; 4 dropped because the writer could not keep up"
    );
}

#[test]
fn few_requests_are_traced_by_default_and_all_above_a_given_threshold() {
    let of = |slower_than, slowest| {
        let traces = Some(PathBuf::from("t"));
        Flags { traces, slower_than, slowest, slow_levels: PrioritySet::ALL }
            .given_limits()
            .map(|limits| (limits.over, limits.most))
    };
    let span = Span::from_millis(5);
    assert_eq!(of(None, None), Some((Span::ZERO, 10)));
    assert_eq!(of(Some(span), None), Some((span, 1000)));
    assert_eq!(of(Some(span), Some(3)), Some((span, 3)));
    assert_eq!(of(None, Some(3)), Some((Span::ZERO, 3)));
    let none = Flags { traces: None, slower_than: None, slowest: None, slow_levels: PrioritySet::ALL };
    assert_eq!(none.given_limits(), None);
}
