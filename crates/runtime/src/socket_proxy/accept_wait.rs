//! Accept wait, for the guard: connections whose first bytes were delivered and not yet accepted by
//! their program, in order of delivery.
//!
//! A program accepts a connection when it reads these bytes, or when it writes its first, as
//! [`WaitEnd`] says. Later requests of a connection do not count: the guard sheds new connections,
//! and these are new connections' waits.
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
    /// Number of connections not answered yet ([`WaitEnd::Answer`]).
    unanswered: usize,
}

/// Progress of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum AcceptStage {
    /// No bytes delivered yet.
    #[default]
    NoData,
    /// First bytes delivered.
    Waiting,
    /// The program has accepted or opened the connection.
    Accepted,
}

/// Unread connections after which a scan ends.
const UNREAD_MAX: usize = 64;
/// Stale entries that are kept without a scan.
const FEW: usize = 64;

impl UnacceptedConnections {
    pub fn new(until: WaitEnd) -> Self {
        Self { until, ..Self::default() }
    }

    /// True if others may be served before the connection that has waited longest.
    pub fn are_reordered(&self) -> bool {
        self.until == WaitEnd::Answer
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
            *stage = AcceptStage::Waiting;
            self.unanswered += usize::from(self.until == WaitEnd::Answer);
            self.queue.push_back((conn, now));
        }
    }

    /// Records the program's first write or close, which ends a wait for an answer.
    pub fn on_answer(&mut self, stage: &mut AcceptStage, admission: &mut Option<DriverAdmission>) {
        if self.until == WaitEnd::Accept {
            return;
        }
        if std::mem::replace(stage, AcceptStage::Accepted) == AcceptStage::Waiting {
            self.unanswered -= 1;
            admission.iter_mut().for_each(DriverAdmission::on_served);
        }
    }

    /// Records the end of a connection.
    pub fn on_gone(&mut self, stage: AcceptStage) {
        if self.until == WaitEnd::Answer {
            self.unanswered -= usize::from(stage == AcceptStage::Waiting);
        }
    }
}

impl<D: Device, P: AppSockets> SocketProxy<D, P> {
    /// Delivery time of the connection that has waited longest. With [`WaitEnd::Accept`],
    /// connections read meanwhile count as served.
    pub(super) fn oldest_accept_wait(&mut self) -> Option<Time> {
        let Self { accept_waits: UnacceptedConnections { until, queue, unanswered }, flows, front, .. } =
            self;
        let waits = |conn: &ConnId| {
            let flow = flows.get(conn.index as usize)?.as_ref()?;
            (flow.is_of(*conn) && flow.stage == AcceptStage::Waiting).then_some(&flow.pipe)
        };
        let most = match until {
            WaitEnd::Accept => 2 * flows.len(),
            WaitEnd::Answer => 2 * *unanswered + FEW,
        };
        if queue.len() > most {
            queue.retain(|(conn, _)| waits(conn).is_some());
        }
        if *until == WaitEnd::Answer {
            while queue.front().is_some_and(|(conn, _)| waits(conn).is_none()) {
                queue.pop_front();
            }
            return queue.front().map(|&(_, since)| since);
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
