//! Budgets as text, in every format.
//!
//! Properties: no panic; a parsed budget is formatted so that it parses to the same value,
//! never to more time.

use deadline::STAGES_MAX;
use deadline::codec::{envoy, field, grpc};
use queueing::Span;

/// Parses the text in each of the formats.
pub fn budgets(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    if let Ok(budget) = field::parse(text) {
        let left = budget.remaining().left();
        assert!(left <= budget.expected() && budget.stages().len() <= STAGES_MAX, "{budget:?}");
        assert!(left + budget.reserve() <= budget.expected(), "{budget:?}");
        let written = field::write(&budget);
        assert!(written.len() <= field::LEN_MAX, "{written:?}");
        assert_eq!(field::parse(&written), Ok(budget), "{text:?} as {written:?}");
    }
    if let Ok(left) = grpc::parse(text) {
        let again = grpc::parse(&grpc::write(left)).expect("what was written reads back");
        assert!(again <= left.max(Span::from_nanos(1)), "{text:?} becomes {again:?}");
        assert_eq!(grpc::write(again), grpc::write(left));
    }
    if let Ok(left) = envoy::parse(text) {
        let least = Span::from_millis(1);
        assert_eq!(envoy::parse(&envoy::write(left)), Ok(left.max(least)), "{text:?}");
    }
}
