//! CPU time used by processes outside the experiment.

use std::collections::BTreeSet;
use std::fs;

use host::proc::{self, Stat};

/// Cumulative CPU time of other processes; the difference of two samples is the time between them.
#[derive(Clone, Copy, Debug)]
pub struct BackgroundLoad {
    /// In clock ticks.
    ticks: u64,
    /// Stolen time of the hypervisor, on all cores.
    stolen: u64,
}

/// Clock ticks per second: `USER_HZ`, constant for user space.
pub const TICKS_PER_S: f64 = 100.0;
/// Process id of the parent of the kernel threads.
const KERNEL: u64 = 2;

impl BackgroundLoad {
    /// Samples the time so far. Excludes this process, its current descendants, such as processes
    /// that a server adds under load, and kernel threads.
    pub fn now() -> Self {
        let family: BTreeSet<u32> = proc::family(std::process::id()).into_iter().collect();
        // The time of a process moves to its parent when it is reaped, so the sum keeps it.
        let ticks = proc::processes().filter(|id| !family.contains(id)).filter_map(ticks).sum();
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let stolen = stat.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
        Self { ticks, stolen: stolen.unwrap_or(0) }
    }

    /// Core-seconds that other processes used since `before`.
    pub fn since(self, before: Self) -> f64 {
        let ticks = self.ticks.saturating_sub(before.ticks) + self.stolen.saturating_sub(before.stolen);
        ticks as f64 / TICKS_PER_S
    }
}

/// User and system time of process `id` and of its reaped children; none for a kernel thread.
/// Source: proc_pid_stat(5), fields 4 and 14 to 17.
fn ticks(id: u32) -> Option<u64> {
    let stat = Stat::of(id)?;
    let is_kernel_thread = stat.field(4)? == KERNEL;
    (!is_kernel_thread).then(|| (14..=17).filter_map(|field| stat.field(field)).sum())
}
