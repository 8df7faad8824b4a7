//! How a shard is set up: its queues, its workers, the sizes of a round.

use net::classify::DriverClassifier;
use net::driver::RxOrder;
use queueing::Priority;
use sched::dispatch::{Dispatch, WorkerSet};

use super::slow_requests::Limits;
use crate::mode::Policy;
use crate::pipeline::{Budget, Guard};

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
    /// Whose SYN comes in; everybody's, where nobody says.
    pub guard: Option<Guard>,
    /// Which requests are kept whole ([`Stats::slow`](super::Stats::slow)); none,
    /// where nobody says.
    pub slow: Limits,
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
            guard: None,
            slow: Limits::default(),
        }
    }
}
