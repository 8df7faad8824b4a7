//! Datagrams as requests; each response is a datagram back.
//!
//! They wait in the same event queue as connections, under the same policy; this table holds the
//! payloads. When the event queue or the table ([`DATAGRAMS_MAX`]) is full, they stay in their
//! socket, which is bounded, strict by label, and drops the least urgent. Unlike a connection, a
//! datagram has no later copy of itself, so its task is never stale.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};

use net::Device;
use net::stack::{UdpDatagram, UdpId, UdpPath};
use queueing::{Label, Priority, Span, Time};
use sched::dispatch::{Task, WorkerId};

use super::connections::{SegmentMark, aged};
use super::job::{Job, Origin};
use super::request_lifecycle::time_left;
use super::slow_requests::RequestEnd;
use super::{Shard, Step};
use crate::app::{App, ConnectionFate, Stages};

/// Maximum of datagrams in the event queue or in service.
const DATAGRAMS_MAX: usize = 4096;

/// Bytes of a body that are generated for a datagram; more than fit into one.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Token bit of datagrams; connections' slots are below it.
const DATAGRAM: u64 = 1 << 31;

/// A waiting datagram; in service, its return path.
#[derive(Debug)]
struct Waiting {
    path: UdpPath,
    payload: Vec<u8>,
    mark: SegmentMark,
}

/// Unanswered datagrams, and sockets with more.
#[derive(Debug, Default)]
pub(super) struct Datagrams {
    slots: Vec<Option<Waiting>>,
    free: Vec<u32>,
    /// Datagram that found the event queue full.
    stuck: Option<u32>,
    /// Readable sockets; one may appear more than once.
    readable: VecDeque<UdpId>,
}

impl Datagrams {
    /// True if another datagram may leave its socket.
    fn has_room(&self) -> bool {
        self.stuck.is_none() && (!self.free.is_empty() || self.slots.len() < DATAGRAMS_MAX)
    }

    /// True if a datagram waits to enter the event queue.
    pub(super) fn is_stuck(&self) -> bool {
        self.stuck.is_some()
    }

    /// Slot of a task, if it is a datagram's.
    pub(super) fn slot(token: u64) -> Option<u32> {
        (token & DATAGRAM != 0).then_some((token & !DATAGRAM) as u32)
    }

    fn put(&mut self, waiting: Waiting) -> u32 {
        let slot = self.free.pop().unwrap_or(self.slots.len() as u32);
        match self.slots.get_mut(slot as usize) {
            Some(entry) => *entry = Some(waiting),
            None => self.slots.push(Some(waiting)),
        }
        slot
    }

    fn take(&mut self, slot: u32) -> Option<Waiting> {
        let waiting = self.slots.get_mut(slot as usize)?.take();
        self.free.extend(waiting.is_some().then_some(slot));
        waiting
    }

    fn get(&mut self, slot: u32) -> Option<&mut Waiting> {
        self.slots.get_mut(slot as usize)?.as_mut()
    }

    /// Task of `slot`, with its deadline as of `now`.
    fn task(&self, slot: u32, now: Time) -> Option<Task> {
        let Waiting { mark, .. } = self.slots.get(slot as usize)?.as_ref()?;
        Some(Task { token: DATAGRAM | u64::from(slot), label: aged(mark, now), kind: mark.kind })
    }
}

impl<D: Device, A: App> Shard<D, A> {
    /// Takes datagrams out of their sockets, each socket's most urgent first, while there is space.
    #[inline]
    pub(super) fn take_datagrams(&mut self, now: Time) {
        while let Some(id) = self.stack.poll_udp() {
            self.datagrams.readable.push_back(id);
        }
        if !self.datagrams.readable.is_empty() {
            self.read_datagrams(now);
        }
    }

    fn read_datagrams(&mut self, now: Time) {
        while self.datagrams.has_room()
            && let Some(&id) = self.datagrams.readable.front()
        {
            match self.stack.receive_from(now, id) {
                Some(datagram) => self.on_datagram(now, id, datagram),
                None => drop(self.datagrams.readable.pop_front()),
            }
        }
    }

    fn on_datagram(&mut self, now: Time, id: UdpId, datagram: UdpDatagram) {
        let UdpDatagram { remote, local, payload, label, received, .. } = datagram;
        self.stats.counters.datagrams += 1;
        let kind = self.needs_kind.then(|| self.kind_of(&payload)).flatten();
        let deadline = self
            .needs_deadline
            .then(|| time_left(&*self.app, &payload, now.since(received), &mut self.stats.counters.panics));
        let label = Label { deadline: deadline.flatten(), ..label };
        let mark = SegmentMark { end: 0, label, kind, received, popped: self.front.popped(), pushed: now };
        let slot = self.datagrams.put(Waiting { path: UdpPath { id, local, remote }, payload, mark });
        if !self.queue_datagram(now, slot) {
            self.stats.counters.queue_full += 1;
            self.datagrams.stuck = Some(slot);
        }
    }

    fn queue_datagram(&mut self, now: Time, slot: u32) -> bool {
        self.datagrams.task(slot, now).is_some_and(|task| self.dispatch.push(now, task).is_ok())
    }

    /// Enqueues the datagram that found the event queue full, if it is of this priority; `false` if
    /// the queue is still full.
    pub(super) fn enter_stuck(&mut self, now: Time, priority: Priority) -> bool {
        let Some(slot) = self.datagrams.stuck else { return true };
        if self.datagrams.task(slot, now).is_some_and(|task| task.label.priority != priority) {
            return true;
        }
        let entered = self.queue_datagram(now, slot);
        if entered {
            self.datagrams.stuck = None;
        }
        entered
    }

    /// Checks the datagram in `slot` and assigns it to `worker`.
    pub(super) fn look_at_datagram(&mut self, now: Time, worker: WorkerId, slot: u32, task: Task) -> Step {
        let Some(Waiting { payload, mark, .. }) = self.datagrams.get(slot) else {
            return Step::Partial(worker);
        };
        let (payload, mark) = (std::mem::take(payload), *mark);
        let app = &self.app;
        match catch_unwind(AssertUnwindSafe(|| app.takes(&payload))) {
            Ok(true) => {}
            refused => {
                let counters = &mut self.stats.counters;
                *if refused.is_ok() { &mut counters.invalid } else { &mut counters.panics } += 1;
                self.stack.recycle(payload);
                self.datagrams.take(slot);
                return Step::Partial(worker);
            }
        }
        let stages = Stages {
            nic: mark.popped.since(mark.received),
            tcp: mark.pushed.since(mark.popped),
            event: now.since(mark.pushed),
        };
        self.assigned += 1;
        self.workers.idle.remove(worker);
        self.workers.since[usize::from(worker.0)] = now;
        self.stats.on_given(task.label.priority, &stages);
        Step::Assign(Job {
            worker,
            from: Origin::Datagram(slot),
            label: aged(&mark, now),
            kind: task.kind,
            stages,
            request: payload,
            response: self.response(worker),
            private: [0; 64],
            registration: None,
            service: Span::ZERO,
            outcome: ConnectionFate::Keep,
            panicked: false,
        })
    }

    /// Sends the response to a datagram; none if the application panicked or closed without a
    /// response.
    pub(super) fn answer_datagram(&mut self, slot: u32, mut job: Job) -> Option<RequestEnd> {
        let rest = job.take_rest();
        let Job { mut response, outcome, mut panicked, label, .. } = job;
        if let Some(mut rest) = rest.filter(|_| !panicked) {
            // An oversized datagram is refused as such.
            panicked = !rest.write(rest.left().min(BODY_BYTES_MAX), &mut response);
        }
        let counters = &mut self.stats.counters;
        counters.panics += u64::from(panicked);
        let silent = panicked || response.is_empty() && outcome == ConnectionFate::Close;
        if let (Some(Waiting { path, .. }), false) = (self.datagrams.take(slot), silent) {
            let label = Label { deadline: None, ..label };
            match self.stack.answer(&path, &label.into(), &response) {
                Ok(()) => counters.responses += 1,
                Err(_) => counters.unsent += 1,
            }
        }
        self.buffers.give(response);
        Some(if panicked { RequestEnd::Failed } else { RequestEnd::Answered })
    }
}
