//! `greenwave-budget`: everything a [`Budget`] knows, as one text.
//!
//! A dictionary of RFC 9651 (Structured Field Values) with spans in
//! microseconds: `expected=200000, remaining=148000, split, spent=(900 30000 21100)`.
//! `expected` and `remaining` must be there. `split` (the paper's `PU_flag`)
//! may be, alone or with what is kept for the aggregate phase (`split=5000`),
//! and `spent` (network, queue, service of each stage). Keys that are
//! not known are passed over, so that a later version can add some. The time
//! by which a budget was missed does not travel: what is left is then 0.
//! Source: D2P §3; RFC 9651 §3.2.

use std::fmt::Write as _;

use queueing::Span;
use sfv::{BareItem, Dictionary, InnerList, Item, ListEntry, Parser};

use super::{Bad, micros, whole_micros};
use crate::{Budget, STAGES_MAX, Stage};

/// The name, as an HTTP header, gRPC metadata, Dubbo attachment or Storm field.
pub const HEADER: &str = "greenwave-budget";

/// Longer texts are not looked at.
pub const LEN_MAX: usize = 1024;

/// The budget that `text` names.
///
/// # Errors
/// When it is no such dictionary, is longer than [`LEN_MAX`], lacks a key,
/// leaves more than it expects, or holds a negative span.
pub fn parse(text: &str) -> Result<Budget, Bad> {
    if text.len() > LEN_MAX {
        return Err(Bad::Garbled);
    }
    let dictionary: Dictionary = Parser::new(text).parse().map_err(|_| Bad::Garbled)?;
    let span = |key: &str| match dictionary.get(key) {
        Some(ListEntry::Item(item)) => span(item),
        _ => Err(Bad::Garbled),
    };
    let (expected, remaining) = (span("expected")?, span("remaining")?);
    let reserve = match dictionary.get("split") {
        None | Some(ListEntry::Item(Item { bare_item: BareItem::Boolean(false), .. })) => None,
        Some(ListEntry::Item(Item { bare_item: BareItem::Boolean(true), .. })) => Some(Span::ZERO),
        Some(ListEntry::Item(item)) => Some(self::span(item)?),
        Some(ListEntry::InnerList(_)) => return Err(Bad::Garbled),
    };
    let granted = expected - reserve.unwrap_or(Span::ZERO);
    if remaining > granted {
        return Err(Bad::Garbled);
    }
    let stages = match dictionary.get("spent") {
        None => Vec::new(),
        Some(ListEntry::InnerList(list)) => stages(list)?,
        Some(ListEntry::Item(_)) => return Err(Bad::Garbled),
    };
    let budget = Budget::restored(expected, granted - remaining, &stages);
    Ok(reserve.map_or(budget, |reserve| budget.split(reserve)))
}

/// `budget` as text; spans in whole microseconds, what is left rounded down.
#[must_use]
pub fn write(budget: &Budget) -> String {
    let expected_us = whole_micros(budget.expected());
    let reserve_us = whole_micros(budget.reserve());
    let remaining_us = whole_micros(budget.remaining().left()).min(expected_us - reserve_us);
    let mut text = format!("expected={expected_us}, remaining={remaining_us}");
    match reserve_us {
        _ if !budget.is_split() => {}
        0 => text.push_str(", split"),
        reserve_us => write!(text, ", split={reserve_us}").expect("a string takes everything"),
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

fn span(item: &Item) -> Result<Span, Bad> {
    let n = item.bare_item.as_integer().ok_or(Bad::Garbled)?;
    let n = u64::try_from(i64::from(n)).map_err(|_| Bad::Negative)?;
    Ok(micros(n))
}

fn stages(list: &InnerList) -> Result<Vec<Stage>, Bad> {
    let spans: Vec<Span> = list.items.iter().map(span).collect::<Result<_, _>>()?;
    let (rows, rest) = spans.as_chunks::<3>();
    if !rest.is_empty() || rows.len() > STAGES_MAX {
        return Err(Bad::Garbled);
    }
    Ok(rows.iter().map(|&[network, queue, service]| Stage { network, queue, service }).collect())
}
