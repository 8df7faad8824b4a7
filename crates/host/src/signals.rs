//! Signal handling of a command: SIGINT and SIGTERM set a flag that loops check for an orderly end,
//! SIGHUP sets another for a reload, and a closed pipe ends the command silently.
//!
//! None of these signals kills a process that has state to restore: the first sets the flag, a later
//! one ends waiting ([`is_urgent`]). A command whose loops do not check the flag is ended by a thread
//! ([`watch`]), after cleanup.

use std::io;
use std::os::fd::{IntoRawFd as _, OwnedFd};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static URGENT: AtomicBool = AtomicBool::new(false);
static HUNG_UP: AtomicBool = AtomicBool::new(false);
/// True while a loop checks the flag.
static LISTENS: AtomicBool = AtomicBool::new(false);
/// Time of the first signal in milliseconds of the monotonic clock; 0: none yet.
static FIRST_MS: AtomicU64 = AtomicU64::new(0);
/// Descriptor that wakes the thread of [`watch`]; -1: none.
static WAKES: AtomicI32 = AtomicI32::new(-1);

const SIGNALS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];
/// A signal within this time of the first belongs to the same interruption: `sudo` and a terminal's
/// process group send one each.
const AGAIN_MS: u64 = 500;

/// A flag set by SIGINT or SIGTERM, which no longer end the process.
#[must_use]
pub fn flag() -> &'static AtomicBool {
    if !LISTENS.swap(true, Ordering::Relaxed) {
        for signal in SIGNALS {
            handle(signal, on_interrupt, 0);
        }
    }
    &INTERRUPTED
}

/// Lets both signals end the process at once again, or as [`watch`] says, until the next call of
/// [`flag`]. Returns true if one of them has arrived before.
#[must_use]
pub fn restore_default_signals() -> bool {
    if LISTENS.swap(false, Ordering::Relaxed) && WAKES.load(Ordering::Relaxed) < 0 {
        for signal in SIGNALS {
            // SAFETY: sets the default action of a signal that has a handler of ours or none.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Starts a thread that calls `end`, which must end the process, at SIGINT, SIGTERM and SIGHUP: at the
/// first one while no loop checks the [`flag`], and at one half a second later or more in any case.
///
/// An ignored signal stays ignored, as under `nohup` and in background jobs of a shell.
///
/// # Errors
/// No descriptor or no thread is left; signals are as before.
pub fn watch(end: fn()) -> io::Result<()> {
    let (reads, wakes) = pipe_with(PipeFlags::CLOEXEC)?;
    let watches = move || {
        loop {
            wait_byte(&reads);
            if !LISTENS.load(Ordering::Relaxed) || is_urgent() {
                end();
            }
        }
    };
    std::thread::Builder::new().name("interrupt".to_owned()).spawn(watches)?;
    WAKES.store(wakes.into_raw_fd(), Ordering::Relaxed);
    for signal in SIGNALS.into_iter().chain([libc::SIGHUP]) {
        if !is_ignored(signal) {
            // System calls of other threads are restarted.
            handle(signal, on_interrupt, libc::SA_RESTART);
        }
    }
    Ok(())
}

/// Blocks until the pipe has a byte.
fn wait_byte(pipe: &OwnedFd) {
    while !matches!(rustix::io::read(pipe, &mut [0; 1]), Ok(1)) {}
}

/// True once a second signal has arrived, at least half a second after the first: stop waiting, but
/// still restore all state.
#[must_use]
pub fn is_urgent() -> bool {
    URGENT.load(Ordering::Relaxed)
}

/// A flag set by each SIGHUP, which from now on does not end the process; the reader clears it. Closing
/// a terminal sends SIGHUP, too: its command ends at the next failed write.
#[must_use]
pub fn hangup() -> &'static AtomicBool {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| {
        extern "C" fn on_signal(_: libc::c_int) {
            HUNG_UP.store(true, Ordering::Relaxed);
        }
        // System calls of other threads are restarted.
        handle(libc::SIGHUP, on_signal, libc::SA_RESTART);
    });
    &HUNG_UP
}

/// Sets the flags, and wakes the thread of [`watch`].
extern "C" fn on_interrupt(_: libc::c_int) {
    // SAFETY: the address of this thread's errno, which the calls below may change.
    let errno = unsafe { *libc::__errno_location() };
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is our `timespec`; clock_gettime is async-signal-safe.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    let now_ms = (now.tv_sec as u64 * 1000 + now.tv_nsec as u64 / 1_000_000).max(1);
    if let Err(first_ms) = FIRST_MS.compare_exchange(0, now_ms, Ordering::Relaxed, Ordering::Relaxed)
        && now_ms.saturating_sub(first_ms) >= AGAIN_MS
    {
        URGENT.store(true, Ordering::Relaxed);
    }
    INTERRUPTED.store(true, Ordering::Relaxed);
    let wakes = WAKES.load(Ordering::Relaxed);
    if wakes >= 0 {
        // SAFETY: write is async-signal-safe; the byte lives through the call and the descriptor is
        // never closed. A pipe takes thousands of bytes before it blocks, and the thread drains it.
        unsafe { libc::write(wakes, [0_u8].as_ptr().cast(), 1) };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// True if `signal` is ignored.
fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all-zero bytes are a valid `sigaction`; the call overwrites it with the action in force.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: `action` lives through the call, which changes nothing.
    let done = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    done == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Installs `handler`, which must be async-signal-safe, for `signal`.
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int), flags: libc::c_int) {
    // SAFETY: all-zero bytes are a valid `sigaction`: no flags, no mask, the default action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = flags;
    // SAFETY: the handlers here are async-signal-safe; `action` lives through the call.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
}

/// True if the [`flag`] is set.
#[must_use]
pub fn is_set() -> bool {
    flag().load(Ordering::Relaxed)
}

/// Sleeps until `end`, or until at most 20 ms after SIGINT or SIGTERM.
pub fn sleep_until(end: Instant) {
    const NAP: Duration = Duration::from_millis(20);
    while Instant::now() < end && !is_set() {
        std::thread::sleep(end.saturating_duration_since(Instant::now()).min(NAP));
    }
}

/// Ignores SIGXFSZ: a write beyond the file-size limit (`ulimit -f`) fails like on a full disk.
/// Programs that it starts inherit this.
pub fn fail_on_full_file() {
    // SAFETY: ignores a signal that no handler of ours is installed for.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Restores the default action of SIGPIPE: a write to a pipe without a reader ends the process
/// silently, as with other commands. Rust starts programs with an error instead, which `println!` turns
/// into a panic. Sockets are not affected.
pub fn restore_sigpipe() {
    // SAFETY: sets the default action of a signal that no handler of ours is
    // installed for.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
