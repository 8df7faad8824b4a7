//! TCP Fast Open: data in the SYN of a client that has a cookie.
//!
//! A server gives each address a cookie: a keyed hash of both addresses and of the hour, valid in
//! its own hour and the next. A client that presents the older cookie receives the newer one. Data
//! with a valid cookie is delivered at once, in a bounded number of handshakes at a time. A SYN
//! received twice finds its connection; one repeated after the connection ended delivers its data
//! again, so that applications have to opt in.
//!
//! A client caches the cookies of a configured number of servers. A used cookie leaves the cache
//! until the server has acknowledged the data, so that a path that drops such SYNs costs one
//! timeout.
//!
//! Source: RFC 7413.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use queueing::{Span, Time};
use wire::FourTuple;
use wire::tcp::{FastOpen, Segment};

use super::connection_table;
use super::listener::Listener;
use super::{ConnId, ConnectError, Stack};

/// Length of a cookie's epoch; a cookie is valid in its own epoch and the next.
const EPOCH: Span = Span::from_secs(3600);
/// Purpose of the secret.
const HASH_FAST_OPEN: u8 = 16;

/// Cookie of the peer of `tuple`, `age` epochs ago.
fn cookie(secret: &[u8; 16], tuple: &FourTuple, now: Time, age: u64) -> FastOpen {
    let epoch = (now.as_nanos() / EPOCH.as_nanos()).saturating_sub(age);
    // The epoch is hashed in the place of the ports, 16 bits each.
    let (local_port, remote_port) = (epoch as u16, (epoch >> 16) as u16);
    let hash =
        connection_table::hash(secret, HASH_FAST_OPEN, &FourTuple { local_port, remote_port, ..*tuple });
    FastOpen::new(&hash.to_be_bytes()).unwrap_or(FastOpen::REQUEST)
}

/// Cookie to send to the peer of `tuple` at `now`.
pub(crate) fn current(secret: &[u8; 16], tuple: &FourTuple, now: Time) -> FastOpen {
    cookie(secret, tuple, now, 0)
}

/// Result of a SYN's Fast Open option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FastOpenOffer {
    /// True if the SYN's data may be delivered.
    pub(super) good: bool,
    /// True if the SYN-ACK carries a cookie.
    pub(super) sends_cookie: bool,
}

impl FastOpenOffer {
    /// Result of the option of SYN `s` at listener `l`.
    pub(super) fn of(s: &Segment<'_>, tuple: &FourTuple, now: Time, secret: &[u8; 16], l: &Listener) -> Self {
        let Some(received) = s.options.fast_open.filter(|_| l.fast_open_max > 0) else {
            return Self { good: false, sends_cookie: false };
        };
        let age = (0..2).find(|age| cookie(secret, tuple, now, *age) == received);
        Self { good: age.is_some() && l.fast_open < l.fast_open_max, sends_cookie: age != Some(0) }
    }
}

/// Cache of servers' cookies, the latest last.
#[derive(Debug, Default)]
pub(super) struct CookieCache {
    cookies: VecDeque<(IpAddr, FastOpen, u16)>,
}

impl CookieCache {
    /// Removes and returns the cookie of `server` and its MSS.
    fn take(&mut self, server: IpAddr) -> Option<(FastOpen, u16)> {
        let at = self.cookies.iter().position(|known| known.0 == server)?;
        self.cookies.remove(at).map(|(_, cookie, mss)| (cookie, mss))
    }

    /// Inserts `cookie`; evicts the oldest at `max` cookies.
    pub(super) fn put(&mut self, server: IpAddr, cookie: FastOpen, mss: u16, max: usize) {
        self.cookies.retain(|known| known.0 != server);
        if self.cookies.len() >= max {
            self.cookies.pop_front();
        }
        if max > 0 {
            self.cookies.push_back((server, cookie, mss));
        }
    }

    pub(super) fn len(&self) -> usize {
        self.cookies.len()
    }
}

impl Stack {
    /// Starts a handshake as [`Stack::connect`] does, and queues `data` for sending. With a cached
    /// cookie of the server ([`Config::fast_open_cookies`](super::Config)) the SYN carries as much
    /// of it as fits, which the server may deliver twice. Returns the number of bytes queued.
    ///
    /// # Errors
    /// The errors of [`Stack::connect`].
    pub fn connect_with(
        &mut self,
        now: Time,
        remote: SocketAddr,
        local_port: Option<u16>,
        data: &[u8],
    ) -> Result<(ConnId, usize), ConnectError> {
        let conn = self.connect(now, remote, local_port)?;
        let cookie = match self.config.fast_open_cookies {
            0 => None,
            _ => Some(self.cookie_cache.take(remote.ip()).unwrap_or((FastOpen::REQUEST, 0))),
        };
        let written = self.call(now, conn, |connection, cx| {
            let written = connection.write(cx, data).unwrap_or(0);
            if let Some((cookie, mss)) = cookie {
                connection.open_fast(cookie, mss);
            }
            written
        });
        Ok((conn, written.unwrap_or(0)))
    }

    /// Number of cached cookies.
    #[must_use]
    pub fn fast_open_cookies(&self) -> usize {
        self.cookie_cache.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    #[test]
    fn cookie_cache_is_bounded_and_evicts_the_oldest() {
        let mut cookie_cache = CookieCache::default();
        let server = |n: u32| IpAddr::V4(Ipv4Addr::from_bits(n));
        let cookie = |n: u8| FastOpen::new(&[n; 8]).unwrap();
        (0..10).for_each(|n| cookie_cache.put(server(n), cookie(n as u8), 1460, 4));
        cookie_cache.put(server(6), cookie(66), 1460, 4);
        assert_eq!(
            (cookie_cache.len(), cookie_cache.take(server(5)), cookie_cache.take(server(6))),
            (4, None, Some((cookie(66), 1460)))
        );
        assert_eq!(cookie_cache.take(server(6)), None, "until it is put back");
        cookie_cache.put(server(1), cookie(1), 1460, 0);
        assert_eq!(cookie_cache.take(server(1)), None);
    }

    #[test]
    fn cookie_is_of_one_pair_of_addresses_and_of_an_hour() {
        let tuple = |remote: [u8; 4], remote_port| FourTuple {
            local: [10, 0, 0, 1].into(),
            local_port: 80,
            remote: remote.into(),
            remote_port,
        };
        let (t, secret) = (tuple([10, 0, 0, 2], 5000), [7; 16]);
        let at = |secs: u64| Time::from_nanos(secs * 1_000_000_000);
        let given = current(&secret, &t, at(7000));
        assert_eq!(given, current(&secret, &tuple([10, 0, 0, 2], 6000), at(3600)), "any port, all hour");
        assert_ne!(given, current(&secret, &tuple([10, 0, 0, 3], 5000), at(7000)));
        assert_ne!(given, current(&[8; 16], &t, at(7000)));
        assert_ne!(given, current(&secret, &t, at(7300)));
        assert_eq!(given, cookie(&secret, &t, at(7300), 1));
    }
}
