//! Output on stdout and stderr: [`out!`], [`outln!`], [`err!`] and [`errln!`] write through here. A
//! failed write does not panic.
//!
//! A daemon continues: it reports the failure once, and by the exit status at the end, as for any
//! other of its files. Any other command runs for its output, and ends: silently, as by SIGPIPE,
//! where its reader has gone, else with an error. Its resources are removed first. A line that
//! stderr does not accept is lost.

use std::fmt;
use std::io::{self, ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use netlab::NetLab;
use rustix::process::{Signal, getpid, kill_process};

use crate::error::{Error, plain};
use crate::failure;

/// True in a daemon.
static IS_DAEMON: AtomicBool = AtomicBool::new(false);
/// True once the failure of a daemon's stdout was reported.
static IS_REPORTED: AtomicBool = AtomicBool::new(false);

/// Makes failed writes non-fatal to this process from now on.
pub fn survive_failures() {
    IS_DAEMON.store(true, Ordering::Relaxed);
}

/// Suppresses all output from now on, for tests that do not check it.
#[cfg(test)]
pub fn mute() {
    IS_MUTE.store(true, Ordering::Relaxed);
}

/// True while output is suppressed.
#[cfg(test)]
static IS_MUTE: AtomicBool = AtomicBool::new(false);

/// Prints `text` on stdout.
pub fn print(text: fmt::Arguments<'_>) {
    #[cfg(test)]
    if IS_MUTE.load(Ordering::Relaxed) {
        return;
    }
    io::stdout().lock().write_fmt(text).unwrap_or_else(|e| failed(&e));
}

/// Prints `text` on stdout, and ends the line.
pub fn line(text: fmt::Arguments<'_>) {
    print(format_args!("{text}\n"));
}

/// Prints `text` on stderr.
pub fn print_error(text: fmt::Arguments<'_>) {
    // There is no other channel for this failure.
    let _ = io::stderr().lock().write_fmt(text);
}

/// Flushes all output.
pub fn flush() {
    io::stdout().flush().unwrap_or_else(|e| failed(&e));
}

/// Removes what this process created for its measurements, and ends it with the exit status `code`.
pub fn end(code: u8) -> ! {
    NetLab::end_all();
    std::process::exit(code.into())
}

fn failed(e: &io::Error) {
    let what = format!("stdout: {}", plain(&e.to_string()));
    if IS_DAEMON.load(Ordering::Relaxed) {
        if !IS_REPORTED.swap(true, Ordering::Relaxed) {
            failure::note(format!("{what}; continuing"));
        }
        return;
    }
    if e.kind() == ErrorKind::BrokenPipe {
        NetLab::end_all();
        host::signals::restore_sigpipe();
        let _ = kill_process(getpid(), Signal::PIPE);
    }
    print_error(format_args!("{}\n", Error::new(what)));
    end(2)
}
