//! Text formats against the test vectors shared with the Java implementation.

//~ deadlines: budget headers read and write as the shared vectors have them

use deadline::codec::{ParseError, envoy, field, grpc};
use deadline::{Budget, StageTime, StageTimer, SubrequestEstimate};
use proptest::prelude::{any, prop, proptest};
use queueing::{Span, Time};
use serde_json::Value;

fn us(value: &Value) -> Span {
    Span::from_micros(value.as_u64().expect("a span in microseconds"))
}

fn budget(value: &Value) -> Budget {
    let stages = value["stages"].as_array().map_or(&[][..], Vec::as_slice);
    let stages: Vec<StageTime> = stages
        .iter()
        .map(|row| StageTime { network: us(&row[0]), queue: us(&row[1]), service: us(&row[2]) })
        .collect();
    let budget = Budget::restored(us(&value["expected"]), us(&value["elapsed"]), &stages);
    let budget = if value["split"].is_null() { budget } else { budget.split(us(&value["split"])) };
    match &value["part"] {
        Value::Null => budget,
        part => budget.with_estimate(SubrequestEstimate { service: us(&part[0]), slowest: us(&part[1]) }),
    }
}

/// Checks every vector of `format`, parsing and formatting.
fn check<T: PartialEq + std::fmt::Debug>(
    format: &str,
    value: impl Fn(&Value) -> T,
    read: impl Fn(&str) -> Result<T, ParseError>,
    write: impl Fn(&T) -> String,
) {
    let text = include_str!("../../../spec/deadline/vectors.json");
    let vectors: Value = serde_json::from_str(text).expect("the vectors are JSON");
    let list = |way: &str| vectors[format][way].as_array().expect("vectors").clone();
    for vector in list("read") {
        let text = vector["text"].as_str().expect("a text");
        let expected = match vector["fault"].as_str() {
            None => Ok(value(&vector)),
            Some("garbled") => Err(ParseError::Garbled),
            Some("negative") => Err(ParseError::Negative),
            Some(other) => panic!("{other} is no fault"),
        };
        assert_eq!(read(text), expected, "{format}: {text:?}");
    }
    for vector in list("write") {
        assert_eq!(write(&value(&vector)), vector["text"].as_str().expect("a text"), "{format}: {vector}");
    }
}

#[test]
fn the_budget_field_follows_the_vectors() {
    check("greenwave-budget", |vector| budget(&vector["budget"]), field::parse, field::write);
}

#[test]
fn grpc_timeout_follows_the_vectors() {
    check("grpc-timeout", |vector| us(&vector["us"]), grpc::parse, |&left| grpc::write(left));
}

#[test]
fn envoys_header_follows_the_vectors() {
    let format = "x-envoy-expected-rq-timeout-ms";
    check(format, |vector| us(&vector["us"]), envoy::parse, |&left| envoy::write(left));
}

//~ deadlines: an untrusted peer's past is not passed on, in Rust and Java by one file of vectors
#[test]
fn a_past_is_passed_on_from_trusted_peers_only() {
    let text = include_str!("../../../spec/deadline/vectors.json");
    let vectors: Value = serde_json::from_str(text).expect("the vectors are JSON");
    for case in vectors["passed on"]["cases"].as_array().expect("vectors") {
        let received = field::parse(case["received"].as_str().expect("a text")).expect("a budget");
        let mut timer = StageTimer::arrive(Time::ZERO, received, Span::ZERO);
        let started = Time::ZERO + us(&case["queue"]);
        timer.start(started);
        let now = started + us(&case["service"]);
        assert_eq!(field::write(&timer.outgoing_budget(now)), case["trusted"], "{case}");
        let believed = timer.without_past();
        assert_eq!(field::write(&believed.outgoing_budget(now)), case["untrusted"], "{case}");
        assert_eq!(believed.due(), timer.due(), "{case}");
    }
}

//~ deadlines: no header text breaks a parser, a megabyte is not read, and no hop adds time
#[test]
fn a_megabyte_of_garbage_is_not_looked_at() {
    for unit in ["(", "a=1,", "9", "\"", "expected=1, remaining=1, "] {
        let garbage = unit.repeat(1_000_000 / unit.len());
        assert_eq!(field::parse(&garbage), Err(ParseError::Garbled));
        assert_eq!(grpc::parse(&garbage), Err(ParseError::Garbled));
        assert_eq!(envoy::parse(&garbage), Err(ParseError::Garbled));
    }
}

proptest! {
    //~ deadlines: no header text breaks a parser, a megabyte is not read, and no hop adds time
    #[test]
    fn no_text_breaks_a_parser(text in ".*") {
        let _ = (field::parse(&text), grpc::parse(&text), envoy::parse(&text));
    }

    //~ deadlines: no header text breaks a parser, a megabyte is not read, and no hop adds time
    #[test]
    fn what_is_written_reads_as_it_was_and_never_gives_time(
        (expected_us, elapsed_us) in (0..10_u64.pow(12), 0..10_u64.pow(12)),
        spent_us in prop::collection::vec([0..10_u64.pow(9), 0..10_u64.pow(9), 0..10_u64.pow(9)], 0..8),
        reserve_us in prop::option::of(0..10_u64.pow(12)),
        part_us in prop::option::of([0..10_u64.pow(12), 0..10_u64.pow(12)]),
        odd_ns in any::<u64>(),
    ) {
        let odd = |us| Span::from_micros(us) + Span::from_nanos(odd_ns % 1_000);
        let stages: Vec<StageTime> = spent_us
            .iter()
            .map(|&[network, queue, service]| StageTime { network: odd(network), queue: odd(queue), service: odd(service) })
            .collect();
        let mut sent = Budget::restored(odd(expected_us), odd(elapsed_us), &stages);
        if let Some(reserve_us) = reserve_us {
            sent = sent.split(odd(reserve_us));
        }
        if let Some([service, slowest]) = part_us.map(|part| part.map(odd)) {
            sent = sent.with_estimate(SubrequestEstimate { service, slowest });
        }
        let got = field::parse(&field::write(&sent)).expect("what was written can be read");
        let (sent_left, got_left) = (sent.remaining().left(), got.remaining().left());
        assert!(got_left <= sent_left && sent_left - got_left <= Span::from_micros(2), "{sent:?} {got:?}");
        assert!(got.expected() <= sent.expected());
        assert_eq!(got.is_split(), sent.is_split());
        assert_eq!(got.estimate().is_some(), sent.estimate().is_some());
        assert_eq!(got.stages().len(), sent.stages().len());
        assert_eq!(field::write(&got), field::write(&sent), "once written, for ever the same");
        for (write, read) in [(grpc::write as fn(Span) -> String, grpc::parse as fn(&str) -> _), (envoy::write, envoy::parse)] {
            let got_left = read(&write(sent_left)).expect("what was written can be read");
            assert!(got_left <= sent_left || sent_left < Span::from_millis(1));
        }
    }
}
