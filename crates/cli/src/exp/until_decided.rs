//! `exp run --until-decided BUDGET`: further seeds until every claim is decided or the time is over.
//!
//! Seeds are added in few, growing steps, since each look at the figures is a further chance to decide
//! wrongly: as many as the undecided claims are estimated to need, at most as many as there are.

use std::time::{Duration, Instant};

use super::checkpoint::Checkpoint;
use super::registry::Source;
use super::result::ExperimentResult;
use crate::error::Error;

/// Cost of the runs made so far.
pub struct Pace {
    /// Time that they took.
    pub took: Duration,
    /// Runs that were made in it, without those from a checkpoint.
    pub made: usize,
    /// Runs of each seed: points times modes.
    pub per_seed: usize,
}

impl Pace {
    /// Estimated time of one seed; none if no run was made.
    fn seed(&self) -> Option<Duration> {
        (self.made > 0).then(|| self.took.mul_f64(self.per_seed as f64 / self.made as f64))
    }
}

/// Adds seeds to `result` until each of its claims is decided, or until the estimated time of a
/// further seed exceeds what is left of `budget`. `pace` is that of the seeds in `result`.
///
/// # Errors
/// A run fails.
pub fn run(
    result: &mut ExperimentResult,
    source: &Source,
    budget: Duration,
    mut pace: Pace,
    journal: Option<&Checkpoint>,
) -> Result<(), Error> {
    let start = Instant::now();
    while let Some(wanted) = result.more_runs() {
        let left = budget.saturating_sub(start.elapsed());
        let count = seeds_to_add(result.seeds(), wanted, pace.seed(), left);
        if count == 0 {
            errln!("note: {}: the budget is spent, {} s of it are left", source.name, left.as_secs());
            break;
        }
        let (undecided, runs) = (result.counts().undecided, result.seeds());
        errln!("note: {}: {undecided} undecided after {runs} runs; running {count} more", source.name);
        let before = Instant::now();
        let made = result.add_seeds(source, count, journal)?;
        pace = Pace { took: before.elapsed(), made, ..pace };
    }
    Ok(())
}

/// Seeds to add to `seeds`, at least 1: `wanted` would decide, each takes about `seed`, and `left` is
/// the time for them. 0 if none fits.
fn seeds_to_add(seeds: u64, wanted: u64, seed: Option<Duration>, left: Duration) -> u64 {
    let fit = match seed {
        Some(seed) if seed > Duration::ZERO => (left.as_secs_f64() / seed.as_secs_f64()) as u64,
        // Unknown until one was run.
        _ => u64::from(left > Duration::ZERO),
    };
    wanted.min(seeds).min(fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ cli: `exp run --until-decided` adds seeds until every claim is decided or its budget is spent
    #[test]
    fn seeds_are_added_as_needed_and_as_fit() {
        let second = Some(Duration::from_secs(1));
        let add = |seeds, wanted, left| seeds_to_add(seeds, wanted, second, Duration::from_secs(left));
        assert_eq!(add(5, 3, 100), 3, "as many as needed");
        assert_eq!(add(5, 300, 100), 5, "at most doubled");
        assert_eq!(add(5, 300, 2), 2, "as many as fit");
        assert_eq!(add(5, 300, 0), 0);
        assert_eq!(seeds_to_add(5, 300, None, Duration::from_secs(9)), 1, "of unknown cost");
        let pace = Pace { took: Duration::from_secs(6), made: 12, per_seed: 4 };
        assert_eq!(pace.seed(), Some(Duration::from_secs(2)));
    }
}
