//! Memory-bandwidth controller: keeps DRAM below saturation (C4).
//!
//! Per socket, while DRAM traffic exceeds THRESH_BW, the miss counters of the cores
//! are read in every round. Two undisturbed readings of a core give its miss rate.
//! The task with the highest total rate loses one core per round, its worst. One is
//! given back per round below the limit. A task keeps its guarantee; its class gives
//! no protection. While no LC task has used a core for [`UNUSED`], there is none to protect, and
//! nothing is taken (an addition).
//! Source: Caladan (OSDI '20) §5.2.2.

use queueing::{CoreId, Span, Time};

use crate::cores::{CoreAssignment, CoreState, Sample, Settings, Signals, TaskId};

/// Cap that limits nothing.
const NONE: u16 = u16::MAX;

/// Time after which an LC task that has used no core needs no protection.
const UNUSED: Span = Span::from_secs(1);

/// Memory-bandwidth controller of all sockets.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    bandwidth_max: f64,
    /// Cap on cores, by socket and task.
    caps: Vec<u16>,
    tasks: usize,
    /// Time at which an LC task last used a core.
    used_at: Option<Time>,
    /// True for each socket above the limit in the last round.
    over: Vec<bool>,
    /// Last reading of each core, with the start of its grant.
    last: Vec<Option<(Sample, Time)>>,
    /// Misses per second of each core; zero if unknown.
    rates: Vec<f64>,
    /// Misses per second of each task.
    totals: Vec<f64>,
}

impl Bandwidth {
    /// Controller for the tasks of `assignment`, without caps.
    pub fn new(settings: &Settings, assignment: &CoreAssignment) -> Self {
        let (tasks, cores) = (assignment.tasks().len(), assignment.topology().cores());
        Self {
            bandwidth_max: settings.bandwidth_max,
            caps: vec![NONE; tasks * assignment.topology().sockets()],
            tasks,
            used_at: None,
            over: vec![false; assignment.topology().sockets()],
            last: vec![None; cores],
            rates: vec![0.0; cores],
            totals: vec![0.0; tasks],
        }
    }

    /// True if `task` may have one more core on the socket of `core`.
    pub fn allows(&self, assignment: &CoreAssignment, core: CoreId, task: TaskId) -> bool {
        let socket = assignment.topology().socket(core);
        let guaranteed = assignment.running(task) < assignment.spec(task).guaranteed;
        guaranteed || assignment.running_on(socket, task) < self.caps[socket * self.tasks + task.index()]
    }

    /// Runs one round.
    pub fn round(&mut self, now: Time, signals: &Signals, assignment: &mut CoreAssignment) {
        let is_used = |task| assignment.spec(task).is_critical() && !signals.task(task).idle;
        if assignment.ids().any(is_used) {
            self.used_at = Some(now);
        }
        let protects = self.used_at.is_some_and(|used| now.since(used) < UNUSED);
        for socket in 0..assignment.topology().sockets() {
            let over = protects && signals.bandwidth[socket].is_some_and(|used| used > self.bandwidth_max);
            let was_over = std::mem::replace(&mut self.over[socket], over);
            if !over {
                self.raise_cap(socket, signals, assignment);
                continue;
            }
            if was_over {
                self.take_core(now, socket, signals, assignment);
            }
            for index in 0..assignment.topology().on_socket(socket).len() {
                let core = assignment.topology().on_socket(socket)[index];
                if !was_over {
                    self.last[core.0 as usize] = None;
                }
                if assignment.state(core).running().is_some() {
                    assignment.sample(core);
                }
            }
        }
    }

    /// Takes one core from the task with most misses, if any task can lose one.
    fn take_core(&mut self, now: Time, socket: usize, signals: &Signals, assignment: &mut CoreAssignment) {
        self.totals.fill(0.0);
        let mut any_rate = false;
        for &core in assignment.topology().on_socket(socket) {
            let index = core.0 as usize;
            self.rates[index] = 0.0;
            let Some(task) = assignment.state(core).running() else { continue };
            let Some(sample) = signals.cores[index].sample else { continue };
            let reading = (sample, assignment.held_since(core));
            let Some((before, since)) = self.last[index].replace(reading) else { continue };
            // Undisturbed: both readings belong to one grant, which began before the first.
            if since != reading.1 || before.at < since || before.at >= sample.at {
                continue;
            }
            let span = sample.at.since(before.at).as_secs_f64();
            self.rates[index] = sample.misses.saturating_sub(before.misses) as f64 / span;
            self.totals[task.index()] += self.rates[index];
            any_rate = true;
        }
        if !any_rate {
            return;
        }
        let can_lose = |&task: &TaskId| {
            assignment.running(task) > assignment.spec(task).guaranteed && self.totals[task.index()] > 0.0
        };
        let by_total = |a: &TaskId, b: &TaskId| self.totals[a.index()].total_cmp(&self.totals[b.index()]);
        let Some(victim) = assignment.ids().filter(can_lose).max_by(by_total) else { return };
        let worst = |a: &CoreId, b: &CoreId| self.rates[a.0 as usize].total_cmp(&self.rates[b.0 as usize]);
        let can_take = |&core: &CoreId| {
            assignment.state(core) == CoreState::Granted(victim) && !assignment.leased(now, core)
        };
        let Some(core) =
            assignment.topology().on_socket(socket).iter().copied().filter(can_take).max_by(worst)
        else {
            return;
        };
        self.caps[socket * self.tasks + victim.index()] = assignment.running_on(socket, victim) - 1;
        assignment.set(now, core, CoreState::Free);
    }

    /// Raises the cap of one task: the highest of those that could use it.
    fn raise_cap(&mut self, socket: usize, signals: &Signals, assignment: &CoreAssignment) {
        let caps = &mut self.caps[socket * self.tasks..][..self.tasks];
        let limited = assignment.ids().filter(|task| {
            let cap = caps[task.index()];
            let full = assignment.running_on(socket, *task) >= cap;
            cap != NONE && (!full || signals.task(*task).runnable > u32::from(assignment.running(*task)))
        });
        let Some(task) = limited.max_by_key(|task| caps[task.index()]) else { return };
        let cap = &mut caps[task.index()];
        *cap += 1;
        if usize::from(*cap) >= assignment.topology().cores() {
            *cap = NONE;
        }
    }
}
