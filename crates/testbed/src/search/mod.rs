//! Search over a real index, fanned out over workers: the paper's second experiment.
//!
//! [`run`](fanout::run) is the runner `search`. [`record`] measures searches once, for
//! experiments without the index. [`serve`] offers the same partitions to frameworks in other
//! languages. Feature `search`.

pub mod corpus;
pub mod fanout;
pub mod index;
pub mod record;
mod redis;
pub mod serve;
mod shelf;

pub use redis::Redis;
pub use shelf::Shelf;
