//! Redirects: first hops learned from routers.
//!
//! Validation is the caller's: only the current first hop to a destination may redirect it. Bounded
//! by [`REDIRECTS_MAX`], the oldest is evicted; each expires after ten minutes, after which the
//! router repeats it.
//!
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
    /// First hop to `destination`, if redirected.
    #[inline]
    pub(crate) fn hop(&self, destination: Ipv6Addr) -> Option<Ipv6Addr> {
        if self.known.is_empty() {
            return None;
        }
        self.known.iter().find(|known| known.destination == destination).map(|known| known.hop)
    }

    /// Routes packets for `destination` to `hop`.
    pub(crate) fn learn(&mut self, now: Time, destination: Ipv6Addr, hop: Ipv6Addr) {
        self.known.retain(|known| known.destination != destination);
        if self.known.len() >= REDIRECTS_MAX {
            self.known.remove(0);
        }
        self.known.push(Redirect { destination, hop, until: now + LIFE });
    }

    /// Removes redirects to `hop`.
    pub(crate) fn forget(&mut self, hop: Ipv6Addr) {
        self.known.retain(|known| known.hop != hop);
    }

    /// Removes expired redirects.
    pub(crate) fn expire(&mut self, now: Time) {
        self.known.retain(|known| known.until > now);
    }

    /// Time of the next expiry.
    pub(crate) fn deadline(&self) -> Time {
        self.known.first().map_or(Time::MAX, |oldest| oldest.until)
    }

    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.known.len()
    }
}
