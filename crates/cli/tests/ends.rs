//! Every command under every cause of its end: the exit status, and the error text.
//!
//! The commands are those of `--help`, which comes from the program's own definitions. Failures: a
//! command without a row here, a row without a command, a flag that names a file and is in no row,
//! and a reference to a test that does not exist.

//~ cli: every command and cause of its end has an exit status and a message

mod common;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use common::greenwave;
use netlab::TempDir;
use netlab::{Child, Namespace, NetLab, Veth, client};
use rustix::process::{Pid, Signal, kill_process};

use Case::{Ends, Not, Tested};
use Cause::{
    ChildKilled, ControlTaken, FifoClosed, FileFull, FolderGone, Hangup, InterfaceDown, InterfaceRemoved,
    Interrupt, OutputClosed, OutputFull, PortTaken, ProgramRemoved, Terminate, Twice,
};

const GREENWAVE: &str = env!("CARGO_BIN_EXE_greenwave");
/// Timeout of each step, many times its usual duration.
const LIMIT: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Cause {
    Interrupt,
    Terminate,
    /// Two SIGINTs in a row.
    Twice,
    Hangup,
    /// Stdout has no reader any more.
    OutputClosed,
    OutputFull,
    /// Each file of a flag is `/dev/full`, or in a folder that cannot contain files.
    FileFull,
    /// A FIFO as the file, whose reader closes it.
    FifoClosed,
    InterfaceRemoved,
    InterfaceDown,
    /// Another program detaches the XDP program.
    ProgramRemoved,
    /// The address of `--ui` is in use.
    PortTaken,
    /// Another daemon has the name of `--control`.
    ControlTaken,
    ChildKilled,
    /// The folder of run-time files is removed.
    FolderGone,
}

const CAUSES: [Cause; 15] = [
    Interrupt,
    Terminate,
    Twice,
    Hangup,
    OutputClosed,
    OutputFull,
    FileFull,
    FifoClosed,
    InterfaceDown,
    ProgramRemoved,
    PortTaken,
    ControlTaken,
    ChildKilled,
    FolderGone,
    // Comes last: the interface is gone for the following cases.
    InterfaceRemoved,
];

/// A command and a cause.
#[derive(Clone, Copy, Debug)]
enum Case {
    /// Exit status and text on stderr; empty text: nothing beyond that of a start. -13: by SIGPIPE.
    Ends(i32, &'static str),
    /// Tested elsewhere: `FILE::NAME` below `crates/`.
    Tested(&'static str),
    /// Impossible or untested, for this reason.
    Not(&'static str),
}

/// Kinds of commands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Daemon,
    /// Long-running, with arguments that last long enough for an interruption.
    Long(&'static [&'static str]),
    /// Finishes at once.
    Short,
}

use Kind::{Daemon, Long, Short};

/// A command: its name, its kind, and arguments with which it prints something at once, or the
/// reason there are none.
struct Row(&'static str, Kind, Result<&'static [&'static str], &'static str>);

const ROWS: &[Row] = &[
    Row("serve", Daemon, Err("a daemon")),
    Row("run", Daemon, Err("a daemon")),
    Row("sched", Daemon, Err("a daemon")),
    Row("guard attach", Daemon, Err("a daemon")),
    Row(
        "demo",
        Long(&["--duration", "60s"]),
        Ok(&["--duration", "1s", "--rounds", "1", "--modes", "none", "--burst", "50/10ms"]),
    ),
    Row(
        "load",
        Long(&["--target", "SERVER", "--rate", "10", "--duration", "600s"]),
        Ok(&["--target", "SERVER", "--rate", "50", "--duration", "100ms", "--connections", "1"]),
    ),
    Row("exp list", Short, Ok(&[])),
    Row("exp run", Long(&["adps/fig6", "--scale", "paper"]), Ok(&["overload/e3"])),
    Row("exp hunt", Long(&["deadline", "--duration", "600s"]), Ok(&["deadline", "--cases", "4"])),
    Row("exp table", Short, Ok(&["RESULTS"])),
    Row("sim fabric", Long(&["--count", "10000000"]), Ok(&["--count", "100"])),
    Row("sim thresholds", Short, Ok(&["--workload", "websearch", "--load", "0.8"])),
    Row("guard status", Short, Err("it takes a guard")),
    Row("guard detach", Short, Err("it takes a guard")),
    Row("guard model", Short, Ok(&["--mu1", "36600", "--mu2", "3300", "--lambda", "3300..33000"])),
    Row("egress attach", Short, Err("it takes an interface")),
    Row("egress status", Short, Err("it takes an interface")),
    Row("egress detach", Short, Err("it takes an interface")),
    Row("egress policy", Short, Ok(&["fish"])),
    Row("sched example", Short, Ok(&[])),
    Row("sched restore", Short, Ok(&["--state-dir", "FOLDER/none"])),
    Row("top", Short, Err("it takes a terminal, or a daemon")),
    Row("control", Short, Err("it takes a daemon")),
    Row("calibrate", Long(&["--slices", "10000"]), Ok(&["--slices", "2", "--requests", "1000"])),
    Row("bench net", Long(&["--scale", "smoke"]), Err("it takes minutes")),
    Row("bench programs", Long(&["--lib", "LIBRARY"]), Err("it takes minutes")),
    Row("bench cores", Long(&["--lib", "LIBRARY"]), Err("it takes minutes")),
    Row("bench matrix", Long(&["--lib", "LIBRARY"]), Err("it takes minutes")),
    Row(
        "bench idle",
        Long(&["--connections", "1k", "--duration", "600s"]),
        Ok(&["--connections", "1k", "--duration", "10ms"]),
    ),
    Row("bench fabric", Long(&[]), Ok(&["--quick"])),
    Row("bench guard", Long(&["--duration", "600s"]), Err("it takes a kernel's leave, and ends otherwise")),
    Row("bench sched", Long(&["--count", "100000"]), Err("it takes a kernel's leave, and ends otherwise")),
    Row("doctor", Short, Ok(&["files"])),
    Row("report", Short, Ok(&["RESULTS", "--out", "FOLDER/report.html"])),
    Row("check", Short, Ok(&["FOLDER/policy.toml"])),
    Row("explain request", Short, Ok(&["FOLDER/policy.toml", "--http", "GET /"])),
    Row("man", Short, Ok(&["FOLDER/man"])),
    Row("completions", Short, Ok(&["bash"])),
];

/// Flags that name a file, by command. `Some`: an output file; with these arguments its command is
/// refused, or ends with status 2, where it cannot be written.
type FileFlag = (&'static str, &'static str, Option<&'static [&'static str]>);

/// Mark of a file that another test writes.
const ELSEWHERE: &[&str] = &["elsewhere"];

const FILES: &[FileFlag] = &[
    ("serve", "--policy", None),
    ("serve", "--pcap", Some(ELSEWHERE)),
    ("serve", "--traces", Some(ELSEWHERE)),
    ("run", "--policy", None),
    ("run", "--pcap", Some(ELSEWHERE)),
    ("run", "--traces", Some(ELSEWHERE)),
    ("run", "--queue-report", None),
    ("run", "--lib", None),
    ("sched", "--config", None),
    ("sched", "--state-dir", Some(&["--config", "FOLDER/tasks.toml"])),
    ("sched restore", "--state-dir", None),
    ("guard attach", "--queue-report", None),
    ("demo", "--out", Some(&["--duration", "1s", "--rounds", "1", "--modes", "none", "--burst", "50/10ms"])),
    ("exp run", "--out", Some(&["overload/e3"])),
    ("exp hunt", "--out", Some(&["deadline", "--cases", "4"])),
    ("exp hunt", "--replay", None),
    ("exp table", "--out", Some(&["RESULTS", "--markdown"])),
    ("load", "--body", None),
    ("sim fabric", "--topology", None),
    ("sim fabric", "--flow-trace", None),
    ("sim fabric", "--csv", Some(&["--count", "50"])),
    ("sim fabric", "--parquet", Some(&["--count", "50"])),
    ("sim fabric", "--out", Some(&["--count", "50"])),
    ("guard model", "--out", Some(&["--mu1", "36600", "--mu2", "3300", "--lambda", "3300..33000"])),
    ("calibrate", "--out", Some(&["--slices", "2", "--requests", "1000"])),
    ("bench programs", "--lib", None),
    ("bench cores", "--lib", None),
    ("bench matrix", "--lib", None),
    ("bench matrix", "--sources", None),
    // Takes minutes; uses the same writer as the others' pages.
    ("bench matrix", "--page", Some(ELSEWHERE)),
    ("report", "--out", Some(&["RESULTS"])),
    ("explain request", "--payload", None),
];

/// The case of a command and a cause.
fn case(row: &Row, cause: Cause) -> Case {
    let &Row(command, kind, prints) = row;
    const ENDED: &str = "interrupted";
    match (cause, kind, command) {
        (OutputClosed | OutputFull, Daemon, "run") => Not("stdout is its program's"),
        (OutputClosed, Daemon, _) => Ends(2, "error: stdout: Broken pipe; continuing"),
        (OutputFull, Daemon, _) => Ends(2, "error: stdout: No space left on device; continuing"),
        (OutputClosed | OutputFull, ..) if let Err(why) = prints => Not(why),
        (OutputClosed, ..) => Ends(-13, ""),
        (OutputFull, ..) => Ends(2, "error: stdout: No space left on device"),

        (FileFull, _, "serve" | "run") => Tested(
            "cli/tests/serving/files.rs::files_that_cannot_be_written_are_refused_before_a_device_is_made",
        ),
        (FileFull, _, "man") => Tested("cli/tests/ends.rs::pages_that_cannot_be_written_are_an_error"),
        (FileFull, ..)
            if FILES.iter().any(|(of, _, words)| *of == command && words.is_some_and(|w| w != ELSEWHERE)) =>
        {
            Ends(2, "error: ")
        }
        (FileFull, ..) => Not("it writes no file, or one that another row's code writes"),
        (FifoClosed, Daemon, "serve") => Ends(2, "fifo: Broken pipe; the file ends after "),
        (FifoClosed, Daemon, "run") => Not("its capture is the one of serve"),
        (FifoClosed, ..) => Not("it writes a file as a whole, in a moment"),

        (Interrupt | Terminate | Twice, Daemon, _) => Ends(0, ""),
        (Interrupt | Terminate | Twice | Hangup, Long(_), _) => Ends(130, ENDED),
        (Interrupt | Terminate | Twice | Hangup, Short, "top") => {
            Not("it takes a terminal; its loop looks at the flag of the daemons")
        }
        (Interrupt | Terminate | Twice | Hangup, Short, _) => Not("it is over in a moment"),
        (Hangup, Daemon, _) => Ends(0, ""),

        (InterfaceRemoved, Daemon, "serve") => {
            Tested("cli/tests/serving.rs::an_interface_that_is_taken_away_ends_the_server")
        }
        (InterfaceRemoved, Daemon, "run") => {
            Tested("cli/tests/run/ends.rs::an_interface_that_is_taken_away_ends_the_program_and_the_run")
        }
        (InterfaceRemoved, Daemon, "guard attach") => Ends(2, "error: eth0: the interface was removed"),
        (InterfaceDown, Daemon, "serve") => {
            Tested("cli/tests/serving.rs::an_interface_that_is_down_for_a_while_is_served_on")
        }
        (InterfaceDown, Daemon, "run") => Not("its devices are those of serve"),
        (InterfaceDown, Daemon, "guard attach") => Ends(0, ""),
        (ProgramRemoved, Daemon, "serve" | "run") => Tested(
            "drivers/tests/xdp_attachment.rs::a_program_that_is_taken_off_and_an_interface_that_is_removed_are_seen_without_a_new_socket",
        ),
        (ProgramRemoved, Daemon, "guard attach") => {
            Tested("cli/src/guard/attach.rs::only_an_interrupt_or_a_detach_is_a_success")
        }
        (ProgramRemoved, Daemon, "sched") => {
            Tested("cli/tests/sched/scx.rs::a_stalled_manager_loses_its_scheduler_and_reports_it")
        }
        (ProgramRemoved | InterfaceRemoved | InterfaceDown, _, "egress attach") => Not(
            "it does not stay; of what is there then: fabric/main.rs, what_cannot_be_put_back_is_not_taken_down",
        ),
        (InterfaceRemoved | InterfaceDown | ProgramRemoved, ..) => {
            Not("it has no interface, or one of its own namespace")
        }

        (PortTaken, Daemon, _) => Ends(2, "error: --ui 127.0.0.1:9900: the address is already in use"),
        (ControlTaken, Daemon, _) => Ends(2, "error: "),
        (PortTaken | ControlTaken, ..) => Not("it listens nowhere outside namespaces of its own"),
        (ChildKilled, Daemon, "run") => {
            Tested("cli/tests/run/ends.rs::a_program_that_is_killed_ends_its_connections_and_the_run")
        }
        (ChildKilled, Daemon, "sched") => Ends(0, ""),
        (ChildKilled, ..) => Not("it starts no program, or measures it and says that it failed"),
        (FolderGone, Daemon, "sched") => Ends(0, ""),
        (FolderGone, Daemon, _) => Not("the name of --control is an abstract socket, which is in no folder"),
        (FolderGone, ..) => Not("it keeps nothing in a folder while it runs"),
    }
}

/// Subcommands of `above` in its help, and the flags that name a file.
fn help(above: &[&str]) -> (Vec<String>, BTreeSet<String>) {
    let out = greenwave(&[above, &["--help"]].concat());
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let listed = text.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = listed.map_while(|line| line.strip_prefix("  ")).filter(|line| !line.starts_with(' '));
    let names = names.filter_map(|line| line.split_whitespace().next()).filter(|name| *name != "help");
    let flags = text.lines().filter(|line| {
        ["FILE>", "DIR>", "FOLDER>"].iter().any(|kind| line.contains(kind)) && line.trim().starts_with('-')
    });
    let flag = |line: &str| line.split_whitespace().find(|word| word.starts_with("--")).map(str::to_owned);
    let flags = flags
        .filter(|line| line.starts_with("  "))
        .filter_map(flag)
        .filter(|flag| flag != "--config" || above == ["sched"]);
    (names.map(str::to_owned).collect(), flags.collect())
}

/// Commands that do something, and the file flags of each.
fn commands() -> Vec<(String, BTreeSet<String>)> {
    let (mut found, mut left) = (Vec::new(), vec![String::new()]);
    while let Some(above) = left.pop() {
        let words: Vec<&str> = above.split_whitespace().collect();
        let (below, flags) = help(&words);
        // `sched` alone is a command, too.
        if below.is_empty() || above == "sched" {
            found.push((above.clone(), flags));
        }
        left.extend(below.into_iter().map(|name| format!("{above} {name}").trim().to_owned()));
    }
    found
}

#[test]
fn every_command_and_every_flag_that_names_a_file_has_a_row_and_every_reference_a_test() {
    let commands = commands();
    let (rows, names): (BTreeSet<&str>, BTreeSet<&str>) =
        (ROWS.iter().map(|row| row.0).collect(), commands.iter().map(|(name, _)| name.as_str()).collect());
    assert_eq!(rows, names, "rows, and commands of the help");
    let flags: BTreeSet<(&str, &str)> = commands
        .iter()
        .flat_map(|(name, flags)| flags.iter().map(|flag| (name.as_str(), flag.as_str())))
        .collect();
    assert_eq!(
        FILES.iter().map(|(of, flag, _)| (*of, *flag)).collect::<BTreeSet<_>>(),
        flags,
        "flags that name a file"
    );
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for row in ROWS {
        for cause in CAUSES {
            match case(row, cause) {
                Tested(test) => {
                    let (file, name) = test.split_once("::").expect("FILE::NAME");
                    let text =
                        fs::read_to_string(crates.join(file)).unwrap_or_else(|e| panic!("{test}: {e}"));
                    assert!(text.contains(&format!("fn {name}(")), "{} {cause:?}: {test}", row.0);
                }
                Not(why) => assert!(!why.is_empty(), "{} {cause:?}", row.0),
                Ends(..) => {}
            }
        }
    }
}

/// Files and a server to which arguments refer.
struct World {
    folder: TempDir,
    server: TcpListener,
}

impl World {
    fn new(name: &str) -> Self {
        let folder = TempDir::new(name).expect("a folder can be made");
        let server = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
        let answering = server.try_clone().expect("a listener has a copy");
        // Ends with the process; connections are few and live as long as their commands.
        std::thread::spawn(move || {
            for mut stream in answering.incoming().flatten() {
                std::thread::spawn(move || {
                    while stream.read(&mut [0; 4096]).is_ok_and(|len| len > 0)
                        && stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok").is_ok()
                    {
                    }
                });
            }
        });
        folder.write("policy.toml", b"default = 5\n").unwrap();
        let tasks = "sensor = \"none\"\nmechanism = \"affinity\"\n[[tasks]]\nname = \"a\"\nclass = \"BE\"\n\
                     command = [\"sleep\", \"600\"]\n";
        folder.write("tasks.toml", tasks.as_bytes()).unwrap();
        Self { folder, server }
    }

    /// `word` with its reference resolved.
    fn word(&self, word: &str) -> String {
        let folder = self.folder.path().to_str().expect("a path of ours is UTF-8");
        match word {
            "SERVER" => self.server.local_addr().expect("it listens").to_string(),
            "RESULTS" => {
                let results = format!("{folder}/results");
                if !Path::new(&results).exists() {
                    let out = greenwave(&["exp", "run", "overload/e3", "--out", &results]);
                    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
                }
                results
            }
            word => word.replace("FOLDER", folder),
        }
    }

    fn command(&self, row: &str, words: &[&str]) -> Command {
        let mut command = Command::new(GREENWAVE);
        command.args(row.split_whitespace()).args(words.iter().map(|word| self.word(word)));
        command.current_dir(self.folder.path()).stdin(Stdio::null());
        command
    }
}

/// The status as in [`Ends`].
fn code(status: ExitStatus) -> i32 {
    use std::os::unix::process::ExitStatusExt as _;
    status.code().or_else(|| status.signal().map(|signal| -signal)).expect("has exited")
}

#[test]
fn a_result_that_cannot_be_printed_ends_every_command() {
    let world = World::new("ends-output");
    for row in ROWS.iter().filter(|row| row.1 != Daemon) {
        for cause in [OutputClosed, OutputFull] {
            let (Ends(expected, says), Ok(words)) = (case(row, cause), row.2) else { continue };
            let stdout: Stdio = match cause {
                OutputFull => File::create("/dev/full").expect("Linux has it").into(),
                _ => std::io::pipe().expect("there are pipes").1.into(),
            };
            let mut command = world.command(row.0, words);
            let out = command.stdout(stdout).stderr(Stdio::piped()).output().expect("greenwave starts");
            let stderr = String::from_utf8_lossy(&out.stderr);
            assert_eq!(code(out.status), expected, "{} {cause:?}: {stderr}", row.0);
            let errors: Vec<&str> = stderr.lines().filter(|line| line.starts_with("error: ")).collect();
            assert_eq!(errors, if says.is_empty() { vec![] } else { vec![says] }, "{} {cause:?}", row.0);
        }
    }
}

#[test]
fn a_file_that_cannot_be_written_is_an_error_of_every_command() {
    let world = World::new("ends-files");
    for (of, flag, words) in FILES {
        let row = ROWS.iter().find(|row| row.0 == *of).expect("it has a row");
        let (Ends(expected, says), Some(words)) = (case(row, FileFull), words) else { continue };
        if *words == ELSEWHERE {
            continue;
        }
        for path in ["/dev/full", "/proc/none"] {
            let out = world.command(of, words).args([flag, path]).output().expect("greenwave starts");
            let stderr = String::from_utf8_lossy(&out.stderr);
            assert_eq!(code(out.status), expected, "{of} {flag} {path}: {stderr}");
            let line = stderr
                .lines()
                .find(|line| line.starts_with(says))
                .unwrap_or_else(|| panic!("{of} {flag}: {stderr}"));
            assert!(line.contains(path), "{of} {flag}: {stderr}");
        }
    }
}

#[test]
fn pages_that_cannot_be_written_are_an_error() {
    for path in ["/dev/full", "/proc/none"] {
        let out = greenwave(&["man", path]);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(code(out.status), 2, "{stderr}");
        assert!(stderr.starts_with(&format!("error: {path}")), "{stderr}");
    }
}

//~ cli: the exit status of `load` says if a condition failed it, or its load was not offered
#[test]
fn a_load_ends_by_its_conditions_and_its_plan() {
    let world = World::new("ends-load");
    let load = |words: &[&str]| {
        let plan = ["--rate", "50", "--duration", "100ms", "--connections", "1"];
        let out = world.command("load", &[&plan, words].concat()).output().expect("greenwave starts");
        let text = [out.stdout, out.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
        (code(out.status), text)
    };
    let check = |words: &[&str], expected: i32, says: &str| {
        let (status, text) = load(words);
        assert!(status == expected && text.contains(says), "{words:?}: {status} {text}");
    };
    let server = ["--target", "SERVER"];
    check(&server, 0, " answered (");
    check(
        &[&server[..], &["--fail-if", "errors>0", "--fail-if", "max>9s"]].concat(),
        0,
        "'max>9.00 s': passed",
    );
    check(&[&server[..], &["--fail-if", "p99>1ns"]].concat(), 1, "--fail-if 'p99>1 ns': FAILED");
    check(&[&server[..], &["--fail-if", "rate<1000000"]].concat(), 1, "'rate<1000000': FAILED");
    check(&[&server[..], &["--fail-if", "erors>0"]].concat(), 2, "errors (did you mean that?)");
    // Nothing reads these requests, and no buffer holds them.
    let silent = TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let target = silent.local_addr().expect("it listens").to_string();
    world.folder.write("body", &vec![b'x'; 32 << 20]).unwrap();
    let stuck = ["--target", &target, "--body", "@FOLDER/body", "--timeout", "200ms"];
    check(&stuck, 3, "the plan was not kept: ");
    check(&[&stuck[..], &["--fail-if", "errors>0"]].concat(), 1, "'errors>0': FAILED");
}

/// Arguments of a dry run of each daemon, and of `egress attach`, which leaves its work in the kernel;
/// or the reason why its `--dry-run` runs until it is ended.
const DRY_RUNS: [(&str, Result<&[&str], &str>); 5] = [
    ("serve", Ok(&["--device", "tap:gw0", "--addr", "10.77.0.2/24", "--policy", "FOLDER/policy.toml"])),
    ("run", Ok(&["--device", "tap:gw0", "--addr", "10.77.0.2/24", "--lib", "LIBRARY", "--", "sleep", "600"])),
    ("sched", Ok(&["--config", "FOLDER/tasks.toml", "--state-dir", "FOLDER/journals"])),
    ("egress attach", Ok(&["ETHERNET", "--rate", "1gbit"])),
    ("guard attach", Err("it counts the connections that it would shed")),
];

/// An Ethernet interface of this machine (ARPHRD_ETHER).
fn ethernet() -> Option<String> {
    let is_it = |entry: &fs::DirEntry| {
        fs::read_to_string(entry.path().join("type")).is_ok_and(|kind| kind.trim() == "1")
    };
    let found = fs::read_dir("/sys/class/net").ok()?.flatten().find(is_it)?;
    found.file_name().into_string().ok()
}

//~ cli: every daemon has a dry run, which checks all that it reads and changes nothing
#[test]
fn every_daemon_has_a_dry_run_that_changes_nothing() {
    let daemons: BTreeSet<&str> = ROWS.iter().filter(|row| row.1 == Daemon).map(|row| row.0).collect();
    let listed: BTreeSet<&str> = DRY_RUNS.iter().map(|(name, _)| *name).collect();
    assert!(daemons.is_subset(&listed), "{daemons:?}");
    let world = World::new("ends-dry");
    let interfaces = || fs::read_dir("/sys/class/net").map_or(0, |entries| entries.count());
    for (row, words) in DRY_RUNS {
        let usage = greenwave(&[&row.split_whitespace().collect::<Vec<_>>()[..], &["--help"]].concat());
        assert!(String::from_utf8_lossy(&usage.stdout).contains("--dry-run"), "{row}");
        let Ok(words) = words else { continue };
        let lib = library::library().to_str().expect("a path of ours is UTF-8");
        let ethernet = ethernet();
        if words.contains(&"ETHERNET") && ethernet.is_none() {
            let _ =
                std::io::stderr().write_all(b"skipped: its part of egress attach: no Ethernet interface\n");
            continue;
        }
        let resolved = |word: &&'static str| match *word {
            "LIBRARY" => lib.to_owned(),
            "ETHERNET" => ethernet.clone().unwrap_or_default(),
            word => word.to_owned(),
        };
        let words: Vec<String> = words.iter().map(resolved).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let end = words.iter().position(|word| *word == "--").unwrap_or(words.len());
        let words = [&words[..end], &["--dry-run"], &words[end..]].concat();
        let before = interfaces();
        let out = world.command(row, &words).output().expect("greenwave starts");
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(code(out.status), 0, "{row}: {stderr}");
        let stdout = String::from_utf8_lossy(&out.stdout);
        assert!(stdout.contains("\ndry run: valid, and nothing was changed"), "{row}: {stdout}");
        assert!(!world.folder.path().join("journals").exists(), "{row}");
        assert_eq!(interfaces(), before, "{row}");
    }
    // Mistakes are those of a start.
    let missing =
        ["--device", "tap:gw0", "--addr", "10.77.0.2/24", "--policy", "FOLDER/none.toml", "--dry-run"];
    let out = world.command("serve", &missing).output().expect("greenwave starts");
    assert_eq!(code(out.status), 2);
}

/// Waits until `done`.
#[track_caller]
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !done() {
        assert!(Instant::now() < end, "in vain: {what}");
        std::thread::park_timeout(Duration::from_millis(2));
    }
}

/// True once process `id` has handlers of all of `signals`.
fn handles(id: u32, signals: &[Signal]) -> bool {
    let text = fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap_or("0");
    let caught = u64::from_str_radix(caught.trim(), 16).unwrap_or(0);
    signals.iter().all(|signal| caught >> (signal.as_raw() - 1) & 1 == 1)
}

/// Test-network files and groups left by process `id`.
fn left_of(id: u32) -> Vec<std::path::PathBuf> {
    let folders = [std::env::temp_dir(), "/sys/fs/cgroup/cpu".into(), "/sys/fs/cgroup".into()];
    let entries = folders.into_iter().flat_map(|folder| fs::read_dir(folder).into_iter().flatten().flatten());
    let prefix = format!("greenwave-lab-{id}-");
    let is_its = |path: &std::path::PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix))
    };
    entries.map(|entry| entry.path()).filter(is_its).collect()
}

/// Sends `signal`, unless the process has already ended.
fn send(to: Pid, signal: Signal) {
    let _ = kill_process(to, signal);
}

fn signals(cause: Cause) -> &'static [Signal] {
    match cause {
        Interrupt => &[Signal::INT],
        Terminate => &[Signal::TERM],
        Twice => &[Signal::INT, Signal::INT],
        _ => &[Signal::HUP],
    }
}

#[test]
fn an_interruption_ends_every_measurement_with_130_and_leaves_nothing() {
    let world = World::new("ends-interrupted");
    for row in ROWS {
        let Long(words) = row.1 else { continue };
        let words: Vec<&str> =
            words.iter().map(|word| if *word == "LIBRARY" { "/proc/self/exe" } else { word }).collect();
        for cause in [Interrupt, Terminate, Twice, Hangup] {
            let Ends(expected, says) = case(row, cause) else { continue };
            let mut command = Command::new("env");
            // A shell ignores SIGINT in background jobs, and so would greenwave.
            command.args(["--default-signal=INT,HUP", GREENWAVE]).args(row.0.split_whitespace());
            command.args(words.iter().map(|word| world.word(word))).current_dir(world.folder.path());
            let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
            let mut child = child.expect("greenwave starts");
            let id = child.id();
            let mut has_ended = false;
            until("it hears signals, or has ended", || {
                has_ended = child.try_wait().expect("it is ours").is_some();
                has_ended || handles(id, &[Signal::INT, Signal::TERM, Signal::HUP])
            });
            if !has_ended {
                // Once it has started to create a test network, if that is soon.
                for _ in 0..50 {
                    if !left_of(id).is_empty() {
                        break;
                    }
                    std::thread::park_timeout(Duration::from_millis(2));
                }
                signals(cause).iter().for_each(|signal| send(Pid::from_child(&child), *signal));
            }
            let out = child.wait_with_output().expect("a child is waited for");
            let stderr = String::from_utf8_lossy(&out.stderr);
            // Some need more than this machine has, others a library that this test does not build.
            let cannot_run = code(out.status) == 2 && stderr.contains("\n  try: ");
            if !cannot_run {
                assert_eq!(code(out.status), expected, "{} {cause:?}: {stderr}", row.0);
                assert!(stderr.contains(&format!("error: {says}")), "{} {cause:?}: {stderr}", row.0);
            }
            assert_eq!(left_of(id), [] as [std::path::PathBuf; 0], "{} {cause:?}", row.0);
        }
    }
}

/// Network of the daemons: an interface, and a device of their own.
struct TestNetwork {
    ours: Namespace,
    world: World,
    _clients: Namespace,
    _listener: TcpListener,
}

impl TestNetwork {
    fn new(test: &str) -> Option<Self> {
        let tap = Path::new("/dev/net/tun").exists();
        if let Some(why) =
            NetLab::unavailable().or_else(|| (!tap).then(|| "this kernel offers no TAP devices".to_owned()))
        {
            let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
            return None;
        }
        let lab = NetLab::new("ends").unwrap();
        let [ours, clients] = ["ours", "clients"].map(|name| lab.namespace(name).unwrap());
        lab.veth((&ours, "eth0"), (&clients, "eth0"), &Veth::default()).unwrap();
        let listener = ours.enter(|| TcpListener::bind("0.0.0.0:80").unwrap());
        Some(Self { ours, world: World::new("ends-daemon"), _clients: clients, _listener: listener })
    }

    /// Arguments of a daemon, and a text on stderr or stdout that shows its start; `None` if this
    /// machine or build cannot run it.
    fn daemon(&self, row: &str) -> Option<(Vec<String>, &'static str)> {
        let address = ["--addr", "10.77.0.2/24"];
        let (words, begun): (Vec<&str>, _) = match row {
            "serve" => ([&["serve", "--device", "tap:gw0"], &address[..]].concat(), "ctrl-C ends"),
            "sched" if host::proc::may_schedule() => (
                vec![
                    "sched",
                    "--config",
                    "FOLDER/tasks.toml",
                    "--state-dir",
                    "FOLDER/journals",
                    "--interval",
                    "10ms",
                ],
                "sensor none: ",
            ),
            "guard attach" if cfg!(feature = "bpf") => {
                (vec!["guard", "attach", "eth0", "--port", "80"], "ctrl-C detaches")
            }
            "run" => {
                let lib = library::library().to_str().expect("a path of ours is UTF-8");
                let run =
                    [&["run", "--device", "tap:gw0", "--lib", lib], &address[..], &["--", "sleep", "600"]];
                (run.concat(), "ctrl-C ends")
            }
            _ => return None,
        };
        Some((words.into_iter().map(|word| self.world.word(word)).collect(), begun))
    }

    fn path(&self, name: &str) -> std::path::PathBuf {
        self.world.folder.path().join(name)
    }

    /// Starts a daemon with `more` before `--`; its stderr is a file, and so is its stdout by
    /// default.
    fn start(&self, words: &[String], more: &[&str], stdout: Option<Stdio>) -> Child {
        let mut command = self.ours.command("env");
        command.args(["--default-signal=INT,HUP", GREENWAVE]);
        let end = words.iter().position(|word| word == "--").unwrap_or(words.len());
        command.args(&words[..end]).args(more).args(&words[end..]);
        let file = |name: &str| File::create(self.path(name)).unwrap();
        drop(file("stdout"));
        command
            .stdin(Stdio::null())
            .stderr(file("stderr"))
            .stdout(stdout.unwrap_or_else(|| file("stdout").into()));
        self.ours.spawn(&mut command).unwrap()
    }

    fn output(&self) -> String {
        ["stderr", "stdout"].map(|name| fs::read_to_string(self.path(name)).unwrap_or_default()).concat()
    }
}

#[path = "common/library.rs"]
mod library;

#[test]
fn every_daemon_ends_as_its_row_says() {
    let Some(network) = TestNetwork::new("every_daemon_ends_as_its_row_says") else { return };
    for row in ROWS.iter().filter(|row| row.1 == Daemon) {
        let Some((words, begun)) = network.daemon(row.0) else { continue };
        for cause in CAUSES {
            let Ends(expected, says) = case(row, cause) else { continue };
            if cause == FileFull {
                continue;
            }
            let what = format!("{} {cause:?}", row.0);
            let stdout = match cause {
                OutputFull => Some(File::create("/dev/full").expect("Linux has it").into()),
                OutputClosed => Some(std::io::pipe().expect("there are pipes").1.into()),
                _ => None,
            };
            let fifo = network.path("fifo");
            let (more, _taken): (Vec<&str>, Option<TcpListener>) = match cause {
                PortTaken => (
                    vec!["--ui", "127.0.0.1:9900"],
                    Some(network.ours.enter(|| TcpListener::bind("127.0.0.1:9900").unwrap())),
                ),
                ControlTaken => (vec!["--control", "ends"], None),
                FifoClosed => (vec!["--pcap", fifo.to_str().expect("UTF-8")], None),
                _ => (Vec::new(), None),
            };
            let other = (cause == ControlTaken).then(|| {
                let tap = ["serve", "--device", "tap:gw9", "--addr", "10.99.0.2/24", "--control", "ends"]
                    .map(str::to_owned);
                let child = network.start(&tap, &[], None);
                until("another has the name", || network.output().contains("ctrl-C ends"));
                child
            });
            let mut reader = None;
            if cause == FifoClosed {
                assert!(Command::new("mkfifo").arg(&fifo).status().expect("mkfifo is there").success());
                reader = Some(File::options().read(true).write(true).open(&fifo).unwrap());
            }
            let mut child = network.start(&words, &more, stdout);
            let pid = Pid::from_child(&child);
            let is_refused = matches!(cause, PortTaken | ControlTaken);
            if !is_refused {
                until(&format!("{what}: it begins"), || {
                    let has_begun = network.output().contains(begun)
                        || (cause == OutputFull || cause == OutputClosed)
                            && network.output().contains("stdout: ");
                    has_begun || child.try_wait().unwrap().is_some()
                });
                assert!(child.try_wait().unwrap().is_none(), "{what}: {}", network.output());
            }
            match cause {
                Interrupt | Terminate | Twice => {
                    signals(cause).iter().for_each(|signal| send(pid, *signal));
                }
                PortTaken | ControlTaken => {}
                InterfaceRemoved => drop(network.ours.run("ip", &["link", "delete", "eth0"]).unwrap()),
                _ => {
                    match cause {
                        Hangup => kill_process(pid, Signal::HUP).unwrap(),
                        InterfaceDown => {
                            drop(network.ours.run("ip", &["link", "set", "eth0", "down"]).unwrap())
                        }
                        FolderGone => fs::remove_dir_all(network.path("journals")).unwrap(),
                        ChildKilled => {
                            let family = host::proc::family(child.id()).into_iter();
                            let mut sleeps = family.filter(|id| {
                                fs::read_to_string(format!("/proc/{id}/comm"))
                                    .is_ok_and(|name| name == "sleep\n")
                            });
                            let id = sleeps.next().expect("it has a program");
                            kill_process(Pid::from_raw(id as i32).unwrap(), Signal::KILL).unwrap();
                            until("it is gone", || !Path::new(&format!("/proc/{id}")).exists());
                        }
                        FifoClosed => {
                            drop(reader.take());
                            until(&format!("{what}: it is said"), || {
                                // Frames for the capture.
                                network
                                    .ours
                                    .enter(|| drop(client::connect(SocketAddr::from(([10, 77, 0, 2], 80)))));
                                network.output().contains("Broken pipe")
                            });
                            fs::remove_file(&fifo).unwrap();
                        }
                        _ => {}
                    }
                    assert!(child.try_wait().unwrap().is_none(), "{what}: it goes on: {}", network.output());
                    let _ = kill_process(pid, Signal::TERM);
                }
            }
            until(&format!("{what}: it ends"), || child.try_wait().unwrap().is_some());
            let stderr = fs::read_to_string(network.path("stderr")).unwrap();
            assert_eq!(code(child.wait().unwrap()), expected, "{what}: {stderr}");
            if says.is_empty() {
                let is_known =
                    |line: &str| cause == Hangup && line.contains("the previous settings stay in force");
                assert!(
                    !stderr.lines().any(|line| line.starts_with("error: ") && !is_known(line)),
                    "{what}: {stderr}"
                );
            } else {
                assert!(stderr.contains(says), "{what}: {stderr}");
            }
            drop(other);
            let links = network.ours.run("ip", &["-brief", "link"]).unwrap();
            assert!(!links.contains("gw0") && !links.contains("xdp"), "{what}: {links}");
            if cause == InterfaceDown {
                network.ours.up("eth0").unwrap();
            }
        }
    }
}
