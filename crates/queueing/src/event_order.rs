//! Order of ready events: which events of an `epoll_wait` a program gets, and in which order.
//!
//! Shared by the preloaded library and the simulator. Does not wait; the caller
//! does. Keeps no state.
//!
//! The most urgent connection or datagram socket comes first, equals in the
//! kernel's order. Kernel descriptors and listeners go with the most urgent
//! level: they are timers, wake-ups of other threads and new connections, whose
//! priority is not known yet.
//!
//! A program serves a whole batch before its next call, so a batch of less
//! urgent connections delays an urgent one. Batches are therefore short: all of
//! level 0; at most [`AT_ONCE`] of the most urgent level, if that is another;
//! none below. The rest stays with the kernel, which returns it again at the next
//! call, but only if level-triggered; other events are never left.
//! Starvation: after [`PASSED_IN_A_ROW`] calls that left lower levels, the next
//! returns [`AT_ONCE`] events of them, in the kernel's order over all their
//! levels. Among equals there is no bound: Linux requeues the returned events
//! together, so of three that are always ready the third is served only when
//! one of the others is not ready (ADR 0030).
//! Source: ADPS M6, M7; epoll(7).

use crate::PASSED_IN_A_ROW;

/// Rank of a connection or datagram socket of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// Priority level, 0 (most urgent) to 7.
    pub level: u8,
    /// True if the kernel returns the event again when it is left.
    pub can_wait: bool,
}

/// Result of reordering a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReorderResult {
    /// Number of events at the front that the program gets.
    pub retained: usize,
    /// Consecutive calls, this one included, that left events below the most urgent
    /// level; input of the next call.
    pub left: u8,
}

/// Maximum number of events reordered together.
pub const BATCH: usize = 64;
/// Maximum number of events of one level other than 0 in a batch.
pub const AT_ONCE: usize = 2;
const LEVELS: usize = 8;

/// Reorders the first [`BATCH`] of `events`. `rank` is `None` for kernel
/// descriptors and listeners. `left` is [`ReorderResult::left`] of the last call
/// for these connections, 0 before the first.
pub fn reorder<E: Copy>(events: &mut [E], rank: impl Fn(&E) -> Option<Rank>, left: u8) -> ReorderResult {
    let (Some(&first), len) = (events.first(), events.len()) else {
        return ReorderResult { retained: 0, left: 0 };
    };
    let batch = &mut events[..len.min(BATCH)];
    let (mut original, mut ranks) = ([first; BATCH], [None; BATCH]);
    let mut top = LEVELS as u8;
    for (at, event) in batch.iter().enumerate() {
        (original[at], ranks[at]) = (*event, rank(event));
        top = ranks[at].map_or(top, |rank: Rank| top.min(rank.level));
    }
    // Beyond the batch, the program gets all events.
    let can_leave = |rank: &Rank| len <= BATCH && rank.can_wait && rank.level > 0;
    let lower_due = left >= PASSED_IN_A_ROW;
    let (mut equals, mut below, mut lower_served) = (0, 0, true);
    let mut is_retained = |rank: Option<Rank>| {
        let Some(Rank { level, .. }) = rank.filter(can_leave) else { return true };
        if level == top {
            equals += 1;
            return equals <= AT_ONCE;
        }
        below += 1;
        lower_served &= lower_due;
        lower_due && below <= AT_ONCE
    };
    let level = |rank: Option<Rank>| rank.map_or(0, |rank| usize::from(rank.level));
    let mut keep = [false; BATCH];
    let mut offsets = [0; LEVELS + 1];
    for (at, &rank) in ranks.iter().enumerate().take(batch.len()) {
        keep[at] = is_retained(rank);
        offsets[level(rank) + 1] += usize::from(keep[at]);
    }
    (0..LEVELS).for_each(|level| offsets[level + 1] += offsets[level]);
    let retained = offsets[LEVELS] + len - batch.len();
    for (at, event) in original.iter().enumerate().take(batch.len()).filter(|(at, _)| keep[*at]) {
        let offset = &mut offsets[level(ranks[at])];
        batch[*offset] = *event;
        *offset += 1;
    }
    ReorderResult { retained, left: if lower_served { 0 } else { left + 1 } }
}

//~ programs: events are ordered by label, and a less urgent level gets its turn after eight calls
#[cfg(test)]
mod tests {
    use super::*;

    /// An event's text is its level, then `w` if it can wait; `k` is a kernel
    /// descriptor. Expected are the program's events, then `…` if some were left.
    #[track_caller]
    fn check(events: &str, lower_due: bool, expected: &str) {
        let mut events: Vec<&str> = events.split_whitespace().collect();
        let rank = |event: &&str| match event.as_bytes() {
            [level @ b'0'..=b'7', rest @ ..] => {
                Some(Rank { level: level - b'0', can_wait: rest.first() == Some(&b'w') })
            }
            _ => None,
        };
        let before = if lower_due { PASSED_IN_A_ROW } else { 0 };
        let ReorderResult { retained, left } = reorder(&mut events, rank, before);
        events.truncate(retained);
        events.extend((left > 0).then_some("…"));
        assert_eq!(events.join(" "), expected);
    }

    #[test]
    fn the_most_urgent_come_first_and_equals_in_the_kernels_order() {
        check("7a 5a 0a 5b 7b 0b", false, "0a 0b 5a 5b 7a 7b");
        check("7wa 5wa 0wa", true, "0wa 5wa 7wa");
        check("", false, "");
        check("3", false, "3");
    }

    #[test]
    fn kernel_descriptors_go_with_the_most_urgent() {
        check("7a k1 0a k2 1a", false, "k1 0a k2 1a 7a");
        check("7wa k1 7wb", false, "k1 7wa 7wb");
    }

    #[test]
    fn a_batch_has_few_events_of_a_less_urgent_level() {
        check("7wa 7wb 7wc 7wd", false, "7wa 7wb");
        check("2wa 2wb 2wc", false, "2wa 2wb");
        check("0wa 0wb 0wc 0wd", false, "0wa 0wb 0wc 0wd");
    }

    #[test]
    fn lower_levels_stay_queued_until_their_turn() {
        check("7wa 7wb 0wa 3wa 7wc", false, "0wa …");
        check("7wa 7wb 2wa 3wa 2wb", false, "2wa 2wb …");
        check("7wa 7wb 0wa 3wa 7wc", true, "0wa 7wa 7wb");
        check("7wa 3wa 0wa 3wb 7wc", true, "0wa 3wa 7wa");
    }

    #[test]
    fn after_eight_calls_lower_levels_are_served() {
        let rank = |event: &u8| Some(Rank { level: *event, can_wait: true });
        let mut left = 0;
        let retained: Vec<usize> = (0..18)
            .map(|_| {
                let reordered = reorder(&mut [7, 0, 7, 7], rank, left);
                left = reordered.left;
                reordered.retained
            })
            .collect();
        assert_eq!(retained, [[1; 8].as_slice(), &[3], &[1; 8], &[3]].concat());
    }

    #[test]
    fn edge_triggered_events_are_never_left() {
        check("7a 7b 7c 7d 7e 7f 7wa 7wb 7wc", false, "7a 7b 7c 7d 7e 7f 7wa 7wb");
        check("7wa 7wb 7wc 7a 0a k", false, "0a k 7a …");
    }

    #[test]
    fn no_event_of_an_oversized_batch_is_lost() {
        let mut events: Vec<u32> = (0..100).rev().collect();
        let rank = |event: &u32| Some(Rank { level: (event % 8) as u8, can_wait: true });
        assert_eq!(reorder(&mut events, rank, 0), ReorderResult { retained: 100, left: 0 });
        let mut sorted = events.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
        assert!(events[..BATCH].is_sorted_by_key(|event| event % 8));
    }
}
