//! Layers under axum, hyper and tonic: what travels, who waits, who is refused.
//!
//! Where time passes it is tokio's paused clock, or one that the test sets;
//! nothing here depends on how fast the machine is.

mod cancel;
mod chain;
mod client;
mod faults;
mod grpc;
mod hostile;
mod scope;
mod serve;
mod support;
mod way;
