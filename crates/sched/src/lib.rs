//! Scheduling policies: requests to workers, tasks to cores.
//!
//! [`dispatch`] assigns queued requests to idle workers; [`cores`] assigns a
//! machine's cores to its tasks. Neither runs anything: both take `now` and return
//! an assignment, so the same policy runs on threads and in the simulator.
#![forbid(unsafe_code)]

pub mod cores;
pub mod dispatch;
