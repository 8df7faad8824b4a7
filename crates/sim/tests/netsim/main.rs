//! Two stacks at the ends of a path, in virtual time: what TCP makes of loss,
//! round trips, reordering and buffers. `world` is the path and its users,
//! `grid` the table of what they get, `queue` what they do to the bottleneck.

mod grid;
mod queue;
mod reordering;
mod world;
