//! Async services on the stack, over a wire of memory and in virtual time:
//! nothing here depends on how fast the machine is.

mod http;
mod order;
mod plain;
mod sockets;
mod tasks;
mod threads;
mod world;
