//! Flags of unprivileged commands: each has the effect that its help describes. Speed is not
//! tested.

mod common;
#[path = "common/schema.rs"]
mod schema;

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Scope;

use common::greenwave;
use serde_json::Value;

/// Bypasses the test harness, which hides the output of passing tests.
fn skipped(test: &str, why: &str) {
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}

/// The path of a file of its own, which is removed on drop.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        Self(PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("flags-{name}")))
    }

    fn path(&self) -> &str {
        self.0.to_str().expect("a path of ours is UTF-8")
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// The output of `args`, which must succeed.
#[track_caller]
fn printed(args: &[&str]) -> String {
    let out = greenwave(args);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(0), "{args:?}: {stderr}");
    assert!(!stderr.contains(" of about "), "no bar without a terminal: {stderr}");
    String::from_utf8(out.stdout).expect("text")
}

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

const DEMO: [&str; 9] =
    ["demo", "--duration", "1s", "--rounds", "1", "--modes", "none", "--burst", "50/10ms"];

//~ cli: `demo` takes seed, spacing and service time
#[test]
fn a_demo_uses_the_given_seed_spacing_and_service() {
    let page = Scratch::new("demo.html");
    let demo = |seed: &str| -> Value {
        let more = ["--seed", seed, "--spacing", "3us", "--service", "20us", "--json", "--out", page.path()];
        serde_json::from_str(&printed(&[&DEMO[..], &more].concat())).expect("JSON")
    };
    let urgent = |result: &Value| {
        let classes = result["modes"][0]["report"]["classes"].as_array().expect("a list").clone();
        let urgent = classes.into_iter().find(|class| class["class"] == "LS");
        urgent.expect("the urgent class")["requests"].as_u64().expect("a count")
    };
    let first = demo("9");
    let settings = &first["settings"];
    let values = ["seed", "spacing_ns", "service_ns"].map(|key| settings[key].as_u64().expect("a number"));
    assert_eq!(values, [9, 3_000, 20_000]);
    for class in first["modes"][0]["report"]["classes"].as_array().expect("a list") {
        assert!(class["mean_ns"].as_u64() >= Some(20_000), "a request takes its service at least: {class}");
    }
    assert_eq!(urgent(&demo("9")), urgent(&first), "a seed replays its requests");
    assert_ne!(urgent(&demo("10")), urgent(&first), "another has others");
}

//~ demo: a terminal gets a progress bar on stderr and an aligned table
/// A terminal gets a bar, on stderr; it leaves the table on stdout alone.
#[test]
fn a_terminal_gets_a_progress_bar_and_the_table_its_columns() {
    let test = "a_terminal_gets_a_progress_bar_and_the_table_its_columns";
    let (page, table) = (Scratch::new("bar.html"), Scratch::new("bar.txt"));
    // script(1) provides a terminal.
    let program = env!("CARGO_BIN_EXE_greenwave");
    let demo = format!("'{program}' {} --out '{}' >'{}'", DEMO.join(" "), page.path(), table.path());
    let mut script = Command::new("timeout");
    script.args(["60", "script", "--quiet", "--return", "--command", &demo, "/dev/null"]);
    let out = script.env("TERM", "xterm").stdin(Stdio::null()).output().expect("timeout is there");
    if out.status.code() == Some(127) {
        return skipped(test, "script is not there");
    }
    let seen = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{seen}");
    assert!(seen.contains('[') && seen.contains(" of about "), "{seen:?}");
    let text = std::fs::read_to_string(table.path()).expect("the table is there");
    let columns = "mode class reqs never late p50 p99 p99.9 max nic tcp event serve rest"
        .split(' ')
        .collect::<Vec<_>>();
    assert!(text.lines().any(|line| words(line) == columns), "{text}");
    assert!(!text.contains(" of about "), "{text}");
}

//~ cli: `exp run` ends with a table of claims
#[test]
fn an_experiment_ends_with_a_table_of_its_claims() {
    let text = printed(&["exp", "run", "overload/e3"]);
    let result: Value =
        serde_json::from_str(&printed(&["exp", "run", "overload/e3", "--json"])).expect("JSON");
    let claims = result["claims"].as_array().expect("a list");
    let mut lines = text.lines().skip_while(|line| words(line).first() != Some(&"claim"));
    let header = words(lines.next().unwrap_or_else(|| panic!("a table of claims: {text}")));
    assert!(header.starts_with(&["claim", "paper", "ours", "±", "ours/paper", "bound", "verdict"]), "{text}");
    for (claim, line) in claims.iter().zip(lines) {
        assert_eq!(words(line)[0], claim["id"], "{text}");
        assert!(words(line).contains(&"holds"), "{text}");
    }
    let last = text.trim_end().lines().last().unwrap_or_default();
    let count = claims.len();
    assert!(
        last.starts_with(&format!("{count} of {count} claims hold   (sim, scale smoke, seed 1, ")),
        "{last}"
    );
}

//~ cli: `calibrate` writes the cost of every step
#[test]
fn a_calibration_prints_and_writes_the_cost_of_every_step() {
    let file = Scratch::new("model.toml");
    let small = ["calibrate", "--slices", "2", "--requests", "1000"];
    let result = printed(&[&small[..], &["--json", "--out", file.path()]].concat());
    let result: Value = serde_json::from_str(&result).expect("JSON");
    let steps = ["driver", "shed", "classify", "tcp_rx", "tcp_ack", "tcp_tx", "event", "dispatch"];
    let written = std::fs::read_to_string(file.path()).expect("the file is there");
    for step in steps.map(|step| format!("{step}_ns")) {
        let cost = result["cost"][&step].as_u64().unwrap_or_else(|| panic!("{step} in {result}"));
        assert!(written.contains(&format!("{step} = {cost}\n")), "{step} in {written}");
    }
    assert!(result["cost"]["tcp_rx_ns"].as_u64() > Some(0), "{result}");
    assert!(written.contains("greenwave calibrate --slices 2 --requests 1000"), "{written}");
    let table = printed(&small);
    assert!(
        table.contains("passes a frame with payload through TCP/IP") && table.contains("fastest of 2 slices"),
        "{table}"
    );
}

/// An HTTP server that records its connections and requests.
#[derive(Default)]
struct Seen {
    connections: AtomicUsize,
    asked: Mutex<BTreeSet<String>>,
    over: AtomicBool,
}

impl Seen {
    /// Accepts connections until the end.
    fn accept<'a>(&'a self, listener: &TcpListener, scope: &'a Scope<'a, '_>) {
        for stream in listener.incoming() {
            if self.over.load(Ordering::Relaxed) {
                return;
            }
            self.connections.fetch_add(1, Ordering::Relaxed);
            let stream = stream.expect("a connection");
            scope.spawn(move || self.answer(stream));
        }
    }

    /// Answers every request on `stream`.
    fn answer(&self, mut stream: TcpStream) {
        let Ok(copy) = stream.try_clone() else { return };
        let mut asked = String::new();
        for line in BufReader::new(copy).lines().map_while(Result::ok) {
            match line.as_str() {
                "" => {
                    self.asked.lock().expect("no thread panicked").insert(std::mem::take(&mut asked));
                    let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
                    if stream.write_all(answer).is_err() {
                        return;
                    }
                }
                line if asked.is_empty() => asked = line.to_owned(),
                _ => {}
            }
        }
    }
}

/// Ends the server on drop, also after a failure.
struct Ends<'a>(&'a Seen, SocketAddr);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.over.store(true, Ordering::Relaxed);
        let _ = TcpStream::connect(self.1);
    }
}

//~ cli: `load` sends bursts over the given connections, path and lengths
#[test]
fn a_load_of_http_comes_in_bursts_by_so_many_connections_to_one_path() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let addr = listener.local_addr().expect("it has an address");
    let seen = Seen::default();
    let result = std::thread::scope(|scope| {
        let seen = &seen;
        scope.spawn(move || seen.accept(&listener, scope));
        let _ends = Ends(seen, addr);
        let target = addr.to_string();
        let plan = ["load", "--target", &target, "--path", "/some/path", "--connections", "3", "--json"];
        let times = ["--burst", "5/20ms", "--duration", "200ms", "--warmup", "100ms", "--timeout", "30s"];
        printed(&[&plan[..], &times, &["--seed", "5"]].concat())
    });
    let result: Value = serde_json::from_str(&result).expect("JSON");
    schema::conforms(&result);
    // Five at once every 20 ms, of which the first 100 ms are not counted.
    assert_eq!((&result["classes"][0]["requests"], &result["seed"]), (&25.into(), &5.into()), "{result}");
    let asked = seen.asked.into_inner().expect("no thread panicked");
    assert_eq!(asked.into_iter().collect::<Vec<_>>(), ["GET /some/path HTTP/1.1"]);
    // The first connection only checks that the target listens.
    assert_eq!(seen.connections.load(Ordering::Relaxed), 1 + 3);
}
