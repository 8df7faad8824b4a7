//! Greenwave's TCP/IP against the Linux kernel's, byte by byte.
//!
//! Each test has a namespace for the kernel's end and runs greenwave's stack itself, so it sees
//! both sides. Needs root; without it each prints `skipped: …`.

mod closing;
mod greenwave_host;
mod many_connections;
mod options;
mod port;
mod programs;
mod streams;
mod windows;
mod world;
