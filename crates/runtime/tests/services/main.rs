//! Async services on the stack, over an in-memory wire and in virtual time, independent of the
//! machine's speed.

mod datagrams;
mod files;
mod flows;
mod guarded;
mod http;
mod order;
mod sockets;
mod tasks;
#[path = "../../../../examples/text.rs"]
mod text;
mod threads;
mod turns;
mod world;
