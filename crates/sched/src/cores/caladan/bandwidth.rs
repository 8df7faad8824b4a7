//! Memory-bandwidth controller: keeps DRAM below saturation (C4).
//!
//! Per socket, while DRAM traffic exceeds THRESH_BW, the miss counters of the cores
//! are read in every round. Two undisturbed readings of a core give its miss rate.
//! The task with the highest total rate loses one core per round, its worst. One is
//! given back per round below the limit. A task keeps its guarantee; its class gives
//! no protection.
//! Source: Caladan (OSDI '20) §5.2.2.

use queueing::{CoreId, Time};

use crate::cores::{CoreAssignment, CoreState, Sample, Settings, Signals, TaskId};

/// Cap that limits nothing.
const NONE: u16 = u16::MAX;

/// Memory-bandwidth controller of all sockets.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    bandwidth_max: f64,
    /// Cap on cores, by socket and task.
    caps: Vec<u16>,
    tasks: usize,
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
    /// Controller for the tasks of `board`, without caps.
    pub fn new(settings: &Settings, board: &CoreAssignment) -> Self {
        let (tasks, cores) = (board.tasks().len(), board.topology().cores());
        Self {
            bandwidth_max: settings.bandwidth_max,
            caps: vec![NONE; tasks * board.topology().sockets()],
            tasks,
            over: vec![false; board.topology().sockets()],
            last: vec![None; cores],
            rates: vec![0.0; cores],
            totals: vec![0.0; tasks],
        }
    }

    /// True if `task` may have one more core on the socket of `core`.
    pub fn allows(&self, board: &CoreAssignment, core: CoreId, task: TaskId) -> bool {
        let socket = board.topology().socket(core);
        let guaranteed = board.running(task) < board.spec(task).guaranteed;
        guaranteed || board.running_on(socket, task) < self.caps[socket * self.tasks + task.index()]
    }

    /// Runs one round.
    pub fn round(&mut self, now: Time, signals: &Signals, board: &mut CoreAssignment) {
        for socket in 0..board.topology().sockets() {
            let over = signals.bandwidth[socket].is_some_and(|used| used > self.bandwidth_max);
            let was_over = std::mem::replace(&mut self.over[socket], over);
            if !over {
                self.relax(socket, signals, board);
                continue;
            }
            if was_over {
                self.punish(now, socket, signals, board);
            }
            for place in 0..board.topology().on_socket(socket).len() {
                let core = board.topology().on_socket(socket)[place];
                if !was_over {
                    self.last[core.0 as usize] = None;
                }
                if board.hold(core).running().is_some() {
                    board.sample(core);
                }
            }
        }
    }

    /// Takes one core from the task with most misses, if any task can lose one.
    fn punish(&mut self, now: Time, socket: usize, signals: &Signals, board: &mut CoreAssignment) {
        self.totals.fill(0.0);
        let mut seen = false;
        for &core in board.topology().on_socket(socket) {
            let place = core.0 as usize;
            self.rates[place] = 0.0;
            let Some(task) = board.hold(core).running() else { continue };
            let Some(sample) = signals.cores[place].sample else { continue };
            let reading = (sample, board.held_since(core));
            let Some((before, since)) = self.last[place].replace(reading) else { continue };
            // Undisturbed: both readings belong to one grant, which began before the first.
            if since != reading.1 || before.at < since || before.at >= sample.at {
                continue;
            }
            let span = sample.at.since(before.at).as_secs_f64();
            self.rates[place] = sample.misses.saturating_sub(before.misses) as f64 / span;
            self.totals[task.index()] += self.rates[place];
            seen = true;
        }
        if !seen {
            return;
        }
        let can_lose = |&task: &TaskId| {
            board.running(task) > board.spec(task).guaranteed && self.totals[task.index()] > 0.0
        };
        let most = |a: &TaskId, b: &TaskId| self.totals[a.index()].total_cmp(&self.totals[b.index()]);
        let Some(victim) = board.ids().filter(can_lose).max_by(most) else { return };
        let worst = |a: &CoreId, b: &CoreId| self.rates[a.0 as usize].total_cmp(&self.rates[b.0 as usize]);
        let its = |&core: &CoreId| board.hold(core) == CoreState::Granted(victim) && !board.leased(now, core);
        let Some(core) = board.topology().on_socket(socket).iter().copied().filter(its).max_by(worst) else {
            return;
        };
        self.caps[socket * self.tasks + victim.index()] = board.running_on(socket, victim) - 1;
        board.set(now, core, CoreState::Free);
    }

    /// Raises the cap of one task: the highest of those that could use it.
    fn relax(&mut self, socket: usize, signals: &Signals, board: &CoreAssignment) {
        let caps = &mut self.caps[socket * self.tasks..][..self.tasks];
        let limited = board.ids().filter(|task| {
            let cap = caps[task.index()];
            let full = board.running_on(socket, *task) >= cap;
            cap != NONE && (!full || signals.task(*task).runnable > u32::from(board.running(*task)))
        });
        let Some(task) = limited.max_by_key(|task| caps[task.index()]) else { return };
        let cap = &mut caps[task.index()];
        *cap += 1;
        if usize::from(*cap) >= board.topology().cores() {
            *cap = NONE;
        }
    }
}
