//! Application protocols: request encoding and response framing.
//!
//! Without sockets and time. [`synthetic`] requests carry their service time and responses report
//! queueing times; [`http`] and [`memcached`] are for real servers.

pub mod http;
pub mod memcached;
pub mod synthetic;

/// Result of decoding the start of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<T> {
    /// More bytes needed.
    Incomplete,
    /// Complete message.
    Complete {
        /// Message.
        value: T,
        /// Length in bytes.
        len: usize,
    },
    /// Not a message, whatever follows.
    Invalid,
}
