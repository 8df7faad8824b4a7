//! Queueing: disciplines, units, arrival processes and formulas.
//!
//! Every wait of a request is a queue. This crate holds the types ([`Time`],
//! [`Label`], [`Priority`]); the disciplines ([`Discipline`]: [`Fifo`],
//! [`SelectiveFifo`], [`Strict`], [`Drr`], [`FairQueue`], [`FlowPifo`], [`Edf`],
//! [`Laxity`], [`Pifo`]); multi-level feedback ([`Mlfq`]); active queue
//! management ([`AqmQueue`]); the order of ready events ([`event_order`]);
//! timers and measurement ([`TimerWheel`], [`Histogram`]); workloads
//! ([`Distribution`], [`Arrivals`]); levels in the HTTP field
//! `Priority` ([`priority_field`]); and closed forms for the expected wait
//! ([`theory`]). No I/O, no clock, no threads, so every result replays.
//!
//! ```
//! use queueing::{Discipline, Entry, Fifo, Label, Priority, PushResult, Strict, Time};
//!
//! #[derive(Debug, PartialEq)]
//! struct Request(&'static str, Priority);
//! impl Entry for Request {
//!     fn label(&self) -> Label {
//!         Label::new(self.1)
//!     }
//! }
//!
//! let now = Time::ZERO;
//! let mut queue = Strict::new(100, |_| Fifo::new(100));
//! assert_eq!(queue.push(now, Request("report", Priority::LOWEST)), PushResult::Queued);
//! assert_eq!(queue.push(now, Request("payment", Priority::HIGHEST)), PushResult::Queued);
//! assert_eq!(queue.pop(now).map(|request| request.0), Some("payment"));
//! ```
#![forbid(unsafe_code)]

mod arrival;
mod clock;
mod discipline;
mod distribution;
pub mod egress;
pub mod event_order;
mod histogram;
mod label;
mod named;
pub mod priority_field;
mod rng;
pub mod theory;
mod timer;
mod units;
mod yield_policy;

pub use arrival::{ArrivalTimes, Arrivals, ParseArrivalsError};
pub use clock::{Clock, VirtualClock};
pub use discipline::{
    Aqm, AqmQueue, CoDel, Discipline, Drr, DrrConfig, EcnMarkable, Edf, Entry, EntryHandle, FairQueue, Fifo,
    FlowId, FlowPifo, Laxity, Mlfq, PASSED_IN_A_ROW, Pifo, PushResult, QueueLength, Red, RedSettings,
    SelectiveDequeue, SelectiveFifo, StarvationBound, Strict, Thresholds, ThresholdsError,
};
pub use distribution::{Distribution, ParseDistributionError};
pub use histogram::{Histogram, StageHistograms};
pub use label::{Label, Priority, PrioritySet};
pub use named::{UnknownName, named};
pub use rng::Rng;
pub use timer::{TimerKey, TimerWheel};
pub use units::{Bytes, CoreId, ParseBytesError, ParseRateError, ParseSpanError, Rate, Span, Time};
pub use yield_policy::YieldPolicy;
