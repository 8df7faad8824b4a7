//! SIGHUP, and `control … reload`: the policy's file is read again, and shards that
//! run go on by it: of `serve`, and the one of `run`.
//!
//! No connection notices: a shard takes the new classifiers between two rounds,
//! and what waits already keeps its label. The file of `--config` is read again
//! as well, and may name another policy; whatever else it says now, such as
//! another device, takes a restart and is refused. What is wrong changes
//! nothing. What a policy has learned of service times goes with it.

use std::path::PathBuf;
use std::sync::Arc;

use net::classify::rules::Observed;
use runtime::mode::Classifiers;
use runtime::snapshot_exchange::SnapshotExchange;

use crate::config_file::{Arguments, read_again};
use crate::control::Control;
use crate::{Error, check};

/// Where a command's policy is read from.
#[derive(Clone, Copy)]
pub(crate) struct Reads<'a> {
    /// What the command was started with.
    pub(crate) arguments: &'a Arguments,
    /// Whether a policy was named.
    pub(crate) policy: bool,
    /// Reads it again, for so many shards.
    pub(crate) read: fn(&Arguments, usize) -> Result<PolicyFiles, Error>,
}

/// What the files say.
pub(crate) struct PolicyFiles {
    /// The policy's, if one is named.
    pub(crate) policy: Option<PathBuf>,
    /// For each shard.
    pub(crate) classifiers: Vec<Classifiers>,
    /// What they will have seen together.
    pub(crate) observed: Arc<Observed>,
}

/// See the module.
pub(crate) struct Reload<'a> {
    reads: Reads<'a>,
    /// One for each shard.
    hatches: Vec<Arc<SnapshotExchange<Classifiers>>>,
    /// What the policy in force has seen.
    observed: Arc<Observed>,
    next: Option<Next>,
}

/// A policy on its way to the shards.
struct Next {
    /// What it is called.
    name: String,
    observed: Arc<Observed>,
    /// Those that have not taken it.
    waits: Vec<Arc<SnapshotExchange<Classifiers>>>,
}

impl<'a> Reload<'a> {
    /// For so many shards, whose policy sees `observed`.
    pub(crate) fn new(reads: Reads<'a>, observed: Arc<Observed>, shards: usize) -> Self {
        let hatches = (0..shards).map(|_| Arc::default()).collect();
        Self { reads, hatches, observed, next: None }
    }

    /// Where the shards are given their classifiers.
    pub(crate) fn hatches(&self) -> Vec<Arc<SnapshotExchange<Classifiers>>> {
        self.hatches.clone()
    }

    /// Reads the policy again if that was asked for; what has become of it, once
    /// that is known. One at a time: whoever asks next waits until then.
    pub(crate) fn look(&mut self, control: Option<&mut Control>) -> Option<Result<String, Error>> {
        if self.next.is_none() {
            match read_again(control, || self.read())? {
                Ok(next) => self.next = Some(next),
                Err(e) => return Some(Err(e)),
            }
        }
        self.next.iter_mut().for_each(|next| next.waits.retain(|hatch| hatch.take().is_none()));
        let Next { name, observed, .. } = self.next.take_if(|next| next.waits.is_empty())?;
        self.say();
        self.observed = observed;
        Some(Ok(format!("reloaded: {name}")))
    }

    /// Hands the policy as it is now to the shards, if there is a file that says it.
    fn read(&self) -> Result<Next, Error> {
        let Reads { arguments, policy, read } = self.reads;
        if !policy && arguments.file().is_none() {
            let what = "reload reads --policy and --config, and neither was given";
            return Err(Error::new(what).advice("restart with one of them"));
        }
        // All of them can be, or none is handed over.
        let PolicyFiles { policy, classifiers, observed } = read(arguments, self.hatches.len())?;
        for (hatch, classifiers) in self.hatches.iter().zip(classifiers) {
            hatch.request(Box::new(classifiers));
        }
        let path = policy.map(|path| format!("policy {}", path.display()));
        let name = path.unwrap_or_else(|| "no policy".to_owned());
        Ok(Next { name, observed, waits: self.hatches.clone() })
    }

    /// Says what the policy in force has seen, before another takes its place
    /// or at the end.
    pub(crate) fn say(&self) {
        check::summary(&self.observed).iter().for_each(|line| eprintln!("{line}"));
    }
}
