//! Label of a request: its priority and its remaining time budget.
//!
//! Classifiers set it, every queue obeys it.

use std::fmt;
use std::str::FromStr;

use crate::Span;

/// Priority level: 0 is the most urgent, 7 the least.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Priority(u8);

impl Priority {
    /// Number of levels.
    pub const LEVELS: usize = 8;
    /// The most urgent level, 0.
    pub const HIGHEST: Self = Self(0);
    /// The least urgent level, 7.
    pub const LOWEST: Self = Self(7);
    /// Every level, most urgent first.
    pub(crate) const ALL: [Self; Self::LEVELS] =
        [Self(0), Self(1), Self(2), Self(3), Self(4), Self(5), Self(6), Self(7)];

    /// Level `level`, or `None` when it is outside 0..=7.
    #[must_use]
    pub const fn new(level: u8) -> Option<Self> {
        if level < Self::LEVELS as u8 { Some(Self(level)) } else { None }
    }

    /// The level, 0..=7.
    #[must_use]
    pub const fn level(self) -> u8 {
        self.0
    }

    /// The level as an array index.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// All levels, most urgent first.
    pub fn all() -> impl DoubleEndedIterator<Item = Self> {
        (0..Self::LEVELS as u8).map(Self)
    }
}

/// The least urgent level, so that an unclassified request overtakes nothing.
impl Default for Priority {
    fn default() -> Self {
        Self::LOWEST
    }
}

impl std::fmt::Display for Priority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Label of a request: set by classifiers, obeyed by every queue.
///
/// Source: ADPS §2.3 (the priority travels), D2P §2 (the remaining time).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Label {
    /// Priority level.
    pub priority: Priority,
    /// Remaining time budget, if there is one. Relative, so that the clocks of
    /// two machines need not agree.
    pub deadline: Option<Span>,
}

impl Label {
    /// Label with `priority` and no deadline.
    #[must_use]
    pub const fn new(priority: Priority) -> Self {
        Self { priority, deadline: None }
    }
}

/// Set of priorities, such as those a worker is willing to serve (ADPS §2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrioritySet(u8);

impl PrioritySet {
    /// No level.
    pub const NONE: Self = Self(0);
    /// Every level.
    pub const ALL: Self = Self(0xff);

    /// The set with `priority` added.
    #[must_use]
    pub const fn with(self, priority: Priority) -> Self {
        Self(self.0 | 1 << priority.0)
    }

    /// The set with `priority` removed.
    #[must_use]
    pub const fn without(self, priority: Priority) -> Self {
        Self(self.0 & !(1 << priority.0))
    }

    /// True if `priority` is in the set.
    #[must_use]
    pub const fn contains(self, priority: Priority) -> bool {
        self.0 & 1 << priority.0 != 0
    }

    /// The most urgent member.
    #[must_use]
    pub const fn first(self) -> Option<Priority> {
        if self.0 == 0 { None } else { Some(Priority(self.0.trailing_zeros() as u8)) }
    }

    /// The members less urgent than `priority`.
    #[must_use]
    pub const fn after(self, priority: Priority) -> Self {
        Self(self.0 & (0xfe << priority.0))
    }

    /// The least urgent member.
    #[must_use]
    pub const fn last(self) -> Option<Priority> {
        if self.0 == 0 { None } else { Some(Priority(7 - self.0.leading_zeros() as u8)) }
    }

    /// The members, most urgent first.
    pub fn iter(self) -> impl Iterator<Item = Priority> {
        std::iter::successors(Some(self), |rest| Some(Self(rest.0 & rest.0.wrapping_sub(1))))
            .map_while(Self::first)
    }

    /// Intersection of both sets.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// True if the set is empty.
    #[must_use]
    pub const fn is_empty(self) -> bool {
        self.0 == 0
    }
}

/// `high` (0 to 3), `low` (4 to 7), a level or a range of them, such as `0-1`.
impl FromStr for PrioritySet {
    type Err = ParseLevelsError;

    fn from_str(text: &str) -> Result<Self, ParseLevelsError> {
        let (first, last) = match text {
            "high" => ("0", "3"),
            "low" => ("4", "7"),
            _ => text.split_once('-').unwrap_or((text, text)),
        };
        let level = |text: &str| text.parse().ok().and_then(Priority::new);
        match (level(first), level(last)) {
            (Some(first), Some(last)) if first <= last => {
                Ok(Priority::all().filter(|level| (first..=last).contains(level)).collect())
            }
            _ => Err(ParseLevelsError(text.to_owned())),
        }
    }
}

/// Error for a text that is not a set of levels.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParseLevelsError(String);

impl fmt::Display for ParseLevelsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} is neither high, low, a level 0..=7 nor a range of them, such as 0-1", self.0)
    }
}

impl std::error::Error for ParseLevelsError {}

impl FromIterator<Priority> for PrioritySet {
    fn from_iter<I: IntoIterator<Item = Priority>>(levels: I) -> Self {
        levels.into_iter().fold(Self::NONE, Self::with)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ queueing: priorities are 0 (most urgent) to 7; an unknown label counts as least urgent
    #[test]
    fn a_set_lists_its_members_from_the_most_urgent() {
        for members in 0..=u8::MAX {
            let listed: Vec<_> = Priority::all().filter(|level| members & 1 << level.level() != 0).collect();
            let set: PrioritySet = listed.iter().copied().collect();
            assert!(set.iter().eq(listed.iter().copied()), "{set:?}");
            assert_eq!((set.first(), set.last()), (listed.first().copied(), listed.last().copied()));
            for level in Priority::all() {
                assert_eq!(set.contains(level), listed.contains(&level));
                assert_eq!(set.without(level).with(level), set.with(level));
                assert!(set.after(level).iter().eq(listed.iter().copied().filter(|&member| member > level)));
            }
        }
    }

    //~ queueing: priorities are 0 (most urgent) to 7; an unknown label counts as least urgent
    #[test]
    fn unlabelled_entries_are_least_urgent() {
        assert_eq!(Label::default(), Label::new(Priority::LOWEST));
        assert_eq!(Priority::new(8), None);
    }

    #[test]
    fn level_sets_parse() {
        let check = |text: &str, expected: &[u8]| {
            let set: PrioritySet = text.parse().unwrap();
            assert_eq!(set.iter().map(Priority::level).collect::<Vec<_>>(), expected, "{text}");
        };
        check("high", &[0, 1, 2, 3]);
        check("low", &[4, 5, 6, 7]);
        check("2", &[2]);
        check("6-7", &[6, 7]);
        for text in ["", "8", "3-1", "0-8", "1,2", "urgent"] {
            let error = text.parse::<PrioritySet>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("{text:?} is neither high, low, a level 0..=7")), "{error}");
        }
    }
}
