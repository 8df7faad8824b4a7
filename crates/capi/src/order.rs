//! Which of the events that the kernel returned a program gets, and in which order.
//!
//! The most urgent connection, or socket for datagrams, first; equals in the kernel's
//! order. What is neither of ours (the kernel's descriptors, listeners) goes with the
//! most urgent level: those are timers, wake-ups of other threads and new
//! connections, of which nobody knows yet how urgent they are.
//!
//! A program serves a whole batch before it asks again, so a batch of less
//! urgent connections is one that an urgent one has to wait for. While levels
//! differ a batch is therefore short: everything of the most urgent level, and
//! of the others [`AT_ONCE`] at most. The rest is left with the kernel, which
//! returns it again to the next call; it does so for level-triggered
//! ones only, so all others are never left. Nothing is kept here.
//! Starvation: after [`LEFT_IN_A_ROW`] calls that left something behind, the
//! next leaves nothing.
//! Source: ADPS M6, M7; epoll(7).

/// An event's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rank {
    /// 0 (most urgent) to 7.
    pub(crate) level: u8,
    /// The kernel returns it again if it is left.
    pub(crate) can_wait: bool,
}

/// Of what is neither a connection nor a socket for datagrams of ours.
pub(crate) const OTHER: Rank = Rank { level: 0, can_wait: false };
/// Events that are looked at together.
pub(crate) const BATCH: usize = 64;
/// Connections below the most urgent level in a batch.
pub(crate) const AT_ONCE: usize = 4;
/// Calls in a row that may leave events behind.
pub(crate) const LEFT_IN_A_ROW: u8 = 8;
const LEVELS: usize = 8;

/// Puts the first [`BATCH`] of `events` into order; how many of all the
/// program gets: the first so many. `may_leave`: it need not be all.
pub(crate) fn arrange<E: Copy>(events: &mut [E], rank: impl Fn(&E) -> Rank, may_leave: bool) -> usize {
    let (Some(&first), len) = (events.first(), events.len()) else { return 0 };
    let batch = &mut events[..len.min(BATCH)];
    let (mut as_they_were, mut ranks) = ([first; BATCH], [OTHER; BATCH]);
    let mut places = [0; LEVELS + 1];
    for (at, event) in batch.iter().enumerate() {
        (as_they_were[at], ranks[at]) = (*event, rank(event));
        places[usize::from(ranks[at].level) + 1] += 1;
    }
    (0..LEVELS).for_each(|level| places[level + 1] += places[level]);
    let mut can_wait = [false; BATCH];
    for (event, rank) in as_they_were.iter().zip(&ranks).take(batch.len()) {
        let place = &mut places[usize::from(rank.level)];
        (batch[*place], can_wait[*place]) = (*event, rank.can_wait && rank.level > 0);
        *place += 1;
    }
    if !may_leave || len > BATCH {
        return len;
    }
    let (mut kept, mut below) = (0, 0);
    for at in 0..len {
        below += usize::from(can_wait[at]);
        if !can_wait[at] || below <= AT_ONCE {
            events[kept] = events[at];
            kept += 1;
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An event's text is its level, and `w` where it can wait; `k` is the kernel's.
    #[track_caller]
    fn check(events: &str, may_leave: bool, expected: &str) {
        let mut events: Vec<&str> = events.split_whitespace().collect();
        let rank = |event: &&str| match event.as_bytes() {
            [b'k', ..] => OTHER,
            [level, rest @ ..] => Rank { level: level - b'0', can_wait: rest.first() == Some(&b'w') },
            [] => OTHER,
        };
        let kept = arrange(&mut events, rank, may_leave);
        assert_eq!(events[..kept].join(" "), expected);
    }

    #[test]
    fn the_most_urgent_come_first_and_equals_as_the_kernel_says() {
        check("7a 5a 0a 5b 7b 0b", false, "0a 0b 5a 5b 7a 7b");
        check("7wa 5wa 0wa", false, "0wa 5wa 7wa");
        check("", true, "");
        check("3", true, "3");
    }

    #[test]
    fn what_is_not_ours_goes_with_the_most_urgent() {
        check("7a k1 0a k2 1a", false, "k1 0a k2 1a 7a");
    }

    #[test]
    fn few_of_the_less_urgent_come_at_once() {
        check("7wa 7wb 7wc 7wd 7we 7wf", true, "7wa 7wb 7wc 7wd");
        check("7wa 7wb 7wc 7wd 7we 2wa 2wb", true, "2wa 2wb 7wa 7wb");
        check("0wa 0wb 0wc 0wd 0we 0wf 7w", true, "0wa 0wb 0wc 0wd 0we 0wf 7w");
    }

    #[test]
    fn what_the_kernel_would_not_return_again_is_not_left() {
        check("7a 7b 7c 7d 7e 7f 7wa 7wb", true, "7a 7b 7c 7d 7e 7f 7wa 7wb");
        check("7wa 7wb 7wc 7wd 7we 7a k", true, "k 7wa 7wb 7wc 7wd 7a");
    }

    #[test]
    fn nothing_is_lost_of_a_batch_that_is_too_long() {
        let mut events: Vec<u32> = (0..100).rev().collect();
        let rank = |event: &u32| Rank { level: (event % 8) as u8, can_wait: true };
        assert_eq!(arrange(&mut events, rank, true), 100);
        let mut sorted = events.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, (0..100).collect::<Vec<_>>());
        assert!(events[..BATCH].is_sorted_by_key(|event| event % 8));
    }
}
