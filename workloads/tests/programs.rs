//! The programs as separate processes: their output, and that their checks hold.

use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::AtomicBool;
use std::sync::mpsc::channel;
use std::time::Duration;

use host::Monotonic;
use host::disk::{PAGE, Ring};
use host::proc;
use host::signal_page::SharedPage;
use load::kernel::{self, AppProtocol};
use load::{Plan, RequestClass};
use netlab::NetLab;
use netlab::TempDir;
use queueing::Span;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use workloads::{storage, tpcc};

/// Reports a skipped test, bypassing the harness, which hides the output of passing tests.
fn skipped(name: &str, why: &str) {
    let line = format!("skipped: {name}: {why}\n");
    let _ = std::io::stderr().write_all(line.as_bytes());
}

/// The lines of a program's stdout; checks that it exits with success.
fn records(command: &mut Command) -> Vec<Value> {
    let out = command.stdin(Stdio::null()).output().expect("it starts");
    let text = String::from_utf8(out.stdout).expect("text");
    assert!(out.status.success(), "{text}{}", String::from_utf8_lossy(&out.stderr));
    text.lines().map(|line| serde_json::from_str(line).expect("a line of JSON")).collect()
}

/// Checks that it worked, reported so, and that its check holds.
fn works(workload: &str, lines: &[Value]) {
    let (last, counts) = lines.split_last().expect("it says something");
    assert_eq!((&last["workload"], &last["check"]), (&workload.into(), &"holds".into()), "{last}");
    let totals: Vec<u64> = counts.iter().map(|line| line["total"].as_u64().expect("a count")).collect();
    assert!(!totals.is_empty() && totals.is_sorted() && totals[0] > 0, "{workload}: {totals:?}");
    assert!(counts.iter().all(|line| line["per_s"].as_f64() >= Some(0.0)), "{counts:?}");
}

/// Timeout of each step, many times its usual duration.
const LIMIT: Duration = Duration::from_secs(60);
const PACE: [&str; 4] = ["--for", "300ms", "--every", "50ms"];

//~ workloads: best-effort programs report their work each second and check their result
#[test]
fn best_effort_programs_report_and_check_their_work() {
    for (workload, program) in [
        ("swaptions", env!("CARGO_BIN_EXE_swaptions")),
        ("streamcluster", env!("CARGO_BIN_EXE_streamcluster")),
        ("stream-l2", env!("CARGO_BIN_EXE_stream-l2")),
        ("stream-dram", env!("CARGO_BIN_EXE_stream-dram")),
    ] {
        let more: &[&str] = if workload == "stream-dram" { &["--kib", "8192"] } else { &[] };
        works(workload, &records(Command::new(program).args(PACE).args(more)));
    }
}

//~ workloads: x264 encodes a generated video, and every frame is counted
#[test]
fn x264_encodes_the_generated_video() {
    if !netlab::is_installed("x264") {
        return skipped("x264_encodes_the_generated_video", "x264 is not there");
    }
    let lines = records(Command::new(env!("CARGO_BIN_EXE_x264-film")).args(PACE));
    works("x264", &lines);
    let says = lines[lines.len() - 1]["says"].as_str().expect("text");
    assert!(says.contains(" frames in, ") && says.ends_with("x264: exit status: 0"), "{says}");
}

//~ workloads: x264 encodes a generated video, and every frame is counted
#[test]
fn a_missing_or_failed_x264_is_reported() {
    let folder = TempDir::new("x264").expect("a folder");
    let failed = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_x264-film"));
        let out = command.args(PACE).env("PATH", folder.path()).stdin(Stdio::null()).output();
        let out = out.expect("it starts");
        (out.status.code(), String::from_utf8(out.stderr).expect("text"))
    };
    let absent = "error: x264 is not there\n  try: apt-get install x264\n";
    assert_eq!(failed(), (Some(2), absent.to_owned()));
    std::os::unix::fs::symlink("/bin/false", folder.path().join("x264")).expect("a link");
    let early = "error: x264 ended early: exit status: 1, 0 frames out\n";
    assert_eq!(failed(), (Some(2), early.to_owned()));
}

//~ workloads: x264 encodes a generated video, and every frame is counted
#[test]
fn x264_ends_with_its_feeding_process() {
    if !netlab::is_installed("x264") {
        return skipped("x264_ends_with_its_feeding_process", "x264 is not there");
    }
    for signal in [Signal::TERM, Signal::KILL] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_x264-film"));
        let child = command.args(["--every", "10ms"]).stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
        let mut film = child.expect("it starts");
        let mut lines = BufReader::new(film.stdout.take().expect("a pipe")).lines();
        lines.next().expect("it says something").expect("text");
        let family = proc::family(film.id());
        kill_process(Pid::from_child(&film), signal).expect("it runs");
        lines.for_each(drop);
        film.wait().expect("it ends");
        let [_, x264] = family[..] else { panic!("it and x264: {family:?}") };
        let start = std::time::Instant::now();
        while proc::began(x264, x264).is_some() {
            assert!(start.elapsed() < LIMIT, "x264 goes on after {signal:?}");
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }
}

//~ workloads: swaptions run with the Boehm collector
#[test]
fn swaptions_run_with_the_collectors_malloc() {
    let name = "swaptions_run_with_the_collectors_malloc";
    let folder = TempDir::new("collector").expect("a folder");
    let library = folder.path().join("libcollector.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("collector/malloc.c");
    let built = Command::new("cc")
        .args(["-O2", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .arg("-lgc")
        .output();
    let Ok(built) = built else { return skipped(name, "there is no C compiler") };
    let errors = String::from_utf8_lossy(&built.stderr);
    if errors.contains("gc.h: No such file") {
        return skipped(name, "libgc-dev is not there");
    }
    assert!(built.status.success(), "{errors}");
    let mut command = Command::new(env!("CARGO_BIN_EXE_swaptions"));
    command.env("LD_PRELOAD", &library).env("GC_PRINT_STATS", "1");
    command.args(["--for", "1s", "--every", "50ms", "--keep-mib", "16"]);
    let out = command.output().expect("it starts");
    let lines: Vec<Value> = String::from_utf8_lossy(&out.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str(line).ok())
        .collect();
    works("swaptions", &lines);
    let log = String::from_utf8_lossy(&out.stderr);
    assert!(log.contains("Complete collection took") || log.contains("world-stopped"), "{log}");
}

//~ workloads: best-effort programs report their work each second and check their result
#[test]
fn trees_of_the_go_program_survive_its_collector() {
    let name = "trees_of_the_go_program_survive_its_collector";
    let folder = TempDir::new("garbage").expect("a folder");
    let program = folder.path().join("garbage");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("garbage");
    let built = Command::new("go").current_dir(source).args(["build", "-o"]).arg(&program).arg(".").output();
    let Ok(built) = built else { return skipped(name, "go is not there") };
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let go = ["-for", "300ms", "-every", "50ms", "-keep-mib", "8"];
    works("garbage", &records(Command::new(&program).args(go)));
}

/// Starts `program` in a test network, sends it the load of `plan`, ends it; returns its last line.
fn served(name: &str, program: &str, plan: &Plan, protocol: &AppProtocol) -> Option<Value> {
    let no_tap = || {
        let there = Path::new("/dev/net/tun").exists();
        (!there).then(|| "this kernel offers no TAP devices".to_owned())
    };
    if let Some(why) = NetLab::unavailable().or_else(no_tap) {
        skipped(name, &why);
        return None;
    }
    let lab = NetLab::new("workloads").expect("a laboratory");
    let netns = lab.namespace("here").expect("a namespace");
    let mut command = netns.command(program);
    let mut child = netns.spawn(command.args(["--every", "50ms"]).stdout(Stdio::piped())).expect("it starts");
    let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let mut next = move || serde_json::from_str::<Value>(&lines.next()?.ok()?).ok();
    let first = next().expect("it listens");
    let target = first["listens"].as_str().and_then(|at| at.parse().ok()).expect("an address");
    let page = SharedPage::of_process(child.id());
    assert!(page.is_ok(), "a core scheduler finds it by its number: {page:?}");
    let stop = AtomicBool::new(false);
    let report = netns
        .enter(|| kernel::run(plan, target, protocol, &Monotonic::new(), &mut |_| {}, &stop))
        .expect("it runs");
    assert_eq!((report.answered(), report.garbled), (report.requests(), 0), "{report:?}");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("it lives");
    let (sender, receiver) = channel();
    std::thread::spawn(move || sender.send(std::iter::from_fn(next).last()));
    let last = receiver.recv_timeout(Duration::from_secs(30)).expect("it ends when it is told to");
    let last = last.expect("it says something");
    assert_eq!(last["check"], "holds", "{last}");
    Some(last)
}

fn plan(classes: &[(&str, f64, u8, usize)], requests: u64) -> Plan {
    let service = "1ns".parse().expect("a distribution");
    let class = |&(name, share, kind, length): &(&str, f64, u8, usize)| RequestClass {
        name: name.to_owned(),
        share,
        service,
        length,
        kind,
        priority: 0,
    };
    let arrivals = "poisson 3000".parse().expect("arrivals");
    let mut plan = Plan::new(8, arrivals, classes.iter().map(class).collect());
    plan.requests = Some(requests);
    plan.timeout = Span::from_secs(20);
    plan
}

//~ workloads: blocks read are those last written, encrypted; a changed block is detected
#[test]
fn blocks_are_served_over_tcp_without_loss() {
    use storage::StorageOp::{Read, Write};
    let classes = [
        ("4k", 0.5, Read(1).code(), 32),
        ("64k", 0.3, Read(16).code(), 32),
        ("write", 0.2, Write(15).code(), 32 + 15 * storage::BLOCK),
    ];
    let text = include_bytes!("../../LICENSE").to_vec();
    let name = "blocks_are_served_over_tcp_without_loss";
    let last =
        served(name, env!("CARGO_BIN_EXE_storage"), &plan(&classes, 1000), &AppProtocol::Texts { text });
    let Some(last) = last else { return };
    let says = last["says"].as_str().expect("text");
    assert!(
        says.starts_with("16384 blocks are what was written (") && says.ends_with("; 0 refused"),
        "{says}"
    );
    match Ring::new(1, 1, PAGE) {
        Ok(_) => assert!(says.contains("(io_uring, "), "{says}"),
        Err(e) => skipped(name, &e.to_string()),
    }
}

//~ workloads: the consistency conditions of TPC-C §3.3.2 hold, and each violation is found
#[test]
fn transactions_over_tcp_leave_a_consistent_store() {
    let names = ["new-order", "payment", "order-status", "delivery", "stock-level"];
    let classes: Vec<_> = (0..)
        .zip(names)
        .zip(tpcc::MIX)
        .map(|((kind, name), (_, share))| (name, share as f64 / 100.0, kind, 32))
        .collect();
    let name = "transactions_over_tcp_leave_a_consistent_store";
    let last = served(name, env!("CARGO_BIN_EXE_tpcc"), &plan(&classes, 2000), &AppProtocol::Synthetic);
    let Some(last) = last else { return };
    let says = last["says"].as_str().expect("text");
    assert!(says.contains(" committed, ") && says.ends_with("; 0 refused"), "{says}");
}
