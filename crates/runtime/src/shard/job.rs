//! Request with its response, as a worker gets and returns it.

use std::panic::{AssertUnwindSafe, catch_unwind};

use classify::Private;
use net::Stack;
use net::stack::ConnId;
use queueing::{Clock, Label, Span};
use sched::dispatch::{RequestType, WorkerId};

use crate::app::{App, ConnectionFate, Context, Registration, Rest, Stages};

/// Origin of a request and destination of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The head of a connection's bytes.
    Connection(ConnId),
    /// A datagram, by its slot among the unanswered ones.
    Datagram(u32),
}

/// One request for a worker; returned by [`Shard::complete`](crate::Shard::complete).
#[derive(Debug)]
pub struct Job {
    /// Worker that serves it.
    pub worker: WorkerId,
    /// Origin.
    pub from: Origin,
    /// Label.
    pub label: Label,
    /// Type, if known.
    pub kind: Option<RequestType>,
    /// Waiting time by stage.
    pub stages: Stages,
    /// The request's bytes.
    pub request: Vec<u8>,
    /// The response's bytes, filled in by the worker.
    pub response: Vec<u8>,
    /// Copy of the 64 shared bytes; bytes that the worker changed are written back on completion. A
    /// datagram has its own, initially zero.
    pub private: Private,
    /// Set by the worker: the application's changes to its connection, if any, and the body that
    /// follows the response's bytes.
    pub registration: Option<Box<Registration>>,
    /// Set by the worker: service time.
    pub service: Span,
    /// Set by the worker: fate of the connection.
    pub outcome: ConnectionFate,
    /// Set by the worker: true if the application panicked.
    pub panicked: bool,
}

/// Service, the same for a worker thread and the simulator.
impl Job {
    /// Runs the application on this job. A panic of the application is caught and recorded; the
    /// shard then aborts the connection, or leaves the datagram unanswered.
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
        self.outcome = served.unwrap_or(ConnectionFate::Close);
        self.service = clock.now().since(start);
    }

    /// Length of the whole response in bytes.
    pub(super) fn response_len(&self) -> usize {
        let rest = self.registration.as_ref().and_then(|asked| asked.rest.as_ref());
        self.response.len() + rest.map_or(0, Rest::left)
    }

    /// Takes the body that follows the response's bytes.
    pub(super) fn take_rest(&mut self) -> Option<Rest> {
        self.registration.as_mut()?.rest.take()
    }

    /// Applies the application's changes to `conn`: shared bytes that differ from `given`,
    /// classifier, memory.
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
