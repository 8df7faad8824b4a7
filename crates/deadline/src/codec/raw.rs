//! Visitor for `greenwave-budget` dictionaries: values by key, not yet validated.
//!
//! Filled while the text is parsed, without allocation, since every request pays for it. The
//! last of several equal keys counts, and unknown keys are ignored, as in any dictionary.
//! Source: RFC 9651 §4.2.2.

use std::convert::Infallible;

use sfv::visitor::{
    DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor, ParameterVisitor,
};
use sfv::{BareItemFromInput, KeyRef};

use super::ParseError;
use crate::STAGES_MAX;

/// Values of the known keys.
#[derive(Debug, Default)]
pub(super) struct Fields {
    pub(super) expected: Value,
    pub(super) remaining: Value,
    pub(super) split: Value,
    pub(super) takes: Value,
    pub(super) slowest: Value,
    pub(super) spent: Value,
    spans: Spans,
}

/// Value of a key.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Value {
    #[default]
    Absent,
    Integer(i64),
    Flag(bool),
    /// The values of `spent` are in [`Fields::spans`].
    List,
    Other,
}

/// Integers of a list, and the first error in it.
#[derive(Debug, Default)]
struct Spans {
    micros: [u64; STAGES_MAX * 3],
    len: usize,
    error: Option<ParseError>,
}

impl Value {
    /// The value as microseconds.
    pub(super) fn micros(self) -> Result<u64, ParseError> {
        match self {
            Self::Integer(n) => u64::try_from(n).map_err(|_| ParseError::Negative),
            _ => Err(ParseError::Garbled),
        }
    }
}

impl Fields {
    /// Spans of the list, in microseconds.
    pub(super) fn spans(&self) -> Result<&[u64], ParseError> {
        match self.spans.error {
            Some(error) => Err(error),
            None => self.spans.micros.get(..self.spans.len).ok_or(ParseError::Garbled),
        }
    }
}

impl<'de> DictionaryVisitor<'de> for Fields {
    type Out = Self;
    type Error = Infallible;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, Infallible> {
        let value = match key.as_str() {
            "expected" => &mut self.expected,
            "remaining" => &mut self.remaining,
            "split" => &mut self.split,
            "takes" => &mut self.takes,
            "slowest" => &mut self.slowest,
            "spent" => &mut self.spent,
            _ => return Ok(None),
        };
        Ok(Some(Slot { value, spans: &mut self.spans }))
    }

    fn finish(self) -> Result<Self, Infallible> {
        Ok(self)
    }
}

/// Destination of a known key's value.
struct Slot<'a> {
    value: &'a mut Value,
    spans: &'a mut Spans,
}

impl<'de> EntryVisitor<'de> for Slot<'_> {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'de>, Infallible> {
        Ok(|item: BareItemFromInput<'de>| {
            *self.value = value(&item);
            Ok::<_, Infallible>(Ignored)
        })
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Infallible> {
        *self.value = Value::List;
        *self.spans = Spans::default();
        Ok(self.spans)
    }
}

impl<'de> InnerListVisitor<'de> for &mut Spans {
    type Error = Infallible;

    fn item(&mut self) -> Result<impl ItemVisitor<'de>, Infallible> {
        Ok(|item: BareItemFromInput<'de>| {
            match value(&item).micros() {
                Ok(n) => {
                    if let Some(slot) = self.micros.get_mut(self.len) {
                        *slot = n;
                    }
                    self.len += 1;
                }
                Err(error) => {
                    self.error.get_or_insert(error);
                }
            }
            Ok::<_, Infallible>(Ignored)
        })
    }

    fn finish(self) -> Result<impl ParameterVisitor<'de>, Infallible> {
        Ok(Ignored)
    }
}

fn value(item: &BareItemFromInput<'_>) -> Value {
    match *item {
        BareItemFromInput::Integer(n) => Value::Integer(n.into()),
        BareItemFromInput::Boolean(flag) => Value::Flag(flag),
        _ => Value::Other,
    }
}
