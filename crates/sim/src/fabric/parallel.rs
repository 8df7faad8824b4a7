//! Parallel execution of a fabric's partitions: the only file of this crate that starts
//! threads.
//!
//! Conservative simulation in windows. No packet crosses from one partition to another in less
//! than [`Partitioning::ahead`]. If the earliest pending event is at `t`, no packet still to be
//! sent arrives in another partition before `t + ahead`, hence each partition simulates up to
//! there independently. Then all threads synchronise, exchange what crossed, and find the next
//! `t`. The result of a partition depends on arrival times, not on the time of the exchange:
//! threads change only the run time. Source: conservative simulation: Chandy and Misra, CACM
//! '81; windows as long as the shortest path: Lubachevsky's bounded lag, CACM '89.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use queueing::{Span, Time};

use super::barrier::{Member, SpinBarrier};
use super::partition::{OutboundMessage, Partition};
use super::protocol::Protocol;

/// Runs `parts` until all flows are done and the last packet is delivered, or until the time
/// limit. `on_done` receives the number of completed flows.
pub(super) fn run<'a, P: Protocol>(
    mut parts: Vec<Partition<'a, P>>,
    on_done: &mut dyn FnMut(u32),
) -> Vec<Partition<'a, P>> {
    if let [part] = &mut parts[..] {
        alone(part, on_done);
        return parts;
    }
    let crew = Crew::new(parts.len());
    let mut rest = parts.split_off(1);
    std::thread::scope(|scope| {
        let others: Vec<_> =
            rest.iter_mut().map(|part| scope.spawn(|| crew.work(part, &mut |_| {}))).collect();
        crew.work(&mut parts[0], on_done);
        others.into_iter().for_each(|other| other.join().expect("a panic reaches the gate first"));
    });
    parts.extend(rest);
    parts
}

/// Runs a fabric of one partition.
fn alone<P: Protocol>(part: &mut Partition<'_, P>, on_done: &mut dyn FnMut(u32)) {
    let (flows, limit) = (part.config.flows, Time::ZERO + part.config.limit);
    let mut done = 0;
    while !part.is_over(flows)
        && let Some((now, event)) = part.next_by(limit)
    {
        part.on_event(now, event);
        if part.done.len() > done {
            done = part.done.len();
            on_done(done as u32);
        }
    }
}

/// State shared by the threads.
struct Crew<S> {
    gate: SpinBarrier,
    /// Status of each partition at the last exchange; two sets, since a fast thread writes the
    /// next one while others still read.
    notices: [Vec<Notice>; 2],
    /// Messages from each partition to each, two sets likewise.
    mail: [Vec<Mutex<Vec<OutboundMessage<S>>>>; 2],
}

/// Status of one partition, on its own cache line.
#[derive(Default)]
#[repr(align(128))]
struct Notice {
    /// Time of the next event, here or caused by outbound messages, in ns.
    next_ns: AtomicU64,
    done: AtomicU64,
    /// Packets in the partition or outbound.
    live: AtomicU64,
}

/// Status of all partitions together.
struct Standing {
    next: Time,
    done: u64,
    live: u64,
}

impl<S: Send> Crew<S> {
    fn new(parts: usize) -> Self {
        let notices = || (0..parts).map(|_| Notice::default()).collect();
        let mail = || (0..parts * parts).map(|_| Mutex::default()).collect();
        Self { gate: SpinBarrier::new(parts), notices: [notices(), notices()], mail: [mail(), mail()] }
    }

    /// Body of each thread.
    fn work<P: Protocol<Said = S>>(&self, part: &mut Partition<'_, P>, on_done: &mut dyn FnMut(u32)) {
        let member = self.gate.join();
        let (flows, limit) = (u64::from(part.config.flows), Time::ZERO + part.config.limit);
        let mut side = 0;
        let mut done = 0;
        loop {
            let Standing { next, done: now_done, live } = self.meet(part, &member, side);
            if now_done > done {
                done = now_done;
                on_done(done as u32);
            }
            if next > limit || next == Time::MAX || (done == flows && live == 0) {
                return;
            }
            let end = next + part.split.ahead;
            let last = limit.min(end - Span::from_nanos(1));
            while let Some((now, event)) = part.next_by(last) {
                part.on_event(now, event);
            }
            let early = part.leaving.iter().flatten().find(|leaving| leaving.at() < end);
            assert!(early.is_none(), "nothing is faster than what the parts allow for");
            side = 1 - side;
        }
    }

    /// Sends outbound messages, receives inbound ones, and merges the status of all.
    fn meet<P: Protocol<Said = S>>(
        &self,
        part: &mut Partition<'_, P>,
        member: &Member<'_>,
        side: usize,
    ) -> Standing {
        let (notices, mail) = (&self.notices[side], &self.mail[side]);
        let (own, parts) = (part.number as usize, notices.len());
        let mut next = part.engine.peek().unwrap_or(Time::MAX);
        let mut live = part.live();
        for (other, leaving) in part.leaving.iter_mut().enumerate().filter(|(_, leaving)| !leaving.is_empty())
        {
            next = leaving.iter().map(OutboundMessage::at).fold(next, Time::min);
            live += leaving.iter().filter(|leaving| matches!(leaving, OutboundMessage::Packet { .. })).count()
                as u64;
            // This mailbox was drained two exchanges ago.
            std::mem::swap(leaving, &mut *open(&mail[own * parts + other]));
        }
        notices[own].next_ns.store(next.as_nanos(), Ordering::Relaxed);
        notices[own].done.store(part.done.len() as u64, Ordering::Relaxed);
        notices[own].live.store(live, Ordering::Relaxed);
        member.wait();
        for other in (0..parts).filter(|&other| other != own) {
            open(&mail[other * parts + own]).drain(..).for_each(|leaving| part.take(leaving));
        }
        let sum = |of: fn(&Notice) -> &AtomicU64| {
            notices.iter().map(|notice| of(notice).load(Ordering::Relaxed)).sum::<u64>()
        };
        let first = notices.iter().map(|notice| notice.next_ns.load(Ordering::Relaxed)).min();
        Standing {
            next: Time::from_nanos(first.unwrap_or(u64::MAX)),
            done: sum(|notice| &notice.done),
            live: sum(|notice| &notice.live),
        }
    }
}

fn open<T>(mail: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mail.lock().unwrap_or_else(PoisonError::into_inner)
}
