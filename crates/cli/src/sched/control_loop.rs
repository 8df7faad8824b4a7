//! Control loop: the policy decides, the mechanism acts, and changes are reported.

use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use host::Monotonic;
use hostsched::{Manager, Mechanism};
use queueing::{Clock as _, Span};
use sched::cores::contention_alarm::{Change, Contention, ContentionAlarm};
use sched::cores::{Allocator, TaskId};

use super::Args;
use super::config::Config;
use super::live_view::Shown;
use super::programs::Programs;
use super::reload::Reload;
use super::status::{self, Status};
use crate::control::{self, Control};

/// Interval of checks for ended programs of ours.
const REAP_EVERY: Span = Span::from_millis(25);

/// State of the control loop.
pub(super) struct ControlLoop<'a> {
    /// The configuration in force.
    pub config: Config,
    pub args: &'a Args,
    pub reload: Reload<'a>,
    pub clock: Monotonic,
    pub allocator: Allocator,
    pub watch: ContentionAlarm,
    pub mechanism: Mechanism,
    pub period: Span,
    /// The live view, if any.
    pub shown: Option<Shown>,
    /// The control socket, if any.
    pub control: Option<Control>,
}

impl ControlLoop<'_> {
    /// Runs until ctrl-C, the end of all tasks, or the end of the time.
    pub fn run(
        &mut self,
        manager: &mut dyn Manager,
        programs: &mut Programs,
        interrupted: &AtomicBool,
    ) -> Status {
        let begin = self.clock.now();
        let mut status = Status::new(begin, self.config.tasks.len());
        let (mut reported, mut reaped, mut changes) = (begin, begin, Vec::new());
        loop {
            let start = self.clock.now();
            if start.since(reaped) >= REAP_EVERY {
                reaped = start;
                programs.reap();
                self.control.iter_mut().for_each(|control| control.poll(start));
                manager.taken_mut().take_refusals().iter().for_each(|refusal| errln!("error: {refusal}"));
                self.read_again(manager);
            }
            status.actions += self.allocator.round(start, manager) as u64;
            status.rounds += 1;
            self.watch.round(start, self.allocator.signals(), self.allocator.assignment(), &mut changes);
            changes.drain(..).for_each(|change| {
                status.raised += u64::from(matches!(change, Change::Raised(_)));
                self.report(change);
            });
            let end = self.clock.now();
            let cost = end.since(start);
            status.cost.record(cost);
            if let Some(shown) = &mut self.shown {
                shown.round(start, &self.allocator, cost);
                if shown.is_due(start) {
                    let conditions: Vec<Contention> = self.watch.raised().collect();
                    let figures = status.figures(start, &self.config, manager, &self.allocator, &conditions);
                    shown.report(start, &self.config, self.allocator.assignment(), figures);
                }
            }
            let is_over = (0..self.config.tasks.len()).all(|number| manager.is_over(TaskId(number as u16)));
            let is_late = self.args.duration.is_some_and(|duration| start.since(begin) >= duration);
            status.lost = manager.lost();
            let ends = is_over || is_late || status.lost.is_some() || interrupted.load(Ordering::Relaxed);
            if ends || start.since(reported) >= self.args.interval {
                reported = start;
                let conditions: Vec<Contention> = self.watch.raised().collect();
                status.report(start, &self.config, manager, &self.allocator, &conditions, self.args.json);
            }
            if ends {
                return status;
            }
            // Other tasks have the core at least as long as a round took.
            let next = (start + self.period).max(self.clock.now() + cost);
            std::thread::sleep(Duration::from(next.since(self.clock.now())));
        }
    }

    /// Applies new thresholds, if a reload is requested.
    fn read_again(&mut self, manager: &mut dyn Manager) {
        let Some(read) = self.reload.poll(self.control.as_mut(), &self.config) else { return };
        let outcome = read.map(|config| self.take_over(manager, config));
        control::report_reload(self.control.as_mut(), self.clock.now(), &outcome);
    }

    /// Applies `config`'s thresholds from now on; returns the report.
    fn take_over(&mut self, manager: &mut dyn Manager, config: Config) -> String {
        for (number, task) in config.tasks.iter().enumerate() {
            let (id, spec) = (TaskId(number as u16), task.spec(self.mechanism));
            self.allocator.set_thresholds(id, &spec);
            manager.set_thresholds(id, &spec);
        }
        self.watch.set_after(config.condition_after);
        self.config = config;
        "reloaded: thresholds".to_owned()
    }

    /// Reports to the log and the hook.
    fn report(&self, change: Change) {
        let (word, trouble) = match change {
            Change::Raised(trouble) => ("raised", trouble),
            Change::Cleared(trouble) => ("cleared", trouble),
        };
        let (what, location) = status::parts(trouble, &self.config);
        errln!("interference alarm {word}: {what} {location} (after {})", self.config.condition_after);
        let Some((program, words)) = self.config.hook.split_first() else { return };
        let mut hook = Command::new(program);
        hook.args(words)
            .env("GREENWAVE_CONDITION", word)
            .env("GREENWAVE_TROUBLE", what)
            .env("GREENWAVE_WHERE", location);
        hook.stdin(std::process::Stdio::null()).stdout(std::io::stderr());
        match hook.spawn() {
            // Its duration is unbounded, and no other thread waits for it.
            Ok(mut child) => drop(std::thread::spawn(move || child.wait())),
            Err(e) => errln!("hook {program}: {e}"),
        }
    }
}
