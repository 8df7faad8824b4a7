//! Counters of the hardware: what DRAM moved, by socket, and who missed the cache, by core.
//!
//! Where the bytes are counted differs: Intel's memory controllers (uncore IMC),
//! AMD's (UMC), and the caches' own monitoring (resctrl MBM); what is made of
//! them does not. Each is found in `/sys`, which says what its events are called and
//! worth; what is opened are events of perf or files of resctrl. A virtual machine
//! mostly has none of them.
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

/// Something that counts.
pub trait Meter: Send {
    /// So far; `None` where it cannot be read.
    fn count(&mut self) -> Option<u64>;
}

/// Opens an event of perf.
type Open<'a> = &'a dyn Fn(&Event) -> io::Result<Box<dyn Meter>>;

/// Misses of cores, by Linux's number.
type Misses = Vec<(CoreId, Box<dyn Meter>)>;

/// A meter of a socket's DRAM.
pub struct Moved {
    socket: usize,
    meter: Box<dyn Meter>,
    /// Bytes of one count.
    bytes: f64,
    last: Option<u64>,
}

/// The sensor.
pub struct Counters {
    name: &'static str,
    moved: Vec<Moved>,
    /// Of cores where they are counted.
    misses: Misses,
    last: Option<Time>,
}

impl Counters {
    /// The first of `MECHANISMS` that works here, with cache misses of `cores` where they are counted.
    ///
    /// # Errors
    /// Why each of them does not.
    pub fn here(cores: &[CoreId]) -> Result<Self, String> {
        Self::find(Path::new("/"), cores, &|event| perf::open(event))
    }

    /// The same of the machine whose `/sys` lies in `root`.
    fn find(root: &Path, cores: &[CoreId], open: Open<'_>) -> Result<Self, String> {
        let mut why = Vec::new();
        for (name, look) in MECHANISMS {
            match look(root, open) {
                Ok(moved) => {
                    let misses = sys::misses(cores, open).unwrap_or_default();
                    return Ok(Self { name, moved, misses, last: None });
                }
                Err(e) => why.push(format!("{name}: {e}")),
            }
        }
        Err(why.join("; "))
    }

    /// Of each mechanism here whether it works, and of the one that counts misses on `core`: why not.
    #[must_use]
    pub fn tried(core: CoreId) -> Vec<(&'static str, Result<(), String>)> {
        let (root, open): (_, Open<'_>) = (Path::new("/"), &|event| perf::open(event));
        let moved = MECHANISMS.iter().map(|(name, look)| (*name, look(root, open).map(drop)));
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
            // One that was reset says nothing this time.
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

/// A counter in a file: a number in a line.
struct InFile(PathBuf);

impl Meter for InFile {
    fn count(&mut self) -> Option<u64> {
        fs::read_to_string(&self.0).ok()?.trim().parse().ok()
    }
}

#[cfg(test)]
mod tests;
