//! Idle behaviour of virtual cores.
//!
//! A virtual core that halts is given up to the hypervisor. A wake-up then waits until the host has a
//! core for it again, perhaps another one with cold caches: this costs time on each wake-up, more on a
//! busy host, and no account of the guest shows it. Polling for a while before halting costs the guest
//! nothing. Read from `/proc` and `/sys`, and judged by a pure function.
//!
//! Source: Linux, Documentation/virt/guest-halt-polling.rst; kernel-parameters.txt, `idle=`.

use std::fs;

use super::Finding;

const AREA: &str = "sched";
const WHAT: &str = "idle cores";

/// Idle configuration of the cores.
#[derive(Clone, Debug, Default)]
struct Idle {
    /// True under a hypervisor; `None` if the processor's flags are not known.
    is_virtual: Option<bool>,
    /// True if the kernel never halts.
    polls: bool,
    /// The `cpuidle` driver.
    driver: String,
    /// Polling time before a core halts, in ns.
    polled_ns: Option<u64>,
}

pub(super) fn examine() -> Option<Finding> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpuinfo = read("/proc/cpuinfo");
    let flags = cpuinfo.lines().find_map(|line| line.strip_prefix("flags"));
    let driver = read("/sys/devices/system/cpu/cpuidle/current_driver").trim().to_owned();
    judge(&Idle {
        is_virtual: flags.map(|flags| flags.split_whitespace().any(|flag| flag == "hypervisor")),
        polls: read("/proc/cmdline").split_whitespace().any(|word| word == "idle=poll"),
        polled_ns: read(POLLED).trim().parse().ok().filter(|_| driver == HALTPOLL),
        driver,
    })
}

fn judge(idle: &Idle) -> Option<Finding> {
    let found = |seen: &str| Some(Finding::works(AREA, WHAT, seen));
    if !idle.is_virtual? {
        return found("bare metal: wake-ups do not depend on a hypervisor");
    }
    let remedy = match (idle.polls, idle.polled_ns) {
        (true, _) => return found("VM: idle cores never halt (idle=poll)"),
        (_, Some(ns)) if ns > 0 => {
            return found(&format!("VM: idle cores poll for {} µs before they halt", ns / 1_000));
        }
        (_, Some(_)) => format!("echo 200000 > {POLLED}"),
        (_, None) if !matches!(&*idle.driver, "" | "none") => {
            return found(&format!("VM: idle cores use the cpuidle driver {}", idle.driver));
        }
        (_, None) => "modprobe cpuidle-haltpoll force=1".to_owned(),
    };
    let seen = "VM: idle cores halt, so wake-ups are slow when the host is busy";
    Some(Finding::limited(AREA, WHAT, seen, [remedy]))
}

/// Driver that polls before it halts.
const HALTPOLL: &str = "haltpoll";
const POLLED: &str = "/sys/module/haltpoll/parameters/guest_halt_poll_ns";

//~ tasks: `doctor sched` reports whether idle virtual cores halt, and a remedy
#[cfg(test)]
mod tests {
    use super::super::Health;
    use super::*;

    #[track_caller]
    fn check(idle: Idle, health: Health, expected: &str) {
        let finding = judge(&idle).expect("it is known");
        assert_eq!(finding.health, health, "{finding:?}");
        let text = [&[finding.seen], &finding.remedies[..]].concat().join("; ");
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn only_virtual_cores_that_halt_at_once_are_limited() {
        let of = |is_virtual, polls, driver: &str, polled_ns| Idle {
            is_virtual: Some(is_virtual),
            polls,
            driver: driver.to_owned(),
            polled_ns,
        };
        check(of(false, false, "intel_idle", None), Health::Works, "bare metal");
        check(of(true, true, "none", None), Health::Works, "idle=poll");
        check(of(true, false, HALTPOLL, Some(200_000)), Health::Works, "poll for 200 µs");
        check(of(true, false, "intel_idle", None), Health::Works, "intel_idle");
        check(of(true, false, HALTPOLL, Some(0)), Health::Limited, "echo 200000 > /sys/module/haltpoll");
        check(of(true, false, "none", None), Health::Limited, "modprobe cpuidle-haltpoll");
        check(of(true, false, "", None), Health::Limited, "modprobe cpuidle-haltpoll");
        assert!(judge(&Idle::default()).is_none(), "an unknown processor has no line");
    }
}
