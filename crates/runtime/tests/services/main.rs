//! Async services on the stack, over a wire of memory and in virtual time:
//! nothing here depends on how fast the machine is.

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
