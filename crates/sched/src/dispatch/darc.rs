//! DARC: workers reserved for short request types, by profile.
//!
//! Starts first come, first served and profiles. After a window of samples, types
//! of similar mean service time form groups, shortest first, and each group
//! reserves workers in proportion to its demand, at least one. A group may also use
//! idle workers of longer groups, never of shorter ones. When workers run out, the
//! last one, the *spillway*, is shared; requests of unknown type, which rank as the
//! longest, run only there. Long requests never occupy every worker, at the
//! price of idle ones.
//!
//! Within a group the type declared more urgent goes first, which extends DARC to
//! types of equal length (ADPS §4.1). Not preemptive, and not fair: in overload
//! shorter types can starve longer ones.
//! Source: Perséphone (SOSP '21) §3.

use std::collections::BTreeMap;

use queueing::{
    Discipline, Entry, Label, Priority, PushResult, SelectiveDequeue, SelectiveFifo, Span, StarvationBound,
    Time,
};

use super::profile::KINDS_MAX;
use super::{Dispatch, IdleWorkers, Profile, RequestType, Share, Task, WorkerId, WorkerSet};

/// Parameters of DARC.
#[derive(Clone, Debug, PartialEq)]
pub struct DarcSettings {
    /// Served requests per window, at least 1.
    pub samples: u64,
    /// Maximum ratio of a type's mean to the smallest mean in its group, at least
    /// 1.0.
    pub similarity: f64,
    /// Slowdown of a waiting request, relative to its type's mean. Workers are reserved again if it
    /// is exceeded and also some type's demand changed by more than `demand_change_min`.
    pub slowdown_max: f64,
    /// Change of a type's demand, as a share of the machine; see `slowdown_max`.
    pub demand_change_min: f64,
    /// Order of types within a group. A type not listed has the most urgent label
    /// it was seen with.
    pub urgency: Vec<(RequestType, Priority)>,
}

/// 50,000 samples, 20 % similarity, slowdown 10, 10 % of the machine
/// (Perséphone §3 and §4.3).
impl Default for DarcSettings {
    fn default() -> Self {
        Self {
            samples: 50_000,
            similarity: 1.2,
            slowdown_max: 10.0,
            demand_change_min: 0.1,
            urgency: Vec::new(),
        }
    }
}

/// Assignment of workers to groups of types.
#[derive(Clone, Debug, PartialEq)]
pub struct Reservation {
    /// Groups, shortest first.
    pub groups: Vec<Group>,
    /// Worker that is shared when workers run out, and that serves unknown types.
    pub spillway: WorkerId,
}

/// Types of similar length and their workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Types, most urgent first, then shortest first.
    pub kinds: Vec<RequestType>,
    /// Share of all service time, 0.0..=1.0.
    pub demand: f64,
    /// Workers reserved for this group.
    pub reserved: WorkerSet,
    /// Workers reserved for longer groups or for no group, which this group may use while they are
    /// idle.
    pub stealable: WorkerSet,
}

impl Reservation {
    /// Divides `workers` (1..=256) between the types of `shares`.
    ///
    /// Source: Perséphone §3, Algorithm 2.
    #[must_use]
    pub fn new(
        shares: &[Share],
        workers: usize,
        similarity: f64,
        urgency: impl Fn(RequestType) -> Priority,
    ) -> Self {
        assert!((1..=256).contains(&workers), "workers {workers} is outside 1..=256");
        let spillway = WorkerId((workers - 1) as u8);
        let mut by_mean = shares.to_vec();
        by_mean.sort_by(|a, b| a.mean_ns.total_cmp(&b.mean_ns).then(a.kind.cmp(&b.kind)));
        let mut groups = Vec::new();
        let mut free = 0;
        let mut rest = &by_mean[..];
        while let Some(first) = rest.first() {
            let similar =
                rest.iter().take_while(|s| s.mean_ns <= first.mean_ns * similarity.max(1.0)).count();
            let (members, longer) = rest.split_at(similar.max(1));
            let mut members = members.to_vec();
            members.sort_by_key(|s| urgency(s.kind));
            let demand: f64 = members.iter().map(|s| s.demand).sum();
            let wanted = ((demand * workers as f64).round() as usize).max(1);
            let until = (free + wanted).min(workers);
            let mut reserved: WorkerSet = (free..until).map(|w| WorkerId(w as u8)).collect();
            if reserved.is_empty() {
                reserved.insert(spillway);
            }
            let stealable = (until..workers).map(|w| WorkerId(w as u8)).collect();
            let kinds = members.iter().map(|s| s.kind).collect();
            groups.push(Group { kinds, demand, reserved, stealable });
            free = until;
            rest = longer;
        }
        Self { groups, spillway }
    }

    /// Group of `kind`; `None` if it is unknown.
    #[must_use]
    pub fn group(&self, kind: RequestType) -> Option<&Group> {
        self.groups.iter().find(|group| group.kinds.contains(&kind))
    }
}

/// Type of tasks whose bytes contain none, such as a request's later packets.
/// Profiled and given workers like any other.
pub const UNCLASSIFIED: RequestType = RequestType(u16::MAX);

/// Policy: dynamic application-aware reserved cores.
#[derive(Debug)]
pub struct Darc {
    settings: DarcSettings,
    workers: usize,
    capacity: usize,
    /// One queue per type; the first is for types beyond [`KINDS_MAX`].
    queues: Vec<Queue>,
    index: BTreeMap<RequestType, usize>,
    arrivals: u64,
    len: usize,
    profile: Profile,
    reservation: Option<Reservation>,
    /// Queues of each group.
    order: Vec<Vec<usize>>,
    /// Queues of types without a group.
    unknown: Vec<usize>,
}

#[derive(Debug)]
struct Queue {
    kind: Option<RequestType>,
    tasks: SelectiveFifo<SequencedTask>,
    urgency: Priority,
}

/// Task with its sequence number over all types.
#[derive(Clone, Copy, Debug)]
struct SequencedTask {
    sequence: u64,
    task: Task,
}

impl Entry for SequencedTask {
    fn label(&self) -> Label {
        self.task.label
    }
}

impl Darc {
    /// Policy for `workers` workers (1..=256) and at most `capacity` queued tasks;
    /// starts first come, first served.
    #[must_use]
    pub fn new(workers: usize, capacity: usize, settings: DarcSettings) -> Self {
        assert!((1..=256).contains(&workers), "workers {workers} is outside 1..=256");
        Self {
            settings,
            workers,
            capacity,
            queues: vec![Queue {
                kind: None,
                tasks: SelectiveFifo::new(capacity),
                urgency: Priority::LOWEST,
            }],
            index: BTreeMap::new(),
            arrivals: 0,
            len: 0,
            profile: Profile::default(),
            reservation: None,
            order: Vec::new(),
            unknown: vec![0],
        }
    }

    /// Current reservation; `None` while first come, first served.
    #[must_use]
    pub fn reservation(&self) -> Option<&Reservation> {
        self.reservation.as_ref()
    }

    /// Queue of `kind`, created on first use.
    fn queue(&mut self, kind: RequestType) -> usize {
        if let Some(&queue) = self.index.get(&kind) {
            return queue;
        }
        if self.index.len() >= KINDS_MAX {
            return 0;
        }
        let declared = self.settings.urgency.iter().find(|(k, _)| *k == kind);
        let urgency = declared.map_or(Priority::LOWEST, |&(_, priority)| priority);
        let queue = self.queues.len();
        self.queues.push(Queue { kind: Some(kind), tasks: SelectiveFifo::new(self.capacity), urgency });
        self.index.insert(kind, queue);
        self.unknown.push(queue);
        queue
    }

    /// Reserves workers after the first window; later only if requests wait too
    /// long and demand has changed.
    fn update(&mut self, now: Time) {
        let window = self.settings.samples.max(1);
        if self.profile.samples() < window {
            return;
        }
        let due = self.reservation.is_none()
            || (self.is_overdue(now) && self.profile.demand_change() > self.settings.demand_change_min);
        if due {
            self.reserve();
        } else if self.profile.samples() >= window.saturating_mul(2) {
            self.profile.halve_counts();
        }
    }

    /// True if the oldest request of some type exceeds the slowdown limit.
    fn is_overdue(&self, now: Time) -> bool {
        self.queues.iter().any(|queue| {
            let Some(mean_ns) = queue.kind.and_then(|kind| self.profile.mean_ns(kind)) else { return false };
            let oldest = queue.tasks.oldest();
            oldest.is_some_and(|since| {
                now.since(since).as_nanos() as f64 > self.settings.slowdown_max * mean_ns
            })
        })
    }

    fn reserve(&mut self) {
        let urgency = |kind| self.index.get(&kind).map_or(Priority::LOWEST, |&q| self.queues[q].urgency);
        let shares = self.profile.shares();
        let reservation = Reservation::new(&shares, self.workers, self.settings.similarity, urgency);
        self.profile.restart();
        self.order = reservation
            .groups
            .iter()
            .map(|group| group.kinds.iter().filter_map(|kind| self.index.get(kind).copied()).collect())
            .collect();
        self.unknown = (0..self.queues.len()).filter(|q| !self.order.iter().any(|o| o.contains(q))).collect();
        self.reservation = Some(reservation);
    }

    /// Dequeues the oldest task of `queue` that a worker of `sets` accepts; earlier
    /// sets take precedence.
    fn take(
        &mut self,
        now: Time,
        queue: usize,
        idle: &IdleWorkers,
        sets: &[&WorkerSet],
    ) -> Option<(WorkerId, Task)> {
        let tasks = &mut self.queues[queue].tasks;
        if tasks.is_empty() {
            return None;
        }
        for set in sets {
            let free = idle.within(set);
            if let Some(SequencedTask { task, .. }) = tasks.pop_among(now, free.wanted()) {
                self.len -= 1;
                return free.accepting[task.label.priority.index()].lowest().map(|worker| (worker, task));
            }
        }
        None
    }

    /// Dequeues the oldest task of a type without a group; without a reservation
    /// that is any type.
    fn take_unknown(&mut self, now: Time, idle: &IdleWorkers, set: &WorkerSet) -> Option<(WorkerId, Task)> {
        let wanted = idle.within(set).wanted();
        let sequence = |q: usize| self.queues[q].tasks.peek_among(wanted).map(|head| head.sequence);
        let queue = self.unknown.iter().filter_map(|&q| Some((sequence(q)?, q))).min()?.1;
        self.take(now, queue, idle, &[set])
    }

    fn take_reserved(
        &mut self,
        now: Time,
        reservation: &Reservation,
        idle: &IdleWorkers,
    ) -> Option<(WorkerId, Task)> {
        for (g, group) in reservation.groups.iter().enumerate() {
            for at in 0..self.order[g].len() {
                let assigned = self.take(now, self.order[g][at], idle, &[&group.reserved, &group.stealable]);
                if assigned.is_some() {
                    return assigned;
                }
            }
        }
        self.take_unknown(now, idle, &WorkerSet::from_iter([reservation.spillway]))
    }
}

impl Dispatch for Darc {
    fn needs_kind(&self) -> bool {
        true
    }

    fn push(&mut self, now: Time, task: Task) -> Result<(), Task> {
        if self.len >= self.capacity {
            return Err(task);
        }
        let kind = task.kind.unwrap_or(UNCLASSIFIED);
        let at = self.queue(kind);
        let declared = self.settings.urgency.iter().any(|&(declared, _)| declared == kind);
        let queue = &mut self.queues[at];
        if !declared {
            queue.urgency = queue.urgency.min(task.label.priority);
        }
        let sequenced = SequencedTask { sequence: self.arrivals, task };
        if let PushResult::Refused(_) | PushResult::PushedOut(_) = queue.tasks.push(now, sequenced) {
            return Err(task);
        }
        self.arrivals += 1;
        self.len += 1;
        Ok(())
    }

    fn assign(&mut self, now: Time, idle: &IdleWorkers) -> Option<(WorkerId, Task)> {
        if self.len == 0 {
            return None;
        }
        self.update(now);
        match self.reservation.take() {
            None => self.take_unknown(now, idle, &WorkerSet::first(256)),
            Some(reservation) => {
                let assigned = self.take_reserved(now, &reservation, idle);
                self.reservation = Some(reservation);
                assigned
            }
        }
    }

    fn on_done(&mut self, _now: Time, _worker: WorkerId, kind: Option<RequestType>, service: Span) {
        self.profile.record(kind.unwrap_or(UNCLASSIFIED), service);
    }

    /// Shorter types may use the workers of longer ones, so in overload every type
    /// but the shortest can starve, whatever its label.
    fn starvation(&self) -> StarvationBound {
        StarvationBound::Unbounded { from: Priority::HIGHEST }
    }

    fn oldest(&self) -> Option<Time> {
        self.queues.iter().filter_map(|queue| queue.tasks.oldest()).min()
    }

    fn len(&self) -> usize {
        self.len
    }
}
