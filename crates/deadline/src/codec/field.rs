//! `greenwave-budget`: text form of a whole [`Budget`].
//!
//! A dictionary of RFC 9651 (Structured Field Values), spans in microseconds:
//! `expected=200000, remaining=148000, split, spent=(900 30000 21100)`.
//! Required: `expected`, `remaining`. Optional: `split` (the paper's `PU_flag`), with the reserve
//! of the aggregate phase as its value if there is one (`split=5000`); `takes` and `slowest`,
//! both or neither, the estimates for a sub-request and its slowest sibling; `spent`, the
//! network, queue and service time of each stage. Unknown keys are ignored, so later versions
//! can add some. A missed deadline is sent as `remaining=0`.
//! Source: D2P §3; RFC 9651 §3.2.

use std::fmt::Write as _;

use queueing::Span;
use sfv::Parser;

use super::ParseError;
use super::raw::{Fields, Value};
use crate::{Budget, STAGES_MAX, StageTime, SubrequestEstimate};

/// Name of the HTTP header, gRPC metadata, Dubbo attachment and Storm field.
pub const HEADER: &str = "greenwave-budget";

/// Maximum length in bytes; longer texts are rejected unread.
pub const LEN_MAX: usize = 1024;

/// Parses a budget.
///
/// # Errors
/// If `text` is not such a dictionary, is longer than [`LEN_MAX`], lacks a required key,
/// has more remaining than expected, or contains a negative span.
pub fn parse(text: &str) -> Result<Budget, ParseError> {
    if text.len() > LEN_MAX {
        return Err(ParseError::Garbled);
    }
    let fields = Parser::new(text).parse_dictionary_with_visitor(Fields::default());
    let fields = fields.map_err(|_| ParseError::Garbled)?;
    let (expected, remaining) =
        (Span::from_micros(fields.expected.micros()?), Span::from_micros(fields.remaining.micros()?));
    let reserve = match fields.split {
        Value::Absent | Value::Flag(false) => None,
        Value::Flag(true) => Some(Span::ZERO),
        reserve => Some(Span::from_micros(reserve.micros()?)),
    };
    let granted = expected - reserve.unwrap_or(Span::ZERO);
    if remaining > granted {
        return Err(ParseError::Garbled);
    }
    let spans = match fields.spent {
        Value::Absent => &[],
        Value::List => fields.spans()?,
        _ => return Err(ParseError::Garbled),
    };
    let (rows, rest) = spans.as_chunks::<3>();
    if !rest.is_empty() {
        return Err(ParseError::Garbled);
    }
    let mut stages = [StageTime::default(); STAGES_MAX];
    for (stage, row) in stages.iter_mut().zip(rows) {
        let [network, queue, service] = row.map(Span::from_micros);
        *stage = StageTime { network, queue, service };
    }
    let budget = Budget::restored(expected, granted - remaining, &stages[..rows.len()]);
    let budget = reserve.map_or(budget, |reserve| budget.split(reserve));
    if fields.takes == Value::Absent && fields.slowest == Value::Absent {
        return Ok(budget);
    }
    let [service, slowest] = [fields.takes.micros()?, fields.slowest.micros()?].map(Span::from_micros);
    Ok(budget.with_estimate(SubrequestEstimate { service, slowest }))
}

/// Formats `budget`, spans in whole microseconds, remaining time rounded down.
#[must_use]
pub fn write(budget: &Budget) -> String {
    let expected_us = whole_micros(budget.expected());
    let reserve_us = whole_micros(budget.reserve());
    let remaining_us = whole_micros(budget.remaining().left()).min(expected_us - reserve_us);
    let mut text = String::with_capacity(64 + 24 * budget.stages().len());
    write!(text, "expected={expected_us}, remaining={remaining_us}")
        .expect("writing to a string cannot fail");
    match reserve_us {
        _ if !budget.is_split() => {}
        0 => text.push_str(", split"),
        reserve_us => write!(text, ", split={reserve_us}").expect("writing to a string cannot fail"),
    }
    if let Some(SubrequestEstimate { service, slowest }) = budget.estimate() {
        let [takes, slowest] = [service, slowest].map(whole_micros);
        write!(text, ", takes={takes}, slowest={slowest}").expect("writing to a string cannot fail");
    }
    for (at, stage) in budget.stages().iter().enumerate() {
        let [network, queue, service] = [stage.network, stage.queue, stage.service].map(whole_micros);
        let before = if at == 0 { ", spent=(" } else { " " };
        write!(text, "{before}{network} {queue} {service}").expect("writing to a string cannot fail");
    }
    if !budget.stages().is_empty() {
        text.push(')');
    }
    text
}

/// Whole microseconds of `span`, rounded down.
fn whole_micros(span: Span) -> u64 {
    span.as_nanos() / 1_000
}
