//! How a shard is set up: its queues, its workers, the sizes of a round.

use net::classify::DriverClassifier;
use net::driver::RxOrder;
use queueing::{Priority, Span};
use sched::dispatch::{Dispatch, WorkerSet};

use crate::mode::Policy;

/// How a shard is set up.
pub struct Config {
    /// TCP/IP.
    pub stack: net::stack::Config,
    /// Receive buffer order.
    pub rx_order: RxOrder,
    /// Frames the receive buffer holds.
    pub rx_frames_max: usize,
    /// `pri_filter`, if any.
    pub driver_classifier: Option<DriverClassifier>,
    /// Who serves whom.
    pub dispatch: Box<dyn Dispatch>,
    /// Workers, 1..=256.
    pub workers: usize,
    /// Per priority, the workers that may serve it (M7).
    pub steering: [WorkerSet; Priority::LEVELS],
    /// How much of each kind of work a round does.
    pub budget: Budget,
}

impl Config {
    /// A shard of `workers` workers under `policy`, whose transport
    /// classifier becomes the stack's default; 16,384 frames of buffer.
    #[must_use]
    pub fn new(mut stack: net::stack::Config, policy: Policy, workers: usize) -> Self {
        if policy.transport.is_some() {
            stack.classifier = policy.transport;
        }
        Self {
            stack,
            rx_order: policy.rx_order,
            rx_frames_max: 16_384,
            driver_classifier: policy.driver,
            dispatch: policy.dispatch,
            workers,
            steering: policy.steering.sets(),
            budget: Budget::default(),
        }
    }
}

/// How much of each kind of work a round does at the most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Frames taken from the device, at least 1.
    pub drive: usize,
    /// Frames run through TCP, at least 1.
    pub transport: usize,
    /// Requests given to workers, at least 1. A shard that serves them itself
    /// gives one per round, so that an urgent frame waits for one request at
    /// the most; with other workers a limit would only leave them idle.
    pub assign: usize,
    /// How long what is ready to be sent may wait for more, as long as there is
    /// other work: a device sends many frames in one system call for little
    /// more than the price of one. Zero sends in every round.
    pub hold: Span,
}

/// Whatever has come is classified, up to 128 frames, before the next one goes
/// through TCP: an urgent frame that the device has waits for one other at
/// the most. No worker is left idle.
impl Default for Budget {
    fn default() -> Self {
        Self { drive: 128, transport: 1, assign: usize::MAX, hold: Span::ZERO }
    }
}

impl Budget {
    pub(crate) fn check(&self) {
        assert!(self.drive > 0, "a round drives nothing");
        assert!(self.transport > 0, "a round transports nothing");
        assert!(self.assign > 0, "a round assigns nothing");
    }
}
