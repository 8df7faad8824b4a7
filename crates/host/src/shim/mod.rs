//! Where a program's process meets the stack's.
//!
//! The stack does not live in the program. A socket of ours is, in the
//! program, one end of a socket pair; the other end is here. So descriptor
//! numbers, dup, fork, exec, poll and epoll with mixed sets, blocking,
//! timeouts and signals are the kernel's own business, bytes pass from process
//! to process, and when a program dies, however it dies, this end is told.
//! What the kernel cannot know (who listens where, peers' addresses, TCP's
//! options) goes through the [`SocketServer`], which the library `libgreenwave.so`
//! asks ([`Request`]). Where a host has several stacks, each has a [`StackHandle`] there.
//!
//! Accepting is receiving: a listener's pair carries messages, each a new
//! connection's [`Name`] and its descriptor. A connection that a program opens
//! comes with the answer, not writable until its handshake is complete. How
//! urgent connections are, programs read where the stack writes it ([`labels`]).
//! A socket for datagrams is a pair of messages, too, each behind an
//! [`DatagramHeader`] with the peer's address. What a program writes to a connection may take a
//! shorter way than the pair ([`outbox`]).
//! Decisions: `docs/adr/0025-programs-keep-kernel-descriptors.md`,
//! `docs/adr/0049-datagram-header-on-socket-pairs.md`, `docs/adr/0064-writes-through-shared-memory.md`.

mod bind_addr;
mod build_id;
pub mod bypass;
mod client;
mod conn_pair;
pub mod datagram_header;
mod ephemeral_ports;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod ifaddrs;
pub mod label_table;
mod listener_table;
pub mod preload;
pub mod process_tree;
mod protocol;
mod routes;
pub mod scm_rights;
mod server;
pub mod shm_send;
pub mod socket_name;
mod stack_handle;
mod tcp_info;
pub mod tcp_sockopt;
mod udp_sockopt;
mod udp_table;

pub use build_id::{BUILD, OTHER_BUILD};
pub use client::{HandshakeError, Reply, ShimClient};
pub use conn_pair::{ConnPair, Read, Wrote};
pub use datagram_header::{Cmsg, DatagramHeader, PktInfo};
pub use ifaddrs::Interface;
pub use label_table::LabelReader;
pub use net::stack::HopLimits;
pub use protocol::{
    ANSWER_BYTES, Answer, ErrorUse, KernelSocketInfo, Key, OPTION_BYTES_MAX, REQUEST_BYTES_MAX,
    RULES_BYTES_MAX, Request,
};
pub use routes::Routes;
pub use server::{AcceptError, Arrived, Delivered, End, QueuedDatagram, Refusal, SocketEvent, SocketServer};
pub use shm_send::ShmSendBuffers;
pub use socket_name::Name;
pub use stack_handle::StackHandle;
pub use tcp_info::SocketInfo;
pub use tcp_sockopt::TcpSockopt;
pub use udp_sockopt::{DatagramOptions, class_of_v6};
pub use udp_table::Reuse;

/// The environment variable that tells the library where the desk is:
/// its socket's abstract name, the key, and of which build both are, in
/// hexadecimal and with colons between them.
pub const VARIABLE: &str = "GREENWAVE_SEAM";
