//! Which of the events that the kernel returned a program gets, and in which order.
//!
//! One answer for both worlds: the library that programs have preloaded and the
//! simulator's programs ask here. Whoever asks does the waiting.
//!
//! The most urgent connection, or socket for datagrams, first; equals in the kernel's
//! order. What is neither of ours (the kernel's descriptors, listeners) goes with the
//! most urgent level: those are timers, wake-ups of other threads and new
//! connections, of which nobody knows yet how urgent they are.
//!
//! A program serves a whole batch before it asks again, so a batch of less
//! urgent connections is one that an urgent one has to wait for. A batch is
//! therefore short: everything of level 0, [`AT_ONCE`] at most of a level
//! that is less urgent, and of those below the most urgent one nothing. The rest is
//! left with the kernel, which returns it again to the next call; it does so
//! for level-triggered ones only, so all others are never left. Nothing is kept here.
//! Starvation: after [`PASSED_IN_A_ROW`] calls without a turn for those below, the next
//! returns [`AT_ONCE`] of them, of all their levels the first in the kernel's order. There is no bound among
//! equals: Linux puts all that it returned back in one piece, so of three that are
//! always ready at once the third has a turn when one of the others has not (ADR 0030).
//! Source: ADPS M6, M7; epoll(7).

use crate::PASSED_IN_A_ROW;

/// Of a connection, or a socket for datagrams, of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rank {
    /// 0 (most urgent) to 7.
    pub level: u8,
    /// The kernel returns it again if it is left.
    pub can_wait: bool,
}

/// What became of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReorderResult {
    /// The program gets the first so many.
    pub kept: usize,
    /// Calls in a row, this one included, that passed over those below the most
    /// urgent level: what the next call is given.
    pub left: u8,
}

/// Events that are looked at together.
pub const BATCH: usize = 64;
/// Connections of a level other than 0 in a batch.
pub const AT_ONCE: usize = 2;
const LEVELS: usize = 8;

/// Puts those of the first [`BATCH`] of `events` into order that the program
/// gets. `rank`: none where it is neither a connection nor a socket of ours;
/// `left`: as the last call for these connections said, 0 before the first.
pub fn arrange<E: Copy>(events: &mut [E], rank: impl Fn(&E) -> Option<Rank>, left: u8) -> ReorderResult {
    let (Some(&first), len) = (events.first(), events.len()) else {
        return ReorderResult { kept: 0, left: 0 };
    };
    let batch = &mut events[..len.min(BATCH)];
    let (mut as_they_were, mut ranks) = ([first; BATCH], [None; BATCH]);
    let mut top = LEVELS as u8;
    for (at, event) in batch.iter().enumerate() {
        (as_they_were[at], ranks[at]) = (*event, rank(event));
        top = ranks[at].map_or(top, |rank: Rank| top.min(rank.level));
    }
    // Where there are more than were looked at, all are the program's.
    let may_leave = |rank: &Rank| len <= BATCH && rank.can_wait && rank.level > 0;
    let their_turn = left >= PASSED_IN_A_ROW;
    let (mut equals, mut below, mut all_had_turns) = (0, 0, true);
    let mut stays = |rank: Option<Rank>| {
        let Some(Rank { level, .. }) = rank.filter(may_leave) else { return true };
        if level == top {
            equals += 1;
            return equals <= AT_ONCE;
        }
        below += 1;
        all_had_turns &= their_turn;
        their_turn && below <= AT_ONCE
    };
    let level = |rank: Option<Rank>| rank.map_or(0, |rank| usize::from(rank.level));
    let mut stay = [false; BATCH];
    let mut places = [0; LEVELS + 1];
    for (at, &rank) in ranks.iter().enumerate().take(batch.len()) {
        stay[at] = stays(rank);
        places[level(rank) + 1] += usize::from(stay[at]);
    }
    (0..LEVELS).for_each(|level| places[level + 1] += places[level]);
    let kept = places[LEVELS] + len - batch.len();
    for (at, event) in as_they_were.iter().enumerate().take(batch.len()).filter(|(at, _)| stay[*at]) {
        let place = &mut places[level(ranks[at])];
        batch[*place] = *event;
        *place += 1;
    }
    ReorderResult { kept, left: if all_had_turns { 0 } else { left + 1 } }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event's text is its level, and `w` where it can wait; `k` is the
    /// kernel's. Expected is what the program gets, and `…` where somebody was passed over.
    #[track_caller]
    fn check(events: &str, their_turn: bool, expected: &str) {
        let mut events: Vec<&str> = events.split_whitespace().collect();
        let rank = |event: &&str| match event.as_bytes() {
            [level @ b'0'..=b'7', rest @ ..] => {
                Some(Rank { level: level - b'0', can_wait: rest.first() == Some(&b'w') })
            }
            _ => None,
        };
        let before = if their_turn { PASSED_IN_A_ROW } else { 0 };
        let ReorderResult { kept, left } = arrange(&mut events, rank, before);
        events.truncate(kept);
        events.extend((left > 0).then_some("…"));
        assert_eq!(events.join(" "), expected);
    }

    #[test]
    fn the_most_urgent_come_first_and_equals_as_the_kernel_says() {
        check("7a 5a 0a 5b 7b 0b", false, "0a 0b 5a 5b 7a 7b");
        check("7wa 5wa 0wa", true, "0wa 5wa 7wa");
        check("", false, "");
        check("3", false, "3");
    }

    #[test]
    fn what_is_not_ours_goes_with_the_most_urgent() {
        check("7a k1 0a k2 1a", false, "k1 0a k2 1a 7a");
        check("7wa k1 7wb", false, "k1 7wa 7wb");
    }

    #[test]
    fn few_of_the_less_urgent_come_at_once() {
        check("7wa 7wb 7wc 7wd", false, "7wa 7wb");
        check("2wa 2wb 2wc", false, "2wa 2wb");
        check("0wa 0wb 0wc 0wd", false, "0wa 0wb 0wc 0wd");
    }

    #[test]
    fn who_is_less_urgent_than_another_has_no_turn_until_it_is_theirs() {
        check("7wa 7wb 0wa 3wa 7wc", false, "0wa …");
        check("7wa 7wb 2wa 3wa 2wb", false, "2wa 2wb …");
        check("7wa 7wb 0wa 3wa 7wc", true, "0wa 7wa 7wb");
        check("7wa 3wa 0wa 3wb 7wc", true, "0wa 3wa 7wa");
    }

    #[test]
    fn after_eight_calls_without_a_turn_those_below_have_one() {
        let rank = |event: &u8| Some(Rank { level: *event, can_wait: true });
        let mut left = 0;
        let kept: Vec<usize> = (0..18)
            .map(|_| {
                let arranged = arrange(&mut [7, 0, 7, 7], rank, left);
                left = arranged.left;
                arranged.kept
            })
            .collect();
        assert_eq!(kept, [[1; 8].as_slice(), &[3], &[1; 8], &[3]].concat());
    }

    #[test]
    fn what_the_kernel_would_not_return_again_is_not_left() {
        check("7a 7b 7c 7d 7e 7f 7wa 7wb 7wc", false, "7a 7b 7c 7d 7e 7f 7wa 7wb");
        check("7wa 7wb 7wc 7a 0a k", false, "0a k 7a …");
    }

    #[test]
    fn nothing_is_lost_of_a_batch_that_is_too_long() {
        let mut events: Vec<u32> = (0..100).rev().collect();
        let rank = |event: &u32| Some(Rank { level: (event % 8) as u8, can_wait: true });
        assert_eq!(arrange(&mut events, rank, 0), ReorderResult { kept: 100, left: 0 });
        let mut sorted = events.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
        assert!(events[..BATCH].is_sorted_by_key(|event| event % 8));
    }
}
