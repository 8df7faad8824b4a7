//! World `httpd`: what is true of its experiments on any machine.

mod common;
#[path = "common/scratch.rs"]
mod scratch;

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use common::greenwave;
use host::lab::{Group, Lab, is_there};
use rustix::process::{Pid, Signal, kill_process};
use scratch::Scratch;
use serde_json::Value;

/// A fifth of what a twentieth of a core serves, and ten times of it.
const TINY: &str = r#"
    title = "tiny"
    source = "none"
    world = "httpd"
    modes = ["stock", "backlog-64"]
    class = "all"
    varies = "load"
    [settings]
    server = "nginx"
    gzip = true
    bytes = 20_000
    share = 0.1
    load = 0.2
    patience = "500ms"
    warmup = "100ms"
    duration = "300ms"
    capacity = "200ms"
    [mode.backlog-64]
    backlog = 64
    sysctl = { "net.ipv4.tcp_syncookies" = 0 }
    threaded = true
    [scale.smoke]
    runs = 1
    [scale.paper]
    runs = 1
    [[point]]
    name = "0.2"
    [[point]]
    name = "10"
    set = { "load" = 10.0 }
    [[claim]]
    id = "there"
    says = "Visits that are due at the lower load"
    metric = "stock.all.offered"
    holds = ">= 1"
    at = ["0.2"]
"#;

/// A file with the tiny experiment, `from` changed to `to`.
fn tiny(from: &str, to: &str) -> Scratch {
    assert!(TINY.contains(from), "{from:?} is in the experiment");
    // Tests run side by side.
    static FILES: AtomicU32 = AtomicU32::new(0);
    let number = FILES.fetch_add(1, Ordering::Relaxed);
    Scratch::new(&format!("httpd-{number}.toml"), &TINY.replace(from, to))
}

fn experiment(from: &str, to: &str) -> Output {
    greenwave(&["exp", "run", tiny(from, to).path(), "--json"])
}

/// Whether there can be such experiments here with `server`; says so when not.
fn can_run(test: &str, server: &str) -> bool {
    let cores = host::affinity::cores().map_or(0, |cores| cores.len());
    let why = Lab::unavailable().or_else(Group::unavailable);
    let why = why.or_else(|| (cores < 2).then(|| "it needs two cores".to_owned()));
    let why = why.or_else(|| (!is_there(server)).then(|| format!("the program {server} is not there")));
    if let Some(why) = &why {
        let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
    }
    why.is_none()
}

fn every_visit_meets_a_fate(server: &str, program: &str) {
    if !can_run("every_visit_meets_a_fate", program) {
        return;
    }
    let out = experiment("\"nginx\"", &format!("{server:?}"));
    let said = String::from_utf8_lossy(&out.stderr);
    let json: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}\n{said}"));
    assert_eq!(out.status.code(), Some(0), "{said}\n{json}");
    for row in json["figures"].as_array().unwrap() {
        let figure = |stat: &str| row[stat].as_f64().unwrap_or_else(|| panic!("{stat}: {row}"));
        let fates = ["late", "phantom", "refused", "silent", "wrong"].map(figure).iter().sum::<f64>();
        // The rest is what the client had no connection for.
        assert!(fates <= figure("bad") + 1e-6 && fates + 1.0 >= figure("bad"), "{row}");
        assert!(figure("goodput") <= figure("offered") && figure("capacity") > 0.0, "{row}");
        assert_eq!(figure("wrong"), 0.0, "every answer is the page: {row}");
    }
}

#[test]
fn every_visit_to_nginx_meets_a_fate() {
    every_visit_meets_a_fate("nginx", "nginx");
}

#[test]
fn every_visit_to_lighttpd_meets_a_fate() {
    every_visit_meets_a_fate("lighttpd", "lighttpd");
}

#[test]
fn every_visit_to_apache_meets_a_fate() {
    every_visit_meets_a_fate("apache", "apache2");
}

#[test]
fn an_interrupted_experiment_leaves_nothing() {
    if !can_run("an_interrupted_experiment_leaves_nothing", "nginx") {
        return;
    }
    let file = tiny("300ms", "3600s");
    let mut command = Command::new(env!("CARGO_BIN_EXE_greenwave"));
    command.args(["exp", "run", file.path()]).stdout(Stdio::null()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let id = child.id();
    let is_its = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.to_string_lossy().starts_with(&format!("greenwave-lab-{id}-")))
    };
    let left = || {
        let folders = [std::env::temp_dir(), "/sys/fs/cgroup/cpu".into(), "/sys/fs/cgroup".into()];
        let entries =
            folders.into_iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
        entries.map(|entry| entry.path()).filter(is_its).collect::<Vec<_>>()
    };
    // A folder of files, a group for the server, and one for visitors: they are at it.
    let end = Instant::now() + Duration::from_secs(60);
    while left().len() < 3 && Instant::now() < end {
        std::thread::yield_now();
    }
    assert!(left().len() >= 3, "{:?}", left());
    kill_process(Pid::from_raw(id as i32).unwrap(), Signal::INT).unwrap();
    let out = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(said.contains("interrupted"), "{said}");
    assert_eq!(left(), [] as [PathBuf; 0]);
}

#[test]
fn what_an_experiment_on_a_server_cannot_be_is_said_before_any_runs() {
    let check = |from: &str, to: &str, says: &str| {
        let out = experiment(from, to);
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains(says), "{says:?} is not in {said:?}");
    };
    check("server = \"nginx\"", "server = \"iis\"", "unknown variant `iis`, expected one of `nginx`");
    check("share = 0.1", "share = 0.0", "share 0 is outside 0.05..=1");
    check("patience = \"500ms\"", "patience = \"long\"", "long");
    check("threaded = true", "threads = true", "threads");
}
