//! Validation of received budgets: missing, too short, too long and malformed ones.

use deadline::codec::{envoy, field, grpc};
use deadline::{Budget, BudgetValidator, InvalidBudget, Limits, ReceivedBudget, Remaining};
use proptest::prelude::{any, prop, prop_assert, proptest};
use queueing::Span;

const LIMITS: Limits =
    Limits { default: Span::from_millis(500), longest: Span::from_secs(60), trusted: false };
const TRUSTED: Limits = Limits { trusted: true, ..LIMITS };

/// Budget granted for `received`, and the reason counted if it was rejected.
fn accept(limits: Limits, received: ReceivedBudget<'_>) -> (Budget, Option<InvalidBudget>) {
    let mut validator = BudgetValidator::new(limits);
    let budget = validator.validate(received);
    let counted: Vec<InvalidBudget> =
        InvalidBudget::ALL.into_iter().filter(|&fault| validator.faults(fault) > 0).collect();
    assert!(counted.len() <= 1, "{counted:?}");
    (budget, counted.first().copied())
}

fn field(text: &str) -> ReceivedBudget<'_> {
    ReceivedBudget { budget: Some(text), ..ReceivedBudget::default() }
}

fn grpc_timeout(text: &str) -> ReceivedBudget<'_> {
    ReceivedBudget { grpc_timeout: Some(text), ..ReceivedBudget::default() }
}

//~ deadlines: a missing or invalid budget becomes the default and is counted; a budget of 0 is late at once
#[test]
fn a_request_without_a_usable_budget_gets_the_default_and_is_counted() {
    let default = Budget::new(LIMITS.default);
    let garbage = "x".repeat(1 << 20);
    for (received, fault) in [
        (ReceivedBudget::default(), InvalidBudget::Missing),
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
            assert_eq!(validator.validate(received), Budget::new(LIMITS.longest), "{received:?}");
            assert_eq!(validator.shortened(), 1);
        }
    }
    let old = field("expected=31536000000000, remaining=1");
    let microsecond = Budget::new(Span::from_micros(1));
    assert_eq!(accept(LIMITS, old), (microsecond, Some(InvalidBudget::Absurd)));
    let (budget, fault) = accept(Limits::default(), ReceivedBudget::default());
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
    let all = ReceivedBudget {
        budget: Some("expected=400000, remaining=300000"),
        grpc_timeout: Some("200m"),
        envoy_expected: Some("250"),
    };
    let (budget, fault) = accept(LIMITS, all);
    assert_eq!((budget.remaining(), fault), (Remaining::Left(Span::from_millis(200)), None));
    assert_eq!(budget.elapsed(), Span::from_millis(100), "what is known of the way so far stays");
    let envoy_only = ReceivedBudget { envoy_expected: Some("250"), ..ReceivedBudget::default() };
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
        let received = ReceivedBudget {
            budget: Some(&text),
            grpc_timeout: timeout.as_deref(),
            envoy_expected: envoy.as_deref(),
        };
        let mut validator = BudgetValidator::new(Limits { trusted, ..LIMITS });
        let left = validator.validate(received).remaining().left();
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
