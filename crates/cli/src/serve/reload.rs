//! Reload of the policy by SIGHUP or `control … reload`, for running shards of `serve` and `run`.
//!
//! Connections are unaffected: a shard takes the new classifiers between two rounds, and queued
//! requests keep their labels. The file of `--config` is read again as well, and may name another
//! policy; any other change, such as another device, needs a restart and is refused. A mistake
//! changes nothing. Service times learned by a policy are lost with it.

use std::path::PathBuf;
use std::sync::Arc;

use classify::rules::Observed;
use runtime::mode::Classifiers;
use runtime::snapshot_exchange::SnapshotExchange;

use crate::config_file::{Arguments, read_again};
use crate::control::Control;
use crate::{Error, check};

/// Source of a command's policy.
#[derive(Clone, Copy)]
pub(crate) struct Reads<'a> {
    /// The command's arguments at the start.
    pub(crate) arguments: &'a Arguments,
    /// True if a policy was named.
    pub(crate) policy: bool,
    /// Reads the policy again, for the given number of shards.
    pub(crate) read: fn(&Arguments, usize) -> Result<PolicyFiles, Error>,
}

/// Contents of the files.
pub(crate) struct PolicyFiles {
    /// The policy's file, if one is named.
    pub(crate) policy: Option<PathBuf>,
    /// The classifiers of each shard.
    pub(crate) classifiers: Vec<Classifiers>,
    /// Observations that the classifiers of all shards share.
    pub(crate) observed: Arc<Observed>,
}

/// State of reloads.
pub(crate) struct Reload<'a> {
    reads: Reads<'a>,
    /// A snapshot exchange for each shard.
    exchanges: Vec<Arc<SnapshotExchange<Classifiers>>>,
    /// Observations of the policy in force.
    observed: Arc<Observed>,
    next: Option<Next>,
}

/// A policy on its way to the shards.
struct Next {
    /// The policy's name.
    name: String,
    observed: Arc<Observed>,
    /// Exchanges of the shards that have not taken it.
    waits: Vec<Arc<SnapshotExchange<Classifiers>>>,
}

impl<'a> Reload<'a> {
    /// Reloads for `shards` shards, whose policy records into `observed`.
    pub(crate) fn new(reads: Reads<'a>, observed: Arc<Observed>, shards: usize) -> Self {
        let exchanges = (0..shards).map(|_| Arc::default()).collect();
        Self { reads, exchanges, observed, next: None }
    }

    /// Exchanges through which the shards get their classifiers.
    pub(crate) fn exchanges(&self) -> Vec<Arc<SnapshotExchange<Classifiers>>> {
        self.exchanges.clone()
    }

    /// Reads the policy again on request; returns the outcome once it is known. One reload at a
    /// time: the next request waits until then.
    pub(crate) fn poll(&mut self, control: Option<&mut Control>) -> Option<Result<String, Error>> {
        if self.next.is_none() {
            match read_again(control, || self.read())? {
                Ok(next) => self.next = Some(next),
                Err(e) => return Some(Err(e)),
            }
        }
        self.next.iter_mut().for_each(|next| next.waits.retain(|hatch| hatch.take().is_none()));
        let Next { name, observed, .. } = self.next.take_if(|next| next.waits.is_empty())?;
        self.print();
        self.observed = observed;
        Some(Ok(format!("reloaded: {name}")))
    }

    /// Reads the policy and passes it to the shards, if a file names one.
    fn read(&self) -> Result<Next, Error> {
        let Reads { arguments, policy, read } = self.reads;
        if !policy && arguments.file().is_none() {
            let what = "reload reads --policy and --config, and neither was given";
            return Err(Error::new(what).advice("restart with --policy or --config"));
        }
        // All shards' classifiers are read before any is handed over.
        let PolicyFiles { policy, classifiers, observed } = read(arguments, self.exchanges.len())?;
        for (hatch, classifiers) in self.exchanges.iter().zip(classifiers) {
            hatch.request(Box::new(classifiers));
        }
        let path = policy.map(|path| format!("policy {}", path.display()));
        let name = path.unwrap_or_else(|| "no policy".to_owned());
        Ok(Next { name, observed, waits: self.exchanges.clone() })
    }

    /// Prints the observations of the policy in force, before another replaces it or at the end.
    pub(crate) fn print(&self) {
        check::summary(&self.observed).iter().for_each(|line| errln!("{line}"));
    }
}
