//! Shim between unmodified programs and the stack, which runs in another process.
//!
//! A stack socket is, in the program, one end of a socket pair; this crate has the other end.
//! Descriptor numbers, dup, fork, exec, poll and epoll over mixed sets, blocking, timeouts and
//! signals are therefore the kernel's, and the stack's end reports when the program has closed its
//! end or died. Operations that the kernel cannot do (listening, peers' addresses, TCP options) are
//! requests ([`Request`]) of the library `libgreenwave.so` to the [`SocketServer`]. On a host with
//! several stacks, each has a [`StackHandle`].
//!
//! accept receives a message from the listener's pair: a new connection's [`Name`] and its
//! descriptor. A connection that a program opens comes with the reply, and is not writable until
//! its handshake is complete. Programs read the priority of connections in the label table
//! ([`label_table`]). A UDP socket is a pair of messages, each with a [`DatagramHeader`] that has
//! the peer's address. Bytes that a program writes to a connection may go through shared memory
//! instead of the pair ([`shm_send`]).
//!
//! Decisions: `docs/adr/0025-programs-keep-kernel-descriptors.md`,
//! `docs/adr/0049-datagram-header-on-socket-pairs.md`,
//! `docs/adr/0064-writes-through-shared-memory.md`.

mod bind_addr;
mod build_id;
pub mod bypass;
mod client;
mod conn_pair;
pub mod datagram_header;
mod ephemeral_ports;
#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod ifaddrs;
pub mod label_table;
mod late_data;
mod listener_table;
pub mod preload;
pub mod process_tree;
mod protocol;
mod routes;
pub mod scm_rights;
mod server;
pub mod shm_send;
pub mod socket_name;
#[cfg(test)]
#[path = "../../host/src/soon.rs"]
mod soon;
mod stack_handle;
mod tcp_info;
pub mod tcp_sockopt;
mod udp_sockopt;
mod udp_table;

pub use build_id::{BUILD, OTHER_BUILD};
pub use client::{HandshakeError, Reply, ShimClient};
pub use conn_pair::{ConnPair, ProgramRead, Wrote};
pub use datagram_header::{Cmsg, DatagramHeader, PktInfo};
pub use ifaddrs::StackInterface;
pub use label_table::LabelReader;
pub use net::stack::HopLimits;
pub use protocol::{
    ANSWER_BYTES, AccessKey, Answer, ErrorUse, KernelSocketInfo, LATE_BYTES_MAX, OPTION_BYTES_MAX,
    REQUEST_BYTES_MAX, RULES_BYTES_MAX, Request,
};
pub use routes::Routes;
pub use server::{
    AcceptError, Arrived, ConnectionEnd, Delivered, QueuedDatagram, RefusalKind, SocketEvent, SocketServer,
};
pub use shm_send::ShmSendBuffers;
pub use socket_name::Name;
pub use stack_handle::StackHandle;
pub use tcp_info::SocketInfo;
pub use tcp_sockopt::TcpSockopt;
pub use udp_sockopt::{DatagramOptions, class_of_v6};
pub use udp_table::Reuse;

/// Environment variable with the address of the socket server: the number in its socket's abstract
/// name, the key and the build, in hexadecimal and separated by colons.
pub const VARIABLE: &str = "GREENWAVE_SEAM";
