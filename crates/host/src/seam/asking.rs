//! The program's side of the seam: asking the desk.
//!
//! Nothing is kept between two requests, so a fork, an exec or a thread that
//! asks at the same time cannot confuse anything. System calls are made
//! directly (rustix), never through the C library, whose names the library in
//! the program has taken.

use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, getpeername, recv, send,
    socket_with, socketpair,
};

use super::build::BUILD;
use super::envelope::{self, Envelope};
use super::interface::Interface;
use super::labels::Labels;
use super::name::Name;
use super::outbox::Outboxes;
use super::pass;
use super::request::{ANSWER_BYTES, Answer, Key, OPTION_BYTES_MAX, RULES_BYTES_MAX, Request};

/// Where the desk is, and what shows that we may ask it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seam {
    run: u32,
    key: Key,
}

/// Why what [`VARIABLE`](super::VARIABLE) says is nothing to us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stranger {
    /// It makes no sense.
    Nonsense,
    /// A `greenwave run` of another build says it.
    Build,
}

/// What [`VARIABLE`](super::VARIABLE) says of desk `run`.
pub(super) fn variable(run: u32, key: &Key) -> String {
    let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{run:08x}:{key}:{BUILD}")
}

/// The abstract name of the desk's socket.
pub(super) fn desk_name(run: u32) -> String {
    format!("greenwave-desk-{run:08x}")
}

/// An answer, and our end of the pair it came over.
#[derive(Debug)]
pub struct Asked {
    /// What the desk says.
    pub answer: Answer,
    /// For a bound socket: the listener.
    pub end: OwnedFd,
    /// What came with the answer: a connection that is being opened.
    pub brought: Option<OwnedFd>,
}

impl Asked {
    /// Waits for the second answer to a [`Request::Connect`] that says it is
    /// waited for, at most as long as `patience` if there is one.
    ///
    /// # Errors
    /// `EINTR`, as for a call that a signal interrupts; `EAGAIN` at the end of
    /// the patience; `ENETDOWN` when the desk is gone.
    pub fn outcome(&self, patience: Option<Duration>) -> Result<Answer, Errno> {
        if patience.is_some() {
            set_socket_timeout(&self.end, Timeout::Recv, patience)?;
        }
        let mut bytes = [0; ANSWER_BYTES];
        let (len, _) = recv(&self.end, &mut bytes[..], RecvFlags::empty())?;
        Answer::decode(&bytes[..len]).ok_or(Errno::NETDOWN)
    }
}

impl Seam {
    /// What [`VARIABLE`](super::VARIABLE) says.
    ///
    /// # Errors
    /// It is another build's, or makes no sense.
    pub fn parse(text: &str) -> Result<Self, Stranger> {
        let (run, rest) = text.split_once(':').ok_or(Stranger::Nonsense)?;
        let (key, build) = rest.split_once(':').unwrap_or((rest, ""));
        let run = u32::from_str_radix(run, 16).map_err(|_| Stranger::Nonsense)?;
        if key.len() != 32 || !key.is_ascii() {
            return Err(Stranger::Nonsense);
        }
        let mut bytes = [0; 16];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&key[2 * at..2 * at + 2], 16).map_err(|_| Stranger::Nonsense)?;
        }
        if build == BUILD { Ok(Self { run, key: bytes }) } else { Err(Stranger::Build) }
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// `ENETDOWN` when the desk is gone; `EMFILE` and the like.
    pub fn ask(&self, request: &Request) -> Result<Asked, Errno> {
        self.ask_with(request, &[])
    }

    /// Gives listener `id` rules for the connections that it will accept;
    /// what is wrong with them, if anything is.
    ///
    /// # Errors
    /// As for [`ask`](Self::ask), `EISCONN` when it listens already, and
    /// `EMSGSIZE` when the text is longer than [`RULES_BYTES_MAX`].
    pub fn rule(&self, id: u64, text: &[u8]) -> Result<Option<String>, Errno> {
        if text.is_empty() || text.len() > RULES_BYTES_MAX {
            return Err(Errno::MSGSIZE);
        }
        let asked = self.ask_with(&Request::Rules { id }, text)?;
        match asked.answer {
            Answer::No(errno) if errno == Errno::INVAL.raw_os_error() => {
                let mut why = vec![0; RULES_BYTES_MAX];
                let (len, _) = recv(&asked.end, &mut why[..], RecvFlags::empty())?;
                Ok(Some(String::from_utf8_lossy(&why[..len]).into_owned()))
            }
            Answer::No(errno) => Err(Errno::from_raw_os_error(errno)),
            _ => Ok(None),
        }
    }

    /// Asks; `more` waits in the pair, if it is anything.
    fn ask_with(&self, request: &Request, more: &[u8]) -> Result<Asked, Errno> {
        let flags = SocketFlags::CLOEXEC;
        let control = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        let (end, theirs) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let desk = SocketAddrUnix::new_abstract_name(desk_name(self.run).as_bytes())?;
        let gone = |_| Errno::NETDOWN;
        if !more.is_empty() {
            send(&end, more, SendFlags::NOSIGNAL)?;
        }
        pass::send(&control, Some(&desk), &request.encode(&self.key), theirs.as_fd()).map_err(gone)?;
        drop(theirs);
        let mut bytes = [0; ANSWER_BYTES];
        let message = loop {
            match pass::receive(&end, &mut bytes, true) {
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                got => break got.map_err(|e| Errno::from_io_error(&e).unwrap_or(Errno::IO))?,
            }
        };
        if message.lost {
            return Err(Errno::MFILE);
        }
        let answer = Answer::decode(&bytes[..message.len]).ok_or(Errno::NETDOWN)?;
        Ok(Asked { answer, end, brought: message.fd })
    }

    /// Asks for what follows the answer as a message of its own, into `bytes`.
    fn ask_for<'a>(&self, request: &Request, bytes: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        let asked = self.ask(request)?;
        if let Answer::No(errno) = asked.answer {
            return Err(Errno::from_raw_os_error(errno));
        }
        let (len, _) = recv(&asked.end, &mut *bytes, RecvFlags::empty())?;
        Ok(&bytes[..len])
    }

    /// The addresses of socket `id` for datagrams: ours, and the peer's if it
    /// is connected.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn ends(&self, id: u64) -> Result<(SocketAddr, Option<SocketAddr>), Errno> {
        let mut bytes = [0; 2 * envelope::LEN];
        let told = self.ask_for(&Request::Ends { id }, &mut bytes)?;
        let envelopes = told.chunks_exact(envelope::LEN).map(Envelope::decode);
        match envelopes.collect::<Vec<_>>()[..] {
            [Some(Envelope::Peer(local)), Some(Envelope::Peer(peer))] => Ok((local, Some(peer))),
            [Some(Envelope::Peer(local)), Some(Envelope::Connected)] => Ok((local, None)),
            _ => Err(Errno::NETDOWN),
        }
    }

    /// What `getsockopt` gives for option `name` of `level` of socket `id`, where
    /// TCP answers for that.
    ///
    /// # Errors
    /// As [`ask`](Self::ask); `ENOPROTOOPT` where it does not.
    pub fn option(&self, id: u64, level: i32, name: i32) -> Result<Vec<u8>, Errno> {
        let mut value = [0; OPTION_BYTES_MAX];
        Ok(self.ask_for(&Request::GetOption { id, level, name }, &mut value)?.to_vec())
    }

    /// The stack's addresses.
    ///
    /// # Errors
    /// As [`ask`](Self::ask).
    pub fn interface(&self) -> Result<Interface, Errno> {
        let mut bytes = [0; Interface::BYTES_MAX];
        Interface::decode(self.ask_for(&Request::Interface, &mut bytes)?).ok_or(Errno::NETDOWN)
    }

    /// What tells the labels of a program's connections.
    ///
    /// # Errors
    /// As [`ask`](Self::ask); or there is no memory left.
    pub fn labels(&self) -> Result<Labels, Errno> {
        self.map(&Request::Labels, Labels::map)
    }

    /// Where the program may leave what it writes to its connections.
    ///
    /// # Errors
    /// As [`labels`](Self::labels).
    pub fn outboxes(&self) -> Result<Outboxes, Errno> {
        self.map(&Request::Outboxes, Outboxes::map)
    }

    /// Maps the file that `request` asks for.
    fn map<T>(
        &self,
        request: &Request,
        map: impl FnOnce(BorrowedFd<'_>) -> std::io::Result<T>,
    ) -> Result<T, Errno> {
        let failed = |e: std::io::Error| Errno::from_io_error(&e).unwrap_or(Errno::IO);
        let asked = self.ask(request)?;
        let message = pass::receive(&asked.end, &mut [0; 16], true).map_err(failed)?;
        map(message.fd.ok_or(Errno::NETDOWN)?.as_fd()).map_err(failed)
    }
}

impl Name {
    /// Whose `fd` is, if it is one of ours.
    #[must_use]
    pub fn of(fd: BorrowedFd<'_>) -> Option<Self> {
        let addr = SocketAddrUnix::try_from(getpeername(fd).ok()??).ok()?;
        Self::decode(addr.abstract_name()?)
    }
}
