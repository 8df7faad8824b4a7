//! What programs are answered. One process awaits each answer, and has room for it: where it has filled
//! its pair itself, the answer is dropped, and all that it hears is that our end closes.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::send;

use super::QUIET;
use crate::shim::protocol::Answer;
use crate::shim::scm_rights;

/// No, and why.
pub(super) fn refused(why: Errno) -> Answer {
    Answer::No(why.raw_os_error())
}

pub(super) fn say(reply: &OwnedFd, answer: Answer) {
    let _ = send(reply, &answer.encode(), QUIET);
}

pub(super) fn no(reply: &OwnedFd, why: Errno) {
    say(reply, refused(why));
}

/// An answer, and what belongs to it.
pub(super) fn say_with(reply: &OwnedFd, answer: Answer, what: &[u8]) {
    say(reply, answer);
    let _ = send(reply, what, QUIET);
}

/// Yes, and what was asked for.
pub(super) fn tell(reply: &OwnedFd, what: &[u8]) {
    say_with(reply, Answer::Done, what);
}

/// Yes, and the file that was asked for.
pub(super) fn give(reply: &OwnedFd, what: &[u8], file: BorrowedFd<'_>) {
    say(reply, Answer::Done);
    let _ = scm_rights::hand(reply, what, file);
}
