//! Search over a real index, fanned out over workers: the paper's second experiment.
//!
//! [`run`](fanout::run) is the runner `search`. [`record`] measures searches once, for
//! experiments without the index. [`serve`] offers the same partitions to frameworks in other
//! languages. Feature `search`.

pub mod corpus;
pub mod fanout;
pub mod index;
mod index_set;
pub mod record;
mod redis;
pub mod serve;

pub use index_set::IndexSet;
pub use redis::Redis;
