//! Machines as the kernel describes them, in directories.

use std::sync::{Arc, Mutex};

use queueing::Span;

use super::*;

/// A `/sys` with these files, removed on drop.
struct Machine(PathBuf);

impl Machine {
    fn new(test: &str, files: &[(&str, &str)]) -> Self {
        let root = std::env::temp_dir().join(format!("greenwave-counters-{test}-{}", std::process::id()));
        let machine = Self(root);
        files.iter().for_each(|(path, text)| machine.set(path, text));
        machine
    }

    fn set(&self, path: &str, text: &str) {
        let path = self.0.join("sys").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, format!("{text}\n")).unwrap();
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// Opened events; each counts up by its core plus one million per reading.
type Opened = Arc<Mutex<Vec<Event>>>;

struct Steps {
    count: u64,
    step: u64,
}

impl Meter for Steps {
    fn count(&mut self) -> Option<u64> {
        self.count += self.step;
        Some(self.count)
    }
}

fn opening(opened: &Opened) -> impl Fn(&Event) -> io::Result<Box<dyn Meter>> {
    let opened = opened.clone();
    move |event| {
        opened.lock().unwrap().push(*event);
        Ok(Box::new(Steps { count: 7, step: 1_000_000 + u64::from(event.core) }))
    }
}

fn nothing(_: &Event) -> io::Result<Box<dyn Meter>> {
    Err(io::ErrorKind::NotFound.into())
}

/// Two readings, a millisecond apart.
fn read(sensor: &mut dyn Sensor) -> [Option<f64>; 2] {
    let mut used = [Some(1.0), Some(1.0)];
    sensor.bandwidth(Time::from_nanos(5), &mut used);
    assert_eq!(used, [None; 2], "one reading is no rate");
    sensor.bandwidth(Time::from_nanos(5) + Span::from_millis(1), &mut used);
    used
}

const SOCKETS: [(&str, &str); 2] = [
    ("devices/system/cpu/cpu0/topology/physical_package_id", "0"),
    ("devices/system/cpu/cpu24/topology/physical_package_id", "1"),
];

#[test]
fn intels_controllers_count_lines_read_and_written_by_socket() {
    let imc = |n: u32, file: &str| format!("bus/event_source/devices/uncore_imc_{n}/{file}");
    let machine = Machine::new("imc", &SOCKETS);
    for n in 0..2 {
        for (file, text) in [
            ("type", "15"),
            ("cpumask", "0,24"),
            ("format/event", "config:0-7"),
            ("format/umask", "config:8-15"),
            ("events/cas_count_read", "event=0x04,umask=0x03"),
            ("events/cas_count_read.scale", "6.103515625e-5"),
            ("events/cas_count_write", "event=0x04,umask=0x0c"),
            ("events/cas_count_write.scale", "6.103515625e-5"),
        ] {
            machine.set(&imc(n, file), text);
        }
    }
    // Free-running counters are not these.
    machine.set("bus/event_source/devices/uncore_imc_free_running_0/type", "30");
    let opened = Opened::default();
    let mut sensor = Counters::find(&machine.0, &[CoreId(3)], &opening(&opened)).unwrap();
    assert_eq!(sensor.name(), "uncore IMC");
    let used = read(&mut sensor);
    // Two controllers, reads and writes, a million lines per millisecond each; plus a few by core
    // number.
    assert_eq!(used, [Some(256e9), Some(256e9 + 24.0 * 4.0 * 64.0 * 1e3)]);
    let opened = opened.lock().unwrap();
    assert_eq!(opened[0], Event { kind: 15, config: 0x304, core: 0 });
    assert_eq!(opened[3], Event { kind: 15, config: 0xc04, core: 24 });
    assert_eq!((opened.len(), opened[8]), (9, Event { kind: 0, config: 3, core: 3 }));
    assert_eq!((sensor.misses(CoreId(3)), sensor.misses(CoreId(4))), (Some(1_000_010), None));
}

#[test]
fn amds_controllers_count_commands() {
    let machine = Machine::new("umc", &SOCKETS);
    for n in 0..12 {
        machine.set(&format!("bus/event_source/devices/amd_umc_{n}/type"), &(20 + n).to_string());
        machine.set(&format!("bus/event_source/devices/amd_umc_{n}/cpumask"), "0");
    }
    let opened = Opened::default();
    let mut sensor = Counters::find(&machine.0, &[], &opening(&opened)).unwrap();
    assert_eq!((sensor.name(), read(&mut sensor)), ("AMD UMC", [Some(12.0 * 64e9), None]));
    assert_eq!(opened.lock().unwrap()[0], Event { kind: 20, config: 0x0a, core: 0 });
}

#[test]
fn resctrl_counts_bytes_by_cache_and_one_that_is_unavailable_is_left_out() {
    let bytes = |id: &str| format!("fs/resctrl/mon_data/mon_L3_{id}/mbm_total_bytes");
    let machine = Machine::new("resctrl", &SOCKETS);
    machine.set("devices/system/cpu/cpu0/cache/index3/id", "0");
    machine.set("devices/system/cpu/cpu24/cache/index3/id", "1");
    machine.set(&bytes("00"), "1000");
    machine.set(&bytes("01"), "70000");
    machine.set(&bytes("02"), "Unavailable");
    let mut sensor = Counters::find(&machine.0, &[CoreId(0)], &nothing).unwrap();
    assert_eq!((sensor.name(), sensor.misses(CoreId(0))), ("resctrl MBM", None));
    let mut used = [None; 2];
    sensor.bandwidth(Time::from_nanos(5), &mut used);
    machine.set(&bytes("00"), "26000");
    machine.set(&bytes("01"), "20");
    sensor.bandwidth(Time::from_nanos(5) + Span::from_micros(1), &mut used);
    let [first, second] = used;
    assert!((first.unwrap() - 25e9).abs() < 1.0 && second.is_none(), "what was reset says nothing: {used:?}");
}

#[test]
fn a_machine_without_counters_says_so_of_each() {
    let machine = Machine::new("none", &[("bus/event_source/devices/cpu/type", "4")]);
    let why = Counters::find(&machine.0, &[], &nothing).err().unwrap();
    assert_eq!(why, "uncore IMC: there is none; AMD UMC: there is none; resctrl MBM: there is none");
    let attempts = Counters::tried(CoreId(0));
    assert_eq!(
        attempts.iter().map(|(name, _)| *name).collect::<Vec<_>>(),
        ["uncore IMC", "AMD UMC", "resctrl MBM", "cache misses"]
    );
}
