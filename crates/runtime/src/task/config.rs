//! How a shard of tasks is set up.

use net::classify::DriverClassifier;
use net::driver::RxOrder;
use queueing::{Priority, Span};
use sched::dispatch::{Dispatch, Params, by_name};
use storage::Disk;

use crate::mode::Policy;
use crate::pipeline::{Budget, Guard};

/// How a shard of tasks is set up.
pub struct Config {
    /// TCP/IP.
    pub stack: net::stack::Config,
    /// Receive buffer order.
    pub rx_order: RxOrder,
    /// Frames the receive buffer holds.
    pub rx_frames_max: usize,
    /// `pri_filter`, if any.
    pub driver_classifier: Option<DriverClassifier>,
    /// Which task runs next.
    pub dispatch: Box<dyn Dispatch>,
    /// Tasks that may exist at once.
    pub tasks_max: usize,
    /// How much of each kind of work a round does; a request is a poll here.
    pub budget: Budget,
    /// Whose SYN comes in; everybody's, where nobody says. A connection counts as
    /// served when a task reads it for the first time.
    pub guard: Option<Guard>,
    /// What carries out what tasks ask of files; without one they have no files.
    pub disk: Option<Box<dyn Disk>>,
}

/// Tasks that may exist unless told otherwise: one for each connection of a
/// busy server, and as many for what they spawn.
pub const TASKS_MAX: usize = 1 << 17;

impl Config {
    /// A shard under `policy`, whose transport classifier becomes the stack's default.
    #[must_use]
    pub fn new(mut stack: net::stack::Config, policy: Policy) -> Self {
        if policy.transport.is_some() {
            stack.classifier = policy.transport;
        }
        Self {
            stack,
            rx_order: policy.rx_order,
            rx_frames_max: 16_384,
            driver_classifier: policy.driver,
            dispatch: policy.dispatch,
            tasks_max: TASKS_MAX,
            budget: Budget::inline(Span::ZERO),
            guard: None,
            disk: None,
        }
    }

    /// A shard whose tasks share the core by urgency: each level has twice the
    /// turns of the next, and tasks that have waited 10 ms have every ninth
    /// turn, so that none starves. No driver classifier.
    #[must_use]
    pub fn shared(stack: net::stack::Config) -> Self {
        let params = Params::new(1, TASKS_MAX * Priority::LEVELS);
        Self {
            stack,
            rx_order: RxOrder::Learned,
            rx_frames_max: 16_384,
            driver_classifier: None,
            dispatch: by_name("weighted", &params).expect("there is such a policy"),
            tasks_max: TASKS_MAX,
            budget: Budget::inline(Span::ZERO),
            guard: None,
            disk: None,
        }
    }
}
