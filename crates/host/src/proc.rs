//! Processes and threads in `/proc`.
//!
//! A process may end during any read; the reader then returns nothing.
//!
//! Source: proc(5); Linux, Documentation/scheduler/sched-stats.rst.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::process::{Signal, getpid, getppid, set_parent_process_death_signal};

#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;

/// CPU account of a thread since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// Time on a core, in nanoseconds.
    pub ran_ns: u64,
    /// Time for which the thread was runnable without a core, in nanoseconds; added when it gets
    /// one.
    pub waited_ns: u64,
    /// Number of times the thread got a core.
    pub turns: u64,
}

/// Open CPU account file of a thread, so that each reading is one system call.
#[derive(Debug)]
pub struct Ledger(File);

impl Ledger {
    /// Opens the account of `thread` of `process`.
    ///
    /// # Errors
    /// No such thread, or the kernel keeps no accounts.
    pub fn open(process: u32, thread: u32) -> io::Result<Self> {
        File::open(format!("/proc/{process}/task/{thread}/schedstat")).map(Self)
    }

    /// Reads the account; `None` once the thread has ended.
    #[must_use]
    pub fn read(&self) -> Option<Account> {
        let mut text = [0; 64];
        let len = self.0.read_at(&mut text, 0).ok()?;
        account(&text[..len])
    }
}

/// Parses an account such as `48243 158066 2`.
fn account(text: &[u8]) -> Option<Account> {
    let mut words = text.split(|b| b.is_ascii_whitespace()).filter(|word| !word.is_empty());
    let mut number = || {
        let digits = words.next()?;
        let value = |n: u64, b: &u8| n.checked_mul(10)?.checked_add(u64::from(b.checked_sub(b'0')?));
        digits.iter().all(u8::is_ascii_digit).then(|| digits.iter().try_fold(0, value)).flatten()
    };
    Some(Account { ran_ns: number()?, waited_ns: number()?, turns: number()? })
}

/// Contents of `stat` of a process or thread.
#[derive(Clone, Debug)]
pub struct Stat(String);

impl Stat {
    /// Reads the `stat` file of `process`; `None` if the process does not exist.
    #[must_use]
    pub fn of(process: u32) -> Option<Self> {
        fs::read_to_string(format!("/proc/{process}/stat")).ok().map(Self)
    }

    /// Reads the `stat` file of `thread` of `process`.
    #[must_use]
    pub fn of_thread(process: u32, thread: u32) -> Option<Self> {
        fs::read_to_string(format!("/proc/{process}/task/{thread}/stat")).ok().map(Self)
    }

    /// Field `number`, counted from 1 and at least 3; `None` if it is not a number. Source:
    /// proc_pid_stat(5).
    #[must_use]
    pub fn field(&self, number: usize) -> Option<u64> {
        self.word(number)?.parse().ok()
    }

    /// True for a zombie.
    #[must_use]
    pub fn is_zombie(&self) -> bool {
        // A process whose first thread has ended may have others.
        matches!(self.word(3), Some("Z" | "X")) && self.field(20).is_none_or(|threads| threads <= 1)
    }

    /// Field `number`, at least 3. The second field is a name in parentheses with arbitrary
    /// contents.
    fn word(&self, number: usize) -> Option<&str> {
        let (_, rest) = self.0.rsplit_once(')')?;
        rest.split_whitespace().nth(number.checked_sub(3)?)
    }
}

/// Start time of a process or thread, in ticks since boot; with its number it is a unique identity.
#[must_use]
pub fn began(process: u32, thread: u32) -> Option<u64> {
    Stat::of_thread(process, thread)?.field(22)
}

/// True if `process` is a zombie.
#[must_use]
pub fn is_zombie(process: u32) -> bool {
    Stat::of(process).is_some_and(|stat| stat.is_zombie())
}

/// Makes the kernel send `signal` to the child of `command` when the thread that starts it ends, in any
/// way.
pub fn end_with_us(command: &mut Command, signal: Signal) {
    let parent = getpid();
    let tied = move || {
        set_parent_process_death_signal(Some(signal))?;
        // The parent may have died before that.
        if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::NotConnected.into()) }
    };
    // SAFETY: between fork and exec it makes two system calls; it allocates nothing and takes no lock.
    unsafe { command.pre_exec(tied) };
}

/// True if `thread` runs or waits for a core.
#[must_use]
pub fn is_runnable(process: u32, thread: u32) -> bool {
    Stat::of_thread(process, thread).is_some_and(|stat| stat.word(3) == Some("R"))
}

/// Parent of `process`: its starter, or the process that adopted it.
#[must_use]
pub fn parent(process: u32) -> Option<u32> {
    Stat::of(process)?.field(4)?.try_into().ok()
}

/// True if `process` is a thread of the kernel, which has no memory of its own.
#[must_use]
pub fn is_kernel_thread(process: u32) -> bool {
    Stat::of(process).and_then(|stat| stat.field(9)).is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// True if `/proc` shows the kernel's threads. False in a PID namespace other than the first.
#[must_use]
pub fn sees_kernel_threads() -> bool {
    is_kernel_thread(KTHREADD)
}

/// Number of kthreadd, which starts all other kernel threads.
const KTHREADD: u32 = 2;

/// Flag of kernel threads. Source: Linux, include/linux/sched.h.
const PF_KTHREAD: u64 = 0x0020_0000;

/// Leader of the session of `process`; `None` if it is outside this PID namespace, or if there is none.
#[must_use]
pub fn session(process: u32) -> Option<u32> {
    Stat::of(process)?.field(6)?.try_into().ok().filter(|&leader| leader > 0)
}

/// Process that `thread` belongs to.
#[must_use]
pub fn process_of(thread: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Number of threads of `process`, without a list of them; `None` once it has ended.
#[must_use]
pub fn thread_count(process: u32) -> Option<u64> {
    use std::os::unix::fs::MetadataExt as _;
    // The kernel counts a directory for each thread as a link.
    Some(fs::metadata(format!("/proc/{process}/task")).ok()?.nlink().saturating_sub(2))
}

/// All processes.
pub fn processes() -> impl Iterator<Item = u32> {
    numbers("/proc")
}

/// Threads of `process`.
pub fn threads(process: u32) -> impl Iterator<Item = u32> {
    numbers(&format!("/proc/{process}/task"))
}

/// `process` and its descendants, by parent. Orphans are not included.
#[must_use]
pub fn family(process: u32) -> Vec<u32> {
    let parents: Vec<_> = processes().filter_map(|id| Some((id, parent(id)?))).collect();
    let mut family: Vec<u32> = parents.iter().map(|known| known.0).filter(|&id| id == process).collect();
    let mut index = 0;
    while let Some(&member) = family.get(index) {
        let children = parents.iter().filter(|known| known.1 == member).map(|known| known.0);
        family.extend(children.filter(|id| *id != member).collect::<Vec<_>>());
        index += 1;
    }
    family
}

/// Descendants of `process`, as in [`family`]. The cost grows with their number, not with that of all
/// processes, if the kernel lists children (`CONFIG_PROC_CHILDREN`).
#[must_use]
pub fn descendants(process: u32) -> Vec<u32> {
    let mut all = vec![process];
    let mut index = 0;
    while let Some(&member) = all.get(index) {
        for thread in threads(member) {
            match fs::read_to_string(format!("/proc/{member}/task/{thread}/children")) {
                Ok(children) => {
                    all.extend(children.split_whitespace().filter_map(|id| id.parse::<u32>().ok()))
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound && member == process => {
                    return family(process).into_iter().filter(|id| *id != process).collect();
                }
                // The process has ended.
                Err(_) => {}
            }
        }
        index += 1;
    }
    all.remove(0);
    all
}

/// The name of `process`.
#[must_use]
pub fn name(process: u32) -> String {
    let text = fs::read_to_string(format!("/proc/{process}/comm")).unwrap_or_default();
    text.trim().to_owned()
}

/// True if this process may change the scheduling of others (`CAP_SYS_NICE`).
#[must_use]
pub fn may_schedule() -> bool {
    has(23)
}

/// True if this process may access descriptors of other users' programs (`CAP_SYS_PTRACE`), such as
/// signal pages.
#[must_use]
pub fn may_inspect() -> bool {
    has(19)
}

/// True if this process has the capability with that number (linux/capability.h).
fn has(capability: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let set = line.and_then(|set| u64::from_str_radix(set.trim(), 16).ok());
    set.is_some_and(|set| set >> capability & 1 == 1)
}

fn numbers(folder: &str) -> impl Iterator<Item = u32> + use<> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_three_numbers() {
        let is = Account { ran_ns: 48_243, waited_ns: 158_066, turns: 2 };
        assert_eq!(account(b"48243 158066 2\n"), Some(is));
        for text in ["", "1 2", "1 x 3", "-1 2 3", "99999999999999999999 1 1"] {
            assert_eq!(account(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn a_name_may_hold_anything() {
        let stat = Stat("7 (a) b (c) S 1 7 7 0 -1 0 0 0 0 0 1 2 0 0 20 0 1 0 4242 0".to_owned());
        assert_eq!([1, 3, 4, 22, 99].map(|n| stat.field(n)), [None, None, Some(1), Some(4242), None]);
        assert_eq!(stat.word(3), Some("S"));
    }

    #[test]
    fn this_process_has_an_account_a_begin_and_a_family() {
        let id = std::process::id();
        let before = Ledger::open(id, id).unwrap();
        assert!(before.read().is_some_and(|account| account.turns > 0));
        assert!(began(id, id).is_some());
        assert!(!is_kernel_thread(id));
        // No leader if this process was started from outside its PID namespace, or by an init without a session.
        // SAFETY: no arguments beyond a number.
        let leader = unsafe { libc::getsid(0) };
        assert_eq!(session(id), u32::try_from(leader).ok().filter(|&leader| leader > 0));
        assert_eq!((process_of(id), thread_count(u32::MAX)), (Some(id), None));
        std::thread::scope(|scope| {
            // The number of another thread of this process.
            let other = scope.spawn(|| (crate::thread::number(), process_of(crate::thread::number())));
            let (number, process) = other.join().unwrap();
            assert_eq!((number != id, process), (true, Some(id)));
        });
        assert!(thread_count(id).is_some_and(|count| count >= 1));
        // A running process has a running thread.
        assert!(threads(id).any(|thread| is_runnable(id, thread)));
        assert!(threads(id).any(|thread| thread == id));
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        assert!(family(id).contains(&child.id()) && family(child.id()) == [child.id()]);
        assert!(descendants(id).contains(&child.id()) && descendants(child.id()).is_empty());
        let ledger = Ledger::open(child.id(), child.id()).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((ledger.read(), began(child.id(), child.id())), (None, None));
        assert!(family(child.id()).is_empty());
    }
}
