//! A scheduler keeps its privileges, and the thread that serves strangers has none.

use std::fs::File;
use std::io::Read as _;
use std::net::TcpStream;

use super::threads::{NONE, status, statuses};
use super::*;

/// Response of `--ui` of the scheduler whose stderr is in `log`.
fn shown(log: &Scratch) -> String {
    let text = || std::fs::read_to_string(log.path()).unwrap();
    let ui_addr = || Some(text().split_once("shown at http://")?.1.split_once('/')?.0.to_owned());
    until("it shows itself", || ui_addr().is_some());
    let mut stream = TcpStream::connect(ui_addr().unwrap()).expect("it listens");
    write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers in text");
    answer
}

//~ operations: the view of `sched` runs without privileges
#[test]
fn the_view_of_a_scheduler_gives_up_what_the_scheduler_needs() {
    let text =
        "sensor = \"none\"\n[[tasks]]\nname = \"be\"\nclass = \"BE\"\ncommand = [\"sleep\", \"600\"]\n";
    let tasks = Scratch::new("sandbox-tasks.toml", text);
    let start = |test: &str, more: &[&str]| {
        let log = Scratch::new(&format!("{test}.log"), "");
        let file = File::options().append(true).open(log.path()).unwrap();
        let args = ["sched", "--config", tasks.path(), "--ui", "127.0.0.1:0", "--state-dir", &journals(test)];
        let daemon = Command::new(GREENWAVE).args(args).args(more).stdout(Stdio::null()).stderr(file).spawn();
        (Program(daemon.expect("greenwave starts")), log)
    };
    let end = |mut daemon: Program, log: &Scratch| {
        kill_process(daemon.pid().unwrap(), Signal::INT).unwrap();
        assert_eq!(daemon.0.wait().unwrap().code(), Some(0));
        std::fs::read_to_string(log.path()).unwrap()
    };
    // Per thread: name, no-new-privileges, seccomp filters, capabilities.
    let keys = ["Name", "NoNewPrivs", "Seccomp", "CapEff", "CapPrm"];
    let [_, gains, filter, effective, permitted] = status("/proc/self/status", keys);
    let ours = [gains, filter, effective, permitted];

    let (daemon, log) = start("sandbox-view", &[]);
    assert!(shown(&log).contains("greenwave_"), "it is seen");
    let gave_up = || statuses(daemon.0.id(), ["Seccomp"]).iter().any(|filter| filter == &["2"]);
    until("a thread has a filter", gave_up);
    for [name, status @ ..] in statuses(daemon.0.id(), keys) {
        match name.as_str() {
            "greenwave-ui" => assert_eq!(status, ["1", "2", NONE, NONE]),
            _ => assert_eq!(status, ours, "{name} keeps what it has"),
        }
    }
    assert!(shown(&log).contains("greenwave_"), "again");
    let text = end(daemon, &log);
    assert!(!text.contains("sandbox"), "there is nothing to say: {text}");

    let (daemon, log) = start("sandbox-none", &["--no-sandbox"]);
    assert!(shown(&log).contains("greenwave_"), "it is seen");
    for [name, status @ ..] in statuses(daemon.0.id(), keys) {
        assert_eq!(status, ours, "{name} keeps what it has");
    }
    let text = end(daemon, &log);
    assert!(
        text.contains("note: no sandbox (--no-sandbox): the --ui thread keeps its capabilities"),
        "{text}"
    );
}
