//! The live view of a running command: over HTTP, in a browser, on a terminal.
//!
//! Has no requirements; uses Debian's chromium and tmux if present. Tests that need a network
//! namespace are in `ui/inside.rs`; those of `serve --ui` in `tap.rs`.

//~ views: `serve`, `run`, `sched` and `guard attach` are shown on a page, in a terminal and to Prometheus
//~ views: `top` keeps the last figures when its daemon ends, and continues when it returns

mod common;
#[path = "ui/inside.rs"]
mod inside;
#[path = "common/library.rs"]
mod library;
#[path = "common/scratch.rs"]
mod scratch;

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use common::greenwave;
use hostsched::cpulist;
use netlab::Namespace;
use rustix::process::{Pid, Signal, kill_process};
use scratch::Scratch;

const GREENWAVE: &str = env!("CARGO_BIN_EXE_greenwave");
/// Timeout of each step, many times its usual duration.
const LIMIT: Duration = Duration::from_secs(60);

/// Reports a skipped test, bypassing the test harness, which hides the output of passing tests.
fn skipped(test: &str, why: &str) {
    let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
}

fn is_there(program: &str) -> bool {
    let tried = Command::new(program).arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status();
    tried.is_ok()
}

/// The first answer that `accepts`, from repeated requests.
fn until(what: &str, ask: impl Fn() -> String, accepts: impl Fn(&str) -> bool) -> String {
    let end = Instant::now() + LIMIT;
    loop {
        let answer = ask();
        if accepts(&answer) {
            return answer;
        }
        assert!(Instant::now() < end, "{what} did not come; the last answer: {answer}");
        std::thread::yield_now();
    }
}

/// A command with a live view; ended on drop.
struct Shown {
    child: Child,
    addr: String,
    /// Namespace, if not the test's.
    namespace: Option<Namespace>,
    /// Output is not read, and writing it must not fail.
    _said: Box<dyn Iterator<Item = String>>,
}

impl Shown {
    /// Starts `command` with a view at a free address.
    fn start(mut command: Command, namespace: Option<&Namespace>) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("it starts");
        let lines = BufReader::new(child.stderr.take().expect("a pipe")).lines();
        let mut addrs = lines.map_while(Result::ok).filter_map(|line| {
            let addr = line.strip_prefix("shown at http://")?.split('/').next()?;
            Some(addr.to_owned())
        });
        let addr = addrs.next().expect("a line with its address");
        Self { child, addr, namespace: namespace.cloned(), _said: Box::new(addrs) }
    }

    /// Runs `work` in the command's namespace.
    fn there<R: Send>(&self, work: impl FnOnce() -> R + Send) -> R {
        match &self.namespace {
            Some(namespace) => namespace.enter(work),
            None => work(),
        }
    }

    /// Response for `path`, with its head.
    fn get(&self, path: &str) -> String {
        let addr = &self.addr;
        let mut stream = self.there(|| TcpStream::connect(addr)).expect("it listens");
        write!(stream, "GET {path} HTTP/1.0\r\nHost: {addr}\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers in UTF-8");
        answer
    }

    /// Sends ctrl-C, and checks that it ends and no longer listens; returns its address.
    fn end(mut self) -> String {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("it runs");
        assert_eq!(self.child.wait().expect("it ends").code(), Some(0));
        let addr = self.addr.clone();
        assert!(self.there(|| TcpStream::connect(&addr)).is_err(), "no listener any more");
        addr
    }
}

/// A scheduler with programs that stand for an LC and a BE task.
fn scheduler() -> (Shown, Scratch) {
    let core = cpulist::text(&host::affinity::cores().expect("cores")[..1]);
    let config = format!(
        "cores = \"{core}\"\nsensor = \"none\"\n\
         [[tasks]]\nname = \"lc\"\nclass = \"LC\"\nguaranteed = 1\ncommand = [\"sleep\", \"300\"]\n\
         [[tasks]]\nname = \"<i>batch\"\nclass = \"BE\"\ncommand = [\"sh\", \"-c\", \"while :; do :; done\"]\n"
    );
    let config = Scratch::new("shown.toml", &config);
    let journals = format!("{}/journals-shown", env!("CARGO_TARGET_TMPDIR"));
    let mut command = Command::new(GREENWAVE);
    command.args(["sched", "--config", config.path(), "--state-dir", &journals, "--ui", "127.0.0.1:0"]);
    (Shown::start(command, None), config)
}

impl Drop for Shown {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//~ faults: a view keeps the last figures when its program ends
#[test]
fn what_runs_is_shown_on_a_page_on_a_terminal_and_to_prometheus_until_it_ends() {
    let (shown, _config) = scheduler();
    let metrics = || shown.get("/metrics");
    until("a look", metrics, |text| text.contains("\ngreenwave_sched_cpu{task=\"<i>batch\",class=\"BE\"} "));
    top_prints_tables(&shown.addr);
    another_view_in_the_same_place_is_refused(&shown.addr);
    a_browser_shows_it(&shown.addr);
    let terminal = Terminal::start(&shown.addr);
    if let Some(terminal) = &terminal {
        terminal.shows("<i>batch");
        terminal.press("Space");
        terminal.shows("paused; ");
        terminal.press("Space");
    }
    let addr = shown.end();
    let out = greenwave(&["top", &addr, "--once"]);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(stderr, format!("error: {addr}: Connection refused\n  try: greenwave serve … --ui {addr}\n"));
    if let Some(terminal) = &terminal {
        terminal.shows("Connection refused, for ");
        terminal.shows("<i>batch");
        terminal.press("q");
        let left = terminal.shows("it ended with 0");
        assert!(!left.contains("<i>batch"), "the terminal is as it was: {left}");
    }
}

fn top_prints_tables(addr: &str) {
    let out = greenwave(&["top", addr, "--once"]);
    let text = String::from_utf8_lossy(&out.stdout);
    assert_eq!(out.status.code(), Some(0), "{}", String::from_utf8_lossy(&out.stderr));
    assert!(text.starts_with("greenwave sched, policy ") && text.contains("\nCores\n"), "{text}");
    assert!(text.lines().skip(1).all(|line| line.chars().count() <= 80), "{text}");
    let out = greenwave(&["top", addr, "--once", "--json", "--window", "1"]);
    let seen: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    assert_eq!((&seen["command"], &seen["schema"]), (&"sched".into(), &1.into()));
    let out = Command::new(GREENWAVE).args(["top", addr]).stdin(Stdio::null()).output().expect("it starts");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2));
    let expected = format!("error: stdout is not a terminal\n  try: greenwave top --once {addr}\n");
    assert_eq!(stderr, expected);
}

//~ views: a second view at one address is refused
//~ faults: a second guard, scheduler, egress attachment or view is refused and changes nothing
fn another_view_in_the_same_place_is_refused(addr: &str) {
    let refused = |ui: &[&str], expected: &str| {
        let serve = ["serve", "--device", "tap:gw0", "--addr", "10.77.0.2/24"];
        let out = greenwave(&[&serve[..], ui].concat());
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{stderr}");
        assert!(
            stderr.starts_with(&format!("error: {expected}")) && stderr.contains("\n  try: "),
            "{stderr}"
        );
    };
    refused(&["--ui", addr], &format!("--ui {addr}: the address is already in use"));
    refused(&["--ui", "0.0.0.0:9900"], "--ui 0.0.0.0:9900: reachable from other machines");
    refused(&["--ui-remote"], "the following required arguments were not provided: --ui ");
}

/// The page rendered by Debian's chromium, with its script; narrow, and as a picture.
fn a_browser_shows_it(addr: &str) {
    if !is_there("chromium") {
        return skipped("a_browser_shows_it", "chromium is not there");
    }
    let picture = Path::new(env!("CARGO_TARGET_TMPDIR")).join("shown.png");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("chromium");
    let _ = std::fs::remove_file(&picture);
    let mut command = Command::new("timeout");
    command.args(["60", "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
    command.arg(format!("--user-data-dir={}", folder.display()));
    command.arg(format!("--screenshot={}", picture.display()));
    command.args(["--window-size=400,900", "--dump-dom", &format!("http://{addr}/?window=1")]);
    let out = command.stderr(Stdio::null()).output().expect("it starts");
    let page = String::from_utf8_lossy(&out.stdout);
    assert!(page.contains("<td class=\"word\">&lt;i&gt;batch</td>"), "{page}");
    // The script has run: it shows the hidden button.
    assert!(page.contains("<button id=\"pause\" type=\"button\" aria-pressed=\"false\">"), "{page}");
    let bytes = std::fs::read(&picture).unwrap_or_default();
    assert!(bytes.starts_with(b"\x89PNG") && bytes.len() > 5_000, "a picture of {} bytes", bytes.len());
}

/// `greenwave top` in tmux.
struct Terminal(String);

impl Terminal {
    fn start(addr: &str) -> Option<Self> {
        if !is_there("tmux") {
            skipped("top_in_tmux", "tmux is not there");
            return None;
        }
        let terminal = Self(format!("greenwave-test-{}", std::process::id()));
        let program = format!("{GREENWAVE} top {addr}; echo it ended with $?; exec sleep 300");
        terminal.tmux(&["-f", "/dev/null", "new-session", "-d", "-x", "100", "-y", "40", &program]);
        Some(terminal)
    }

    fn tmux(&self, args: &[&str]) -> String {
        let out = Command::new("tmux").args(["-L", &self.0]).args(args).output().expect("tmux starts");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    fn press(&self, key: &str) {
        self.tmux(&["send-keys", key]);
    }

    /// The screen once it contains `text`.
    fn shows(&self, text: &str) -> String {
        until(text, || self.tmux(&["capture-pane", "-p"]), |there| there.contains(text))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}
