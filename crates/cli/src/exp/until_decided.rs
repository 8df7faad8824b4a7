//! `exp run --until-decided BUDGET`: further seeds until every claim is decided or the time is over.
//!
//! Seeds are added in few, growing steps, since each check of the figures is a further chance of a
//! wrong verdict: as many as the undecided claims are estimated to need, at most doubling their
//! number.

use std::time::{Duration, Instant};

use super::checkpoint::Checkpoint;
use super::registry::Source;
use super::result::ExperimentResult;
use crate::error::Error;

/// Cost of the runs made so far.
pub struct RunCost {
    /// Duration of the runs.
    pub duration: Duration,
    /// Number of runs made in that time, without those from a checkpoint.
    pub runs: usize,
    /// Runs of each seed: points times modes.
    pub runs_per_seed: usize,
}

impl RunCost {
    /// Estimated time of one seed; none if no run was made.
    fn per_seed(&self) -> Option<Duration> {
        (self.runs > 0).then(|| self.duration.mul_f64(self.runs_per_seed as f64 / self.runs as f64))
    }
}

/// Adds seeds to `result` until each of its claims is decided, or until the estimated time of a
/// further seed exceeds the rest of `budget`. `cost` is that of the seeds in `result`.
///
/// # Errors
/// A run fails.
pub fn run(
    result: &mut ExperimentResult,
    source: &Source,
    budget: Duration,
    mut cost: RunCost,
    checkpoint: Option<&Checkpoint>,
) -> Result<(), Error> {
    let start = Instant::now();
    while let Some(more_runs) = result.more_runs() {
        let remaining = budget.saturating_sub(start.elapsed());
        let count = seeds_to_add(result.seeds(), more_runs, cost.per_seed(), remaining);
        if count == 0 {
            errln!("note: {}: no further run fits into the remaining {} s", source.name, remaining.as_secs());
            break;
        }
        let (undecided, runs) = (result.counts().undecided, result.seeds());
        errln!("note: {}: {undecided} undecided after {runs} runs; running {count} more", source.name);
        let before = Instant::now();
        let runs_made = result.add_seeds(source, count, checkpoint)?;
        cost = RunCost { duration: before.elapsed(), runs: runs_made, ..cost };
    }
    Ok(())
}

/// Seeds to add to `seeds`, at least 1: `more_runs` would decide, each takes about `seed_time`, and
/// `remaining` is the time for them. 0 if none fits.
fn seeds_to_add(seeds: u64, more_runs: u64, seed_time: Option<Duration>, remaining: Duration) -> u64 {
    let fit = match seed_time {
        Some(seed_time) if seed_time > Duration::ZERO => {
            (remaining.as_secs_f64() / seed_time.as_secs_f64()) as u64
        }
        // Unknown until one was run.
        _ => u64::from(remaining > Duration::ZERO),
    };
    more_runs.min(seeds).min(fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ cli: `exp run --until-decided` adds seeds until every claim is decided or its budget is spent
    #[test]
    fn seeds_are_added_as_needed_and_as_fit() {
        let second = Some(Duration::from_secs(1));
        let add = |seeds, more_runs, remaining| {
            seeds_to_add(seeds, more_runs, second, Duration::from_secs(remaining))
        };
        assert_eq!(add(5, 3, 100), 3, "as many as needed");
        assert_eq!(add(5, 300, 100), 5, "at most doubled");
        assert_eq!(add(5, 300, 2), 2, "as many as fit");
        assert_eq!(add(5, 300, 0), 0);
        assert_eq!(seeds_to_add(5, 300, None, Duration::from_secs(9)), 1, "of unknown cost");
        let cost = RunCost { duration: Duration::from_secs(6), runs: 12, runs_per_seed: 4 };
        assert_eq!(cost.per_seed(), Some(Duration::from_secs(2)));
    }
}
