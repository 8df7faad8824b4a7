//! Timers of a shard's sleeps.
//!
//! A sleep for a span starts when the step in which it was requested is over and the next one
//! supplies the time. None ends early, whichever thread requested it and however long the task
//! computed before. Bound: one timer per live [`Sleep`](super::Sleep).

use std::task::Waker;

use queueing::{Span, Time, TimerKey, TimerWheel};

/// Timers of one shard; see the module.
#[derive(Default)]
pub(crate) struct Timers {
    wheel: TimerWheel<u32>,
    slots: Vec<Slot>,
    free: Vec<u32>,
    /// Requested since the last step.
    fresh: Vec<u32>,
}

/// End of a sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Until {
    At(Time),
    In(Span),
}

enum Slot {
    Free,
    Fresh(Until, Waker),
    /// The timer was cancelled before it started.
    Gone,
    Armed(TimerKey, Waker),
    Due,
}

impl Timers {
    /// Registers a sleep; the result identifies it until [`Timers::give_up`].
    pub fn begin(&mut self, until: Until, waker: Waker) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::Free);
            self.slots.len() as u32 - 1
        });
        self.slots[index as usize] = Slot::Fresh(until, waker);
        self.fresh.push(index);
        index
    }

    /// `Ok` if sleep `index` is over; otherwise replaces its waker and returns the previous one.
    pub fn poll(&mut self, index: u32, waker: &Waker) -> Result<(), Waker> {
        match &mut self.slots[index as usize] {
            Slot::Fresh(_, kept) | Slot::Armed(_, kept) => Err(std::mem::replace(kept, waker.clone())),
            _ => Ok(()),
        }
    }

    /// Cancels sleep `index`.
    #[must_use = "what it woke is dropped once no lock is held"]
    pub fn give_up(&mut self, index: u32) -> Option<Waker> {
        let slot = &mut self.slots[index as usize];
        let (next, waker) = match std::mem::replace(slot, Slot::Free) {
            Slot::Fresh(_, waker) => (Slot::Gone, Some(waker)),
            Slot::Armed(key, waker) => {
                self.wheel.cancel(key);
                (Slot::Free, Some(waker))
            }
            _ => (Slot::Free, None),
        };
        if matches!(next, Slot::Free) {
            self.free.push(index);
        }
        *slot = next;
        waker
    }

    /// Starts requested sleeps and ends those due at `now`; adds their wakers to `woken`.
    pub fn run(&mut self, now: Time, woken: &mut Vec<Waker>) {
        while let Some(index) = self.fresh.pop() {
            let slot = &mut self.slots[index as usize];
            match std::mem::replace(slot, Slot::Free) {
                Slot::Fresh(until, waker) => {
                    let at = match until {
                        Until::At(at) => at,
                        Until::In(span) => now + span,
                    };
                    *slot = Slot::Armed(self.wheel.insert(at, index), waker);
                }
                _ => self.free.push(index),
            }
        }
        while let Some((_, index)) = self.wheel.expire(now) {
            let slot = &mut self.slots[index as usize];
            if let Slot::Armed(_, waker) = std::mem::replace(slot, Slot::Due) {
                woken.push(waker);
            }
        }
    }

    /// Earliest end of a sleep.
    pub fn next(&self) -> Option<Time> {
        self.wheel.next()
    }
}
