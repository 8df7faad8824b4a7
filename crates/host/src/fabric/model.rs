//! The decision in Rust: what the loaded program is held to.
//!
//! Levels are [`Mlfq`]'s, the same that simulated switches count with; what is
//! added is how a frame is read, who is pinned, and which queue of a level.
//! Where the kernel's map of flows forgets approximately who paused longest,
//! this forgets exactly; short of that both say the same.

use queueing::{Bytes, FlowId, Mlfq, Priority, Time};

use super::frame::{Key, Kind, Read};
use super::policy::Policy;

/// What becomes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Its level.
    pub level: Priority,
    /// Its queue in that level.
    pub bucket: u16,
    /// Whether the sender's label said so.
    pub pinned: bool,
    /// The DSCP that it leaves with, if it is another than it came with.
    pub dscp: Option<u8>,
}

/// Says for each frame where it goes.
#[derive(Clone, Debug)]
pub struct Model {
    policy: Policy,
    seed: u64,
    mlfq: Mlfq,
}

impl Model {
    /// A model of `policy`, with queues spread by `seed`.
    ///
    /// # Panics
    /// When [`Policy::check`] refuses the policy.
    #[must_use]
    pub fn new(policy: &Policy, seed: u64) -> Self {
        policy.check().expect("a policy that was checked");
        let rule = policy.rule().expect("a policy that was checked");
        let mlfq = Mlfq::new(rule, policy.idle, policy.flows as usize);
        Self { policy: policy.clone(), seed, mlfq }
    }

    /// Where `frame` goes, which takes `bytes` on the wire and was given
    /// `priority` by its sender.
    pub fn decide(&mut self, now: Time, frame: &[u8], bytes: Bytes, priority: u32) -> Verdict {
        let Read { key, kind } = Read::frame(frame);
        let bucket = key.bucket(self.seed, self.policy.buckets);
        let verdict = |level, pinned, dscp| Verdict { level, bucket, pinned, dscp };
        if kind == Kind::Arp {
            return verdict(Priority::HIGHEST, false, None);
        }
        if let Some(level) = self.pinned(kind, priority) {
            return verdict(level, true, None);
        }
        let level = self.mlfq.level(now, FlowId(self.id(&key)), bytes);
        let dscp = match kind {
            Kind::Ip { dscp, .. } => self.policy.dscp.get(level.index()).copied().filter(|&new| new != dscp),
            Kind::Arp | Kind::Other => None,
        };
        verdict(level, false, dscp)
    }

    fn pinned(&self, kind: Kind, priority: u32) -> Option<Priority> {
        let by_priority = self.policy.pin_priority.iter().find(|(key, _)| *key == priority);
        let by_dscp = || match kind {
            Kind::Ip { dscp, .. } => self.policy.pin_dscp.iter().find(|(key, _)| *key == dscp),
            Kind::Arp | Kind::Other => None,
        };
        by_priority.map(|(_, level)| *level).or_else(|| by_dscp().map(|(_, level)| *level))
    }

    /// Two hashes, so that in practice no two flows are taken for one.
    fn id(&self, key: &Key) -> u64 {
        u64::from(key.hash(self.seed)) << 32 | u64::from(key.hash(!self.seed))
    }
}
