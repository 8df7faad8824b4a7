//! Who goes next: the vocabulary and the theory of waiting.
//!
//! Every place where a request waits is a queue, and every queue asks the
//! same question. This crate holds the words ([`Time`], [`Label`],
//! [`Priority`]), the answers ([`Discipline`]: [`Fifo`], [`Levels`],
//! [`Strict`], [`Drr`], [`Flows`], [`RankedFlows`], [`Edf`], [`Laxity`],
//! [`Ranked`]), who counts as short ([`Mlfq`]), when a queue is too long
//! ([`Managed`]), how much of what is ready is taken at once ([`batch`]), what measures the wait ([`Histogram`], [`TimerWheel`]), what causes it ([`Law`], [`Arrivals`]) and the formulas
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
pub mod batch;
mod clock;
mod discipline;
mod histogram;
mod label;
mod law;
mod name;
mod rng;
pub mod theory;
mod timer;
mod units;
mod yielding;

pub use arrival::{Arrivals, BadArrivals, Times};
pub use clock::{Clock, VirtualClock};
pub use discipline::{
    BadThresholds, CoDel, Depth, Discipline, Drr, Edf, Entry, Fifo, FlowId, Flows, Laxity, Levels, Managed,
    Manager, Markable, Mlfq, PASSED_IN_A_ROW, Pushed, Ranked, RankedFlows, Red, RedSettings, Selective,
    Shares, Starvation, Strict, Thresholds, Ticket,
};
pub use histogram::{Histogram, StageHistograms};
pub use label::{Label, Priority, PrioritySet};
pub use law::{BadLaw, Law};
pub use name::{UnknownName, named};
pub use rng::Rng;
pub use timer::{TimerKey, TimerWheel};
pub use units::{BadBytes, BadRate, BadSpan, Bytes, CoreId, Rate, Span, Time};
pub use yielding::Yielding;
