//! Parallel execution of a fabric's partitions: the only file of this crate that starts
//! threads.
//!
//! Conservative simulation in windows. No packet crosses from one partition to another in less than
//! [`Partition`]'s lookahead. If the earliest pending event is at `t`, no packet still to be sent
//! arrives in another partition before `t + lookahead`, hence each partition simulates up to there
//! independently. Then all threads synchronise, exchange the packets that crossed, and find the
//! next `t`. The result of a partition depends on arrival times, not on the time of the exchange:
//! threads change only the run time. Source: conservative simulation: Chandy and Misra, CACM '81;
//! windows as long as the shortest path: Lubachevsky's bounded lag, CACM '89.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use queueing::{Span, Time};

use super::barrier::{Member, SpinBarrier};
use super::partition::{OutboundMessage, Partition};
use super::protocol::Protocol;

/// Runs `partitions` until all flows are done and the last packet is delivered, or until the time
/// limit. `on_done` receives the number of completed flows.
pub(super) fn run<'a, P: Protocol>(
    mut partitions: Vec<Partition<'a, P>>,
    on_done: &mut dyn FnMut(u32),
) -> Vec<Partition<'a, P>> {
    if let [partition] = &mut partitions[..] {
        run_single(partition, on_done);
        return partitions;
    }
    let exchange = Exchange::new(partitions.len());
    let mut rest = partitions.split_off(1);
    std::thread::scope(|scope| {
        let others: Vec<_> =
            rest.iter_mut().map(|partition| scope.spawn(|| exchange.work(partition, &mut |_| {}))).collect();
        exchange.work(&mut partitions[0], on_done);
        others.into_iter().for_each(|other| other.join().expect("a panic reaches the barrier first"));
    });
    partitions.extend(rest);
    partitions
}

/// Runs a fabric of one partition.
fn run_single<P: Protocol>(partition: &mut Partition<'_, P>, on_done: &mut dyn FnMut(u32)) {
    let (flows, limit) = (partition.config.flows, Time::ZERO + partition.config.limit);
    let mut done = 0;
    while !partition.is_over(flows)
        && let Some((now, event)) = partition.next_by(limit)
    {
        partition.on_event(now, event);
        if partition.done.len() > done {
            done = partition.done.len();
            on_done(done as u32);
        }
    }
}

/// State shared by the threads.
struct Exchange<S> {
    barrier: SpinBarrier,
    /// Status of each partition at the last exchange; two sets, since a fast thread writes the
    /// next one while others still read.
    statuses: [Vec<Status>; 2],
    /// Messages from each partition to each, two sets likewise.
    mailboxes: [Vec<Mutex<Vec<OutboundMessage<S>>>>; 2],
}

/// Status of one partition, on its own cache line.
#[derive(Default)]
#[repr(align(128))]
struct Status {
    /// Time of the next event, here or caused by outbound messages, in ns.
    next_ns: AtomicU64,
    done: AtomicU64,
    /// Packets in the partition or outbound.
    live: AtomicU64,
}

/// Status of all partitions together.
struct GlobalStatus {
    next: Time,
    done: u64,
    live: u64,
}

impl<S: Send> Exchange<S> {
    fn new(partitions: usize) -> Self {
        let statuses = || (0..partitions).map(|_| Status::default()).collect();
        let mailboxes = || (0..partitions * partitions).map(|_| Mutex::default()).collect();
        Self {
            barrier: SpinBarrier::new(partitions),
            statuses: [statuses(), statuses()],
            mailboxes: [mailboxes(), mailboxes()],
        }
    }

    /// Body of each thread.
    fn work<P: Protocol<Payload = S>>(&self, partition: &mut Partition<'_, P>, on_done: &mut dyn FnMut(u32)) {
        let member = self.barrier.join();
        let (flows, limit) = (u64::from(partition.config.flows), Time::ZERO + partition.config.limit);
        let mut set = 0;
        let mut done = 0;
        loop {
            let GlobalStatus { next, done: now_done, live } = self.synchronise(partition, &member, set);
            if now_done > done {
                done = now_done;
                on_done(done as u32);
            }
            if next > limit || next == Time::MAX || (done == flows && live == 0) {
                return;
            }
            let end = next + partition.partitioning.lookahead;
            let last = limit.min(end - Span::from_nanos(1));
            while let Some((now, event)) = partition.next_by(last) {
                partition.on_event(now, event);
            }
            let early_message = partition.outbound.iter().flatten().find(|outbound| outbound.at() < end);
            assert!(early_message.is_none(), "no message arrives before the lookahead");
            set = 1 - set;
        }
    }

    /// Sends outbound messages, receives inbound ones, and merges the status of all.
    fn synchronise<P: Protocol<Payload = S>>(
        &self,
        partition: &mut Partition<'_, P>,
        member: &Member<'_>,
        set: usize,
    ) -> GlobalStatus {
        let (statuses, mailboxes) = (&self.statuses[set], &self.mailboxes[set]);
        let (own, partitions) = (partition.number as usize, statuses.len());
        let mut next = partition.engine.peek().unwrap_or(Time::MAX);
        let mut live = partition.live();
        for (other, outbound) in
            partition.outbound.iter_mut().enumerate().filter(|(_, outbound)| !outbound.is_empty())
        {
            next = outbound.iter().map(OutboundMessage::at).fold(next, Time::min);
            live +=
                outbound.iter().filter(|outbound| matches!(outbound, OutboundMessage::Packet { .. })).count()
                    as u64;
            // This mailbox was drained two exchanges ago.
            std::mem::swap(outbound, &mut *lock(&mailboxes[own * partitions + other]));
        }
        statuses[own].next_ns.store(next.as_nanos(), Ordering::Relaxed);
        statuses[own].done.store(partition.done.len() as u64, Ordering::Relaxed);
        statuses[own].live.store(live, Ordering::Relaxed);
        member.wait();
        for other in (0..partitions).filter(|&other| other != own) {
            lock(&mailboxes[other * partitions + own])
                .drain(..)
                .for_each(|outbound| partition.receive(outbound));
        }
        let sum = |of: fn(&Status) -> &AtomicU64| {
            statuses.iter().map(|status| of(status).load(Ordering::Relaxed)).sum::<u64>()
        };
        let first = statuses.iter().map(|status| status.next_ns.load(Ordering::Relaxed)).min();
        GlobalStatus {
            next: Time::from_nanos(first.unwrap_or(u64::MAX)),
            done: sum(|status| &status.done),
            live: sum(|status| &status.live),
        }
    }
}

fn lock<T>(mailboxes: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mailboxes.lock().unwrap_or_else(PoisonError::into_inner)
}
