//! A small experiment of a world, for that world's tests.
#![allow(dead_code, reason = "not every test takes every step")]

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::common::greenwave;
use crate::scratch::Scratch;

/// The experiment's text.
pub struct Tiny(pub &'static str);

impl Tiny {
    /// A file with the text, `from` changed to `to`.
    pub fn file(&self, from: &str, to: &str) -> Scratch {
        assert!(self.0.contains(from), "{from:?} is in the experiment");
        // Tests run concurrently.
        static FILES: AtomicU32 = AtomicU32::new(0);
        let (id, number) = (std::process::id(), FILES.fetch_add(1, Ordering::Relaxed));
        Scratch::new(&format!("tiny-{id}-{number}.toml"), &self.0.replace(from, to))
    }

    /// Output of `exp run --json`, with `from` changed to `to`.
    pub fn run(&self, from: &str, to: &str) -> Output {
        greenwave(&["exp", "run", self.file(from, to).path(), "--json"])
    }

    /// Checks that it is refused with an error that contains `says`, with `from` changed to `to`.
    pub fn is_refused(&self, from: &str, to: &str, says: &str) {
        let out = self.run(from, to);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{stderr}");
        assert!(stderr.contains(says), "{says:?} is not in {stderr:?}");
    }

    /// Interrupts it, with `from` changed to `to`, once it has created `traces` folders and control
    /// groups, and checks that none is left. Returns the processes that it had then. A following
    /// simulation is not begun.
    pub fn interrupt(&self, from: &str, to: &str, traces: usize) -> Vec<u32> {
        let file = self.file(from, to);
        let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave"));
        command.args(["exp", "run", file.path(), "adps/scenario1"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = command.spawn().expect("greenwave starts");
        let id = child.id();
        let end = Instant::now() + Duration::from_secs(60);
        let mut begun = left_of(id);
        while begun.len() < traces && Instant::now() < end {
            std::thread::yield_now();
            begun = left_of(id);
        }
        let family = host::proc::family(id);
        kill_process(Pid::from_raw(id as i32).expect("a process"), Signal::INT).expect("it is there");
        let out = child.wait_with_output().expect("a child is waited for");
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert!(begun.len() >= traces, "{begun:?}: {stderr}");
        assert!(stderr.contains("interrupted"), "{stderr}");
        assert_eq!((out.status.code(), &out.stdout[..]), (Some(130), &[][..]), "{stderr}");
        assert_eq!(left_of(id), [] as [PathBuf; 0]);
        family
    }
}

/// Folders and control groups of process `id`'s experiment.
fn left_of(id: u32) -> Vec<PathBuf> {
    let folders = [std::env::temp_dir(), "/sys/fs/cgroup/cpu".into(), "/sys/fs/cgroup".into()];
    let entries = folders.into_iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let prefix = format!("greenwave-lab-{id}-");
    let is_its =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
    entries.map(|entry| entry.path()).filter(is_its).collect()
}

/// The result in `out`; checks that its claims hold.
pub fn found(out: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&out.stderr);
    let json: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}\n{stderr}"));
    assert_eq!(out.status.code(), Some(0), "{stderr}\n{json}");
    json
}

/// A figure of a class in a mode.
pub fn figure(json: &Value, mode: &str, class: &str, stat: &str) -> f64 {
    let mut rows = json["figures"].as_array().expect("a result has figures").iter();
    let row = rows.find(|row| row["mode"] == mode && row["class"] == class);
    row.and_then(|row| row[stat].as_f64()).unwrap_or_else(|| panic!("{mode} {class} {stat}: {json}"))
}
