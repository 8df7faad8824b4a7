//! SIGHUP, and `control … reload`: the policy's file is read again, and shards that
//! run go on by it.
//!
//! No connection notices: a shard takes the new classifiers between two rounds,
//! and what waits already keeps its label. The file of `--config` is read again
//! as well, and may name another policy; whatever else it says now, such as
//! another device, takes a restart and is refused. What is wrong changes
//! nothing. What a policy has learned of service times goes with it.

use std::sync::Arc;

use net::classify::rules::Observed;
use runtime::hatch::Hatch;
use runtime::mode::Classifiers;

use super::{Args, policies};
use crate::configuration::{Arguments, read_again};
use crate::control::Control;
use crate::{Error, check};

/// See the module.
pub(super) struct Reload<'a> {
    /// What the server was started with.
    arguments: &'a Arguments,
    has_policy: bool,
    /// One for each shard.
    hatches: Vec<Arc<Hatch<Classifiers>>>,
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
    waits: Vec<Arc<Hatch<Classifiers>>>,
}

impl<'a> Reload<'a> {
    /// For so many shards, whose policy sees `observed`.
    pub(super) fn new(args: &Args, arguments: &'a Arguments, observed: Arc<Observed>, shards: usize) -> Self {
        let hatches = (0..shards).map(|_| Arc::default()).collect();
        let has_policy = args.link.policy.is_some();
        Self { arguments, has_policy, hatches, observed, next: None }
    }

    /// Where the shards are given their classifiers.
    pub(super) fn hatches(&self) -> Vec<Arc<Hatch<Classifiers>>> {
        self.hatches.clone()
    }

    /// Reads the policy again if that was asked for; what has become of it, once
    /// that is known. One at a time: whoever asks next waits until then.
    pub(super) fn look(&mut self, control: Option<&mut Control>) -> Option<Result<String, Error>> {
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
        Some(Ok(format!("read again: {name} is in force")))
    }

    /// Hands the policy as it is now to the shards, if there is a file that says it.
    fn read(&self) -> Result<Next, Error> {
        if !self.has_policy && self.arguments.file().is_none() {
            let what = "--policy and --config are read again, and neither was given";
            return Err(Error::new(what).advice("a restart with one of them"));
        }
        let args: Args = self.arguments.again(&["policy"])?;
        // All of them can be, or none is handed over.
        let (policies, observed) = policies(&args, self.hatches.len())?;
        for (hatch, policy) in self.hatches.iter().zip(policies) {
            hatch.ask(Box::new(Classifiers { driver: policy.driver, transport: policy.transport }));
        }
        let path = args.link.policy.as_ref().map(|path| format!("policy {}", path.display()));
        let name = path.unwrap_or_else(|| "no policy".to_owned());
        Ok(Next { name, observed, waits: self.hatches.clone() })
    }

    /// Says what the policy in force has seen, before another takes its place
    /// or at the end.
    pub(super) fn say(&self) {
        check::summary(&self.observed).iter().for_each(|line| eprintln!("{line}"));
    }
}
