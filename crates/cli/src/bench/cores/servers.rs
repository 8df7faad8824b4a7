//! Servers on either stack, and their requests.

use clap::ValueEnum;
use load::closed_loop::ExpectedResponse;

use crate::programs::{Program, SMALL};

/// Server under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ScalingServer {
    /// Echo of 64 bytes: an epoll loop on each core, or `greenwave serve`.
    Echo,
    /// nginx of Debian's package, with a worker for each core.
    Nginx,
    /// memcached of Debian's package, with a thread for each core.
    Memcached,
}

/// TCP/IP stack of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerStack {
    Kernel,
    Greenwave,
}

impl ScalingServer {
    pub const ALL: [Self; 3] = [Self::Echo, Self::Nginx, Self::Memcached];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo-64",
            Self::Nginx => "nginx",
            Self::Memcached => "memcached",
        }
    }

    /// The unmodified program, if this server is one.
    pub const fn program(self) -> Option<Program> {
        match self {
            Self::Echo => None,
            Self::Nginx => Some(Program::Nginx),
            Self::Memcached => Some(Program::Memcached),
        }
    }

    /// A request and its answer.
    pub fn request(self) -> (Vec<u8>, ExpectedResponse) {
        self.program().map_or_else(echo, |program| program.request(SMALL))
    }

    /// First request, repeated until it is answered: the server then serves and has its content.
    pub fn first(self) -> (Vec<u8>, ExpectedResponse) {
        self.program().map_or_else(echo, |program| program.store(SMALL))
    }
}

fn echo() -> (Vec<u8>, ExpectedResponse) {
    ((0..64).collect(), ExpectedResponse::Echo)
}

impl ServerStack {
    pub const ALL: [Self; 2] = [Self::Kernel, Self::Greenwave];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Kernel => "kernel",
            Self::Greenwave => "greenwave",
        }
    }
}
