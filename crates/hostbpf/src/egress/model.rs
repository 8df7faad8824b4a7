//! Reference model of the classifier's decision, with which tests compare the loaded program.
//!
//! Levels are those of [`Mlfq`], which simulated switches use as well. Added are frame parsing,
//! pinning, the estimate of departures ([`Backlog`]), which simulated switches see, and the queue within
//! a level: new flows take queues in turn and keep them, pinned packets are hashed.
//!
//! The kernel's flow map evicts the least recently used flow approximately, this model exactly;
//! otherwise both agree.

use std::num::NonZeroUsize;

use lru::LruCache;
use queueing::{Bytes, FlowId, Mlfq, Priority, Thresholds, Time};

use super::backlog::{Backlog, FlowState, Line};
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
    line: Line,
    rule: Thresholds,
    mlfq: Mlfq,
    backlog: Backlog,
    flows: LruCache<FlowId, Flow>,
    /// New flows so far.
    new: u64,
}

/// State of a flow besides its level.
#[derive(Clone, Copy, Debug)]
struct Flow {
    /// Its queue.
    bucket: u16,
    sent: u64,
    state: FlowState,
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
        let mlfq = Mlfq::new(rule.clone(), policy.idle, policy.flows as usize);
        let flows =
            LruCache::new(NonZeroUsize::new(policy.flows as usize).expect("a policy that was checked"));
        let backlog = Backlog::default();
        Self { policy: policy.clone(), seed, line, rule, mlfq, backlog, flows, new: 0 }
    }

    /// Decision for `frame`, which takes `bytes` on the wire and has the `skb->priority` `priority`.
    pub fn decide(&mut self, now: Time, frame: &[u8], bytes: Bytes, priority: u32) -> Verdict {
        let verdict = self.classify(now, frame, bytes, priority);
        let cost_ns = self.line.cost_ns(bytes);
        self.backlog.on_arrival(now.as_nanos(), verdict.level.index(), cost_ns, &self.line);
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
        let (level, bucket) = self.count(now, FlowId(self.id(&key)), bytes);
        let dscp = match kind {
            Kind::Ip { dscp, .. } => self.policy.dscp.get(level.index()).copied().filter(|&new| new != dscp),
            Kind::Arp | Kind::Other => None,
        };
        Verdict { level, bucket, pinned: false, dscp }
    }

    /// Level and queue of a packet that `id` sends; a new flow takes the next queue.
    fn count(&mut self, now: Time, id: FlowId, bytes: Bytes) -> (Priority, u16) {
        let (new, buckets) = (&mut self.new, u64::from(self.policy.buckets));
        let now_ns = now.as_nanos();
        let flow = self.flows.get_or_insert_mut(id, || {
            *new += 1;
            let state = FlowState { last_ns: now_ns, ..FlowState::default() };
            Flow { bucket: ((*new - 1) % buckets) as u16, sent: 0, state }
        });
        let before = self.rule.level(Bytes::new(flow.sent)).index();
        let is_idle = flow.state.is_idle(&self.backlog, now_ns, before, &self.line);
        if is_idle {
            self.mlfq.on_drained(Time::from_nanos(now_ns - self.line.idle_ns), id);
        }
        let level = self.mlfq.level(now, id, bytes);
        flow.sent = if is_idle { bytes.get() } else { flow.sent.saturating_add(bytes.get()) };
        let after = self.rule.level(Bytes::new(flow.sent)).index();
        let cost_ns = self.line.cost_ns(bytes);
        flow.state.on_arrival(&self.backlog, now_ns, after, cost_ns, &self.line);
        (level, flow.bucket)
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
