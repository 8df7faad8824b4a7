//! Better ways that routers have told of.
//!
//! Only the router that is the first hop to a destination may say so, which is
//! for the caller to check; of more than [`REDIRECTS_MAX`] the oldest is
//! forgotten, and each after ten minutes: the router will say it again.
//! Source: RFC 4861 §8.

use std::net::Ipv6Addr;

use queueing::{Span, Time};

pub(crate) const REDIRECTS_MAX: usize = 64;
const LIFE: Span = Span::from_secs(600);

#[derive(Clone, Copy, Debug)]
struct Redirect {
    destination: Ipv6Addr,
    hop: Ipv6Addr,
    until: Time,
}

/// First hops by destination, the oldest first.
#[derive(Debug, Default)]
pub(crate) struct Redirects {
    known: Vec<Redirect>,
}

impl Redirects {
    /// The first hop to `destination`, if it is another than usual.
    #[inline]
    pub(crate) fn hop(&self, destination: Ipv6Addr) -> Option<Ipv6Addr> {
        if self.known.is_empty() {
            return None;
        }
        self.known.iter().find(|known| known.destination == destination).map(|known| known.hop)
    }

    /// Packets for `destination` go to `hop` from now on.
    pub(crate) fn learn(&mut self, now: Time, destination: Ipv6Addr, hop: Ipv6Addr) {
        self.known.retain(|known| known.destination != destination);
        if self.known.len() >= REDIRECTS_MAX {
            self.known.remove(0);
        }
        self.known.push(Redirect { destination, hop, until: now + LIFE });
    }

    /// `hop` is of no use any more.
    pub(crate) fn forget(&mut self, hop: Ipv6Addr) {
        self.known.retain(|known| known.hop != hop);
    }

    /// Forgets what is too old.
    pub(crate) fn expire(&mut self, now: Time) {
        self.known.retain(|known| known.until > now);
    }

    /// When something is too old.
    pub(crate) fn deadline(&self) -> Time {
        self.known.first().map_or(Time::MAX, |oldest| oldest.until)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }
}
