//! Reference model of the classifier's decision, with which tests compare the loaded program.
//!
//! Levels and queues of flows are those of [`FlowLevels`]. Added are frame parsing and pinning: pinned
//! packets are hashed to a queue.
//!
//! The kernel's flow map evicts the least recently used flow approximately, this model exactly;
//! otherwise both agree.

use queueing::egress::{FlowLevels, Line};
use queueing::{Bytes, FlowId, Priority, Time};

use super::flow_key::{Key, Kind, Read};
use super::policy::Policy;

/// Decision for a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Level.
    pub level: Priority,
    /// Queue in that level.
    pub bucket: u16,
    /// True if the sender's label set the level.
    pub pinned: bool,
    /// DSCP on departure, if it differs from that on arrival.
    pub dscp: Option<u8>,
}

/// Reference model of the classifier.
#[derive(Clone, Debug)]
pub struct Model {
    policy: Policy,
    seed: u64,
    levels: FlowLevels,
}

impl Model {
    /// A model of `policy` on `line`; pinned packets are spread by `seed`.
    ///
    /// # Panics
    /// [`Policy::check`] rejects the policy.
    #[must_use]
    pub fn new(policy: &Policy, line: Line, seed: u64) -> Self {
        policy.check().expect("a policy that was checked");
        let rule = policy.rule().expect("a policy that was checked");
        let levels = FlowLevels::new(rule, line, policy.buckets, policy.flows as usize);
        Self { policy: policy.clone(), seed, levels }
    }

    /// Decision for `frame`, which takes `bytes` on the wire and has the `skb->priority` `priority`.
    pub fn decide(&mut self, now: Time, frame: &[u8], bytes: Bytes, priority: u32) -> Verdict {
        let verdict = self.classify(now, frame, bytes, priority);
        self.levels.on_arrival(now, verdict.level, bytes);
        verdict
    }

    fn classify(&mut self, now: Time, frame: &[u8], bytes: Bytes, priority: u32) -> Verdict {
        let Read { key, kind } = Read::frame(frame);
        if kind == Kind::Arp {
            return Verdict { level: Priority::HIGHEST, bucket: 0, pinned: false, dscp: None };
        }
        if let Some(level) = self.pinned(kind, priority) {
            let bucket = key.bucket(self.seed, self.policy.buckets);
            return Verdict { level, bucket, pinned: true, dscp: None };
        }
        let (level, bucket) = self.levels.level(now, FlowId(self.id(&key)), bytes);
        let dscp = match kind {
            Kind::Ip { dscp, .. } => self.policy.dscp.get(level.index()).copied().filter(|&new| new != dscp),
            Kind::Arp | Kind::Other => None,
        };
        Verdict { level, bucket, pinned: false, dscp }
    }

    fn pinned(&self, kind: Kind, priority: u32) -> Option<Priority> {
        let by_priority = self.policy.pin_priority.iter().find(|(key, _)| *key == priority);
        let by_dscp = || match kind {
            Kind::Ip { dscp, .. } => self.policy.pin_dscp.iter().find(|(key, _)| *key == dscp),
            Kind::Arp | Kind::Other => None,
        };
        by_priority.map(|(_, level)| *level).or_else(|| by_dscp().map(|(_, level)| *level))
    }

    /// Two hashes, so that in practice no two flows collide.
    fn id(&self, key: &Key) -> u64 {
        u64::from(key.hash(self.seed)) << 32 | u64::from(key.hash(!self.seed))
    }
}
