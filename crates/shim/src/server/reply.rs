//! Replies to programs. Each pair has space for its reply; if the program has filled the pair
//! itself, the reply is dropped, and the program sees only that the pair closes.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::io::Errno;
use rustix::net::send;

use super::QUIET;
use crate::protocol::Answer;
use crate::scm_rights;

/// Failure with an error.
pub(super) fn refused(why: Errno) -> Answer {
    Answer::No(why.raw_os_error())
}

pub(super) fn say(reply: &OwnedFd, answer: Answer) {
    let _ = send(reply, &answer.encode(), QUIET);
}

pub(super) fn no(reply: &OwnedFd, why: Errno) {
    say(reply, refused(why));
}

/// Sends an answer, then a message with its data.
pub(super) fn say_with(reply: &OwnedFd, answer: Answer, what: &[u8]) {
    say(reply, answer);
    let _ = send(reply, what, QUIET);
}

/// Sends success, then a message with the data.
pub(super) fn tell(reply: &OwnedFd, what: &[u8]) {
    say_with(reply, Answer::Done, what);
}

/// Sends success, then a message with the file.
pub(super) fn give(reply: &OwnedFd, what: &[u8], file: BorrowedFd<'_>) {
    say(reply, Answer::Done);
    let _ = scm_rights::hand(reply, what, file);
}
