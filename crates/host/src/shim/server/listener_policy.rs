//! Rules that a program gives its own listener.
//!
//! They are read here, in the stack's process, and asked there: a program's
//! code never is. The text waits in the question's pair before the question
//! is asked.

use std::os::fd::OwnedFd;

use net::classify::{Layer, Policy, TransportClassifier};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::SocketServer;
use super::reply::{refused, say_with};
use crate::shim::protocol::{Answer, RULES_BYTES_MAX};

impl SocketServer {
    /// What connections to `port` are classified by, where whoever listens
    /// there has said so.
    pub fn classifier(&self, port: u16) -> Option<TransportClassifier> {
        let of_port = |(id, _): &(&u64, _)| self.listeners.get(**id).is_some_and(|l| l.addr.port() == port);
        self.rules.iter().find(of_port).map(|(_, classifier)| classifier.clone())
    }

    /// Takes the rules of listener `id` from `reply`, and answers with why
    /// not where they are none.
    pub(super) fn take_rules(&mut self, id: u64, reply: &OwnedFd) {
        let mut bytes = vec![0; RULES_BYTES_MAX + 1];
        let text = match recv(reply, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((len, _)) if len <= RULES_BYTES_MAX => &bytes[..len],
            _ => return say_with(reply, refused(Errno::MSGSIZE), b""),
        };
        // What listens already has told the stack.
        if self.listeners.get(id).is_none_or(|listener| listener.backlog > 0) {
            return say_with(reply, refused(Errno::ISCONN), b"");
        }
        match classifier(text) {
            Ok(classifier) => {
                self.rules.retain(|id, _| self.listeners.get(*id).is_some());
                self.rules.insert(id, classifier);
                say_with(reply, Answer::Done, b"");
            }
            Err(why) => say_with(reply, refused(Errno::INVAL), why.as_bytes()),
        }
    }
}

/// What `text` means as the rules of one program.
fn classifier(text: &[u8]) -> Result<TransportClassifier, String> {
    let text = std::str::from_utf8(text).map_err(|_| "the policy is not UTF-8".to_owned())?;
    let policy = Policy::parse(text).map_err(|e| e.to_string())?;
    if let Some(rule) = policy.rules().iter().find(|rule| rule.layer() == Layer::Driver) {
        let name = rule.name();
        return Err(format!(
            "rule {name:?} is for layer = \"driver\", which asks before anybody knows whose a packet is; \
             write layer = \"transport\""
        ));
    }
    policy
        .transport()
        .ok_or_else(|| "the policy has no [[rule]]; add one with layer = \"transport\"".to_owned())
}
