//! `greenwave-budget`: everything a [`Budget`] knows, as one text.
//!
//! A dictionary of RFC 9651 (Structured Field Values) with spans in
//! microseconds: `expected=200000, remaining=148000, split, spent=(900 30000 21100)`.
//! `expected` and `remaining` must be there. `split` (the paper's `PU_flag`)
//! may be, alone or with what is kept for the aggregate phase (`split=5000`);
//! `takes` and `slowest`, both or none, what the aggregator expects of a
//! sub-request and of its slowest sibling; and `spent` (network, queue, service of each stage). Keys that are
//! not known are passed over, so that a later version can add some. The time
//! by which a budget was missed does not travel: what is left is then 0.
//! Source: D2P §3; RFC 9651 §3.2.

use std::fmt::Write as _;

use queueing::Span;
use sfv::Parser;

use super::ParseError;
use super::raw::{Fields, Value};
use crate::{Budget, STAGES_MAX, Stage, SubrequestEstimate};

/// The name, as an HTTP header, gRPC metadata, Dubbo attachment or Storm field.
pub const HEADER: &str = "greenwave-budget";

/// Longer texts are not looked at.
pub const LEN_MAX: usize = 1024;

/// The budget that `text` names.
///
/// # Errors
/// When it is no such dictionary, is longer than [`LEN_MAX`], lacks a key,
/// leaves more than it expects, or holds a negative span.
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
    let mut stages = [Stage::default(); STAGES_MAX];
    for (stage, row) in stages.iter_mut().zip(rows) {
        let [network, queue, service] = row.map(Span::from_micros);
        *stage = Stage { network, queue, service };
    }
    let budget = Budget::restored(expected, granted - remaining, &stages[..rows.len()]);
    let budget = reserve.map_or(budget, |reserve| budget.split(reserve));
    if fields.takes == Value::Absent && fields.slowest == Value::Absent {
        return Ok(budget);
    }
    let [service, slowest] = [fields.takes.micros()?, fields.slowest.micros()?].map(Span::from_micros);
    Ok(budget.with_estimate(SubrequestEstimate { service, slowest }))
}

/// `budget` as text; spans in whole microseconds, what is left rounded down.
#[must_use]
pub fn write(budget: &Budget) -> String {
    let expected_us = whole_micros(budget.expected());
    let reserve_us = whole_micros(budget.reserve());
    let remaining_us = whole_micros(budget.remaining().left()).min(expected_us - reserve_us);
    let mut text = String::with_capacity(64 + 24 * budget.stages().len());
    write!(text, "expected={expected_us}, remaining={remaining_us}").expect("a string takes everything");
    match reserve_us {
        _ if !budget.is_split() => {}
        0 => text.push_str(", split"),
        reserve_us => write!(text, ", split={reserve_us}").expect("a string takes everything"),
    }
    if let Some(SubrequestEstimate { service, slowest }) = budget.estimate() {
        let [takes, slowest] = [service, slowest].map(whole_micros);
        write!(text, ", takes={takes}, slowest={slowest}").expect("a string takes everything");
    }
    for (at, stage) in budget.stages().iter().enumerate() {
        let [network, queue, service] = [stage.network, stage.queue, stage.service].map(whole_micros);
        let before = if at == 0 { ", spent=(" } else { " " };
        write!(text, "{before}{network} {queue} {service}").expect("a string takes everything");
    }
    if !budget.stages().is_empty() {
        text.push(')');
    }
    text
}

/// Whole microseconds of `span`.
fn whole_micros(span: Span) -> u64 {
    span.as_nanos() / 1_000
}
