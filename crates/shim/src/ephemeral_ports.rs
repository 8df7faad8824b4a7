//! Ephemeral ports. Each search starts at an unpredictable port, so a port that was released
//! lately, which a peer may still know, is reused late. Source: RFC 6056 §3.3.

use std::hash::{DefaultHasher, Hash, Hasher};

/// First ephemeral port.
pub(super) const EPHEMERAL: u16 = 32_768;

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
