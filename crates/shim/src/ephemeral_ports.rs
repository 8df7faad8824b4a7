//! Ephemeral ports. Each search starts at an unpredictable port, so a port that was released
//! lately, which a peer may still know, is reused late. `bind` to port 0 avoids the ports of
//! connections that are open or may be in TIME-WAIT, as the kernel's does. Source: RFC 6056 §3.3;
//! `inet_csk_find_open_port` of Linux.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

/// First ephemeral port.
pub(super) const EPHEMERAL: u16 = 32_768;

/// Time for which the port of a closed connection is avoided: TIME-WAIT, and as much before it for
/// the peer to close.
pub(super) const AVOIDED: Duration = Duration::from_secs(120);
/// Maximum number of open connections whose port is known.
const OPEN_MAX: usize = 1 << 17;

/// Local ports of the connections that programs open.
#[derive(Debug, Default)]
pub(super) struct UsedPorts {
    /// Ports of open connections, by number.
    open: BTreeMap<u64, u16>,
    /// Ports of closed connections, oldest first, and the times of their close.
    closed: VecDeque<(Instant, u16)>,
    /// Entries of both, by port.
    counts: BTreeMap<u16, usize>,
}

impl UsedPorts {
    /// Adds connection `id` from `port`.
    pub(super) fn open(&mut self, id: u64, port: u16) {
        if self.open.len() < OPEN_MAX && self.open.insert(id, port).is_none() {
            *self.counts.entry(port).or_default() += 1;
        }
    }

    /// Records that connection `id` has closed at `now`.
    pub(super) fn close(&mut self, now: Instant, id: u64) {
        if let Some(port) = self.open.remove(&id) {
            self.closed.push_back((now, port));
        }
    }

    /// Forgets ports that need not be avoided any more.
    pub(super) fn expire(&mut self, now: Instant) {
        while let Some(&(since, port)) = self.closed.front()
            && now.saturating_duration_since(since) >= AVOIDED
        {
            self.closed.pop_front();
            if let Some(count) = self.counts.get_mut(&port) {
                *count -= 1;
                if *count == 0 {
                    self.counts.remove(&port);
                }
            }
        }
    }

    /// True if `port` is avoided.
    pub(super) fn has(&self, port: u16) -> bool {
        self.counts.contains_key(&port)
    }
}

/// A free port from `first` on; `turn` counts the calls.
pub(super) fn free(
    first: u16,
    secret: &[u8],
    turn: u64,
    mut is_taken: impl FnMut(u16) -> bool,
) -> Option<u16> {
    let mut hasher = DefaultHasher::new();
    (secret, turn).hash(&mut hasher);
    let count = u64::from(u16::MAX - first) + 1;
    let start = hasher.finish() % count;
    let mut ports = (0..count).map(|at| first + ((start + at) % count) as u16);
    ports.find(|&port| !is_taken(port))
}

#[cfg(test)]
mod tests {
    use super::*;

    //~ programs: a socket bound to any port gets none of a connection that may be in TIME-WAIT
    #[test]
    fn a_port_is_avoided_while_it_may_be_in_time_wait() {
        let (mut used, now) = (UsedPorts::default(), Instant::now());
        for id in [1, 2] {
            used.open(id, 40_000);
            used.open(id, 40_000);
        }
        used.close(now, 1);
        used.expire(now + AVOIDED);
        assert!(used.has(40_000), "one is still open");
        used.close(now + AVOIDED, 2);
        used.close(now + AVOIDED, 2);
        used.expire(now + 2 * AVOIDED - Duration::from_nanos(1));
        assert!(used.has(40_000));
        used.expire(now + 2 * AVOIDED);
        assert!(!used.has(40_000) && !used.has(40_001));
        assert!(used.open.is_empty() && used.closed.is_empty() && used.counts.is_empty());
    }

    #[test]
    fn what_is_free_is_found_and_not_in_a_row() {
        assert_eq!(free(65_535, b"secret", 1, |_| true), None);
        assert_eq!(free(65_534, b"secret", 1, |port| port == 65_535), Some(65_534));
        let ports: Vec<u16> =
            (0..8).map(|turn| free(EPHEMERAL, b"secret", turn, |_| false).unwrap()).collect();
        assert!(ports.iter().all(|port| *port >= EPHEMERAL), "{ports:?}");
        assert!(ports.windows(2).all(|two| two[0] != two[1]), "reused at once: {ports:?}");
        assert!(ports.windows(2).any(|two| two[0].abs_diff(two[1]) > 1), "{ports:?}");
    }
}
