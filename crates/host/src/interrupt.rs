//! The signals a command meets: ctrl-C as a flag that loops look at, so that a
//! run can end in order, SIGHUP as another, so that it can read its
//! configuration again, and a closed pipe as a quiet end.

use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

static INTERRUPTED: AtomicBool = AtomicBool::new(false);
static HUNG_UP: AtomicBool = AtomicBool::new(false);
/// Whether the first has its handlers.
static LISTENS: AtomicBool = AtomicBool::new(false);

const SIGNALS: [libc::c_int; 2] = [libc::SIGINT, libc::SIGTERM];

/// A flag that becomes true at ctrl-C (SIGINT) or SIGTERM. A second ctrl-C
/// ends the process at once, as without this.
#[must_use]
pub fn flag() -> &'static AtomicBool {
    if !LISTENS.swap(true, Ordering::Relaxed) {
        listen();
    }
    &INTERRUPTED
}

/// From now on both signals end the process at once again, until somebody asks
/// for the [`flag`]; whether one has come before.
#[must_use]
pub fn end_at_once() -> bool {
    if LISTENS.swap(false, Ordering::Relaxed) {
        for signal in SIGNALS {
            // SAFETY: sets the default action of a signal that has a handler of ours or none.
            unsafe { libc::signal(signal, libc::SIG_DFL) };
        }
    }
    INTERRUPTED.load(Ordering::Relaxed)
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

/// Hears of both signals from now on, each once.
fn listen() {
    extern "C" fn on_signal(_: libc::c_int) {
        INTERRUPTED.store(true, Ordering::Relaxed);
    }
    for signal in SIGNALS {
        handle(signal, on_signal, libc::SA_RESETHAND);
    }
}

/// Calls `handler`, which stores to an atomic and does nothing else, at `signal`.
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
pub fn end_on_closed_pipe() {
    // SAFETY: sets the default action of a signal that no handler of ours is
    // installed for.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
}
