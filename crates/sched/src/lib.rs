//! Who gets a core or a worker.
//!
//! `dispatch` gives waiting requests to idle workers. It never runs
//! anything: it takes `now` and answers who serves whom, so the same policy
//! runs on threads and in the simulator.
#![forbid(unsafe_code)]

pub mod dispatch;
