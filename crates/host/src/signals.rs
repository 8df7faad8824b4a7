//! Signals of a command: ctrl-C (SIGINT) and SIGTERM as a flag that loops look at, so that a run ends in
//! order, SIGHUP as another, so that it reads its configuration again, and a closed pipe as a quiet end.
//!
//! No signal of these ends a process that has something to put back: the first sets the flag, a later one
//! ends waiting ([`is_urgent`]). A command whose loops do not look at the flag is ended by a thread
//! ([`watch`]), after what it has made is removed.

use std::io;
use std::os::fd::{IntoRawFd as _, OwnedFd};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::pipe::{PipeFlags, pipe_with};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static URGENT: AtomicBool = AtomicBool::new(false);
static HUNG_UP: AtomicBool = AtomicBool::new(false);
/// True while some loop looks at the flag.
static LISTENS: AtomicBool = AtomicBool::new(false);
/// Time of the first signal in milliseconds of the monotonic clock; 0: none has come.
static FIRST_MS: AtomicU64 = AtomicU64::new(0);
/// Descriptor that wakes the thread of [`watch`]; -1: there is none.
static WAKES: AtomicI32 = AtomicI32::new(-1);

const SIGNALS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];
/// Signals closer to the first than this are the same interruption: `sudo` and a terminal's process group
/// send one each.
const AGAIN_MS: u64 = 500;

/// A flag that becomes true at ctrl-C (SIGINT) or SIGTERM, which end the process no more.
#[must_use]
pub fn flag() -> &'static AtomicBool {
    if !LISTENS.swap(true, Ordering::Relaxed) {
        for signal in SIGNALS {
            handle(signal, on_interrupt, 0);
        }
    }
    &INTERRUPTED
}

/// From now on both signals end the process at once again, or as [`watch`] says, until somebody asks
/// for the [`flag`]; true if one has come before.
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

/// Has a thread call `end`, which is to end the process, at ctrl-C, SIGTERM and SIGHUP: at the first while
/// no loop looks at the [`flag`], and at one that comes half a second later or more in any case.
///
/// A signal that is ignored stays so, as of `nohup` and of a shell's jobs in the background.
///
/// # Errors
/// There is no descriptor or no thread; signals are as before.
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
            // Calls of other threads go on as if nothing had come.
            handle(signal, on_interrupt, libc::SA_RESTART);
        }
    }
    Ok(())
}

/// Blocks until a byte is in the pipe.
fn wait_byte(pipe: &OwnedFd) {
    while !matches!(rustix::io::read(pipe, &mut [0; 1]), Ok(1)) {}
}

/// True once a second signal has come, half a second after the first or later: what is waited for is to be
/// waited for no more. What is to be put back is put back all the same.
#[must_use]
pub fn is_urgent() -> bool {
    URGENT.load(Ordering::Relaxed)
}

/// A flag that becomes true at each SIGHUP, which from now on does not end the
/// process; who has seen it sets it to false. A terminal that is closed sends
/// one, too: its command ends when it can say no more.
#[must_use]
pub fn hangup() -> &'static AtomicBool {
    static LISTENS: Once = Once::new();
    LISTENS.call_once(|| {
        extern "C" fn on_signal(_: libc::c_int) {
            HUNG_UP.store(true, Ordering::Relaxed);
        }
        // Other threads' calls go on as if nothing had come.
        handle(libc::SIGHUP, on_signal, libc::SA_RESTART);
    });
    &HUNG_UP
}

/// Sets the flags, and wakes the thread of [`watch`].
extern "C" fn on_interrupt(_: libc::c_int) {
    // SAFETY: the address of this thread's errno, which calls below may change.
    let errno = unsafe { *libc::__errno_location() };
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a `timespec` of ours; a signal handler may ask for the time.
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
        // SAFETY: a signal handler may write one byte that lives through the call; the descriptor is never
        // closed. A pipe takes thousands before it blocks, and the thread takes them out.
        unsafe { libc::write(wakes, [0_u8].as_ptr().cast(), 1) };
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// True if `signal` is ignored.
fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: all-zero bytes are a valid `sigaction`; the call writes the action that is in force there.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: `action` lives through the call, which changes nothing.
    let done = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    done == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Calls `handler`, which does what a signal handler may and nothing else, at `signal`.
fn handle(signal: libc::c_int, handler: extern "C" fn(libc::c_int), flags: libc::c_int) {
    // SAFETY: all-zero bytes are a valid `sigaction`: no flags, no mask, the
    // default action.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    action.sa_sigaction = handler as libc::sighandler_t;
    action.sa_flags = flags;
    // SAFETY: what the handlers here do is allowed in a signal handler; `action`
    // lives through the call.
    unsafe { libc::sigaction(signal, &raw const action, std::ptr::null_mut()) };
}

/// Whether the [`flag`] is set.
#[must_use]
pub fn is_set() -> bool {
    flag().load(Ordering::Relaxed)
}

/// Sleeps until `end`; up to 20 ms after ctrl-C or SIGTERM no longer.
pub fn sleep_until(end: Instant) {
    const NAP: Duration = Duration::from_millis(20);
    while Instant::now() < end && !is_set() {
        std::thread::sleep(end.saturating_duration_since(Instant::now()).min(NAP));
    }
}

/// From now on a write beyond the limit of a file's size (`ulimit -f`) fails as on a full disk, and does not end
/// the process. Programs that it starts inherit this.
pub fn fail_on_full_file() {
    // SAFETY: ignores a signal that no handler of ours is installed for.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// From now on a write to a pipe that nobody reads ends the process without a
/// word, as it ends other commands; Rust programs are started with an error
/// instead, which `println!` turns into a panic. Sockets are not concerned.
pub fn restore_sigpipe() {
    // SAFETY: sets the default action of a signal that no handler of ours is
    // installed for.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
