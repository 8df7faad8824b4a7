//! Slow requests of a server on a TAP device, read as a collector would.
//!
//! Needs root, `ip` and `curl`; prints missing requirements.

//~ views: the stages of a request follow each other without a gap
//~ views: traces are OTLP/JSON, and a `traceparent` is kept
//~ cli: `serve --traces` writes slow requests

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{Child, Command, Stdio};

use netlab::TempDir;
use netlab::{NetLab, is_installed};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

/// Ended on drop, also after a failure.
struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn the_stages_of_a_written_request_add_up_and_its_parent_is_kept() {
    let missing =
        NetLab::unavailable().or_else(|| (!is_installed("curl")).then(|| "curl is not there".to_owned()));
    if let Some(why) = missing {
        let line = format!("skipped: the_stages_of_a_written_request_add_up_and_its_parent_is_kept: {why}\n");
        let _ = std::io::stderr().write_all(line.as_bytes());
        return;
    }
    let lab = NetLab::new("traces").expect("a test network");
    let space = lab.namespace("server").expect("a namespace");
    let folder = TempDir::new("traces").expect("a folder");
    let file = folder.path().join("slow.jsonl");
    let mut command: Command = space.command(env!("CARGO_BIN_EXE_greenwave"));
    let serve =
        ["serve", "--device", "tap:gw0", "--addr", "10.77.0.2/24", "--slower-than", "1ns", "--traces"];
    let server = command.args(serve).arg(&file).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut server = Server(server.expect("greenwave starts"));
    let mut stdout = BufReader::new(server.0.stdout.take().expect("a pipe"));
    let mut line = String::new();
    stdout.read_line(&mut line).expect("text");
    assert!(line.starts_with("listening on 10.77.0.2"), "{line:?}");
    let curl = |args: &[&str]| {
        let quiet = ["--silent", "--show-error", "--fail", "--max-time", "60", "--output", "/dev/null"];
        space.run("curl", &[&quiet[..], args].concat()).expect("it answers");
    };
    let (trace, span) = ("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331");
    curl(&["--header", &format!("traceparent: 00-{trace}-{span}-01"), "http://10.77.0.2/?card=secret"]);
    curl(&["http://10.77.0.2/bytes/10000000"]);
    assert_eq!(policy_of(server.0.id(), "greenwave-trace"), Some(SCHED_IDLE), "serving goes first");
    kill_process(Pid::from_child(&server.0), Signal::INT).expect("it runs");
    let mut stderr = String::new();
    server.0.stderr.take().expect("a pipe").read_to_string(&mut stderr).expect("text");
    assert_eq!(server.0.wait().expect("it ends").code(), Some(0), "{stderr}");
    assert!(stderr.contains("traces: 2 slow requests in "), "{stderr}");

    let text = std::fs::read_to_string(&file).expect("the file is there");
    assert!(!text.contains("secret"), "{text}");
    let traces: Vec<Vec<Value>> = text.lines().map(spans).collect();
    assert_eq!(traces.len(), 2, "{text}");
    let ns = |span: &Value, at: &str| span[at].as_str().and_then(|text| text.parse::<u64>().ok()).expect(at);
    for spans in &traces {
        let (root, stages) = spans.split_first().expect("spans");
        let names: Vec<&str> = stages.iter().filter_map(|stage| stage["name"].as_str()).collect();
        assert_eq!(names, ["nic", "tcp", "event", "service", "transmit"]);
        let length = |span: &Value| ns(span, "endTimeUnixNano") - ns(span, "startTimeUnixNano");
        assert!(length(root) > 0);
        assert_eq!(stages.iter().map(length).sum::<u64>(), length(root), "{root}");
        let began = std::time::UNIX_EPOCH + std::time::Duration::from_nanos(ns(root, "startTimeUnixNano"));
        let ago = began.elapsed().expect("it is over");
        assert!(ago.as_secs() < 600, "of this clock: {ago:?}");
    }
    let of = |path: &str| {
        let has = |spans: &&Vec<Value>| spans[0].to_string().contains(&format!("\"{path}\""));
        traces.iter().find(has).expect(path)
    };
    let (asked, large) = (of("/"), of("/bytes/10000000"));
    assert_eq!((&asked[0]["traceId"], &asked[0]["parentSpanId"]), (&trace.into(), &span.into()));
    assert!(large[0].get("parentSpanId").is_none() && large[0]["traceId"] != trace);
    let out = &large[5];
    assert!(ns(out, "endTimeUnixNano") > ns(out, "startTimeUnixNano"), "10 MB wait for room: {out}");
}

/// sched(7).
const SCHED_IDLE: u32 = 5;

/// The scheduling policy of process `id`'s thread of this name.
fn policy_of(id: u32, name: &str) -> Option<u32> {
    let tasks = std::fs::read_dir(format!("/proc/{id}/task")).expect("it runs");
    let stats = tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("stat")).ok());
    let stat = stats.into_iter().find(|stat| stat.contains(&format!("({name}")))?;
    // Field 41 of proc_pid_stat(5), of which the third follows the name.
    stat.rsplit_once(") ")?.1.split(' ').nth(41 - 3)?.parse().ok()
}

fn spans(line: &str) -> Vec<Value> {
    let value: Value = serde_json::from_str(line).expect("a line is JSON");
    value["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().expect("spans").clone()
}
