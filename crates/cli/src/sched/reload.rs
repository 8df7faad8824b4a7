//! Reload of the file by SIGHUP or `control … reload`: its thresholds apply from the next round on.
//!
//! Only thresholds and the reaction to a condition can change. Tasks, cores, policy and mechanism
//! need a restart. A file with an error or any other change has no effect, nor has any file while a
//! task contains a protected process.

use std::path::Path;

use super::config::{Config, Task};
use super::{Args, plan};
use crate::Error;
use crate::config_file::{Arguments, read_again};
use crate::control::Control;

/// State of reloads.
pub struct Reload<'a> {
    /// The scheduler's command line.
    arguments: &'a Arguments,
}

impl<'a> Reload<'a> {
    /// Handles the signal from now on.
    pub fn new(arguments: &'a Arguments) -> Self {
        let _ = host::signals::hangup();
        Self { arguments }
    }

    /// The configuration that replaces `config`, if a reload is requested, or its error.
    pub fn poll(&self, control: Option<&mut Control>, config: &Config) -> Option<Result<Config, Error>> {
        read_again(control, || self.read(config))
    }

    fn read(&self, config: &Config) -> Result<Config, Error> {
        let args: Args = self.arguments.again(&["config"])?;
        let path = args.config.as_deref().unwrap_or(Path::new(""));
        let next = Config::load(path, args.mechanism.as_deref())?;
        match changed(config, &next) {
            // Processes may have moved since the start.
            None => plan::check_processes(&next).map(|()| next),
            Some(what) => {
                let what = format!("{}: changing {what} needs a restart", path.display());
                Err(Error::new(what).advice(format!("restart; only {MAY} can change without a restart")))
            }
        }
    }
}

const MAY: &str = "delay_max, request_max, tail_target, condition_after and hook";

/// The first changed setting that needs a restart.
fn changed(config: &Config, next: &Config) -> Option<String> {
    // A new field must be sorted into one of the kinds.
    let Config {
        policy,
        mechanism,
        cores,
        sensor,
        period,
        calm,
        real_time,
        bandwidth_max_gb,
        latency_max,
        slice,
        starve_max,
        period_parties,
        slack,
        condition_after: _,
        hook: _,
        metrics,
        tasks,
    } = config;
    let settings = [
        ("policy", *policy == next.policy),
        ("mechanism", *mechanism == next.mechanism),
        ("cores", *cores == next.cores),
        ("sensor", *sensor == next.sensor),
        ("period", *period == next.period),
        ("calm", *calm == next.calm),
        ("real_time", *real_time == next.real_time),
        ("bandwidth_max_gb", *bandwidth_max_gb == next.bandwidth_max_gb),
        ("latency_max", *latency_max == next.latency_max),
        ("slice", *slice == next.slice),
        ("starve_max", *starve_max == next.starve_max),
        ("period_parties", *period_parties == next.period_parties),
        ("slack", *slack == next.slack),
        ("metrics", *metrics == next.metrics),
        ("the number of tasks", tasks.len() == next.tasks.len()),
    ];
    if let Some((name, _)) = settings.iter().find(|(_, is_same)| !is_same) {
        return Some((*name).to_owned());
    }
    let is_other = |(task, next): &(&Task, &Task)| {
        let Task { delay_max, request_max, tail_target, .. } = **task;
        **task != Task { delay_max, request_max, tail_target, ..(*next).clone() }
    };
    let other = tasks.iter().zip(&next.tasks).find(is_other);
    other.map(|(task, _)| format!("the identity of task {}", task.name))
}

//~ operations: SIGHUP reloads targets of `guard attach` and thresholds of `sched`
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds_may_change_and_nothing_else() {
        let text = "policy = \"caladan\"\n[[tasks]]\nname = \"a\"\nclass = \"LC\"\npid = 1\nguaranteed = 1\n\
                    [[tasks]]\nname = \"b\"\nclass = \"BE\"\npid = 2\n";
        let read = |text: &str| Config::parse("t.toml", text).expect("a valid configuration");
        let becomes = |old: &str, new: &str| changed(&read(text), &read(&text.replacen(old, new, 1)));
        for (old, new) in [
            ("pid = 1", "pid = 1\ndelay_max = \"20us\"\nrequest_max = \"1ms\"\ntail_target = \"1ms\""),
            ("[[tasks]]", "condition_after = \"1s\"\nhook = [\"true\"]\n[[tasks]]"),
        ] {
            assert_eq!(becomes(old, new), None, "{new}");
        }
        for (old, new, what) in [
            ("caladan", "shenango", "policy"),
            ("[[tasks]]", "slice = \"3ms\"\n[[tasks]]", "slice"),
            ("pid = 1", "pid = 3", "the identity of task a"),
            ("guaranteed = 1", "guaranteed = 2", "the identity of task a"),
            ("\"b\"", "\"c\"", "the identity of task b"),
            (
                "pid = 2\n",
                "pid = 2\n[[tasks]]\nname = \"c\"\nclass = \"BE\"\npid = 3\n",
                "the number of tasks",
            ),
        ] {
            assert_eq!(becomes(old, new).as_deref(), Some(what), "{new}");
        }
    }
}
