//! Process that looks for kernel sockets of a program.
//!
//! Inspecting processes of other users takes privileges that the stack's process has dropped,
//! because it handles network input. A forked copy, made before the stack opens anything, keeps
//! only those privileges. It reads `/proc`, queries sockets, accepts no input except the stack's
//! addresses, and writes events to a socket pair. It ends with the stack's process.
//!
//! wait(2) does not report it, because its end raises no signal (clone(2), `__WCLONE`). Source:
//! clone(2), ptrace(2) (`PTRACE_MODE_READ_FSCREDS`), capabilities(7).

use std::collections::BTreeSet;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, getppid, kill_process, set_parent_process_death_signal};

use super::processes::{self, Processes};
use super::sockets::{chosen_ports, sockets};
use super::{Detector, Process, Routes, WatcherEvent, message};
use host::proc;
use host::sandbox::{self, Duty};
use host::sock_diag::SockDiag;

/// Handle of the watcher process.
#[derive(Debug)]
pub struct Watcher {
    process: Pid,
    socket: UnixStream,
    /// Start of an incomplete line.
    bytes: Vec<u8>,
    is_over: bool,
}

/// Process name.
const NAME: &std::ffi::CStr = c"greenwave-watch";
/// Number of snapshots at the start, when programs open their sockets.
const SNAPSHOTS_FIRST: u32 = 10;
/// Shortest and longest interval between snapshots.
const STEPS: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];
/// Time over the time that snapshots take: 1 % at most.
const SHARE: i64 = 100;
/// Unused time of snapshots that is kept for dear ones, in ns: those of new processes.
const CREDIT_MAX_NS: i64 = 50_000_000;
/// Maximum number of processes reported for anything but sockets.
const REPORTED_MAX: usize = 1024;

impl Watcher {
    /// Starts the process, while this one has a single thread, for programs with `library`
    /// preloaded. It drops privileges and system calls if it `is_confined`.
    ///
    /// # Errors
    /// There are other threads; or an error of the kernel.
    pub fn start(library: &Path, is_confined: bool) -> io::Result<Self> {
        let this = std::process::id();
        if proc::threads(this).count() != 1 {
            return Err(io::Error::other("this process has several threads, or no /proc"));
        }
        let (socket, watcher_end) = UnixStream::pair()?;
        socket.set_nonblocking(true)?;
        // SAFETY: no memory, thread or signal is shared, so this is fork(2) without its signal; the
        // only thread continues in both processes, and holds no lock.
        let process = unsafe { libc::syscall(libc::SYS_clone, 0, 0, 0, 0, 0) };
        let process = i32::try_from(process).ok().filter(|process| *process >= 0);
        match process.map(Pid::from_raw) {
            None => Err(io::Error::last_os_error()),
            Some(Some(process)) => Ok(Self { process, socket, bytes: Vec::new(), is_over: false }),
            Some(None) => {
                drop(socket);
                let ends = std::panic::catch_unwind(move || watch(watcher_end, this, library, is_confined));
                // SAFETY: it ends this copy without running exit handlers of the original.
                unsafe { libc::_exit(i32::from(ends.is_err())) }
            }
        }
    }

    /// Process ID.
    #[must_use]
    pub fn process(&self) -> Pid {
        self.process
    }

    /// Sends the stack's addresses and routes, which starts the search.
    ///
    /// # Errors
    /// The process has ended.
    pub fn set_routes(&mut self, routes: &Routes) -> io::Result<()> {
        self.socket.write_all(message::encode_routes(routes).as_bytes())
    }

    /// Events since the last call.
    pub fn events(&mut self) -> Vec<WatcherEvent> {
        let mut chunk = [0; 4096];
        while !self.is_over {
            match self.socket.read(&mut chunk) {
                Ok(0) => self.is_over = true,
                Ok(len) => self.bytes.extend(&chunk[..len]),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(_) => self.is_over = true,
            }
        }
        let complete_len = self.bytes.iter().rposition(|&b| b == b'\n').map_or(0, |end| end + 1);
        let lines: Vec<u8> = self.bytes.drain(..complete_len).collect();
        String::from_utf8_lossy(&lines).lines().filter_map(WatcherEvent::parse).collect()
    }

    /// True if the process has ended; no more events follow.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        let _ = kill_process(self.process, Signal::KILL);
        let mut status = 0;
        // SAFETY: waits for a child that is waited for nowhere else; the kernel writes the status.
        unsafe { libc::waitpid(self.process.as_raw_nonzero().get(), &raw mut status, libc::__WALL) };
    }
}

/// Loop of the watching process until the stack's process, `parent`, ends.
fn watch(mut tells: UnixStream, parent: u32, library: &Path, is_confined: bool) {
    let begun = begin(&tells, parent);
    let mut diag = match begun.and_then(|()| SockDiag::new()) {
        Ok(diag) => diag,
        Err(e) => return blind(&mut tells, &e),
    };
    if is_confined && let Err(e) = sandbox::enter(Duty::Look) {
        return blind(&mut tells, &io::Error::other(e.to_string()));
    }
    let mut line = String::new();
    let read = tells.try_clone().and_then(|hears| BufReader::new(hears).read_line(&mut line));
    let Some(routes) = read.ok().and_then(|_| message::decode_routes(&line)) else { return };
    let mut detector = Detector::new(routes, chosen_ports());
    let mut processes = Processes::new(parent, std::process::id(), library);
    let mut reported = BTreeSet::new();
    let (mut budget, mut last) = (Budget::new(), Instant::now());
    for snapshots in 0_u32.. {
        let start = Instant::now();
        let events = match snapshot(&mut detector, &mut processes, &mut diag) {
            Ok(events) => events,
            Err(e) => return blind(&mut tells, &e),
        };
        let is_new = |event: &WatcherEvent| match event {
            WatcherEvent::Ring { process, .. } | WatcherEvent::Unseen { process, .. } => {
                reported.len() < REPORTED_MAX && reported.insert(*process)
            }
            _ => true,
        };
        let text: String = events.into_iter().filter(is_new).map(|event| event.line()).collect();
        if tells.write_all(text.as_bytes()).is_err() {
            return;
        }
        let step = budget.step(snapshots, start - last, start.elapsed());
        last = start;
        let step = Timespec { tv_sec: step.as_secs() as i64, tv_nsec: step.subsec_nanos().into() };
        let mut ready = [PollFd::new(&tells, PollFlags::IN)];
        // No further input is expected: readable means that the stack's process has ended.
        if !matches!(poll(&mut ready, Some(&step)), Ok(0) | Err(rustix::io::Errno::INTR)) {
            return;
        }
    }
}

/// Time that snapshots may take.
#[derive(Debug)]
struct Budget {
    /// Unused time in ns; negative: overdrawn.
    credit_ns: i64,
}

impl Budget {
    fn new() -> Self {
        Self { credit_ns: CREDIT_MAX_NS }
    }

    /// Interval after snapshot number `snapshots`, which took `cost` and began `since` after the one
    /// before.
    fn step(&mut self, snapshots: u32, since: Duration, cost: Duration) -> Duration {
        let [least, most] = STEPS;
        let ns = |span: Duration| i64::try_from(span.as_nanos()).unwrap_or(i64::MAX);
        let earned = self.credit_ns.saturating_add(ns(since) / SHARE).min(CREDIT_MAX_NS);
        // What the longest interval cannot pay is forgiven.
        self.credit_ns = earned.saturating_sub(ns(cost)).max(-ns(most) / SHARE);
        let owed = self.credit_ns.min(0).unsigned_abs() * SHARE.unsigned_abs();
        if snapshots < SNAPSHOTS_FIRST { least } else { Duration::from_nanos(owed).clamp(least, most) }
    }
}

/// Detaches this process from the stack's descriptors, signals and output.
fn begin(tells: &UnixStream, parent: u32) -> io::Result<()> {
    set_parent_process_death_signal(Some(Signal::KILL))?;
    if getppid().is_none_or(|now| now.as_raw_nonzero().get().unsigned_abs() != parent) {
        return Err(io::ErrorKind::NotConnected.into());
    }
    rustix::thread::set_name(NAME)?;
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: ignores a signal that is meant for the stack's process, whose end is this one's.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // A reader of the program's output must see its end although this copy lives on.
    let null = std::fs::File::options().read(true).write(true).open("/dev/null")?;
    for standard in 0..3 {
        // SAFETY: this copy uses its standard descriptors for nothing else.
        unsafe { libc::dup2(null.as_raw_fd(), standard) };
    }
    let kept = tells.as_raw_fd().unsigned_abs();
    let ranges = [(3, kept - 1), (kept + 1, u32::MAX)];
    drop(null);
    for (first, last) in ranges.into_iter().filter(|(first, last)| first <= last) {
        // SAFETY: closes what this copy never uses: it returns to no caller.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    }
    Ok(())
}

fn blind(tells: &mut UnixStream, e: &io::Error) {
    let why = e.to_string();
    let why = why.split(" (os error").next().unwrap_or_default().to_owned();
    // Fails only if the stack's process has ended.
    let _ = tells.write_all(WatcherEvent::Blind { why }.line().as_bytes());
}

fn snapshot(
    detector: &mut Detector,
    processes: &mut Processes,
    diag: &mut SockDiag,
) -> io::Result<Vec<WatcherEvent>> {
    processes.scan();
    let mut known: Vec<Process> = processes.known().cloned().collect();
    let there = sockets(diag, Detector::wants_all(&known))?;
    let mut events = Vec::new();
    if detector.wants_owners(&there) {
        known.iter_mut().for_each(|process| process.sockets = processes::sockets(process.id));
        events.extend(detector.judge(&there, &known).into_iter().map(WatcherEvent::Found));
    }
    let of_rings = known.into_iter().filter(|process| process.uses_io_uring);
    events.extend(of_rings.map(|Process { id, name, .. }| WatcherEvent::Ring { process: id, name }));
    events.extend(processes.unseen().map(|(process, why)| WatcherEvent::Unseen {
        process: process.id,
        name: process.name.clone(),
        why: why.to_owned(),
    }));
    Ok(events)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Intervals after snapshots that take `cost_ms` each.
    fn steps(cost_ms: &[u64]) -> Vec<u128> {
        let (mut budget, mut since) = (Budget::new(), Duration::ZERO);
        let each = cost_ms.iter().map(|cost| {
            since = budget.step(SNAPSHOTS_FIRST, since, Duration::from_millis(*cost));
            since.as_millis()
        });
        each.collect()
    }

    //~ run: the search for kernel sockets runs up to ten times in a second and takes 1 % of the time at most
    #[test]
    fn cheap_snapshots_are_taken_ten_times_in_a_second_and_dear_ones_once() {
        assert_eq!(steps(&[1; 40]), [100; 40]);
        assert_eq!(steps(&[1, 30, 1, 10, 1]), [100; 5], "a dear one among cheap ones");
        let dear = steps(&[20; 40]);
        assert_eq!(dear[..2], [100; 2], "from what was saved");
        assert_eq!(dear[3..], [1000; 37]);
        // 20 s of snapshots of 5 ms.
        let some = steps(&[5; 60]);
        let total: u128 = some.iter().sum();
        assert!(5 * 60 <= total / 100 + 50 + 5, "{total} ms");
        assert_eq!(Budget::new().step(0, Duration::ZERO, Duration::from_secs(9)), STEPS[0], "at the start");
    }
}
