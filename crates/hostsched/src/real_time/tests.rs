//! One thread, simulated: its program's load, the competitors on its core, and the account as the kernel
//! keeps it.

use super::*;

/// Step of the simulation, in µs: the controller reads at such times.
const STEP_US: u64 = 1_000;
/// The kernel's tick, in steps: a running thread's account is updated then.
const TICK: u64 = 4;

/// A thread on a core of its own task.
struct Core {
    /// Work that arrives at a step, in µs.
    arrives: fn(u64) -> u64,
    /// True while a program outside the tasks computes on the same core, in the fair class.
    is_shared: bool,
}

/// Outcome of a simulation.
#[derive(Debug, Default)]
struct Outcome {
    /// µs on the core.
    ran_us: u64,
    /// µs in which the thread was in the fair class.
    fair_us: u64,
    /// Longest time on the core without a pause and in a real-time class.
    real_time_us_max: u64,
    backlog_us_max: u64,
    levels: Vec<(u64, Level)>,
}

impl Core {
    /// Runs for `steps` steps from a backlog of `backlog` µs.
    fn run(&self, steps: u64, mut backlog: u64) -> Outcome {
        let mut out = Outcome::default();
        let mut rule = RealTime::new(Time::ZERO, Account::default());
        let (mut exact, mut known) = (Account::default(), Account::default());
        let (mut level, mut has_core, mut waiting_us, mut held_us) = (Level::Regular, false, 0, 0);
        for step in 0..steps {
            backlog += (self.arrives)(step);
            out.backlog_us_max = out.backlog_us_max.max(backlog);
            // In the fair class two programs take turns of a tick.
            let has_turn = !self.is_shared || level != Level::Yields || (step / TICK).is_multiple_of(2);
            let runs = backlog > 0 && has_turn;
            if runs {
                if !has_core {
                    exact.waited_ns += waiting_us * 1_000;
                    exact.turns += 1;
                    waiting_us = 0;
                }
                let ran = backlog.min(STEP_US);
                (backlog, out.ran_us) = (backlog - ran, out.ran_us + ran);
                exact.ran_ns += ran * 1_000;
            } else if backlog > 0 {
                waiting_us += STEP_US;
            }
            // A thread that leaves its core is charged at once, one that stays at a tick.
            has_core = runs && backlog > 0;
            if !has_core || step.is_multiple_of(TICK) {
                known = exact;
            }
            let is_real_time = level != Level::Yields && runs;
            held_us = if is_real_time { held_us + STEP_US } else { 0 };
            out.real_time_us_max = out.real_time_us_max.max(held_us);
            out.fair_us += if level == Level::Yields { STEP_US } else { 0 };
            if (step + 1).is_multiple_of(10) {
                let now = Time::ZERO + Span::from_micros((step + 1) * STEP_US);
                let next = rule.check(now, known, || backlog > 0);
                if next != level {
                    level = next;
                    out.levels.push((step + 1, next));
                }
            }
        }
        out
    }
}

/// 90 % of a core, every ms.
const BUSY_SERVICE: fn(u64) -> u64 = |_| 900;
const SPINS: fn(u64) -> u64 = |_| STEP_US;

//~ sched: busy latency-critical threads stay real-time behind those that sleep, and leave the kernel its share
#[test]
fn a_service_that_uses_nine_tenths_of_a_core_never_waits_for_a_program_outside() {
    let out = Core { arrives: BUSY_SERVICE, is_shared: true }.run(60_000, 0);
    assert_eq!((out.backlog_us_max, out.fair_us), (900, 0), "{out:?}");
}

//~ sched: busy latency-critical threads stay real-time behind those that sleep, and leave the kernel its share
#[test]
fn a_service_with_a_backlog_works_it_off_beside_a_program_outside() {
    // In the fair class it would have half of the core, and the backlog would grow for ever.
    let out = Core { arrives: BUSY_SERVICE, is_shared: true }.run(120_000, 3_000_000);
    let last_yield = out.levels.iter().rfind(|(_, level)| *level == Level::Yields).unwrap().0;
    assert!(last_yield < 100_000, "{out:?}");
    assert!(out.ran_us >= 3_000_000 + 119_000 * 900, "{out:?}");
}

//~ sched: busy latency-critical threads stay real-time behind those that sleep, and leave the kernel its share
#[test]
fn a_thread_that_never_sleeps_leaves_the_fair_class_a_tenth_of_each_period() {
    for is_shared in [false, true] {
        let out = Core { arrives: SPINS, is_shared }.run(44_000, 0);
        assert!((38..=42).contains(&(out.fair_us / 100_000)), "{out:?}");
        assert!(out.real_time_us_max <= 850_000, "{out:?}");
        assert!(out.levels[1..].iter().all(|(_, level)| *level != Level::Regular), "{out:?}");
    }
}

#[test]
fn a_burst_is_over_before_a_thread_yields() {
    let out = Core { arrives: |step| if step % 40 < 10 { 1_000 } else { 0 }, is_shared: true }.run(44_000, 0);
    assert_eq!((out.backlog_us_max, out.fair_us), (1_000, 0), "{out:?}");
}

#[test]
fn a_thread_of_a_light_load_stays_regular() {
    for load in [0, 10, 300, 600] {
        let mut rule = RealTime::new(Time::ZERO, Account::default());
        for n in 1..1_000 {
            let account = Account { ran_ns: n * load * 10_000, waited_ns: 0, turns: n };
            let now = Time::ZERO + CHECK * n;
            assert_eq!(rule.check(now, account, || true), Level::Regular, "{load} thousandths");
        }
    }
}

//~ sched: busy latency-critical threads stay real-time behind those that sleep, and leave the kernel its share
#[test]
fn a_wait_counts_neither_as_running_nor_as_sleeping() {
    let mut rule = RealTime::new(Time::ZERO, Account::default());
    let mut account = Account::default();
    let mut check = |n: u64, ran_ms: u64, waited_ms: u64, runnable: bool| {
        account.ran_ns += ran_ms * 1_000_000;
        account.waited_ns += waited_ms * 1_000_000;
        (rule.check(Time::ZERO + CHECK * n, account, || runnable), rule.waits())
    };
    assert_eq!(check(1, 3, 7, true), (Level::Regular, false), "it had a core for 30 %");
    assert_eq!(check(2, 10, 0, true), (Level::Regular, false), "once may be the hypervisor");
    assert_eq!(check(3, 10, 0, true), (Level::Busy, false));
    assert_eq!(check(4, 3, 7, false), (Level::Busy, false), "it has not slept");
    assert_eq!(check(5, 0, 0, true), (Level::Busy, true), "it waits, which the account does not show yet");
    assert_eq!(check(6, 0, 10, true), (Level::Busy, false), "nor is that sleep when it does");
    assert_eq!(check(7, 4, 0, false), (Level::Regular, false), "it slept for 60 %");
}

#[test]
fn only_the_turn_of_a_busy_thread_that_ran_ends() {
    let mut rule = RealTime::new(Time::ZERO, Account::default());
    let account = |ran_ms: u64| Account { ran_ns: ran_ms * 1_000_000, waited_ns: 0, turns: 1 };
    for n in 1..=2 {
        assert!(!rule.ends_turn());
        let _ = rule.check(Time::ZERO + CHECK * n, account(10 * n), || true);
    }
    assert!(rule.ends_turn());
    let _ = rule.check(Time::ZERO + CHECK * 3, account(20), || true);
    assert!(!rule.ends_turn() && rule.waits());
}

#[test]
fn the_manager_precedes_regular_threads_and_those_precede_busy_ones() {
    let priorities = [SchedPolicy::OTHER, BUSY, REGULAR, MANAGER].map(|class| class.priority);
    assert!(priorities.is_sorted_by(|less, more| less < more), "{priorities:?}");
    assert_eq!(Level::Yields.class(SchedPolicy::OTHER), SchedPolicy::OTHER);
}
