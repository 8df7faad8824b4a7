//! Privileges that a server drops once it listens, seen from outside, while it continues to work.

//~ operations: `serve` drops its capabilities and filters its system calls

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::threads::{NONE, statuses};
use super::*;

/// A folder that is removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&path);
        std::fs::create_dir_all(&path).expect("the folder for test files is writable");
        Self(path)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path of ours is UTF-8").to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Sends ctrl-C; returns its output.
fn stop(mut server: Server) -> String {
    kill_process(Pid::from_child(&server.child), Signal::INT).expect("it runs");
    let (code, printed, stderr) = server.ended();
    assert_eq!(code, Some(0), "{printed}{stderr}");
    stderr
}

/// The live view of a server in `netns`.
fn shown(netns: &Namespace, at: SocketAddr) -> String {
    netns.enter(|| {
        let mut stream = TcpStream::connect(at).expect("it listens");
        write!(stream, "GET /metrics HTTP/1.0\r\n\r\n").expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it answers in text");
        answer
    })
}

#[test]
fn a_server_keeps_no_privileges_and_does_all_that_it_did() {
    let Some(netns) = netns_with_tap("a_server_keeps_no_privileges_and_does_all_that_it_did") else { return };
    let folder = Folder::new("serves-confined");
    let (capture, traces) = (folder.file("capture"), folder.file("traces"));
    let threads = ["--shards", "2", "--workers", "1", "--pin", "--ui", "127.0.0.1:9900"];
    let files = ["--pcap", &capture, "--traces", &traces];
    let server = Server::start(&netns, "tap:gw0", &[&threads[..], &files].concat());
    assert_eq!(get(&netns, 80, "/"), GREETING);
    let end = Instant::now() + LIMIT;
    while !shown(&netns, ([127, 0, 0, 1], 9900).into()).contains("greenwave_responses_total") {
        assert!(Instant::now() < end, "a response is not shown");
    }
    let keys = ["NoNewPrivs", "Seccomp", "CapEff", "CapPrm", "CapInh", "CapAmb"];
    let threads = statuses(server.child.id(), keys);
    assert!(threads.len() >= 7, "two shards, two workers, the view, the traces, main: {threads:?}");
    assert!(threads.iter().all(|status| status == &["1", "2", NONE, NONE, NONE, NONE]), "{threads:?}");
    let output = stop(server);
    assert!(!output.contains("sandbox"), "there is nothing to say: {output}");
    assert!(!netns.run("ip", &["-brief", "link"]).unwrap().contains("gw0"), "its device went with it");
    let len = |path: &str| std::fs::metadata(path).expect("it is there").len();
    assert!(len(&capture) > 1000 && len(&traces) > 100, "{} and {} bytes", len(&capture), len(&traces));
}

#[test]
fn a_server_becomes_another_user_in_all_its_threads() {
    let Some(netns) = netns_with_tap("a_server_becomes_another_user_in_all_its_threads") else { return };
    let keys = ["Uid", "Gid", "Groups", "Seccomp", "CapEff", "CapPrm"];
    for (more, seccomp) in [(&[][..], "2"), (&["--no-sandbox"], "0")] {
        let user = ["--user", "70001:70002", "--ui", "127.0.0.1:9900"];
        let server = Server::start(&netns, "tap:gw0", &[&user[..], more].concat());
        assert_eq!(get(&netns, 80, "/"), GREETING);
        let threads = statuses(server.child.id(), keys);
        assert!(threads.len() >= 4, "{threads:?}");
        for status in &threads {
            let [users, groups] = [&status[0], &status[1]].map(|ids| ids.split_whitespace());
            assert!(users.eq(["70001"; 4]) && groups.eq(["70002"; 4]), "{threads:?}");
            assert_eq!(status[2..], ["70002", seccomp, NONE, NONE], "{threads:?}");
        }
        let output = stop(server);
        let note = "note: no sandbox, the process keeps all system calls: --no-sandbox\n";
        assert_eq!(output.contains(note), seccomp == "0", "{output}");
    }
}

#[test]
fn a_server_without_a_sandbox_says_so() {
    let Some(netns) = netns_with_tap("a_server_without_a_sandbox_says_so") else { return };
    let server = Server::start(&netns, "tap:gw0", &["--no-sandbox"]);
    let threads = statuses(server.child.id(), ["CapEff", "Seccomp"]);
    assert!(threads.iter().all(|[has, seccomp]| has != NONE && seccomp == "0"), "{threads:?}");
    let output = stop(server);
    let note = "note: no sandbox, the process keeps capabilities and all system calls: --no-sandbox\n";
    assert!(output.contains(note), "{output}");
}

#[test]
fn a_user_that_cannot_be_taken_is_refused_before_anything_is_opened() {
    let test = "a_user_that_cannot_be_taken_is_refused_before_anything_is_opened";
    let Some(netns) = netns_with_tap(test) else { return };
    let serve = ["serve", "--device", "tap:gw0", "--addr", ADDR, "--user"];
    refused(
        &netns,
        &[&serve[..], &["nobody-of-this-name"]].concat(),
        "user \"nobody-of-this-name\" is neither",
    );
    let out = Command::new(GREENWAVE).args(serve).arg("0:0").uid(70_001).gid(70_001).output();
    let Ok(out) = out else { return skipped(test, "its part without root: the program is in root's folder") };
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(
        stderr.starts_with("error: --user 0:0: only root can switch to another user\n  try: sudo"),
        "{stderr}"
    );
}

/// A scheduler; on drop it ends in order, with the programs it started.
struct Scheduler(std::process::Child);

impl Drop for Scheduler {
    fn drop(&mut self) {
        let _ = kill_process(Pid::from_child(&self.0), Signal::INT);
        let _ = self.0.wait();
    }
}

/// Every file and folder below `folder`.
fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("it is readable");
    let paths = entries.map(|entry| entry.expect("it is readable").path());
    paths
        .flat_map(|path| if path.is_dir() { [below(&path), vec![path]].concat() } else { vec![path] })
        .collect()
}

//~ operations: created files are not writable by others whatever the umask
#[test]
fn nothing_that_is_made_may_be_written_by_others_whatever_the_umask_allows() {
    let test = "nothing_that_is_made_may_be_written_by_others_whatever_the_umask_allows";
    let folder = Folder::new("any-umask");
    let file = |name: &str| folder.file(name);
    let generous = |command: &mut Command, args: &[&str]| {
        command.args(["-c", "umask 0; exec \"$0\" \"$@\"", GREENWAVE]).args(args);
    };
    let run = |args: &[&str]| {
        let mut command = Command::new("sh");
        generous(&mut command, args);
        let out = command.output().expect("sh starts");
        assert_eq!(out.status.code(), Some(0), "{args:?}: {}", String::from_utf8_lossy(&out.stderr));
    };
    run(&["man", &file("man")]);
    run(&["exp", "run", "overload/e3", "--out", &file("experiment")]);
    run(&["report", &file("experiment"), "-o", &file("page.html")]);
    let mut least = 3;
    if let Some(netns) = netns_with_tap(test) {
        let mut command = netns.command("sh");
        let files = ["--pcap", &file("capture"), "--traces", &file("traces")];
        generous(&mut command, &[&["serve", "--device", "tap:gw0", "--addr", ADDR], &files[..]].concat());
        let server = Server::started(&netns, &mut command, false);
        assert_eq!(get(&netns, 80, "/"), GREETING);
        server.stop();
        least += 2;
    }
    let mode = |path: &PathBuf| std::fs::metadata(path).expect("it is there").permissions().mode();
    if host::proc::may_schedule() {
        let (config, journals, output) = (file("tasks.toml"), file("journals"), file("output"));
        let task = "[[tasks]]\nname = \"be\"\nclass = \"BE\"\ncommand = [\"sleep\", \"600\"]\n";
        let text = format!("sensor = \"none\"\n{task}output = {output:?}\n");
        std::fs::write(&config, text).expect("the folder is ours");
        let mut command = Command::new("sh");
        generous(&mut command, &["sched", "--config", &config, "--state-dir", &journals]);
        let scheduler = Scheduler(command.stdout(Stdio::null()).spawn().expect("sh starts"));
        // An undo log is removed with its scheduler; files made meanwhile stay.
        let written = || std::fs::read_dir(&journals).is_ok_and(|mut folder| folder.next().is_some());
        let end = Instant::now() + LIMIT;
        while !written() || !Path::new(&output).exists() {
            assert!(Instant::now() < end, "no journal is begun");
            std::thread::park_timeout(Duration::from_millis(2));
        }
        let open: Vec<_> =
            below(Path::new(&journals)).into_iter().filter(|path| mode(path) & 0o002 != 0).collect();
        assert!(open.is_empty(), "others may write {open:?}");
        drop(scheduler);
        least += 3;
    } else {
        skipped(test, "its part with a scheduler: no CAP_SYS_NICE");
    }
    let made = below(&folder.0);
    assert!(made.len() > least, "{made:?}");
    let open: Vec<_> = made.iter().filter(|path| mode(path) & 0o002 != 0).collect();
    assert!(open.is_empty(), "others may write {open:?}");
    assert!(made.iter().any(|path| mode(path) & 0o020 != 0), "the umask holds otherwise");
}
