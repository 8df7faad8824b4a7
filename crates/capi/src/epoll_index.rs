//! Index of epoll registrations: from set and user data to connection.
//!
//! epoll returns only the user data that the program registered, so epoll_ctl fills this index. It
//! is a fixed-size table without locks: threads share it, a fork copies it, and exec closes the
//! sets. A wrong answer costs an event only its position in the order: an entry may be overwritten
//! by another, or outlive its connection. An entry written by two threads at once fails its check
//! and counts as absent.

use std::sync::atomic::{AtomicU64, Ordering};

/// Entry for one registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Hint {
    /// Number of the connection, below 2⁶².
    pub(crate) id: u64,
    /// Level-triggered: the kernel returns the event as long as the descriptor is ready.
    pub(crate) by_level: bool,
}

const BY_LEVEL: u64 = 1 << 63;
const SOME: u64 = 1 << 62;
/// Associativity: entries per set of the table.
const WAYS: usize = 4;

/// `SETS` × 4 entries: key XOR value, and value.
pub(crate) struct EpollIndex<const SETS: usize>([[[AtomicU64; 2]; WAYS]; SETS]);

impl<const SETS: usize> EpollIndex<SETS> {
    pub(crate) const fn new() -> Self {
        Self([const { [const { [const { AtomicU64::new(0) }; 2] }; WAYS] }; SETS])
    }

    /// Records `hint` for `word` in the set `epoll`; `None` removes it.
    pub(crate) fn note(&self, epoll: i32, word: u64, hint: Option<Hint>) {
        let key = key(epoll, word);
        let entries = &self.0[key as usize % SETS];
        let value = hint
            .filter(|hint| hint.id < SOME)
            .map_or(0, |Hint { id, by_level }| id | SOME | if by_level { BY_LEVEL } else { 0 });
        let is = |wanted: u64| entries.iter().find(|entry| read(entry).0 == wanted);
        let Some(found) = is(key).or_else(|| if value == 0 { None } else { is(0) }) else {
            if value != 0 {
                write(&entries[(key >> 62) as usize % WAYS], key, value);
            }
            return;
        };
        match value {
            0 => write(found, 0, 0),
            value => write(found, key, value),
        }
    }

    /// Entry of `word` in the set `epoll`, if it is known.
    pub(crate) fn get(&self, epoll: i32, word: u64) -> Option<Hint> {
        let key = key(epoll, word);
        let mut known = self.0[key as usize % SETS].iter().map(read);
        let (_, value) = known.find(|(found, _)| *found == key)?;
        Some(Hint { id: value & !(SOME | BY_LEVEL), by_level: value & BY_LEVEL != 0 })
    }
}

/// Key and value of an entry; key 0: empty, or being written.
fn read(entry: &[AtomicU64; 2]) -> (u64, u64) {
    let (both, value) = (entry[0].load(Ordering::Relaxed), entry[1].load(Ordering::Relaxed));
    (both ^ value, value)
}

fn write(entry: &[AtomicU64; 2], key: u64, value: u64) {
    entry[0].store(key ^ value, Ordering::Relaxed);
    entry[1].store(value, Ordering::Relaxed);
}

/// Key, never 0. Two different pairs collide with probability 2⁻⁶³.
fn key(epoll: i32, word: u64) -> u64 {
    // The finalizer of SplitMix64, twice.
    let mix = |mut x: u64| {
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    };
    mix(mix(word).wrapping_add(epoll as u64).wrapping_add(0x9e37_79b9_7f4a_7c15)) | 1 << 61
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn hint(id: u64) -> Hint {
        Hint { id, by_level: id.is_multiple_of(2) }
    }

    #[test]
    fn a_word_stands_for_what_it_was_registered_for_last_in_its_set() {
        let hints = EpollIndex::<64>::new();
        assert_eq!(hints.get(3, 77), None);
        hints.note(3, 77, Some(hint(8)));
        hints.note(4, 77, Some(hint(9)));
        assert_eq!((hints.get(3, 77), hints.get(4, 77)), (Some(hint(8)), Some(hint(9))));
        hints.note(3, 77, Some(hint(11)));
        assert_eq!(hints.get(3, 77), Some(hint(11)));
        hints.note(3, 77, None);
        assert_eq!((hints.get(3, 77), hints.get(4, 77)), (None, Some(hint(9))));
    }

    #[test]
    fn of_too_many_some_are_forgotten_and_none_is_mistaken() {
        let hints = EpollIndex::<16>::new();
        let all = 0..1000_u64;
        all.clone().for_each(|n| hints.note(5, n << 4, Some(hint(n))));
        let known: Vec<_> = all.filter(|&n| hints.get(5, n << 4).is_some()).collect();
        assert!((1..=64).contains(&known.len()), "{}", known.len());
        assert!(known.iter().all(|&n| hints.get(5, n << 4) == Some(hint(n))));
    }
}
