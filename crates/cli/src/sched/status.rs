//! Status output of a scheduler: at the start, periodically, and at the end.

use hostsched::{Figures, Manager};
use queueing::{Histogram, Span, Time};
use sched::cores::contention_alarm::Contention;
use sched::cores::{Allocator, TaskId};
use serde_json::{Value, json};

use super::config::{Config, Task};
use crate::table::{Table, micros};
use crate::ui::{Figure, Labels, metrics};
use crate::{failure, report};

/// Statistics since the last line, and in total.
pub struct Status {
    began: Time,
    /// Marks of the last line and of the last live-view update.
    reported: Mark,
    shown: Mark,
    /// Cost of rounds.
    pub cost: Histogram,
    pub rounds: u64,
    pub actions: u64,
    /// Conditions raised so far.
    pub raised: u64,
    /// The kernel's reason for the loss of the mechanism, if lost.
    pub lost: Option<String>,
    /// Error of the last write of the metrics, if any.
    metrics_failed: Option<String>,
}

/// Beginning of an interval.
struct Mark {
    at: Time,
    before: Vec<Figures>,
    /// The longest wait since then.
    longest: Vec<Span>,
}

/// Statistics of a task in an interval.
struct Line {
    cores: u16,
    cpu: f64,
    wait: Option<Span>,
    longest: Span,
    threads: usize,
    /// Managed threads whose waits are not read, and threads that are not managed.
    unwatched: usize,
    unmanaged: usize,
    parked: bool,
    /// True if a request is behind its budget.
    behind: bool,
    refused: u64,
    /// Reporting workers, and the parked ones among them.
    workers: Option<(usize, usize)>,
}

impl Status {
    /// Statistics of `tasks` tasks from `now` on.
    pub fn new(now: Time, tasks: usize) -> Self {
        let mark =
            || Mark { at: now, before: vec![Figures::default(); tasks], longest: vec![Span::ZERO; tasks] };
        let (cost, rounds, actions, raised) = (Histogram::coarse(), 0, 0, 0);
        let metrics_failed = None;
        Self {
            began: now,
            reported: mark(),
            shown: mark(),
            cost,
            rounds,
            actions,
            raised,
            lost: None,
            metrics_failed,
        }
    }

    /// Statistics since `mark`, for the last line or the last live-view update.
    fn lines(
        &mut self,
        now: Time,
        manager: &mut dyn Manager,
        allocator: &Allocator,
        for_view: bool,
    ) -> Vec<Line> {
        for number in 0..self.reported.before.len() {
            let longest = manager.take_longest(TaskId(number as u16));
            for mark in [&mut self.reported, &mut self.shown] {
                mark.longest[number] = mark.longest[number].max(longest);
            }
        }
        let mark = if for_view { &mut self.shown } else { &mut self.reported };
        let seconds = now.since(std::mem::replace(&mut mark.at, now)).as_secs_f64().max(1e-9);
        let of = |(number, (before, longest)): (usize, (&mut Figures, &mut Span))| {
            let task = TaskId(number as u16);
            let figures = *manager.figures(task);
            let turns = figures.turns - before.turns;
            let waited = Span::from_nanos(figures.waited_ns - before.waited_ns);
            let line = Line {
                cores: allocator.assignment().held(task),
                cpu: (figures.ran_ns - before.ran_ns) as f64 / 1e9 / seconds,
                wait: (turns > 0).then(|| waited / turns),
                longest: std::mem::take(longest),
                threads: figures.threads,
                unwatched: figures.unwatched,
                unmanaged: figures.unmanaged,
                parked: manager.is_parked(task),
                behind: allocator.signals().task(task).late,
                refused: figures.refused,
                workers: manager.workers(task),
            };
            *before = figures;
            line
        };
        mark.before.iter_mut().zip(&mut mark.longest).enumerate().map(of).collect()
    }

    /// Figures of the tasks for the live view.
    pub fn figures(
        &mut self,
        now: Time,
        config: &Config,
        manager: &mut dyn Manager,
        allocator: &Allocator,
        conditions: &[Contention],
    ) -> Vec<Figure> {
        let lines = self.lines(now, manager, allocator, true);
        figures(config, &lines, self, manager.sensor().slowdown(), conditions)
    }

    /// Prints a line for each task since the last time, as text or JSON, and writes the metrics, if
    /// requested.
    pub fn report(
        &mut self,
        now: Time,
        config: &Config,
        manager: &mut dyn Manager,
        allocator: &Allocator,
        conditions: &[Contention],
        as_json: bool,
    ) {
        let lines = self.lines(now, manager, allocator, false);
        let at = now.since(self.began).as_secs_f64();
        let slowdown = manager.sensor().slowdown();
        if as_json {
            let tasks = config.tasks.iter().zip(&lines).map(|(task, line)| {
                json!({
                    "name": task.name, "class": class(task), "cores": line.cores, "cpu": line.cpu,
                    "wait_ns": line.wait.map(Span::as_nanos), "longest_ns": line.longest.as_nanos(),
                    "threads": line.threads, "unwatched": line.unwatched, "unmanaged": line.unmanaged, "parked": line.parked, "behind": line.behind, "refused": line.refused,
                    "workers": line.workers.map(|(all, _)| all),
                    "workers_parked": line.workers.map(|(_, parked)| parked),
                })
            });
            let tasks: Vec<Value> = tasks.collect();
            let conditions: Vec<String> = conditions.iter().map(|trouble| named(*trouble, config)).collect();
            outln!(
                "{}",
                json!({
                    "event": "status", "at_s": at, "tasks": tasks, "slowdown": slowdown, "rounds": self.rounds,
                    "actions": self.actions, "round_ns_p50": self.cost.quantile(0.5).as_nanos(),
                    "round_ns_p99": self.cost.quantile(0.99).as_nanos(), "conditions": conditions,
                })
            );
        } else {
            let slow = slowdown.map_or(String::new(), |times| format!("  dram {times:.2}×"));
            let tasks: String = config
                .tasks
                .iter()
                .zip(&lines)
                .map(|(task, line)| {
                    let wait = line.wait.map_or("–".to_owned(), |wait| wait.to_string());
                    let state =
                        if line.parked { "parked".to_owned() } else { format!("{} held", line.cores) };
                    let workers = match line.workers {
                        Some((all, parked)) => format!(" by {} of {all} workers", all - parked),
                        None => String::new(),
                    };
                    let behind = if line.behind { ", behind" } else { "" };
                    let count = |threads: usize, what: &str| match threads {
                        0 => String::new(),
                        1 => format!(", 1 thread {what}"),
                        n => format!(", {n} threads {what}"),
                    };
                    let unwatched = count(line.unwatched, "not watched");
                    let unmanaged = count(line.unmanaged, "not managed");
                    format!(
                        "  {} {state}{workers}, {:.2} cores, wait {wait}, longest {}{behind}{unwatched}{unmanaged}",
                        task.name, line.cpu, line.longest
                    )
                })
                .collect::<Vec<_>>()
                .join(";");
            outln!("{at:7.1} s{tasks}{slow}");
        }
        if let Some(path) = &config.metrics {
            let text = metrics::text(&figures(config, &lines, self, slowdown, conditions), &[]);
            let failed = report::at_once(path, &text).err().map(|e| e.parts().0.to_owned());
            if let Some(why) = failed.as_ref().filter(|_| failed != self.metrics_failed) {
                errln!("metrics: {why}; retried with each status");
            }
            self.metrics_failed = failed;
        }
    }

    /// Prints the whole run: a row per task, and the scheduler's cost.
    pub fn end(&self, now: Time, config: &Config, manager: &dyn Manager, restored: &str, as_json: bool) {
        if let Some(why) = &self.metrics_failed {
            failure::note(format!("the metrics file does not have the final values: {why}"));
        }
        let seconds = now.since(self.began).as_secs_f64().max(1e-9);
        for (number, task) in config.tasks.iter().enumerate() {
            for file in manager.taken().silent(TaskId(number as u16)) {
                errln!(
                    "{}: no service reported its queue in {}, so it requested no core",
                    task.name,
                    file.display()
                );
            }
        }
        let figures = |number: usize| manager.figures(TaskId(number as u16));
        let wait =
            |figures: &Figures| Span::from_nanos(figures.waited_ns.checked_div(figures.turns).unwrap_or(0));
        let cost = self.cost.mean().as_secs_f64() * self.rounds as f64 / seconds;
        if as_json {
            let tasks = config.tasks.iter().enumerate().map(|(number, task)| {
                let its = figures(number);
                json!({ "name": task.name, "class": class(task), "cpu": its.ran_ns as f64 / 1e9 / seconds, "wait_ns": wait(its).as_nanos() })
            });
            outln!(
                "{}",
                json!({
                    "event": "end", "at_s": seconds, "tasks": tasks.collect::<Vec<_>>(), "rounds": self.rounds,
                    "actions": self.actions, "raised": self.raised, "cost": cost, "restored": restored,
                })
            );
            return;
        }
        let mut table = Table::new(2, &["task", "", "cores used", "mean wait, µs"]);
        for (number, task) in config.tasks.iter().enumerate() {
            let its = figures(number);
            let used = format!("{:.2}", its.ran_ns as f64 / 1e9 / seconds);
            table.row(vec![task.name.clone(), class(task).to_owned(), used, micros(wait(its))]);
        }
        out!("{table}");
        outln!(
            "{seconds:.1} s; scheduler: {} rounds, {} µs each (p99 {} µs), {:.1} % of a core; {} core moves; {} interference alarms; {restored}",
            self.rounds,
            micros(self.cost.quantile(0.5)),
            micros(self.cost.quantile(0.99)),
            cost * 100.0,
            self.actions,
            self.raised,
        );
    }
}

/// Statistics of tasks in an interval, for Prometheus and the live view.
fn figures(
    config: &Config,
    lines: &[Line],
    status: &Status,
    slowdown: Option<f64>,
    conditions: &[Contention],
) -> Vec<Figure> {
    let mut figures = Vec::new();
    let mut by_task = |name: &str, value: &dyn Fn(&Line) -> Option<f64>| {
        for (task, line) in config.tasks.iter().zip(lines) {
            let labels = Labels::none().with("task", &task.name).with("class", class(task));
            figures.extend(value(line).map(|value| Figure::new(name, labels, value)));
        }
    };
    by_task("greenwave_sched_cores", &|line| Some(f64::from(line.cores)));
    by_task("greenwave_sched_cpu_cores", &|line| Some(line.cpu));
    // No turn, no wait.
    by_task("greenwave_sched_wait_seconds", &|line| line.wait.map(Span::as_secs_f64));
    by_task("greenwave_sched_wait_longest_seconds", &|line| Some(line.longest.as_secs_f64()));
    by_task("greenwave_sched_unmanaged_threads", &|line| Some(line.unmanaged as f64));
    by_task("greenwave_sched_unwatched_threads", &|line| Some(line.unwatched as f64));
    by_task("greenwave_sched_parked", &|line| Some(f64::from(u8::from(line.parked))));
    let totals = [
        ("greenwave_sched_rounds_total", status.rounds),
        ("greenwave_sched_reallocations_total", status.actions),
        ("greenwave_sched_alarms_total", status.raised),
    ];
    figures.extend(totals.map(|(name, total)| Figure::new(name, Labels::none(), total as f64)));
    figures.extend(slowdown.map(|times| Figure::new("greenwave_sched_dram_slowdown", Labels::none(), times)));
    figures.extend(conditions.iter().map(|trouble| {
        let (what, location) = parts(*trouble, config);
        let labels = Labels::none().with("trouble", what).with("where", location);
        Figure::new("greenwave_sched_alarm", labels, 1.0)
    }));
    figures
}

/// `LC` or `BE`.
fn class(task: &Task) -> &'static str {
    if task.is_critical() { "LC" } else { "BE" }
}

/// `queue memcached`, `bandwidth socket 0`.
pub fn named(trouble: Contention, config: &Config) -> String {
    let (what, location) = parts(trouble, config);
    format!("{what} {location}")
}

/// The contention's kind and place.
pub fn parts(trouble: Contention, config: &Config) -> (&'static str, String) {
    match trouble {
        Contention::Queue(task) => ("queue", config.tasks[task.index()].name.clone()),
        Contention::Bandwidth(socket) => ("bandwidth", format!("socket {socket}")),
    }
}
