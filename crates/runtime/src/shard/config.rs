//! Configuration of a shard: queues, workers, sizes of a round.

use classify::DriverClassifier;
use net::driver::RxOrder;
use queueing::Priority;
use sched::dispatch::{Dispatch, WorkerSet};

use super::slow_requests::SlowRequestLimits;
use crate::mode::ModeSettings;
use crate::pipeline::{ShardGuard, WorkBudget};

/// Configuration of a shard.
pub struct Config {
    /// TCP/IP.
    pub stack: net::stack::Config,
    /// Receive buffer order.
    pub rx_order: RxOrder,
    /// Capacity of the receive buffer in frames.
    pub rx_frames_max: usize,
    /// `pri_filter`, if any.
    pub driver_classifier: Option<DriverClassifier>,
    /// Dispatch policy: which worker serves which request.
    pub dispatch: Box<dyn Dispatch>,
    /// Workers, 1..=256.
    pub workers: usize,
    /// Per priority, the workers that may serve it (M7).
    pub steering: [WorkerSet; Priority::LEVELS],
    /// Maximum of each kind of work in a round.
    pub budget: WorkBudget,
    /// Admission control; `None` admits every SYN.
    pub guard: Option<ShardGuard>,
    /// Limits of the slow-request log ([`Stats::slow`](super::Stats::slow)); by default it is off.
    pub slow: SlowRequestLimits,
}

impl Config {
    /// A shard of `workers` workers under `policy`, whose transport classifier becomes the stack's
    /// default; a receive buffer of 16,384 frames.
    #[must_use]
    pub fn new(mut stack: net::stack::Config, policy: ModeSettings, workers: usize) -> Self {
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
            budget: WorkBudget::default(),
            guard: None,
            slow: SlowRequestLimits::default(),
        }
    }
}
