//! Old spellings of commands, flags, values, keys and modes of experiments, metrics and claims.
//!
//! Each works for one release beside its new spelling and appears in no help text. `CHANGELOG.md`
//! lists them all, which a test checks. To end an old spelling, delete its row.

use std::borrow::Cow;

use serde_json::Value;

pub use claims::claim;

/// Subcommands of `greenwave`: old and new name.
pub const COMMANDS: &[(&str, &str)] = &[("fabric", "egress")];

/// Flags: command, old and new name without dashes.
pub const FLAGS: &[(&str, &str, &str)] = &[
    ("bench cores", "spin", "busy-poll"),
    ("bench cores", "time", "duration"),
    ("bench fabric", "flows", "count"),
    ("bench net", "hold", "tx-coalesce"),
    ("bench net", "receive-on", "rx-core"),
    ("bench net", "spin", "busy-poll"),
    ("bench net", "time", "duration"),
    ("bench programs", "spin", "busy-poll"),
    ("bench programs", "time", "duration"),
    ("bench sched", "limit", "duration-max"),
    ("demo", "seconds", "duration"),
    ("guard attach", "joined", "queue-report"),
    ("guard attach", "period", "interval"),
    ("guard attach", "refusal", "reject"),
    ("guard attach", "until", "measure"),
    ("guard model", "room1", "capacity1"),
    ("guard model", "room2", "capacity2"),
    ("run", "guard-refusal", "guard-reject"),
    ("run", "joined", "queue-report"),
    ("run", "receive-share", "rx-cpu-limit"),
    ("run", "spin", "busy-poll"),
    ("run", "until", "measure"),
    ("sched", "every", "interval"),
    ("sched", "for", "duration"),
    ("sched", "journals", "state-dir"),
    ("sched restore", "journals", "state-dir"),
    ("serve", "guard-refusal", "guard-reject"),
    ("serve", "hold", "tx-coalesce"),
    ("serve", "receive-share", "rx-cpu-limit"),
    ("serve", "spin", "busy-poll"),
    ("serve", "steer", "worker-affinity"),
    ("sim fabric", "flows", "flow-trace"),
    ("sim fabric", "for", "duration"),
    ("sim fabric", "mark", "ecn-threshold"),
    ("sim fabric", "report", "out"),
    ("sim fabric", "room", "buffer-packets"),
    ("sim fabric", "ways", "multipath"),
    ("top", "every", "interval"),
];

/// Values: command, flag or positional argument, old and new value. The arguments' own definitions
/// hold these aliases.
#[cfg(test)]
pub const VALUES: &[(&str, &str, &str, &str)] = &[
    ("control", "action", "end", "stop"),
    ("guard attach", "measure", "answer", "first-byte"),
    ("guard attach", "reject", "silence", "drop"),
    ("run", "guard-reject", "silence", "drop"),
    ("run", "measure", "answer", "first-byte"),
    ("serve", "guard-reject", "silence", "drop"),
    ("sim fabric", "multipath", "flow", "ecmp"),
];

/// Keys of experiments' settings: world, old and new key. The worlds' own definitions hold these
/// aliases.
#[cfg(test)]
pub const KEYS: &[(&str, &str, &str)] = &[
    ("cores", "lasts", "duration"),
    ("fabric", "draws", "rng_streams"),
    ("fabric", "mark", "ecn_threshold"),
    ("fabric", "room", "buffer_size"),
    ("fabric", "ways", "multipath"),
    ("httpd", "patience", "timeout"),
    ("overload", "patience", "timeout"),
    ("overload", "receive_room", "receive_capacity"),
    ("overload", "serve_room", "serve_capacity"),
    ("callers", "patience", "timeout"),
    ("platform", "beside", "be_phases"),
    ("platform", "handing", "core_costs"),
    ("platform", "lasts", "duration"),
    ("platform", "patience", "timeout"),
    ("platform", "ways", "multipath"),
    ("storm", "patience", "age_max"),
    ("tiers", "door", "syn_shedding"),
];

/// Modes of experiments: experiment, old and new name.
pub const MODES: &[(&str, &str, &str)] = &[("platform/host", "no-door", "no-syn-shedding")];

/// Metrics: old and new name.
pub const METRICS: &[(&str, &str)] = &[
    ("greenwave_budget_left_seconds", "greenwave_deadline_slack_seconds"),
    ("greenwave_guard_alive", "greenwave_guard_controller_up"),
    ("greenwave_guard_delay_seconds", "greenwave_guard_accept_queue_age_seconds"),
    ("greenwave_guard_oldest_seconds", "greenwave_guard_head_age_seconds"),
    ("greenwave_guard_passed_silent_total", "greenwave_guard_failopen_total"),
    ("greenwave_guard_phantoms_total", "greenwave_guard_listen_overflows_total"),
    ("greenwave_guard_requests_delay_seconds", "greenwave_guard_app_queue_age_seconds"),
    ("greenwave_guard_requests_waiting", "greenwave_guard_app_queue_length"),
    ("greenwave_guard_room", "greenwave_guard_accept_queue_limit"),
    ("greenwave_guard_seen_total", "greenwave_guard_offered_total"),
    ("greenwave_guard_served_total", "greenwave_guard_accepted_total"),
    ("greenwave_guard_services", "greenwave_guard_reporters"),
    ("greenwave_guard_services_telling", "greenwave_guard_reporters_alive"),
    ("greenwave_guard_unanswered", "greenwave_guard_pending_response"),
    ("greenwave_guard_unanswered_delay_seconds", "greenwave_guard_pending_response_age_seconds"),
    ("greenwave_guard_waiting", "greenwave_guard_accept_queue_length"),
    ("greenwave_opened_total", "greenwave_connect_total"),
    ("greenwave_sched_actions_total", "greenwave_sched_reallocations_total"),
    ("greenwave_sched_condition", "greenwave_sched_alarm"),
    ("greenwave_sched_conditions_total", "greenwave_sched_alarms_total"),
    ("greenwave_sched_cpu", "greenwave_sched_cpu_cores"),
    ("greenwave_up_seconds", "greenwave_uptime_seconds"),
    ("greenwave_wait_seconds", "greenwave_stage_wait_seconds"),
];

/// `result` of `experiment` with the present names of its modes.
pub fn modes<'a>(experiment: &str, result: &'a Value) -> Cow<'a, Value> {
    let mut result = Cow::Borrowed(result);
    for (_, old, new) in MODES.iter().filter(|(of, ..)| *of == experiment) {
        rename_mode(result.to_mut(), old, new);
    }
    result
}

/// Renames the mode `old` in rows, and in plots, whose names are a mode, or a point and a mode.
fn rename_mode(value: &mut Value, old: &str, new: &str) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let name = value.as_str().filter(|_| ["mode", "name"].contains(&key.as_str()));
                match name.and_then(|name| name.strip_suffix(old)) {
                    Some(point) if point.is_empty() || point.ends_with(' ') => {
                        *value = format!("{point}{new}").into();
                    }
                    _ => rename_mode(value, old, new),
                }
            }
        }
        Value::Array(values) => values.iter_mut().for_each(|value| rename_mode(value, old, new)),
        _ => {}
    }
}

/// `command` with the old spellings as hidden aliases.
pub fn alias(command: clap::Command) -> clap::Command {
    let mut command = command;
    for (old, new) in COMMANDS {
        command = command.mut_subcommand(new, |named| named.alias(*old));
    }
    command.mut_subcommands(|named| flags(named, ""))
}

/// Adds the aliases of the flags of `command` and its subcommands; `above` holds the names before it.
fn flags(command: clap::Command, above: &str) -> clap::Command {
    let name = format!("{above}{}", command.get_name());
    let own: Vec<_> = FLAGS.iter().filter(|(of, ..)| *of == name).collect();
    let command = command.mut_args(|arg| {
        let named = arg.get_long().map(str::to_owned);
        let old = own.iter().filter(|(_, _, new)| named.as_deref() == Some(*new));
        old.fold(arg, |arg, (_, old, _)| arg.alias(*old))
    });
    command.mut_subcommands(|below| flags(below, &format!("{name} ")))
}

mod claims;
#[cfg(test)]
mod tests;
