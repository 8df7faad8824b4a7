//! Classifier rules that a program sets on its own listener.
//!
//! They are parsed and applied in the stack's process; no code of the program runs there. The text
//! is queued in the request's pair before the request.

use std::os::fd::OwnedFd;

use classify::{Layer, Policy, TransportClassifier};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};

use super::SocketServer;
use super::reply::{refused, say_with};
use crate::protocol::{Answer, RULES_BYTES_MAX};

impl SocketServer {
    /// Classifier of connections to `port`, if a listener there has set one.
    pub fn classifier(&self, port: u16) -> Option<TransportClassifier> {
        let of_port = |(id, _): &(&u64, _)| self.listeners.get(**id).is_some_and(|l| l.addr.port() == port);
        self.rules.iter().find(of_port).map(|(_, classifier)| classifier.clone())
    }

    /// Reads the rules of socket `id` from `reply` and answers; an error is returned as text.
    pub(super) fn take_rules(&mut self, id: u64, reply: &OwnedFd) {
        let mut bytes = vec![0; RULES_BYTES_MAX + 1];
        let text = match recv(reply, &mut bytes[..], RecvFlags::DONTWAIT) {
            Ok((len, _)) if len <= RULES_BYTES_MAX => &bytes[..len],
            _ => return say_with(reply, refused(Errno::MSGSIZE), b""),
        };
        // For a socket that listens already, the stack has its classifier.
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

/// Classifier for the rules in `text`.
fn classifier(text: &[u8]) -> Result<TransportClassifier, String> {
    let text = std::str::from_utf8(text).map_err(|_| "the policy is not UTF-8".to_owned())?;
    let policy = Policy::parse(text).map_err(|e| e.to_string())?;
    if let Some(rule) = policy.rules().iter().find(|rule| rule.layer() == Layer::Driver) {
        let name = rule.name();
        return Err(format!(
            "rule {name:?} is for layer = \"driver\", which runs before the connection of a packet is known; \
             write layer = \"transport\""
        ));
    }
    policy
        .transport()
        .ok_or_else(|| "the policy has no [[rule]]; add one with layer = \"transport\"".to_owned())
}
