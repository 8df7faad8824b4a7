//! Policy of a server's shards: a mode, or its overrides.

use std::sync::Arc;

use ::classify::rules::Observed;
use runtime::mode::{Classifiers, ModeSettings};
use sched::dispatch::{Params, Steering, by_name};

use super::{Args, Serves};
use crate::{Error, classify};

/// Capacity of the event queue.
const TASKS: usize = 65_536;

/// A policy for each of `shards` shards, and their common observations.
///
/// # Errors
/// The file's of `--policy`; an invalid combination of mode and classifiers.
pub(super) fn policies(args: &Args, shards: usize) -> Result<(Vec<ModeSettings>, Arc<Observed>), Error> {
    let (classifiers, observed) = match args.link.classifiers()? {
        Some(read) => read,
        None if matches!(args.app, Serves::Synthetic) => (classify::by_tag(), Arc::default()),
        None => Default::default(),
    };
    let policies = (0..shards).map(|_| policy(args, classifiers.clone())).collect::<Result<_, _>>()?;
    Ok((policies, observed))
}

/// The mode applied to the classifiers, with the requested overrides.
fn policy(args: &Args, classifiers: Classifiers) -> Result<ModeSettings, Error> {
    let workers = usize::from(args.workers.max(1));
    let params = Params::new(workers, TASKS);
    let asked = [classifiers.driver.is_some(), classifiers.transport.is_some()];
    let mut policy = args.mode.policy(classifiers, &params, steering(args, workers)?);
    let asks = [policy.driver.is_some(), policy.transport.is_some()];
    if args.link.policy.is_some()
        && let Some(layer) = (0..2).find(|&layer| asked[layer] && !asks[layer])
    {
        let what = format!("mode {} does not use the {}'s rules", args.mode, ["driver", "transport"][layer]);
        return Err(Error::new(format!("{what}, so some rules of --policy would have no effect"))
            .advice("--mode learned"));
    }
    if let Some(name) = &args.dispatch {
        policy.dispatch = by_name(name, &params).map_err(|e| Error::new(format!("dispatch {e}")))?;
    }
    Ok(policy)
}

fn steering(args: &Args, workers: usize) -> Result<Steering, Error> {
    if args.worker_affinity.is_empty() {
        return Ok(Steering::all(workers));
    }
    if args.workers == 0 {
        return Err(Error::new("--worker-affinity needs workers, and --workers is 0").advice("--workers 2"));
    }
    if !args.mode.steers() {
        let what = format!(
            "in mode {} every worker serves all levels, so --worker-affinity has no effect",
            args.mode
        );
        return Err(Error::new(what).advice("--mode learned"));
    }
    let lists = args.worker_affinity.iter().map(|steer| (steer.levels.as_str(), steer.workers.as_slice()));
    Steering::from_lists(workers, lists).map_err(|e| Error::new(e.to_string()))
}
