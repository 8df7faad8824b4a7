//! What a thread said that panicked, for the error in which its command ends.
//!
//! The hook ([`watch`]) sees where a panic is and what it says; who joins the
//! thread ([`join`]) gets what it says alone, perhaps through another thread
//! that joined it first. So the last ones are kept here and found by their
//! text. What is caught and served on (an application's own panic) is nobody's
//! error and is forgotten after some others.

use std::any::Any;
use std::collections::VecDeque;
use std::panic::PanicHookInfo;
use std::sync::{Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

/// A panic: what it says, and where it is.
struct Said {
    text: String,
    place: String,
}

/// The latest, oldest first.
static LATEST: Mutex<VecDeque<Said>> = Mutex::new(VecDeque::new());
/// How many are kept.
const LATEST_MAX: usize = 32;

/// Keeps what panics say from now on, before whatever else is done about them.
pub fn watch() {
    let other = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        keep(panic);
        other(panic);
    }));
}

fn keep(panic: &PanicHookInfo<'_>) {
    let place = panic.location().map_or_else(String::new, |place| format!(" at {place}"));
    let text = text(panic.payload());
    let mut latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
    if latest.len() == LATEST_MAX {
        latest.pop_front();
    }
    latest.push_back(Said { text, place });
}

/// What `thread`, which does the work of `who`, has come to.
///
/// # Errors
/// It panicked: who did, where and why, in a line.
pub fn join<T>(who: &str, thread: ScopedJoinHandle<'_, T>) -> Result<T, String> {
    thread.join().map_err(|payload| {
        let text = text(&*payload);
        let latest = LATEST.lock().unwrap_or_else(PoisonError::into_inner);
        let place = latest.iter().rev().find(|said| said.text == text).map_or("", |said| &said.place);
        format!("{who} panicked{place}: {}", text.split_whitespace().collect::<Vec<_>>().join(" "))
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

    /// What is said of a thread that does `work`.
    fn check(work: impl FnOnce() + Send, expected: &[&str]) {
        let said = thread::scope(|scope| join("the stack", scope.spawn(work))).unwrap_err();
        assert!(expected.iter().all(|part| said.contains(part)) && !said.contains('\n'), "{said}");
    }

    #[test]
    fn whose_thread_panicked_is_told_where_and_why() {
        watch();
        let place = concat!("the stack panicked at ", file!(), ":");
        check(|| panic!("no chunk is left"), &[place, ": no chunk is left"]);
        let one = std::hint::black_box(1);
        check(|| assert_eq!(one, 2, "chunks"), &[place, "left: 1 right: 2"]);
        // Joined by another thread, which goes the same way.
        let inner = || thread::scope(|scope| scope.spawn(|| panic!("deep {}", one)).join());
        check(|| inner().unwrap_or_else(|why| std::panic::resume_unwind(why)), &[place, ": deep 1"]);
        check(|| std::panic::panic_any(7), &[place, "no message"]);
    }
}
