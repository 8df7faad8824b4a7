//! What the machine does that is none of the experiment's.

use std::collections::BTreeSet;
use std::fs;

use host::proc::{self, Stat};

/// Processor time of others so far: two of these, and what lies between them
/// is known.
#[derive(Clone, Copy, Debug)]
pub struct BackgroundLoad {
    /// In clock ticks.
    ticks: u64,
    /// Taken by the machine below this one, on all cores.
    stolen: u64,
}

/// Clock ticks per second: `USER_HZ`, which programs may rely on.
pub const TICKS_PER_S: f64 = 100.0;
/// The parent of the kernel's own threads.
const KERNEL: u64 = 2;

impl BackgroundLoad {
    /// Up to now, without this process, what descends from it by now, such as
    /// processes that a server under load adds, and the kernel's threads.
    pub fn now() -> Self {
        let ours: BTreeSet<u32> = proc::family(std::process::id()).into_iter().collect();
        // What a process used is its parent's once it is buried, so that the
        // sum forgets nothing.
        let ticks = proc::processes().filter(|id| !ours.contains(id)).filter_map(ticks).sum();
        let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
        let stolen = stat.lines().next().and_then(|line| line.split_whitespace().nth(8)?.parse().ok());
        Self { ticks, stolen: stolen.unwrap_or(0) }
    }

    /// Seconds of a core that others used since `before`.
    pub fn since(self, before: Self) -> f64 {
        let ticks = self.ticks.saturating_sub(before.ticks) + self.stolen.saturating_sub(before.stolen);
        ticks as f64 / TICKS_PER_S
    }
}

/// User and system time of process `id` and of its children that are gone;
/// none of a thread of the kernel's. Fields 4 and 14 to 17 of
/// proc_pid_stat(5).
fn ticks(id: u32) -> Option<u64> {
    let stat = Stat::of(id)?;
    let is_the_kernels = stat.field(4)? == KERNEL;
    (!is_the_kernels).then(|| (14..=17).filter_map(|field| stat.field(field)).sum())
}
