//! The decision in Rust: what the loaded program is held to.
//!
//! Levels are [`Mlfq`]'s, the same that simulated switches count with; what is
//! added is how a frame is read, who is pinned, and which queue of a level:
//! new flows take queues in turn and keep them, pinned packets are hashed.
//! Where the kernel's map of flows forgets approximately who paused longest,
//! this forgets exactly; short of that both say the same.

use std::num::NonZeroUsize;

use lru::LruCache;
use queueing::{Bytes, FlowId, Mlfq, Priority, Time};

use super::flow_key::{Key, Kind, Read};
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
    /// Each flow's queue.
    queues: LruCache<FlowId, u16>,
    /// Flows that were new so far.
    new: u64,
}

impl Model {
    /// A model of `policy`, with pinned packets spread by `seed`.
    ///
    /// # Panics
    /// When [`Policy::check`] refuses the policy.
    #[must_use]
    pub fn new(policy: &Policy, seed: u64) -> Self {
        policy.check().expect("a policy that was checked");
        let rule = policy.rule().expect("a policy that was checked");
        let mlfq = Mlfq::new(rule, policy.idle, policy.flows as usize);
        let flows = NonZeroUsize::new(policy.flows as usize).expect("a policy that was checked");
        Self { policy: policy.clone(), seed, mlfq, queues: LruCache::new(flows), new: 0 }
    }

    /// Where `frame` goes, which takes `bytes` on the wire and was given
    /// `priority` by its sender.
    pub fn decide(&mut self, now: Time, frame: &[u8], bytes: Bytes, priority: u32) -> Verdict {
        let Read { key, kind } = Read::frame(frame);
        if kind == Kind::Arp {
            return Verdict { level: Priority::HIGHEST, bucket: 0, pinned: false, dscp: None };
        }
        if let Some(level) = self.pinned(kind, priority) {
            let bucket = key.bucket(self.seed, self.policy.buckets);
            return Verdict { level, bucket, pinned: true, dscp: None };
        }
        let flow = FlowId(self.id(&key));
        let level = self.mlfq.level(now, flow, bytes);
        let bucket = self.queue(flow);
        let dscp = match kind {
            Kind::Ip { dscp, .. } => self.policy.dscp.get(level.index()).copied().filter(|&new| new != dscp),
            Kind::Arp | Kind::Other => None,
        };
        Verdict { level, bucket, pinned: false, dscp }
    }

    /// The queue that `flow` has, or takes as the next new one.
    fn queue(&mut self, flow: FlowId) -> u16 {
        let (new, buckets) = (&mut self.new, u64::from(self.policy.buckets));
        *self.queues.get_or_insert(flow, || {
            *new += 1;
            ((*new - 1) % buckets) as u16
        })
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
