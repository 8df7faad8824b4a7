//! Allowed and refused operations of a sandboxed daemon.
//!
//! Each check runs in a copy of the test's process, since dropped privileges cannot be regained.

//~ operations: `serve` drops its capabilities and filters its system calls

use std::fs::File;
use std::io::{ErrorKind, Write as _};
use std::net::UdpSocket;
use std::os::fd::AsRawFd as _;
use std::process::Command;
use std::sync::mpsc::channel;

use super::*;

/// Set in the copy.
const INSIDE: &str = "GREENWAVE_TEST_SANDBOX";

/// Runs `check` in a copy of this process, as the test called `test`; the copy's stderr. `None` in the
/// copy itself, and where no sandbox is available.
fn inside(test: &str, check: fn()) -> Option<String> {
    if std::env::var_os(INSIDE).is_some() {
        check();
        return None;
    }
    let this = std::env::current_exe().expect("a test knows its own path");
    let name = format!("sandbox::tests::{test}");
    let copy = Command::new(this).args(["--exact", &name, "--nocapture"]).env(INSIDE, "1").output();
    let copy = copy.expect("the copy starts");
    let stderr = String::from_utf8(copy.stderr).expect("stderr is text");
    let printed = String::from_utf8_lossy(&copy.stdout);
    assert!(copy.status.success() && printed.contains("1 passed"), "{}: {printed}{stderr}", copy.status);
    let skips = stderr.lines().find_map(|line| line.strip_prefix("no sandbox: "));
    if let Some(why) = skips {
        let _ = std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes());
        return None;
    }
    Some(stderr)
}

/// True if this process is in a sandbox now; prints the reason if not.
fn entered(duty: Duty) -> bool {
    let entered = enter(duty);
    let _ = entered.as_ref().map_err(|e| eprintln!("no sandbox: {e}"));
    entered.is_ok()
}

/// Values of `keys` in `status`, for each thread of this process.
fn statuses<const N: usize>(keys: [&str; N]) -> Vec<[String; N]> {
    let threads = std::fs::read_dir("/proc/self/task").expect("a directory is readable");
    let of = |thread: io::Result<std::fs::DirEntry>| {
        let path = thread.expect("an entry is readable").path().join("status");
        let text = std::fs::read_to_string(path).expect("a file is readable");
        keys.map(|key| {
            let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
            value.unwrap_or_else(|| panic!("{key} is not told")).trim().to_owned()
        })
    };
    threads.map(of).collect()
}

//~ operations: a refused system call is reported once and kills nothing
#[test]
fn calls_that_a_server_does_not_need_are_refused_and_reported() {
    let check = || {
        let path = std::env::temp_dir().join(format!("greenwave-sandbox-{}", std::process::id()));
        if !entered(Duty::Serve) {
            return;
        }
        let refused = |what: &str, e: Option<ErrorKind>| {
            assert_eq!(e, Some(ErrorKind::PermissionDenied), "{what}");
        };
        refused("a socket", UdpSocket::bind("127.0.0.1:0").err().map(|e| e.kind()));
        refused("another", UdpSocket::bind("127.0.0.1:0").err().map(|e| e.kind()));
        refused("a file", File::create(&path).err().map(|e| e.kind()));
        assert!(!path.exists());
        let own = std::env::current_exe().expect("a test knows its own path");
        refused("to write", File::options().append(true).open(own).err().map(|e| e.kind()));
        let program = Command::new("true").status().err().map(|e| e.kind());
        assert_eq!(program, Some(ErrorKind::Unsupported), "a program");
        let again = seccomp::filter(Duty::Serve, seccompiler::apply_filter).err().map(|e| match e {
            seccompiler::Error::Prctl(e) | seccompiler::Error::Seccomp(e) => e.kind(),
            _ => ErrorKind::Other,
        });
        refused("another filter", again);
        let fd = File::open("/proc/self/status").expect("a file is readable");
        // SAFETY: requests new memory at an address of the kernel's choice; it is refused.
        let memory = unsafe {
            let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            libc::mmap(std::ptr::null_mut(), 4096, libc::PROT_READ | libc::PROT_EXEC, flags, -1, 0)
        };
        assert_eq!(memory, libc::MAP_FAILED, "executable memory");
        // SAFETY: would inject terminal input into a descriptor that is no terminal; it is refused.
        let asked = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSTI, std::ptr::null::<u8>()) };
        assert_eq!((asked, io::Error::last_os_error().kind()), (-1, ErrorKind::PermissionDenied));
    };
    let Some(stderr) = inside("calls_that_a_server_does_not_need_are_refused_and_reported", check) else {
        return;
    };
    for call in ["socket", "openat", "prctl", "mmap", "ioctl"] {
        let line = format!("note: sandbox: the system call {call} was refused; --no-sandbox allows all\n");
        assert_eq!(stderr.matches(&line).count(), 1, "{line}{stderr}");
    }
}

#[test]
fn what_a_server_needs_is_left() {
    let check = || {
        if !entered(Duty::Serve) {
            return;
        }
        let named = std::thread::Builder::new().name("another".to_owned());
        let sum = named.spawn(|| (0..1 << 20).collect::<Vec<u64>>().iter().sum::<u64>());
        assert_eq!(sum.expect("threads start").join().expect("the thread ends"), ((1 << 20) - 1) << 19);
        assert!(std::thread::available_parallelism().is_ok());
        assert!(crate::Machine::this().cores > 0);
        std::thread::park_timeout(std::time::Duration::from_millis(1));
        let panics = std::thread::spawn(|| panic!("a bug of ours"));
        assert!(panics.join().is_err(), "it ends its thread only");
    };
    let Some(stderr) = inside("what_a_server_needs_is_left", check) else { return };
    assert!(!stderr.contains("note: sandbox:"), "{stderr}");
}

#[test]
fn no_thread_keeps_what_the_process_gives_up() {
    let check = || {
        let (ask, asked) = channel::<()>();
        let (answer, answered) = channel();
        let older = std::thread::spawn(move || {
            // It must drop its own capabilities.
            drop_capabilities().expect("capabilities can be dropped");
            answer.send(None).expect("the test waits");
            asked.recv().expect("the test sends");
            answer.send(UdpSocket::bind("127.0.0.1:0").err().map(|e| e.kind())).expect("the test waits");
            asked.recv().expect_err("the test has ended");
        });
        assert_eq!(answered.recv(), Ok(None));
        if !entered(Duty::Serve) {
            return;
        }
        ask.send(()).expect("the thread waits");
        assert_eq!(answered.recv(), Ok(Some(ErrorKind::PermissionDenied)));
        let (own, none) = (rustix::thread::gettid().as_raw_nonzero().to_string(), "0000000000000000");
        let threads = statuses(["Pid", "NoNewPrivs", "Seccomp", "CapEff", "CapPrm", "CapInh", "CapAmb"]);
        assert!(threads.len() >= 3, "the test's, the harness's and the older one: {threads:?}");
        assert!(threads.iter().all(|status| status[1..3] == ["1", "2"]), "{threads:?}");
        let without = threads.iter().filter(|status| status[3..].iter().all(|set| set == none));
        let without: Vec<_> = without.map(|status| status[0].as_str()).collect();
        assert!(without.contains(&own.as_str()) && without.len() >= 2, "{threads:?}");
        drop(ask);
        older.join().expect("the thread ends");
    };
    inside("no_thread_keeps_what_the_process_gives_up", check);
}

#[test]
fn root_becomes_a_user_in_all_threads_and_keeps_no_capability() {
    const TEST: &str = "root_becomes_a_user_in_all_threads_and_keeps_no_capability";
    if !rustix::process::geteuid().is_root() {
        let _ = std::io::stderr().write_all(format!("skipped: {TEST}: it needs root\n").as_bytes());
        return;
    }
    let check = || {
        let (stop, stopped) = channel::<()>();
        let older = std::thread::spawn(move || stopped.recv());
        let user = User::find("70001:70002").expect("two numbers are a user");
        become_user(&user, Duty::Serve).expect("root may change its user");
        assert!(user.is_ours());
        let none = "0000000000000000";
        for status in statuses(["Uid", "Gid", "Groups", "CapEff", "CapPrm"]) {
            let [users, groups] = [&status[0], &status[1]].map(|ids| ids.split_whitespace());
            assert!(users.eq(["70001"; 4]) && groups.eq(["70002"; 4]), "{status:?}");
            assert_eq!(status[2..], ["70002", none, none]);
        }
        let _ = entered(Duty::Serve);
        drop(stop);
        older.join().expect("the thread ends").expect_err("no message was sent");
    };
    inside(TEST, check);
}
