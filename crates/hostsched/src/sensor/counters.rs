//! Hardware counters: DRAM traffic per socket and cache misses per core.
//!
//! The source of the bytes differs: Intel's memory controllers (uncore IMC), AMD's (UMC), or the
//! caches' own monitoring (resctrl MBM). Their use does not. `/sys` gives the names and units of the
//! events; perf events or files of resctrl are opened. Most virtual machines have none of them.
//!
//! Source: Linux, Documentation/ABI/testing/sysfs-bus-event_source-devices-{format,events},
//! Documentation/filesystems/resctrl.rst, perf_event_open(2); AMD PPR 19h, UMC performance monitoring.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use queueing::{CoreId, Time};

use super::Sensor;
use perf::Event;

mod perf;
mod sys;

pub use sys::MECHANISMS;

/// A counter.
pub trait Meter: Send {
    /// Current count; `None` if it cannot be read.
    fn count(&mut self) -> Option<u64>;
}

/// Opens a perf event.
type Open<'a> = &'a dyn Fn(&Event) -> io::Result<Box<dyn Meter>>;

/// Cache-miss counters, by Linux's core number.
type Misses = Vec<(CoreId, Box<dyn Meter>)>;

/// Traffic counter of a socket's DRAM.
pub struct Moved {
    socket: usize,
    meter: Box<dyn Meter>,
    /// Bytes per count.
    bytes: f64,
    last: Option<u64>,
}

/// Sensor that reads hardware counters.
pub struct Counters {
    name: &'static str,
    moved: Vec<Moved>,
    /// Cache-miss counters of the cores that have them.
    misses: Misses,
    last: Option<Time>,
}

impl Counters {
    /// Sensor with the first of `MECHANISMS` that works here, and cache misses of `cores` where they
    /// are counted.
    ///
    /// # Errors
    /// The reason for each mechanism.
    pub fn detect(cores: &[CoreId]) -> Result<Self, String> {
        Self::find(Path::new("/"), cores, &|event| perf::open(event))
    }

    /// Counters of the machine whose `/sys` is at `root`.
    fn find(root: &Path, cores: &[CoreId], open: Open<'_>) -> Result<Self, String> {
        let mut why = Vec::new();
        for (name, open_counter) in MECHANISMS {
            match open_counter(root, open) {
                Ok(moved) => {
                    let misses = sys::misses(cores, open).unwrap_or_default();
                    return Ok(Self { name, moved, misses, last: None });
                }
                Err(e) => why.push(format!("{name}: {e}")),
            }
        }
        Err(why.join("; "))
    }

    /// Availability of each mechanism here, and of cache-miss counting on `core`.
    #[must_use]
    pub fn tried(core: CoreId) -> Vec<(&'static str, Result<(), String>)> {
        let (root, open): (_, Open<'_>) = (Path::new("/"), &|event| perf::open(event));
        let moved = MECHANISMS.iter().map(|(name, open_counter)| (*name, open_counter(root, open).map(drop)));
        moved.chain([("cache misses", sys::misses(&[core], open).map(drop))]).collect()
    }
}

impl Sensor for Counters {
    fn name(&self) -> &'static str {
        self.name
    }

    fn bandwidth(&mut self, now: Time, used: &mut [Option<f64>]) {
        used.fill(None);
        let seconds = self.last.replace(now).map(|last| now.since(last).as_secs_f64());
        for moved in &mut self.moved {
            let count = moved.meter.count();
            let before = std::mem::replace(&mut moved.last, count);
            let (Some(count), Some(before), Some(seconds)) = (count, before, seconds) else { continue };
            // A counter that was reset gives no value this time.
            let (true, Some(delta)) = (seconds > 0.0, count.checked_sub(before)) else { continue };
            if let Some(used) = used.get_mut(moved.socket) {
                *used = Some(used.unwrap_or(0.0) + delta as f64 * moved.bytes / seconds);
            }
        }
    }

    fn misses(&mut self, core: CoreId) -> Option<u64> {
        let (_, meter) = self.misses.iter_mut().find(|(its, _)| *its == core)?;
        meter.count()
    }
}

/// A counter in a file that holds one number.
struct InFile(PathBuf);

impl Meter for InFile {
    fn count(&mut self) -> Option<u64> {
        fs::read_to_string(&self.0).ok()?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests;
