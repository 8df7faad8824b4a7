//! getsockopt(2) requests of programs.
//!
//! For a connection only the stack has the values; it answers in the round in which it receives the
//! event.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rustix::io::Errno;

use super::reply::{no, tell};
use super::{LISTENER, MAILBOX, SocketEvent, SocketServer};
use crate::socket_name::BETWEEN;
use crate::tcp_info::SocketInfo;

/// A pending request.
pub(super) struct PendingGetsockopt {
    reply: OwnedFd,
    level: i32,
    name: i32,
}

/// Requests that the stack has not answered, at most one poll's.
#[derive(Default)]
pub(super) struct Questions {
    /// Number of requests so far.
    asked: u64,
    open: BTreeMap<u64, PendingGetsockopt>,
}

impl SocketServer {
    /// Handles a request for option `name` of socket `id`.
    pub(super) fn take_question(
        &mut self,
        id: u64,
        (level, name): (i32, i32),
        reply: OwnedFd,
        into: &mut Vec<SocketEvent>,
    ) {
        let question = PendingGetsockopt { reply, level, name };
        if id & (LISTENER | MAILBOX) == MAILBOX {
            return match self.mailbox_option(id, level, name) {
                Some(value) => tell(&question.reply, &value.to_ne_bytes()),
                None => no(&question.reply, Errno::NOPROTOOPT),
            };
        }
        if id & LISTENER != 0 {
            let listener = self.listeners.get(id);
            let found = listener.and_then(|listener| match (level, name) {
                (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) => Some(listener.bound().is_v6_only().into()),
                (libc::SOL_SOCKET, libc::SO_ACCEPTCONN) => Some(i32::from(listener.backlog > 0)),
                (libc::IPPROTO_TCP, libc::TCP_FASTOPEN) => i32::try_from(listener.fast_open).ok(),
                _ => None,
            });
            if let Some(value) = found {
                return tell(&question.reply, &value.to_ne_bytes());
            }
            let figures = self.listeners.get(id).map_or(SocketInfo::gone(), |listener| {
                SocketInfo::of_listener(listener.backlog, listener.settings())
            });
            return question.tell(&figures);
        }
        if id >= BETWEEN {
            return question.tell(&SocketInfo::between());
        }
        self.questions.asked += 1;
        let call = self.questions.asked;
        self.questions.open.insert(call, question);
        into.push(SocketEvent::Asked { call, id });
    }

    /// Answers [`SocketEvent::Asked`].
    pub fn answer(&mut self, call: u64, figures: &SocketInfo) {
        if let Some(question) = self.questions.open.remove(&call) {
            question.tell(figures);
        }
    }
}

impl PendingGetsockopt {
    fn tell(&self, figures: &SocketInfo) {
        match figures.value(self.level, self.name) {
            Some(value) => tell(&self.reply, &value),
            None => no(&self.reply, Errno::NOPROTOOPT),
        }
    }
}
