//! Who gets a core or a worker.
//!
//! `dispatch` gives waiting requests to idle workers; `cores` gives a machine's
//! cores to the programs on it. Neither ever runs anything: they take `now` and
//! answer who has what, so the same policy runs on threads and in the simulator.
#![forbid(unsafe_code)]

pub mod cores;
pub mod dispatch;
