//! Where a program's process meets the stack's.
//!
//! The stack does not live in the program. A socket of ours is, in the
//! program, one end of a socket pair; the other end is here. So descriptor
//! numbers, dup, fork, exec, poll and epoll with mixed sets, blocking,
//! timeouts and signals are the kernel's own business, bytes pass from process
//! to process, and when a program dies, however it dies, this end is told.
//! What the kernel cannot know (who listens where, peers' addresses, TCP's
//! options) goes through the [`Desk`], which the library `libgreenwave.so`
//! asks ([`Request`]). Where a host has several stacks, each has a [`Window`] there.
//!
//! Accepting is receiving: a listener's pair carries messages, each a new
//! connection's [`Name`] and its descriptor. A connection that a program opens
//! comes with the answer, not writable until its handshake is complete. How
//! urgent connections are, programs read where the stack writes it ([`labels`]).
//! A socket for datagrams is a pair of messages, too, each behind an
//! [`Envelope`] with the peer's address. What a program writes to a connection may take a
//! shorter way than the pair ([`outbox`]).
//! Decisions: `docs/adr/0025-programs-keep-kernel-descriptors.md`,
//! `docs/adr/0049-datagram-header-on-socket-pairs.md`, `docs/adr/0064-writes-through-shared-memory.md`.

mod asking;
mod bound;
mod build;
pub mod bypass;
mod datagram_options;
mod desk;
pub mod envelope;
mod figures;
#[cfg(any(test, fuzzing))]
pub(crate) mod fuzz;
mod interface;
pub mod labels;
mod listeners;
mod mailboxes;
pub mod name;
pub mod options;
pub mod outbox;
pub mod pass;
mod pipe;
mod place;
mod ports;
pub mod preload;
pub mod program;
mod request;
mod window;

pub use asking::{Asked, Seam, Stranger};
pub use build::{BUILD, OTHER_BUILD};
pub use datagram_options::{DatagramOptions, class_of_v6};
pub use desk::{Arrived, Delivered, Desk, End, Happened, Letter, NoOffer, Refusal};
pub use envelope::{Envelope, Here, Said};
pub use figures::Figures;
pub use interface::Interface;
pub use labels::Labels;
pub use mailboxes::Reuse;
pub use name::Name;
pub use net::stack::HopLimits;
pub use options::Setting;
pub use outbox::Outboxes;
pub use pipe::{Pipe, Read, Wrote};
pub use place::Place;
pub use request::{
    ANSWER_BYTES, Answer, ErrorUse, Half, Key, OPTION_BYTES_MAX, REQUEST_BYTES_MAX, RULES_BYTES_MAX, Request,
};
pub use window::Window;

/// The environment variable that tells the library where the desk is:
/// its socket's abstract name, the key, and of which build both are, in
/// hexadecimal and with colons between them.
pub const VARIABLE: &str = "GREENWAVE_SEAM";
