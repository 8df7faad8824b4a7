//! Outcomes of requests, counted per method.
//!
//! Every request that leaves has one outcome, so that the counts of a method add up. A bounded number of
//! methods has a row of its own, from their first answer on; requests for others, such as paths that do not
//! exist, share one. A row stays: a counter that disappears and returns would count twice.

use std::collections::HashMap;

use crate::Cause;

/// End of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Answered by its handler before the deadline, or without one.
    InTime,
    /// Answered by its handler after the deadline.
    Late,
    /// The client has gone.
    Cancelled,
    /// Ended with a cause.
    Failed(Cause),
}

impl Outcome {
    /// All outcomes.
    pub const ALL: [Self; 9] = [
        Self::InTime,
        Self::Late,
        Self::Cancelled,
        Self::Failed(Cause::Expired),
        Self::Failed(Cause::Infeasible),
        Self::Failed(Cause::QueueFull),
        Self::Failed(Cause::Aborted),
        Self::Failed(Cause::UpstreamTimeout),
        Self::Failed(Cause::UpstreamFailed),
    ];

    /// Name, as a value of the metric's attribute.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::InTime => "in-time",
            Self::Late => "late",
            Self::Cancelled => "cancelled",
            Self::Failed(cause) => cause.name(),
        }
    }

    fn index(self) -> usize {
        match self {
            Self::InTime => 0,
            Self::Late => 1,
            Self::Cancelled => 2,
            Self::Failed(cause) => 3 + cause as usize,
        }
    }
}

/// Outcomes of the requests for one method.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MethodOutcomes {
    counts: [u64; Outcome::ALL.len()],
}

impl MethodOutcomes {
    /// Number of requests with `outcome`.
    #[must_use]
    pub fn count(&self, outcome: Outcome) -> u64 {
        self.counts[outcome.index()]
    }
}

/// Row of a method in an [`OutcomeTable`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MethodRow(usize);

/// Outcomes per method.
#[derive(Clone, Debug)]
pub struct OutcomeTable {
    methods_max: usize,
    rows: HashMap<String, usize>,
    /// The first row is that of methods without one of their own.
    outcomes: Vec<MethodOutcomes>,
}

impl OutcomeTable {
    /// Name of the methods without a row of their own, as in OpenTelemetry's conventions.
    pub const OTHER: &'static str = "_OTHER";

    /// Empty table with rows for at most `methods_max` methods.
    #[must_use]
    pub fn new(methods_max: usize) -> Self {
        Self { methods_max, rows: HashMap::new(), outcomes: vec![MethodOutcomes::default()] }
    }

    /// Row of `method`; the shared one if it has none.
    #[must_use]
    pub fn row(&self, method: &str) -> MethodRow {
        MethodRow(self.rows.get(method).copied().unwrap_or(0))
    }

    /// Row of `method`, which has been answered: a new one, if there is room and it has none.
    pub fn open_row(&mut self, method: &str) -> MethodRow {
        let row = self.row(method);
        if row.0 > 0 || self.rows.len() >= self.methods_max {
            return row;
        }
        self.outcomes.push(MethodOutcomes::default());
        self.rows.insert(method.to_owned(), self.outcomes.len() - 1);
        MethodRow(self.outcomes.len() - 1)
    }

    /// Counts a request for the method of `row` with `outcome`.
    pub fn record(&mut self, row: MethodRow, outcome: Outcome) {
        self.outcomes[row.0].counts[outcome.index()] += 1;
    }

    /// Methods with a row, by name, and [`OTHER`](Self::OTHER).
    #[must_use]
    pub fn methods(&self) -> Vec<(String, MethodOutcomes)> {
        let shared = (Self::OTHER.to_owned(), self.outcomes[0].clone());
        let own = self.rows.iter().map(|(method, &row)| (method.clone(), self.outcomes[row].clone()));
        let mut methods: Vec<_> = own.chain([shared]).collect();
        methods.sort_by(|one, other| one.0.cmp(&other.0));
        methods
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_have_their_places_and_names_that_differ() {
        for (index, outcome) in Outcome::ALL.into_iter().enumerate() {
            assert_eq!(outcome.index(), index);
            assert_eq!(Outcome::ALL.iter().filter(|other| other.name() == outcome.name()).count(), 1);
        }
        let failed = Cause::ALL.map(|cause| Outcome::Failed(cause).index());
        assert_eq!(failed, [3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn methods_beyond_the_bound_share_a_row_and_rows_stay() {
        let mut table = OutcomeTable::new(2);
        for method in ["/b", "/a", "/c", "/a"] {
            let row = table.open_row(method);
            table.record(row, Outcome::Late);
        }
        table.record(table.row("/none"), Outcome::Cancelled);
        let late = |count| (count, 0);
        let counts: Vec<_> = table
            .methods()
            .into_iter()
            .map(|(name, row)| (name, (row.count(Outcome::Late), row.count(Outcome::Cancelled))))
            .collect();
        let expected = [("/a", late(2)), ("/b", late(1)), ("_OTHER", (1, 1))];
        assert_eq!(counts, expected.map(|(name, count)| (name.to_owned(), count)));
    }
}
