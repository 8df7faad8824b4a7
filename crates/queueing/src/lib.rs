//! Who goes next: the vocabulary and the theory of waiting.
//!
//! Every place where a request waits is a queue, and every queue asks the
//! same question. This crate holds the words ([`Time`], [`Label`],
//! [`Priority`]), the answers ([`Discipline`]: [`Fifo`], [`SelectiveFifo`],
//! [`Strict`], [`Drr`], [`FairQueue`], [`FlowPifo`], [`Edf`], [`Laxity`],
//! [`Pifo`]), who counts as short ([`Mlfq`]), when a queue is too long
//! ([`AqmQueue`]), how much of what is ready is taken at once ([`batch`]), what measures the wait ([`Histogram`], [`TimerWheel`]), what causes it ([`Distribution`], [`Arrivals`]) and the formulas
//! that say how long it should be ([`theory`]). It does no I/O, reads no clock
//! and starts no thread.
//!
//! ```
//! use queueing::{Discipline, Entry, Fifo, Label, Priority, Pushed, Strict, Time};
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
//! assert_eq!(queue.push(now, Request("report", Priority::LOWEST)), Pushed::Queued);
//! assert_eq!(queue.push(now, Request("payment", Priority::HIGHEST)), Pushed::Queued);
//! assert_eq!(queue.pop(now).map(|request| request.0), Some("payment"));
//! ```
#![forbid(unsafe_code)]

mod arrival;
mod clock;
mod discipline;
mod distribution;
pub mod event_order;
mod histogram;
mod label;
mod named;
mod rng;
pub mod theory;
mod timer;
mod units;
mod yield_policy;

pub use arrival::{ArrivalTimes, Arrivals, ParseArrivalsError};
pub use clock::{Clock, VirtualClock};
pub use discipline::{
    Aqm, AqmQueue, BadThresholds, CoDel, Discipline, Drr, DrrConfig, EcnMarkable, Edf, Entry, EntryHandle,
    FairQueue, Fifo, FlowId, FlowPifo, Laxity, Mlfq, PASSED_IN_A_ROW, Pifo, PushResult, QueueLength, Red,
    RedSettings, SelectiveDequeue, SelectiveFifo, StarvationBound, Strict, Thresholds,
};
pub use distribution::{Distribution, ParseDistributionError};
pub use histogram::{Histogram, StageHistograms};
pub use label::{Label, Priority, PrioritySet};
pub use named::{UnknownName, named};
pub use rng::Rng;
pub use timer::{TimerKey, TimerWheel};
pub use units::{Bytes, CoreId, ParseBytesError, ParseRateError, ParseSpanError, Rate, Span, Time};
pub use yield_policy::YieldPolicy;
