//! Messages of panicked threads, for the error with which their command ends.
//!
//! The hook ([`install_hook`]) sees a panic's location and message. The joining thread ([`join`]) gets
//! only the message, perhaps through another thread that joined it first. The latest panics are
//! therefore kept here and found by their text. A panic that is caught while serving continues (an
//! application's own) is no error of the command; later ones push it out.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::PanicHookInfo;
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

/// A panic: its message and location.
struct PanicMessage {
    text: String,
    location: String,
}

/// The latest, oldest first.
static LATEST: Mutex<VecDeque<PanicMessage>> = Mutex::new(VecDeque::new());
/// Number of panics kept.
const LATEST_MAX: usize = 32;

/// Records panics from now on, before any other hook runs.
pub fn install_hook() {
    let other = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        keep(panic);
        other(panic);
    }));
}

fn keep(panic: &PanicHookInfo<'_>) {
    let at = panic.location().map_or_else(String::new, |location| format!(" at {location}"));
    let text = text(panic.payload());
    let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
    if latest.len() == LATEST_MAX {
        latest.pop_front();
    }
    latest.push_back(PanicMessage { text, location: at });
}

/// The result of `thread`, which does the work of `thread_name`.
///
/// # Errors
/// The thread panicked: its role, location and message, in a line.
pub fn join<T>(thread_name: &str, thread: ScopedJoinHandle<'_, T>) -> Result<T, String> {
    thread.join().map_err(|payload| {
        let text = text(&*payload);
        let latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
        let location =
            latest.iter().rev().find(|message| message.text == text).map_or("", |message| &message.location);
        format!("{thread_name} panicked{location}: {}", text.split_whitespace().collect::<Vec<_>>().join(" "))
    })
}

fn text(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    /// The error of a thread that does `work`.
    fn check(work: impl FnOnce() + Send, expected: &[&str]) {
        let message = thread::scope(|scope| join("the stack", scope.spawn(work))).unwrap_err();
        assert!(expected.iter().all(|part| message.contains(part)) && !message.contains('\n'), "{message}");
    }

    //~ input: a panic is reported with thread, place and reason
    #[test]
    fn a_thread_s_panic_is_reported_with_place_and_reason() {
        install_hook();
        let location = concat!("the stack panicked at ", file!(), ":");
        check(|| panic!("no chunk is left"), &[location, ": no chunk is left"]);
        let one = std::hint::black_box(1);
        check(|| assert_eq!(one, 2, "chunks"), &[location, "left: 1 right: 2"]);
        // Joined by another thread, which panics with the same message.
        let inner = || thread::scope(|scope| scope.spawn(|| panic!("deep {}", one)).join());
        check(|| inner().unwrap_or_else(|why| std::panic::resume_unwind(why)), &[location, ": deep 1"]);
        check(|| std::panic::panic_any(7), &[location, "no message"]);
    }
}
