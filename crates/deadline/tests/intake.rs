//! Validation of received budgets: missing, too short, too long and malformed ones.

use deadline::codec::{envoy, field, grpc};
use deadline::{Budget, BudgetHeader, BudgetValidator, InvalidBudget, Limits, ReceivedBudget, Remaining};
use proptest::prelude::{any, prop, prop_assert, proptest};
use queueing::Span;

const LIMITS: Limits =
    Limits { default: Span::from_millis(500), longest: Span::from_secs(60), trusted: false };
const TRUSTED: Limits = Limits { trusted: true, ..LIMITS };

/// One line at most of each field.
#[derive(Clone, Copy, Debug, Default)]
struct Fields<'a> {
    budget: Option<&'a str>,
    grpc_timeout: Option<&'a str>,
    envoy_expected: Option<&'a str>,
}

impl From<Fields<'_>> for ReceivedBudget {
    fn from(fields: Fields<'_>) -> Self {
        let line = |header| match header {
            BudgetHeader::Greenwave => fields.budget,
            BudgetHeader::GrpcTimeout => fields.grpc_timeout,
            BudgetHeader::EnvoyExpected => fields.envoy_expected,
        };
        Self::read(|header| line(header).map(str::as_bytes))
    }
}

/// Budget granted for `received`, and the reason counted if it was rejected.
fn accept(limits: Limits, received: Fields<'_>) -> (Budget, Option<InvalidBudget>) {
    let mut validator = BudgetValidator::new(limits);
    let budget = validator.validate(received.into());
    let counted: Vec<InvalidBudget> =
        InvalidBudget::ALL.into_iter().filter(|&fault| validator.faults(fault) > 0).collect();
    assert!(counted.len() <= 1, "{counted:?}");
    (budget, counted.first().copied())
}

fn field(text: &str) -> Fields<'_> {
    Fields { budget: Some(text), ..Fields::default() }
}

fn grpc_timeout(text: &str) -> Fields<'_> {
    Fields { grpc_timeout: Some(text), ..Fields::default() }
}

//~ deadlines: a missing or invalid budget becomes the default and is counted; a budget of 0 is late at once
#[test]
fn a_request_without_a_usable_budget_gets_the_default_and_is_counted() {
    let default = Budget::new(LIMITS.default);
    let garbage = "x".repeat(1 << 20);
    for (received, fault) in [
        (Fields::default(), InvalidBudget::Missing),
        (field("tomorrow"), InvalidBudget::Garbled),
        (field(&garbage), InvalidBudget::Garbled),
        (grpc_timeout("5 fortnights"), InvalidBudget::Garbled),
        (grpc_timeout("-5m"), InvalidBudget::Negative),
        (field("expected=5, remaining=-5"), InvalidBudget::Negative),
    ] {
        for limits in [LIMITS, TRUSTED] {
            assert_eq!(accept(limits, received), (default, Some(fault)), "{received:?}");
        }
    }
}

//~ deadlines: a missing or invalid budget becomes the default and is counted; a budget of 0 is late at once
//~ deadlines: default budget and longest budget are two settings; a request without a budget has no deadline
#[test]
fn five_seconds_stay_five_and_two_hours_become_the_maximum() {
    let five_s = Budget::new(Span::from_secs(5));
    assert_eq!(accept(LIMITS, grpc_timeout("5S")), (five_s, None));
    for received in [
        grpc_timeout("2H"),
        grpc_timeout("8760H"),
        field("expected=31536000000000, remaining=31536000000000"),
    ] {
        for limits in [LIMITS, TRUSTED] {
            let mut validator = BudgetValidator::new(limits);
            assert_eq!(validator.validate(received.into()), Budget::new(LIMITS.longest), "{received:?}");
            assert_eq!(validator.shortened(), 1);
        }
    }
    let old = field("expected=31536000000000, remaining=1");
    let microsecond = Budget::new(Span::from_micros(1));
    assert_eq!(accept(LIMITS, old), (microsecond, Some(InvalidBudget::Absurd)));
    let (budget, fault) = accept(Limits::default(), Fields::default());
    assert!(!budget.is_limited(), "no deadline by default");
    assert_eq!(fault, Some(InvalidBudget::Missing));
}

#[test]
fn a_budget_of_zero_is_believed_and_missed_at_once() {
    for received in [field("expected=0, remaining=0"), grpc_timeout("0m")] {
        let (budget, fault) = accept(LIMITS, received);
        assert_eq!((budget.remaining(), fault), (Remaining::Missed(Span::ZERO), None));
    }
}

#[test]
fn the_shortest_of_several_timeouts_rules() {
    let all = Fields {
        budget: Some("expected=400000, remaining=300000"),
        grpc_timeout: Some("200m"),
        envoy_expected: Some("250"),
    };
    let (budget, fault) = accept(LIMITS, all);
    assert_eq!((budget.remaining(), fault), (Remaining::Left(Span::from_millis(200)), None));
    assert_eq!(budget.elapsed(), Span::from_millis(100), "what is known of the way so far stays");
    let envoy_only = Fields { envoy_expected: Some("250"), ..Fields::default() };
    assert_eq!(accept(LIMITS, envoy_only).0, Budget::new(Span::from_millis(250)));
}

proptest! {
    //~ deadlines: no request gets more time than its shortest timeout and the maximum
    #[test]
    fn no_peer_gets_more_than_the_shortest_time_and_the_maximum(
        (expected_us, elapsed_us) in (0..10_u64.pow(9), 0..10_u64.pow(9)),
        timeout_ms in prop::option::of(0..100_000_u64),
        envoy_ms in prop::option::of(0..100_000_u64),
        trusted in any::<bool>(),
    ) {
        let sent = Budget::restored(Span::from_micros(expected_us), Span::from_micros(elapsed_us), &[]);
        let text = field::write(&sent);
        let timeout = timeout_ms.map(|ms| grpc::write(Span::from_millis(ms)));
        let envoy = envoy_ms.map(|ms| envoy::write(Span::from_millis(ms)));
        let received = Fields {
            budget: Some(&text),
            grpc_timeout: timeout.as_deref(),
            envoy_expected: envoy.as_deref(),
        };
        let mut validator = BudgetValidator::new(Limits { trusted, ..LIMITS });
        let left = validator.validate(received.into()).remaining().left();
        let asked = [Some(sent.remaining().left()), timeout_ms.map(Span::from_millis), envoy_ms.map(Span::from_millis)];
        let shortest = asked.into_iter().flatten().min().expect("one was asked");
        prop_assert!(left <= shortest.max(Span::from_millis(1)).min(LIMITS.longest));
    }
}

//~ deadlines: only a trusted peer's expectation of its parts is used
#[test]
fn only_a_trusted_peer_is_believed_what_it_says_of_its_parts() {
    let sent = field("expected=200000, remaining=195000, split=5000, takes=1, slowest=1");
    assert!(accept(TRUSTED, sent).0.estimate().is_some());
    assert_eq!(accept(LIMITS, sent).0.estimate(), None);
}

//~ deadlines: garbled, repeated, zero, negative and huge budget fields follow one rule, in every combination
#[test]
fn every_combination_of_fields_gives_the_budget_of_the_vectors() {
    let text = include_str!("../../../spec/deadline/vectors.json");
    let vectors: serde_json::Value = serde_json::from_str(text).expect("the vectors are JSON");
    let received = &vectors["received"];
    let us = |value: &serde_json::Value| Span::from_micros(value.as_u64().expect("microseconds"));
    let limits =
        Limits { default: us(&received["default"]), longest: us(&received["longest"]), trusted: false };
    let cases = received["cases"].as_array().expect("cases");
    for case in cases {
        let lines = |header: BudgetHeader| {
            let state = case[header as usize].as_str().expect("a state");
            let lines = received["fields"][header.name()][state].as_array().expect("lines");
            lines.iter().map(|line| line.as_str().expect("a line").as_bytes())
        };
        let mut validator = BudgetValidator::new(limits);
        let budget = validator.validate(ReceivedBudget::read(lines));
        let faults: Vec<String> = InvalidBudget::ALL
            .into_iter()
            .filter(|&fault| validator.faults(fault) > 0)
            .map(|fault| format!("{fault:?}").to_lowercase())
            .collect();
        let given = (budget.remaining().left(), budget.elapsed());
        assert_eq!(given, (us(&case[3]["left"]), us(&case[3]["elapsed"])), "{case}");
        assert_eq!(serde_json::json!(faults), case[3]["faults"], "{case}");
    }
    assert_eq!(cases.len(), 10 * 9 * 9);
}
