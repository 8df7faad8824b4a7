//! Admission control: servers that keep their goodput under overload.
//!
//! A [`Policy`] maps the server's [`Signals`] to a [`Limit`] several times a second. An
//! [`AdmissionController`] applies it to arrivals and sheds the least important [`Class`] first.
//! Admitted work is never cut off. [`app_queue`] covers servers with an accept queue and a request
//! queue. Decisions only: network drivers, BPF programs, services (feature `tower`) and the
//! simulator enforce them.
//!
//! ```
//! use guard::{AdmissionController, Class, Params, Signals, by_name};
//! use queueing::{Span, Time};
//!
//! let mut policy = by_name("queue-delay", &Params::default())?;
//! let mut admission = AdmissionController::new(1);
//! let mut now = Time::ZERO;
//! let delay = Span::from_millis(300);
//! // Every 10 ms 90 requests arrive and 30 are served.
//! let late = Signals { offered: 90, admitted: 90, served: 30, waiting: 900, delay, ..Signals::default() };
//! let mut admitted = 0;
//! for _ in 0..50 {
//!     now += Span::from_millis(10);
//!     admission.set(now, policy.tick(now, &late));
//!     admitted = (0..90).filter(|_| admission.try_admit(now, Class::FIRST, 900)).count();
//! }
//! assert!(admitted < 45, "the server is overloaded, so arrivals are shed");
//! # Ok::<(), guard::UnknownName>(())
//! ```
#![forbid(unsafe_code)]

mod admission;
pub mod app_queue;
mod handshakes;
mod limit;
pub mod policy;
mod response_waits;
mod signals;
#[cfg(feature = "tower")]
pub mod tower;
mod trunk_reservation;

pub use admission::{AdmissionController, Class, Counts};
pub use handshakes::{HandshakeEnds, Handshakes};
pub use limit::Limit;
pub use policy::{POLICIES, Params, Policy, by_name};
pub use queueing::UnknownName;
pub use response_waits::ResponseWaits;
pub use signals::{Responses, Signals, WaitEnd};
pub use trunk_reservation::Share;
