//! Configuration of a task shard.

use classify::DriverClassifier;
use net::driver::RxOrder;
use queueing::{Priority, Span};
use sched::dispatch::{Dispatch, Params, by_name};
use storage::Disk;

use crate::mode::ModeSettings;
use crate::pipeline::{ShardGuard, WorkBudget};

/// Configuration of a task shard.
pub struct Config {
    /// Configuration of TCP/IP.
    pub stack: net::stack::Config,
    /// Receive buffer order.
    pub rx_order: RxOrder,
    /// Capacity of the receive buffer in frames.
    pub rx_frames_max: usize,
    /// `pri_filter`, if any.
    pub driver_classifier: Option<DriverClassifier>,
    /// Dispatch policy: which task runs next.
    pub dispatch: Box<dyn Dispatch>,
    /// Maximum of live tasks.
    pub tasks_max: usize,
    /// Maximum of each kind of work in a round; a request is a poll here.
    pub budget: WorkBudget,
    /// Admission control; `None` admits every SYN. A connection counts as served once a task reads
    /// it for the first time.
    pub guard: Option<ShardGuard>,
    /// Disk for the tasks' files; `None`: no files.
    pub disk: Option<Box<dyn Disk>>,
}

/// Default maximum of live tasks: one per connection of a busy server, and as many spawned by
/// those.
pub const TASKS_MAX: usize = 1 << 17;

impl Config {
    /// A shard under `policy`, whose transport classifier becomes the stack's default.
    #[must_use]
    pub fn new(mut stack: net::stack::Config, policy: ModeSettings) -> Self {
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
            budget: WorkBudget::inline(Span::ZERO),
            guard: None,
            disk: None,
        }
    }

    /// A shard whose tasks share the core by priority: each level gets twice the polls of the next,
    /// and tasks that have waited 10 ms get every ninth poll, so that none starves. No driver
    /// classifier.
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
            budget: WorkBudget::inline(Span::ZERO),
            guard: None,
            disk: None,
        }
    }
}
