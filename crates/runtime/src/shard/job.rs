//! A request on its way to a worker and back.

use std::panic::{AssertUnwindSafe, catch_unwind};

use net::Stack;
use net::classify::Private;
use net::stack::ConnId;
use queueing::{Clock, Label, Span};
use sched::dispatch::{RequestType, WorkerId};

use crate::app::{App, Context, Outcome, Registration, Rest, Stages};

/// Where a request came from, and its response goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The head of a connection's bytes.
    Connection(ConnId),
    /// A datagram, by its place among those that the shard has not answered.
    Datagram(u32),
}

/// One request on its way to a worker; comes back by [`Shard::complete`](crate::Shard::complete).
#[derive(Debug)]
pub struct Job {
    /// Who serves it.
    pub worker: WorkerId,
    /// Where it came from.
    pub from: Origin,
    /// Its label.
    pub label: Label,
    /// Its type, if known.
    pub kind: Option<RequestType>,
    /// Where it has waited.
    pub stages: Stages,
    /// The request's bytes.
    pub request: Vec<u8>,
    /// The response's bytes, filled in by the worker.
    pub response: Vec<u8>,
    /// A copy of the 64 shared bytes; the bytes that the worker changed are
    /// written back on completion. A datagram's are zero and its own.
    pub private: Private,
    /// Filled in by the worker: what the application asked for its connection, if
    /// anything, and what follows the response's bytes.
    pub registration: Option<Box<Registration>>,
    /// Filled in by the worker: how long it served.
    pub service: Span,
    /// Filled in by the worker: what becomes of the connection.
    pub outcome: Outcome,
    /// Filled in by the worker: the application panicked.
    pub panicked: bool,
}

/// Lets a worker thread and the simulator serve a job the same way.
impl Job {
    /// Runs the application on this job. A panic of the application is caught
    /// and noted; the shard then aborts the connection, or answers nothing.
    pub fn serve<A: App>(&mut self, app: &A, clock: &dyn Clock) {
        let start = clock.now();
        let mut registration = Registration::default();
        let served = catch_unwind(AssertUnwindSafe(|| {
            let (label, stages, private) = (self.label, self.stages, &mut self.private);
            let mut body = None;
            let (registration, body) = (&mut registration, &mut body);
            let mut cx = Context { label, stages, private, registration, body, clock };
            let outcome = app.serve(&self.request, &mut cx, &mut self.response);
            registration.rest = body.take().map(Rest::new);
            outcome
        }));
        self.registration = (!registration.is_empty()).then(|| Box::new(registration));
        self.panicked = served.is_err();
        self.outcome = served.unwrap_or(Outcome::Close);
        self.service = clock.now().since(start);
    }

    /// Bytes of the whole response.
    pub(super) fn response_len(&self) -> usize {
        let rest = self.registration.as_ref().and_then(|asked| asked.rest.as_ref());
        self.response.len() + rest.map_or(0, Rest::left)
    }

    /// Takes what follows the response's bytes.
    pub(super) fn take_rest(&mut self) -> Option<Rest> {
        self.registration.as_mut()?.rest.take()
    }

    /// Carries out on `conn` what the application changed: of the shared bytes
    /// those that are no longer as `given`, its classifier, its memory.
    pub(super) fn settle(&mut self, stack: &mut Stack, conn: ConnId, given: &Private) {
        if self.private != *given
            && let Some(shared) = stack.private_mut(conn)
        {
            let changed = self.private.iter().zip(given).enumerate().filter(|(_, (new, old))| new != old);
            changed.for_each(|(at, (new, _))| shared[at] = *new);
        }
        if let Some(registration) = self.registration.take() {
            registration.apply(stack, conn);
        }
    }
}
