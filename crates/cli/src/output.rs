//! Lines on stdout and stderr: [`println!`] and its kin write through here, and a line that cannot be written is
//! no panic.
//!
//! A daemon goes on: the failure is said once, and is in the exit status at the end, as of any other file of
//! its. Any other command is there for what it prints, and ends: without a word, as by SIGPIPE, where its reader
//! has gone, else with an error. What it has made is removed first. A line that stderr does not take is lost.

use std::fmt;
use std::io::{self, ErrorKind, Write as _};
use std::sync::atomic::{AtomicBool, Ordering};

use host::netlab::NetLab;
use rustix::process::{Signal, getpid, kill_process};

use crate::error::{Error, plain};
use crate::failure;

/// True in a daemon.
static GOES_ON: AtomicBool = AtomicBool::new(false);
/// True once the failure of a daemon's stdout was said.
static IS_SAID: AtomicBool = AtomicBool::new(false);

/// From now on a line that cannot be printed does not end this process.
pub fn go_on() {
    GOES_ON.store(true, Ordering::Relaxed);
}

/// From now on nothing is printed: of tests that print what they do not look at.
#[cfg(test)]
pub fn mute() {
    IS_MUTE.store(true, Ordering::Relaxed);
}

/// True where nothing is printed.
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
pub fn say(text: fmt::Arguments<'_>) {
    // There is no place left to say that it failed.
    let _ = io::stderr().lock().write_fmt(text);
}

/// Has all that was printed written.
pub fn flush() {
    io::stdout().flush().unwrap_or_else(|e| failed(&e));
}

/// Removes what this process has made for its measurements, and ends it with `code` of its exit status.
pub fn end(code: u8) -> ! {
    NetLab::end_all();
    std::process::exit(code.into())
}

fn failed(e: &io::Error) {
    let what = format!("stdout: {}", plain(&e.to_string()));
    if GOES_ON.load(Ordering::Relaxed) {
        if !IS_SAID.swap(true, Ordering::Relaxed) {
            failure::note(format!("{what}; it goes on"));
        }
        return;
    }
    if e.kind() == ErrorKind::BrokenPipe {
        NetLab::end_all();
        host::signals::restore_sigpipe();
        let _ = kill_process(getpid(), Signal::PIPE);
    }
    say(format_args!("{}\n", Error::new(what)));
    end(2)
}
