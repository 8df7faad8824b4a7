//! Servers that keep their goodput under overload: who is let in.
//!
//! Some times a second a [`Policy`] is told what the server looks like
//! ([`Signals`]) and says what may come in ([`Limit`]); a [`AdmissionController`] holds
//! arrivals to that, those of the least important [`Class`] first. Who is in
//! is never thrown out. Where connections wait in one queue and requests in
//! another, [`joined`] makes one look of both. Deciding only: drivers, programs in
//! the kernel, services (feature `tower`) and the simulator are where doors stand.
//!
//! ```
//! use guard::{Class, Door, Params, Signals, by_name};
//! use queueing::{Span, Time};
//!
//! let mut policy = by_name("queue-delay", &Params::default())?;
//! let mut door = Door::new(1);
//! let now = Time::ZERO + Span::from_millis(10);
//! let late = Signals { waiting: 900, served: 30, delay: Span::from_millis(300), ..Signals::default() };
//! door.set(now, policy.tick(now, &late));
//! let admitted = (0..100).filter(|_| door.admits(now, Class::FIRST, 900)).count();
//! assert!(admitted < 50, "much waits for long, so little comes in");
//! # Ok::<(), guard::UnknownName>(())
//! ```
#![forbid(unsafe_code)]

mod admission;
pub mod app_queue;
mod limit;
pub mod policy;
mod signals;
#[cfg(feature = "tower")]
pub mod tower;
mod trunk_reservation;

pub use admission::{AdmissionController, Class, Counts};
pub use limit::Limit;
pub use policy::{POLICIES, Params, Policy, by_name};
pub use queueing::UnknownName;
pub use signals::{Signals, WaitEnd};
pub use trunk_reservation::Share;
