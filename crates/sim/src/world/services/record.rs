//! Measured service times, per query and worker.
//!
//! A request draws one query and its parts take that query's times: a long query is long at all
//! workers and longest at one, which produces stragglers. Text format: a header line, then one
//! line per query with its word and a time in ns per worker. The caller supplies the text.

use queueing::{Rng, Span};

use crate::BadConfig;

/// Service times of queries at the workers of a unit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceTimeRecord {
    /// One row per query, one time per worker.
    rows: Vec<Vec<Span>>,
}

impl ServiceTimeRecord {
    /// Parses a record; times are multiplied by `slower`.
    ///
    /// # Errors
    /// One line: the invalid line.
    pub fn parse(text: &str, slower: u64) -> Result<Self, BadConfig> {
        let parts = text.lines().next().unwrap_or_default().split(',').count() - 1;
        let row = |(number, line): (usize, &str)| {
            let times = line.split(',').skip(1).map(|time| time.parse().map(Span::from_nanos));
            let times: Result<Vec<Span>, _> = times.collect();
            let times = times.ok().filter(|times| times.len() == parts && parts > 0);
            let times = times.ok_or_else(|| {
                BadConfig(format!("record: line {} is not a word and {parts} times in ns", number + 1))
            })?;
            Ok(times.into_iter().map(|time| time * slower).collect())
        };
        let rows: Vec<Vec<Span>> = text.lines().enumerate().skip(1).map(row).collect::<Result<_, _>>()?;
        if rows.is_empty() {
            return Err(BadConfig("record: no query, at least 1 is required".to_owned()));
        }
        Ok(Self { rows })
    }

    /// Number of workers measured.
    #[must_use]
    pub fn parts(&self) -> usize {
        self.rows[0].len()
    }

    /// Service time of `query` at each worker.
    #[must_use]
    pub fn times(&self, query: usize) -> &[Span] {
        &self.rows[query]
    }

    /// Draws a query uniformly.
    pub(super) fn draw(&self, rng: &mut Rng) -> usize {
        rng.below(self.rows.len() as u64) as usize
    }

    /// Mean over all queries and workers.
    #[must_use]
    pub fn mean(&self) -> Span {
        let all = self.rows.iter().flatten().map(|time| time.as_nanos()).sum::<u64>();
        Span::from_nanos(all / (self.rows.len() * self.parts()) as u64)
    }
}
