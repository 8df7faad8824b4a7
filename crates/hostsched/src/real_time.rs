//! Real-time class of a latency-critical thread: the rule, without system calls.
//!
//! A thread that sleeps regularly precedes all other threads of the tasks. A busy one, which hardly sleeps,
//! stays real-time behind those, so that neither programs outside the tasks nor its own load take its
//! core away. A thread that does not sleep at all is in the fair class for [`YIELD`] of every [`PERIOD`]:
//! the kernel's own threads run then. Waiting for a core counts neither as running nor as sleeping.
//!
//! Source: ADR 0083.

use host::proc::Account;
use host::sched_policy::SchedPolicy;
use queueing::{Span, Time};

/// Class of threads that sleep regularly.
pub const REGULAR: SchedPolicy = SchedPolicy { priority: 2, ..SchedPolicy::URGENT };
/// Class of busy threads.
pub const BUSY: SchedPolicy = SchedPolicy::URGENT;
/// Class of the core manager, before both.
pub const MANAGER: SchedPolicy = SchedPolicy { priority: 3, ..SchedPolicy::FIRST };

/// Interval between checks of a thread. It is also the turn of busy threads that share a core.
pub(super) const CHECK: Span = Span::from_millis(10);
/// Share of the time on a core, between three checks, above which a thread becomes busy. One interval is not
/// enough: the time for which a hypervisor stops a core counts as running.
const RAN_MAX: f64 = 0.8;
/// Share asleep between two checks from which a busy thread becomes regular again.
const SLEPT_MIN: f64 = 0.5;
/// Periods begin at multiples of this, for all threads at once: a core is left to the fair class only when
/// every busy thread on it yields. Its length is our choice: below the second of the kernel's own limit
/// (`sched_rt_period_us`), at about the same share.
const PERIOD: Span = Span::from_millis(440);
/// Time at the end of a period that belongs to the fair class.
const YIELD: Span = Span::from_millis(40);
/// A thread that slept less in a period yields. Accounts are updated at ticks, which are 10 ms apart at most.
const AWAKE_MAX_NS: i64 = 10_000_000;

/// Rank of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Level {
    /// Sleeps regularly: before busy threads.
    Regular,
    /// Hardly sleeps: real-time, behind regular threads.
    Busy,
    /// Has not slept in this period, which is at its end: in the class it had before.
    Yields,
}

impl Level {
    /// Level of a thread whose task is behind other LC tasks, if `is_behind`.
    pub(super) const fn behind(self, is_behind: bool) -> Self {
        match self {
            Self::Regular if is_behind => Self::Busy,
            level => level,
        }
    }

    /// Class of a thread that was in `fair` before.
    pub(super) const fn class(self, fair: SchedPolicy) -> SchedPolicy {
        match self {
            Self::Regular => REGULAR,
            Self::Busy => BUSY,
            Self::Yields => fair,
        }
    }
}

/// Run and sleep times of a thread, and the level that follows from them.
#[derive(Clone, Debug)]
pub(super) struct RealTime {
    level: Level,
    checked: Time,
    account: Account,
    /// Number of the current period.
    period: u64,
    /// Time asleep in the period.
    slept_ns: i64,
    /// Time between the last two checks and on a core in it, in ns.
    last: (i64, i64),
    /// True if the thread is busy and waited for a core between the last two checks.
    waits: bool,
}

impl RealTime {
    /// A thread with `account` at `now`, whose first, shorter period is not judged.
    pub(super) const fn new(now: Time, account: Account) -> Self {
        let period = now.as_nanos() / PERIOD.as_nanos();
        Self {
            level: Level::Regular,
            checked: now,
            account,
            period,
            slept_ns: AWAKE_MAX_NS,
            last: (0, 0),
            waits: false,
        }
    }

    /// Level at the last check.
    pub(super) const fn level(&self) -> Level {
        self.level
    }

    /// True unless the thread sleeps regularly.
    fn is_busy(&self) -> bool {
        self.level != Level::Regular
    }

    /// True if the thread is busy and had no core since the last check.
    pub(super) const fn waits(&self) -> bool {
        self.waits
    }

    /// True if the thread's turn ends when other busy threads wait for its core.
    pub(super) fn ends_turn(&self) -> bool {
        self.level == Level::Busy && is_most(self.last)
    }

    /// Level from `now` on, by the thread's `account`. `is_runnable` tells whether it has or waits for a
    /// core now: the account shows a wait only once it is over.
    pub(super) fn check(
        &mut self,
        now: Time,
        account: Account,
        mut is_runnable: impl FnMut() -> bool,
    ) -> Level {
        let period = now.as_nanos() / PERIOD.as_nanos();
        if period != self.period {
            (self.period, self.slept_ns) = (period, 0);
            if self.level == Level::Yields {
                self.level = Level::Busy;
            }
        }
        self.waits = self.is_busy() && account == self.account && is_runnable();
        if self.waits {
            self.last.1 = 0;
        } else {
            let elapsed = now.since(self.checked).as_nanos() as i64;
            let ran = account.ran_ns.saturating_sub(self.account.ran_ns) as i64;
            let waited = account.waited_ns.saturating_sub(self.account.waited_ns) as i64;
            // Negative where a tick or the end of a wait adds time from before the last check.
            let slept = elapsed.saturating_sub(ran).saturating_sub(waited);
            (self.checked, self.account) = (now, account);
            self.slept_ns = self.slept_ns.saturating_add(slept);
            let before = std::mem::replace(&mut self.last, (elapsed, ran));
            let both = (before.0.saturating_add(elapsed), before.1.saturating_add(ran));
            let ran_long = is_most(before) && is_most(self.last) && both.1 as f64 > RAN_MAX * both.0 as f64;
            let slept_long = slept as f64 >= SLEPT_MIN * elapsed as f64;
            if self.level == Level::Regular && ran_long {
                self.level = Level::Busy;
            } else if self.is_busy() && slept_long && !is_runnable() {
                self.level = Level::Regular;
            }
        }
        let is_end = now.as_nanos() % PERIOD.as_nanos() >= (PERIOD - YIELD).as_nanos();
        if is_end && self.level == Level::Busy && self.slept_ns < AWAKE_MAX_NS {
            self.level = Level::Yields;
        }
        self.level
    }
}

/// True if `ran` is more than half of `elapsed`.
const fn is_most((elapsed, ran): (i64, i64)) -> bool {
    ran > elapsed / 2
}

#[cfg(test)]
mod tests;
