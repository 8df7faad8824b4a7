//! Levels in the HTTP field `Priority`, and the DSCP of each level: [`TABLE`].
//!
//! A dictionary of RFC 9651 whose key `u` is the urgency. The last of several equal keys counts.
//! Unknown keys are ignored, and so are values of another type or out of range. A malformed field
//! says nothing: it counts as [`DEFAULT`], as does one without `u`. Repeated field lines are one
//! field, joined by commas.
//! Source: RFC 9218 §4, §5; RFC 9651 §3.2, §4.2; DSCP after RFC 4594.

use std::convert::Infallible;

use sfv::visitor::{DictionaryVisitor, EntryVisitor, Ignored, InnerListVisitor, ItemVisitor};
use sfv::{BareItemFromInput, KeyRef, Parser};

use crate::Priority;

/// Name of the field, in lower case.
pub const NAME: &str = "priority";

/// Maximum length in bytes of all lines; a longer field counts as malformed.
pub const LEN_MAX: usize = 1024;

/// Level of a field without a valid urgency.
pub const DEFAULT: Priority = Priority::of_urgency(3);

/// Urgency and DSCP of a level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LevelRow {
    /// RFC 9218 urgency, 0..=7.
    pub urgency: u8,
    /// DSCP, 6 bits.
    pub dscp: u8,
}

/// Row of each level. DSCP: real-time interactive (CS4), conferencing (AF41), streaming (AF31),
/// broadcast (CS3), low-latency data (AF21), operations (CS2), high-throughput data (AF11), and best
/// effort for the lowest level, which unclassified traffic has too.
pub const TABLE: [LevelRow; Priority::LEVELS] = [
    LevelRow { urgency: 0, dscp: 32 },
    LevelRow { urgency: 1, dscp: 34 },
    LevelRow { urgency: 2, dscp: 26 },
    LevelRow { urgency: 3, dscp: 24 },
    LevelRow { urgency: 4, dscp: 18 },
    LevelRow { urgency: 5, dscp: 16 },
    LevelRow { urgency: 6, dscp: 10 },
    LevelRow { urgency: 7, dscp: 0 },
];

impl Priority {
    /// DSCP of each level.
    pub const DSCP: [u8; Self::LEVELS] = {
        let (mut dscp, mut level) = ([0; Self::LEVELS], 0);
        while level < Self::LEVELS {
            dscp[level] = TABLE[level].dscp;
            level += 1;
        }
        dscp
    };

    /// Level of an RFC 9218 urgency.
    ///
    /// # Panics
    /// If it is outside 0..=7.
    const fn of_urgency(urgency: u8) -> Self {
        let mut level = 0;
        while level < Self::LEVELS {
            if TABLE[level].urgency == urgency {
                return Self::ALL[level];
            }
            level += 1;
        }
        panic!("the urgency is outside 0..=7");
    }

    /// RFC 9218 urgency of the level.
    #[must_use]
    pub const fn urgency(self) -> u8 {
        TABLE[self.index()].urgency
    }
}

/// Level in the values of a request's or response's field lines, in order; `None` without a line.
pub fn read<'a>(lines: impl IntoIterator<Item = &'a [u8]>) -> Option<Priority> {
    let mut lines = lines.into_iter();
    let first = lines.next()?;
    let Some(second) = lines.next() else { return Some(read_joined(first)) };
    let mut joined = [first, second].join(&b", "[..]);
    for line in lines.take(LEN_MAX) {
        if joined.len() > LEN_MAX {
            break;
        }
        joined.extend_from_slice(b", ");
        joined.extend_from_slice(line);
    }
    Some(read_joined(&joined))
}

fn read_joined(text: &[u8]) -> Priority {
    if text.len() > LEN_MAX {
        return DEFAULT;
    }
    Parser::new(text).parse_dictionary_with_visitor(Urgency(DEFAULT)).unwrap_or(DEFAULT)
}

/// Field value of `level`, such as `u=0`.
#[must_use]
pub const fn write(level: Priority) -> &'static str {
    const VALUES: [&str; 8] = ["u=0", "u=1", "u=2", "u=3", "u=4", "u=5", "u=6", "u=7"];
    VALUES[level.urgency() as usize]
}

/// Trust in the peer that sent a field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Trust {
    /// A client: it can only lower itself.
    #[default]
    Client,
    /// A trusted peer, such as the service before: it can also raise.
    Peer,
}

/// Level of a request with the level `own` by our rules, whose sender asks for `asked`.
#[must_use]
pub fn accept(trust: Trust, own: Priority, asked: Option<Priority>) -> Priority {
    match (trust, asked) {
        (_, None) => own,
        (Trust::Client, Some(asked)) => own.max(asked),
        (Trust::Peer, Some(asked)) => asked,
    }
}

/// Visitor that keeps the level of `u`.
struct Urgency(Priority);

impl<'de> DictionaryVisitor<'de> for Urgency {
    type Out = Priority;
    type Error = Infallible;

    fn entry(&mut self, key: &'de KeyRef) -> Result<impl EntryVisitor<'de>, Infallible> {
        Ok((key.as_str() == "u").then_some(self))
    }

    fn finish(self) -> Result<Priority, Infallible> {
        Ok(self.0)
    }
}

impl<'de> EntryVisitor<'de> for &mut Urgency {
    type Error = Infallible;

    fn item(self) -> Result<impl ItemVisitor<'de>, Infallible> {
        Ok(|item: BareItemFromInput<'de>| {
            self.0 = match item {
                BareItemFromInput::Integer(n) => {
                    u8::try_from(i64::from(n)).ok().filter(|n| *n <= 7).map_or(DEFAULT, Priority::of_urgency)
                }
                _ => DEFAULT,
            };
            Ok::<_, Infallible>(Ignored)
        })
    }

    fn inner_list(self) -> Result<impl InnerListVisitor<'de>, Infallible> {
        self.0 = DEFAULT;
        Ok(Ignored)
    }
}
