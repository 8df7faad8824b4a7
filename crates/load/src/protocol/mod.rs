//! What is said on a connection: requests written, responses framed.
//!
//! No sockets and no time here; [`synthetic`] names its own service time and
//! reports where it waited, [`http`] and [`memcached`] load real servers.

pub mod http;
pub mod memcached;
pub mod synthetic;

/// What stands at the head of some bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Decoded<T> {
    /// More bytes are needed to tell.
    Incomplete,
    /// A message.
    Complete {
        /// The message.
        value: T,
        /// Bytes it took.
        len: usize,
    },
    /// These bytes will never become a message.
    Invalid,
}
