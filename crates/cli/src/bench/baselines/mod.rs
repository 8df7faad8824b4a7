//! Baseline servers, each a separate process: started, pinned and ended by `greenwave bench net` or
//! `cores`, which read `ready` from its stdout.
//!
//! All systems serve the same four applications: `echo`; `http`, with the same response to `GET /`
//! as greenwave's server; and one stream per direction: `sink` reads everything, `source` sends
//! [`CHUNK`] bytes for each byte received.

use std::io::Write as _;
use std::net::Ipv4Addr;
use std::process::ExitCode;

use clap::ValueEnum;
use host::Monotonic;
use queueing::{Label, Span};
use runtime::App;
use runtime::app::{ConnectionFate, Context, Framing, Http, Registration, Stages};

use crate::Error;

mod greenwave;
mod kernel;
#[cfg(feature = "peers")]
mod smoltcp_server;

/// Bytes that `source` sends for each byte received.
pub const CHUNK: usize = 64 * 1024;
/// Port of every server.
pub const PORT: u16 = 80;

/// Serve for `greenwave bench net`, until killed.
#[derive(clap::Args)]
pub struct Args {
    /// TCP/IP stack of the server.
    #[arg(long, value_enum)]
    system: System,
    /// tap:NAME, packet:NAME, xdp:NAME or xdp-native:NAME; the kernel needs none.
    #[arg(long, default_value = "")]
    device: String,
    /// The server's address, in a subnet of 256.
    #[arg(long)]
    addr: Ipv4Addr,
    /// Service of the server.
    #[arg(long, value_enum)]
    app: Serves,
    /// Number of connections, for a system that allocates them in advance.
    #[arg(long, default_value_t = 1)]
    connections: usize,
    /// Threads of the kernel's server, each on a core of its own; the others have one.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..))]
    threads: u16,
    /// Busy-poll time of greenwave's server before it sleeps.
    #[arg(long, default_value = "20us", value_parser = crate::options::busy_poll)]
    busy_poll: Span,
    /// Maximum time that greenwave's server batches responses while more requests wait.
    #[arg(long, default_value = "30us", value_parser = crate::options::tx_coalesce)]
    tx_coalesce: Span,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum System {
    Kernel,
    Greenwave,
    Smoltcp,
}

/// Application of a baseline server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Serves {
    /// Echoes received bytes.
    Echo,
    /// Answers `GET /`.
    Http,
    /// Discards received bytes.
    Sink,
    /// Sends [`CHUNK`] bytes for each received byte.
    Source,
}

/// Serves until killed.
///
/// # Errors
/// The server cannot start.
pub fn run(args: &Args) -> Result<ExitCode, Error> {
    match args.system {
        System::Kernel => kernel::serve((args.addr, PORT).into(), args.app, args.threads)?,
        System::Greenwave => greenwave::serve(args)?,
        #[cfg(feature = "peers")]
        System::Smoltcp => smoltcp_server::serve(args)?,
        #[cfg(not(feature = "peers"))]
        System::Smoltcp => return Err(Error::new("smoltcp is not built in").advice("--features peers")),
    }
    Ok(ExitCode::SUCCESS)
}

/// Reports to the benchmark that the server is ready.
fn ready() {
    outln!("ready");
    // Fails only if the parent process is gone.
    let _ = std::io::stdout().flush();
}

/// Response to `GET /` of greenwave's server, which all other servers send too.
pub fn page() -> Vec<u8> {
    let mut response = Vec::new();
    let clock = Monotonic::new();
    let nothing = Stages { nic: Span::ZERO, tcp: Span::ZERO, event: Span::ZERO };
    let (private, registration) = (&mut [0; 64], &mut Registration::default());
    let (label, stages, body) = (Label::default(), nothing, &mut None);
    let mut cx = Context { label, stages, private, registration, body, clock: &clock };
    Http.serve(REQUEST, &mut cx, &mut response);
    response
}

/// Request that [`page`] answers.
pub const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: 10.77.0.2\r\nAccept: */*\r\n\r\n";
/// End of a request without a body.
const REQUEST_END: &[u8] = b"\r\n\r\n";

/// Number of requests without a body in `bytes`, and the end of the last.
fn requests(bytes: &[u8]) -> (usize, usize) {
    let (mut count, mut at) = (0, 0);
    while let Some(end) = bytes[at..].windows(REQUEST_END.len()).position(|w| w == REQUEST_END) {
        (count, at) = (count + 1, at + end + REQUEST_END.len());
    }
    (count, at)
}

/// `sink` and `source` on greenwave's stack.
#[derive(Clone, Copy)]
struct Bulk(Serves);

impl App for Bulk {
    fn frame(&self, received: &[u8]) -> Framing {
        Framing::Complete { len: if self.0 == Serves::Source { 1 } else { received.len() } }
    }

    fn serve(&self, _request: &[u8], _cx: &mut Context<'_>, response: &mut Vec<u8>) -> ConnectionFate {
        if self.0 == Serves::Source {
            response.resize(response.len() + CHUNK, b'x');
        }
        ConnectionFate::Keep
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_end_at_an_empty_line() {
        assert_eq!(requests(b""), (0, 0));
        assert_eq!(requests(b"GET / HTTP/1.1\r\n"), (0, 0));
        let two = [REQUEST, REQUEST, b"GET"].concat();
        assert_eq!(requests(&two), (2, 2 * REQUEST.len()));
    }

    #[test]
    fn the_page_is_a_whole_answer() {
        let page = page();
        assert!(page.starts_with(b"HTTP/1.1 200 "), "{}", String::from_utf8_lossy(&page));
    }
}
