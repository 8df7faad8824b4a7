//! Two TCP stacks at the ends of a simulated path: behaviour under loss, round-trip time,
//! reordering and buffer size. `world` is the path and its applications, `grid` the table of
//! results, `queue` the effect on the bottleneck.

mod grid;
mod queue;
mod reordering;
mod world;
