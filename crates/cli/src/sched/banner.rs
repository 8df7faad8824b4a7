//! Lines at the start: the choices with their reasons, and limits of this machine.

use host::proc;
use hostsched::{Manager, Mechanism, cpulist};
use queueing::{CoreId, Span};
use sched::cores::{Settings, TaskId};
use serde_json::json;

use super::Args;
use super::config::Config;
use super::mechanism::Choice;

/// Facts about the start.
pub(super) struct Start<'a> {
    pub cores: &'a [CoreId],
    pub period: Span,
    pub choice: &'a Choice,
    pub sensor_why: &'a str,
    /// True if we run before the managed tasks.
    pub is_first: bool,
}

/// Prints the choices and their reasons.
pub(super) fn greet(config: &Config, args: &Args, manager: &dyn Manager, start: &Start<'_>) {
    let &Start { cores, period, choice, sensor_why, is_first } = start;
    let paper = Settings::default().period;
    let (mechanism, mechanism_why) = (manager.mechanism(), &choice.why);
    let limits = limits(config, manager, choice, is_first);
    let ranks = manager.taken().rank_changes();
    let (policy, sensor) = (&config.policy, manager.sensor().name());
    if args.json {
        outln!(
            "{}",
            json!({
                "event": "start", "policy": policy, "cores": cpulist::text(cores), "period_ns": period.as_nanos(),
                "mechanism": mechanism, "mechanism_why": mechanism_why, "sensor": sensor, "sensor_why": sensor_why,
                "cgroups": ranks, "limits": limits, "machine": host::Machine::this().to_string(),
            })
        );
        return;
    }
    outln!("policy {policy} on cores {}, a round every {period} (paper: {paper})", cpulist::text(cores));
    outln!("mechanism {mechanism}: {mechanism_why}");
    outln!("sensor {sensor}: {sensor_why}");
    ranks.iter().for_each(|rank| outln!("{rank}"));
    limits.iter().for_each(|limit| outln!("limit: {limit}"));
}

/// Limits that may surprise, and their remedies.
fn limits(config: &Config, manager: &dyn Manager, choice: &Choice, is_first: bool) -> Vec<String> {
    let mut limits = Vec::new();
    let ids = (0..config.tasks.len()).map(|number| TaskId(number as u16));
    for (task, id) in config.tasks.iter().zip(ids) {
        if !task.is_critical() && !manager.can_park(id) {
            limits.push(format!(
                "{} cannot be parked: without a core {}",
                task.name,
                if choice.mechanism == Mechanism::Scx {
                    "it gets short time slices on one"
                } else {
                    "it stays on its cores, in the idle class"
                }
            ));
        }
        if config.real_time && manager.lacks_real_time(id) {
            limits.push(format!(
                "{} is not real-time, so kernel threads can delay it: no CAP_SYS_NICE, or its control \
                 group has no cpu.rt_runtime_us",
                task.name
            ));
        }
        if task.request_max.is_some() && !(task.signal_page && choice.mechanism == Mechanism::Runtime) {
            limits.push(format!(
                "{}: request_max has no effect, because this mechanism does not observe requests",
                task.name
            ));
        }
    }
    if choice.mechanism == Mechanism::Runtime && !proc::may_inspect() {
        let strangers = config.tasks.iter().filter(|task| task.signal_page && task.command.is_none());
        limits.extend(strangers.map(|task| {
            format!(
                "{}: no permission to read the signal page of another user's program, so its threads are observed instead \
                 (CAP_SYS_PTRACE)",
                task.name
            )
        }));
    }
    limits.extend(manager.taken().rank_limits());
    choice.limits(config, &mut limits);
    if !is_first {
        limits.push(
            "scheduling rounds may be late: no permission for real-time priority (CAP_SYS_NICE)".to_owned(),
        );
    }
    if !proc::may_schedule() {
        limits.push("only programs of greenwave's user can be scheduled (CAP_SYS_NICE)".to_owned());
    }
    limits
}
