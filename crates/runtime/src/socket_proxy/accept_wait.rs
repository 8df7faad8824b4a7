//! Accept wait, for the guard: connections whose first bytes were delivered and not yet accepted by
//! their program, in order of delivery.
//!
//! The wait ends when the program reads these bytes, or when it writes its first, as [`WaitEnd`] says;
//! in the second case also when the connection turns out to be a long poll ([`guard::ResponseWaits`]).
//! Later requests of a connection do not count: the guard sheds new connections, and these are new
//! connections' waits.
//!
//! Bound: twice the largest number of simultaneous connections; with [`WaitEnd::Answer`], twice the
//! unanswered ones plus [`FEW`].

use std::collections::VecDeque;

use guard::WaitEnd;
use net::Device;
use net::stack::ConnId;
use queueing::Time;

use super::{AppSockets, AppStream, SocketProxy};
use crate::pipeline::DriverAdmission;

/// Waiting connections with their delivery times.
#[derive(Default)]
pub(super) struct UnacceptedConnections {
    until: WaitEnd,
    /// In order of delivery; may contain accepted connections.
    queue: VecDeque<(ConnId, Time)>,
    /// Number of connections not answered yet ([`WaitEnd::Answer`]), without long polls.
    unanswered: usize,
    long_polls: usize,
}

/// Progress of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AcceptStage {
    /// No bytes delivered yet.
    #[default]
    NoData,
    /// First bytes delivered at this time.
    Waiting(Time),
    /// The same, for so long that its wait is no queueing.
    LongPoll(Time),
    /// The program has accepted or opened the connection.
    Accepted,
}

/// Number of unread connections after which a scan ends.
const UNREAD_MAX: usize = 64;
/// Number of stale entries that are kept without a scan.
const FEW: usize = 64;

impl UnacceptedConnections {
    pub fn new(until: WaitEnd) -> Self {
        Self { until, ..Self::default() }
    }

    /// Number of long polls, which wait no longer; `None` with [`WaitEnd::Accept`].
    pub fn long_polls(&self) -> Option<u64> {
        (self.until == WaitEnd::Answer).then_some(self.long_polls as u64)
    }

    /// Number of waiting connections; an estimate.
    pub fn len(&self) -> usize {
        match self.until {
            WaitEnd::Accept => self.queue.len(),
            WaitEnd::Answer => self.unanswered,
        }
    }

    /// Records that bytes of `conn` were delivered at `now`.
    pub fn on_input_delivered(&mut self, now: Time, conn: ConnId, stage: &mut AcceptStage) {
        if *stage == AcceptStage::NoData {
            *stage = AcceptStage::Waiting(now);
            self.unanswered += usize::from(self.until == WaitEnd::Answer);
            self.queue.push_back((conn, now));
        }
    }

    /// Records the program's first write or close, which ends a wait for an answer.
    pub fn on_answer(&mut self, now: Time, stage: &mut AcceptStage, admission: &mut Option<DriverAdmission>) {
        if self.until == WaitEnd::Accept {
            return;
        }
        let before = std::mem::replace(stage, AcceptStage::Accepted);
        self.on_gone(before);
        if let AcceptStage::Waiting(since) | AcceptStage::LongPoll(since) = before {
            admission.iter_mut().for_each(|admission| admission.on_first_response(now.since(since)));
        }
    }

    /// Records the end of a connection.
    pub fn on_gone(&mut self, stage: AcceptStage) {
        if self.until == WaitEnd::Answer {
            self.unanswered -= usize::from(matches!(stage, AcceptStage::Waiting(_)));
            self.long_polls -= usize::from(matches!(stage, AcceptStage::LongPoll(_)));
        }
    }
}

impl<D: Device, P: AppSockets> SocketProxy<D, P> {
    /// Delivery time of the connection that has waited longest. With [`WaitEnd::Accept`],
    /// connections read meanwhile count as served; with [`WaitEnd::Answer`], long polls are set apart.
    pub(super) fn oldest_accept_wait(&mut self, now: Time) -> Option<Time> {
        let Self { accept_waits, flows, front, .. } = self;
        let UnacceptedConnections { until, queue, unanswered, long_polls } = accept_waits;
        let waits = |conn: &ConnId| {
            let flow = flows.get(conn.index as usize)?.as_ref()?;
            (flow.is_of(*conn) && matches!(flow.stage, AcceptStage::Waiting(_))).then_some(&flow.pipe)
        };
        let most = match until {
            WaitEnd::Accept => 2 * flows.len(),
            WaitEnd::Answer => 2 * *unanswered + FEW,
        };
        if queue.len() > most {
            queue.retain(|(conn, _)| waits(conn).is_some());
        }
        if *until == WaitEnd::Answer {
            let end = front.admission.as_mut().map_or(Time::ZERO, |admission| admission.long_polls_end(now));
            while let Some(&(conn, since)) = queue.front() {
                let flow = flows.get_mut(conn.index as usize).and_then(Option::as_mut);
                let flow = flow.filter(|flow| flow.is_of(conn));
                if let Some(flow) = flow.filter(|flow| flow.stage == AcceptStage::Waiting(since)) {
                    if since >= end {
                        return Some(since);
                    }
                    flow.stage = AcceptStage::LongPoll(since);
                    (*unanswered, *long_polls) = (*unanswered - 1, *long_polls + 1);
                }
                queue.pop_front();
            }
            return None;
        }
        let mut unread = 0;
        // A few connections that are never read do not hide the others.
        while unread < UNREAD_MAX
            && let Some((conn, _)) = queue.get(unread)
        {
            match waits(conn).map(AppStream::is_unread) {
                Some(true) => unread += 1,
                taken => {
                    queue.remove(unread);
                    if let (Some(_), Some(admission)) = (taken, &mut front.admission) {
                        admission.on_served();
                    }
                }
            }
        }
        queue.front().map(|&(_, since)| since)
    }
}
