//! Discovery of hardware counters in `/sys`.

use std::fs;
use std::path::Path;

use queueing::CoreId;

use super::perf::Event;
use super::{InFile, Meter, Misses, Moved, Open};
use crate::cpulist;

/// Finds the traffic counters of one kind in the `/sys` at a path.
type Look = fn(&Path, Open<'_>) -> Result<Vec<Moved>, String>;

/// Sources of byte counts, best first.
pub const MECHANISMS: &[(&str, Look)] = &[("uncore IMC", intel), ("AMD UMC", amd), ("resctrl MBM", resctrl)];

/// Bytes of a cache line, the unit of memory traffic.
const LINE: f64 = 64.0;
/// UMC event: column commands, read and write.
const UMC_CAS: u64 = 0x0a;
/// `PERF_COUNT_HW_CACHE_MISSES`, of the last level.
const CACHE_MISSES: u64 = 3;

fn text(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| text.trim().to_owned())
}

/// Entries of `folder` whose names begin with `prefix`, in order.
fn entries(folder: &Path, prefix: &str) -> Vec<std::path::PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_one = |path: &std::path::PathBuf| {
        path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(prefix))
    };
    let mut found: Vec<_> = entries.filter(is_one).collect();
    found.sort();
    found
}

/// Socket of `core`; the first where `/sys` does not name it.
fn socket(root: &Path, core: u32) -> usize {
    let path = root.join(format!("sys/devices/system/cpu/cpu{core}/topology/physical_package_id"));
    text(&path).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// Config bits of `event=0x04,umask=0x03`, by the `format/` of `device`, such as `config:8-15`.
fn config(device: &Path, event: &str) -> Option<u64> {
    let mut config = 0;
    for term in event.split(',') {
        let (name, value) = term.split_once('=').unwrap_or((term, "1"));
        let value = match value.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16).ok()?,
            None => value.parse().ok()?,
        };
        let format = text(&device.join("format").join(name))?;
        let bits = format.strip_prefix("config:")?;
        let first: u32 = bits.split(['-', ',']).next()?.parse().ok()?;
        config |= value.checked_shl(first)?;
    }
    Some(config)
}

/// Counts `config` of `device` once per socket, on the core that stands for it.
fn on_sockets(
    root: &Path,
    device: &Path,
    config: u64,
    bytes: f64,
    open: Open<'_>,
) -> Result<Vec<Moved>, String> {
    let kind = text(&device.join("type"))
        .and_then(|text| text.parse().ok())
        .ok_or("the kernel does not report its type")?;
    let cores = text(&device.join("cpumask")).unwrap_or_default();
    let cores = cpulist::parse(&cores)?;
    let of = |core: CoreId| {
        let meter = open(&Event { kind, config, core: core.0.into() }).map_err(|e| e.to_string())?;
        Ok(Moved { socket: socket(root, core.0.into()), meter, bytes, last: None })
    };
    cores.into_iter().map(of).collect()
}

/// Intel's memory controllers: lines read and written.
fn intel(root: &Path, open: Open<'_>) -> Result<Vec<Moved>, String> {
    let mut moved = Vec::new();
    for device in entries(&root.join("sys/bus/event_source/devices"), "uncore_imc") {
        for name in ["cas_count_read", "cas_count_write"] {
            let Some(event) = text(&device.join("events").join(name)) else { continue };
            let config = config(&device, &event).ok_or_else(|| format!("event {event:?} is not known"))?;
            // The kernel gives the scale: MiB per count.
            let scale = text(&device.join(format!("events/{name}.scale"))).and_then(|text| text.parse().ok());
            let bytes = scale.map_or(LINE, |scale: f64| scale * f64::from(1 << 20));
            moved.extend(on_sockets(root, &device, config, bytes, open)?);
        }
    }
    found(moved)
}

/// AMD's memory controllers (Zen 4 and later): commands, one line each.
fn amd(root: &Path, open: Open<'_>) -> Result<Vec<Moved>, String> {
    let mut moved = Vec::new();
    for device in entries(&root.join("sys/bus/event_source/devices"), "amd_umc_") {
        moved.extend(on_sockets(root, &device, UMC_CAS, LINE, open)?);
    }
    found(moved)
}

/// Traffic between the last-level caches and memory, of all tasks without a resctrl group of their own.
fn resctrl(root: &Path, _open: Open<'_>) -> Result<Vec<Moved>, String> {
    let mut moved = Vec::new();
    for domain in entries(&root.join("sys/fs/resctrl/mon_data"), "mon_L3_") {
        let mut meter = InFile(domain.join("mbm_total_bytes"));
        if meter.count().is_none() {
            continue;
        }
        let id = domain.to_string_lossy().rsplit('_').next().and_then(|id| id.parse::<u32>().ok());
        let socket = id.map_or(0, |id| socket_of_cache(root, id));
        moved.push(Moved { socket, meter: Box::new(meter), bytes: 1.0, last: None });
    }
    found(moved)
}

/// Socket of the last-level cache `id`.
fn socket_of_cache(root: &Path, id: u32) -> usize {
    let number = |path: &Path| path.file_name()?.to_str()?.strip_prefix("cpu")?.parse::<u32>().ok();
    let its = entries(&root.join("sys/devices/system/cpu"), "cpu").into_iter().find_map(|core| {
        let is_its = text(&core.join("cache/index3/id"))? == id.to_string();
        is_its.then(|| number(&core)).flatten()
    });
    its.map_or(0, |core| socket(root, core))
}

/// Cache-miss counters of `cores`.
pub fn misses(cores: &[CoreId], open: Open<'_>) -> Result<Misses, String> {
    let of = |&core: &CoreId| {
        let event = Event { kind: 0, config: CACHE_MISSES, core: core.0.into() };
        open(&event).map(|meter| (core, meter)).map_err(|e| e.to_string())
    };
    cores.iter().map(of).collect()
}

fn found(moved: Vec<Moved>) -> Result<Vec<Moved>, String> {
    if moved.is_empty() { Err("there is none".to_owned()) } else { Ok(moved) }
}
