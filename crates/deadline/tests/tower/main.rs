//! Layers under axum, hyper and tonic: propagation, queueing, rejection.
//!
//! Time is tokio's paused clock or a manual one, so results do not depend on the machine's
//! speed.

mod cancel;
mod causes;
mod chain;
mod client;
mod faults;
mod grpc;
mod hostile;
mod levels;
mod outcomes;
mod overload;
mod scope;
mod serve;
mod support;
mod way;
