//! Tasks under management: the state that all mechanisms share.
//!
//! Not here: the owner of each core, which the mechanism keeps.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use queueing::{Span, Time};
use rustix::thread::CpuSet;
use sched::cores::affinity::ThreadSample;
use sched::cores::{Signals, TaskId, TaskSpec};

use super::cpu_ranks::CpuRanks;
use super::pressure_files::PressureReports;
use super::tail_latency_files::TailFiles;
use super::task::{Managed, RESCAN, Stranger};
use super::undo_log::Restored;
use super::{CoresError, Journal, Layout, Protected, Sensor, TaskSetup, task_selector};
use host::proc;
use host::sched_policy::SchedPolicy;

/// Parameters of a mechanism.
pub struct Setup {
    /// The managed cores.
    pub layout: Layout,
    /// Tasks, each with its name for errors.
    pub tasks: Vec<(String, TaskSetup)>,
    /// Makes LC threads real-time, where that is permitted.
    pub real_time: bool,
    /// Time without need after which LC gives a core back.
    pub calm: Span,
    /// Time between rounds.
    pub period: Span,
    /// DRAM sensor.
    pub sensor: Box<dyn Sensor>,
    /// Undo log, written before every change.
    pub journal: Journal,
}

/// Tasks under management, and their earlier state.
pub struct ManagedTasks {
    pub(super) layout: Layout,
    pub(super) specs: Vec<TaskSpec>,
    names: Vec<String>,
    pub(super) tasks: Vec<Managed>,
    pub(super) protected: Protected,
    ranks: CpuRanks,
    /// Refusals that were reported, by task and process.
    reported: BTreeSet<(usize, u32)>,
    tails: TailFiles,
    asking: PressureReports,
    pub(super) sensor: Box<dyn Sensor>,
    pub(super) journal: Journal,
    scanned: Time,
}

impl ManagedTasks {
    /// Takes the tasks over at `now`; LC gets class `lc` and BE class `be`, if given.
    ///
    /// # Errors
    /// A task does not exist or we may not schedule it; the others are restored.
    pub(super) fn new(
        setup: Setup,
        [lc, be]: [Option<SchedPolicy>; 2],
        now: Time,
    ) -> Result<Self, CoresError> {
        let Setup { layout, tasks, real_time: _, calm: _, period: _, sensor, mut journal } = setup;
        let protected = Protected::current(journal.guardian());
        let names: Vec<String> = tasks.iter().map(|(name, _)| name.clone()).collect();
        task_selector::check_all(tasks.iter().map(|(name, task)| (&**name, &task.selector)), &protected)?;
        let mut managed: Vec<Managed> = Vec::new();
        for (number, (name, task)) in tasks.iter().enumerate() {
            let critical = task.spec.is_critical();
            let class = if critical { lc } else { be };
            let selector = task.selector.clone();
            let stranger = |process: u32, is_new: bool| {
                stranger(&protected, &names, managed.iter().enumerate(), false, process, is_new)
            };
            match Managed::take(number, critical, class, selector, now, &mut journal, &stranger) {
                Ok(task) => managed.push(task),
                Err(e) => {
                    // What could not be restored stays in the log for the next start.
                    let _ = journal.put_back();
                    return Err(e.of_task(name));
                }
            }
        }
        let (mut specs, mut tails, mut report_files) = (Vec::new(), Vec::new(), Vec::new());
        for (_, TaskSetup { spec, tail, queue_reports: files, .. }) in tasks {
            specs.push(spec);
            tails.push(tail);
            report_files.push(files);
        }
        let (tails, asking) = (TailFiles::new(tails, now), PressureReports::new(report_files));
        let ranks = CpuRanks::default();
        let mut taken = Self {
            layout,
            specs,
            names,
            tasks: managed,
            protected,
            ranks,
            reported: BTreeSet::new(),
            tails,
            asking,
            sensor,
            journal,
            scanned: now,
        };
        taken.rank(now);
        Ok(taken)
    }

    /// Ranks the groups of best effort below those of latency-critical tasks, when that is due.
    fn rank(&mut self, now: Time) {
        if !self.ranks.is_due(now) {
            return;
        }
        let tasks: Vec<(bool, BTreeSet<u32>)> =
            self.tasks.iter().map(|task| (task.is_critical(), task.processes().collect())).collect();
        self.ranks.update(now, &tasks, &mut self.journal);
    }

    /// Pairs of an LC and a BE task between whose control groups the kernel does not prefer LC, as lines
    /// of text.
    #[must_use]
    pub fn rank_limits(&self) -> Vec<String> {
        self.ranks.limits(&self.names)
    }

    /// Groups whose share of the cores was changed, as lines of text.
    #[must_use]
    pub fn rank_changes(&self) -> Vec<String> {
        self.ranks.changes()
    }

    /// Processes in tasks' control groups that are not managed, each reported once.
    pub fn take_refusals(&mut self) -> Vec<String> {
        let mut refusals = Vec::new();
        for (number, task) in self.tasks.iter().enumerate() {
            for (process, reason) in task.strangers() {
                if self.reported.insert((number, process)) {
                    refusals.push(format!(
                        "task {}: process {process} ({}) in its cgroup is {reason}: it is not managed, and the \
                         cgroup is not parked while it is inside",
                        self.names[number],
                        proc::name(process)
                    ));
                }
            }
        }
        let tasks = &self.tasks;
        self.reported.retain(|&(number, process)| tasks[number].strangers().any(|known| known.0 == process));
        refusals
    }

    /// Samples the threads of task `number`; one counts as waiting from a wait of `longer`.
    pub(super) fn sample(&mut self, now: Time, number: usize, longer: Span) -> ThreadSample {
        let (before, rest) = self.tasks.split_at_mut(number);
        let (task, after) = rest.split_first_mut().expect("a task of that number");
        let others_wait = before.iter().chain(&*after).any(Managed::busy_wait);
        task.sample(now, longer, others_wait)
    }

    /// Gives `task` these cores, or parks it.
    pub(super) fn place(&mut self, task: TaskId, cores: Option<CpuSet>) {
        self.tasks[task.index()].place(cores, &self.protected, &mut self.journal);
    }

    /// Rescans processes and threads when that is due; true if it did.
    pub(super) fn rescan(&mut self, now: Time) -> bool {
        let due = now.since(self.scanned) >= RESCAN;
        if due {
            self.scanned = now;
            self.protected = Protected::current(self.journal.guardian());
            for number in 0..self.tasks.len() {
                let (before, rest) = self.tasks.split_at_mut(number);
                let Some((task, after)) = rest.split_first_mut() else { break };
                let is_threaded = task.is_threaded();
                let (protected, names) = (&self.protected, &self.names);
                let stranger = |process: u32, is_new: bool| {
                    let others = before.iter().enumerate().chain((number + 1..).zip(&*after));
                    stranger(protected, names, others, is_threaded, process, is_new)
                };
                task.scan(now, &mut self.journal, &stranger);
            }
            self.rank(now);
            let tasks = &self.tasks;
            // Tried again at the next scan.
            let _ = self.journal.keep();
            // If the log cannot be shortened, the longer one stays in use.
            let _ = self.journal.shorten(|task, thread| tasks[task].is_watched(thread));
        }
        due
    }

    /// Reads the clients' tail latencies and the services' queue reports.
    pub(super) fn listen(&mut self, now: Time, signals: &mut Signals) {
        self.tails.read(now, &mut signals.tasks);
        self.asking.read(now);
        for (number, seen) in signals.tasks.iter_mut().enumerate() {
            seen.late = self.asking.is_behind(TaskId(number as u16));
        }
    }

    /// Queue-report files of `task` that no service has ever written.
    pub fn silent(&self, task: TaskId) -> impl Iterator<Item = &Path> {
        self.asking.silent(task)
    }

    /// True if tasks were rescanned at `now`.
    pub(super) fn was_scanned(&self, now: Time) -> bool {
        self.scanned == now
    }

    pub(super) fn put_back(&self) -> io::Result<Restored> {
        self.journal.put_back()
    }

    pub(super) fn of(&self, task: TaskId) -> &Managed {
        &self.tasks[task.index()]
    }
}

/// Reason why `process`, found in the group of a task, must not be managed there; `others` are the other
/// tasks with their numbers, and `is_new` is true if it was not there at the last scan.
fn stranger<'a>(
    protected: &Protected,
    names: &[String],
    mut others: impl Iterator<Item = (usize, &'a Managed)>,
    is_threaded: bool,
    process: u32,
    is_new: bool,
) -> Option<Stranger> {
    let role = if is_new { protected.role(process) } else { protected.known_role(process) };
    // Two threaded groups divide the threads of a process.
    let contains = |task: &Managed| task.has_process(process) && !(is_threaded && task.is_threaded());
    let mut other = || others.find(|(_, task)| contains(task));
    role.map(Stranger::Protected)
        .or_else(|| other().map(|(number, _)| Stranger::OtherTask(names[number].clone())))
}
