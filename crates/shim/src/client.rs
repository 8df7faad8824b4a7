//! Client of the socket server, in the program's process.
//!
//! It keeps no state between requests, so fork, exec and threads need no handling. It makes system
//! calls directly (rustix), because the preloaded library interposes the C library's functions; the
//! caller may replace the call that waits for an outcome. Signals do not interrupt a request. They
//! interrupt only waiting for an outcome, as in connect(2).

use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::{Errno, retry_on_intr};
use rustix::net::sockopt::{Timeout, set_socket_timeout};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, getpeername, recv, send,
    socket_with, socketpair,
};

use super::build_id::BUILD;
use super::datagram_header::{self, DatagramHeader};
use super::ifaddrs::StackInterface;
use super::label_table::LabelReader;
use super::protocol::{
    ANSWER_BYTES, AccessKey, Answer, LATE_BYTES_MAX, OPTION_BYTES_MAX, RULES_BYTES_MAX, Request,
};
use super::scm_rights;
use super::shm_send::ShmSendBuffers;
use super::socket_name::Name;

/// Address of the socket server, and the key that authorises requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShimClient {
    run: u32,
    key: AccessKey,
}

/// Error in the value of [`VARIABLE`](super::VARIABLE).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HandshakeError {
    /// The value cannot be parsed.
    Malformed,
    /// The value is from a `greenwave run` of another build.
    Build,
}

/// Value of the environment variable [`VARIABLE`](super::VARIABLE) for server `run`.
pub(super) fn variable(run: u32, key: &AccessKey) -> String {
    let key: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
    format!("{run:08x}:{key}:{BUILD}")
}

/// Abstract name of the server's socket.
pub(super) fn server_name(run: u32) -> String {
    format!("greenwave-socket_server-{run:08x}")
}

/// Reply to a request, and the client's end of its pair.
#[derive(Debug)]
pub struct Reply {
    /// The answer.
    pub answer: Answer,
    /// The client's end: after [`Request::Bind`], the listener.
    pub end: OwnedFd,
    /// Descriptor received with the answer: a connection that is being opened.
    pub brought: Option<OwnedFd>,
}

impl Reply {
    /// Waits for the second answer to a [`Request::Connect`] with `waits`, at most `timeout` if
    /// given.
    ///
    /// # Errors
    /// `EINTR`: interrupted by a signal; `EAGAIN`: timeout; `ENETDOWN`: the server is gone.
    pub fn outcome(&self, timeout: Option<Duration>) -> Result<Answer, Errno> {
        self.outcome_by(timeout, |end, bytes| recv(end, bytes, RecvFlags::empty()).map(|(len, _)| len))
    }

    /// Waits as [`outcome`](Self::outcome), by `receive` in place of recv(2): the C library's recv
    /// is a cancellation point (pthreads(7)).
    ///
    /// # Errors
    /// The errors of [`outcome`](Self::outcome).
    pub fn outcome_by(
        &self,
        timeout: Option<Duration>,
        receive: impl FnOnce(BorrowedFd<'_>, &mut [u8]) -> Result<usize, Errno>,
    ) -> Result<Answer, Errno> {
        if timeout.is_some() {
            set_socket_timeout(&self.end, Timeout::Recv, timeout)?;
        }
        let mut bytes = [0; ANSWER_BYTES];
        let len = receive(self.end.as_fd(), &mut bytes)?;
        Answer::decode(&bytes[..len]).ok_or(Errno::NETDOWN)
    }
}

impl ShimClient {
    /// Parses the value of [`VARIABLE`](super::VARIABLE).
    ///
    /// # Errors
    /// The value is of another build, or cannot be parsed.
    pub fn parse(text: &str) -> Result<Self, HandshakeError> {
        let (run, rest) = text.split_once(':').ok_or(HandshakeError::Malformed)?;
        let (key, build) = rest.split_once(':').unwrap_or((rest, ""));
        let run = u32::from_str_radix(run, 16).map_err(|_| HandshakeError::Malformed)?;
        if key.len() != 32 || !key.is_ascii() {
            return Err(HandshakeError::Malformed);
        }
        let mut bytes = [0; 16];
        for (at, byte) in bytes.iter_mut().enumerate() {
            *byte =
                u8::from_str_radix(&key[2 * at..2 * at + 2], 16).map_err(|_| HandshakeError::Malformed)?;
        }
        if build == BUILD { Ok(Self { run, key: bytes }) } else { Err(HandshakeError::Build) }
    }

    /// Name of `fd`, if it is of this server. Other processes may bind similar names.
    #[must_use]
    pub fn name(&self, fd: BorrowedFd<'_>) -> Option<Name> {
        Name::of(fd).filter(|name| name.run == self.run)
    }

    /// Sends a request and waits for its reply.
    ///
    /// # Errors
    /// `ENETDOWN`: the server is gone; `EMFILE` and the like.
    pub fn ask(&self, request: &Request) -> Result<Reply, Errno> {
        self.ask_with(request, &[])
    }

    /// Gives listener `id` classifier rules for the connections that it will accept. Returns the
    /// error in the rules, if any.
    ///
    /// # Errors
    /// The errors of [`ask`](Self::ask); `EISCONN`: it listens already; `EMSGSIZE`: the text is empty or
    /// longer than [`RULES_BYTES_MAX`].
    pub fn rule(&self, id: u64, text: &[u8]) -> Result<Option<String>, Errno> {
        if text.is_empty() || text.len() > RULES_BYTES_MAX {
            return Err(Errno::MSGSIZE);
        }
        let asked = self.ask_with(&Request::Rules { id }, text)?;
        match asked.answer {
            Answer::No(errno) if errno == Errno::INVAL.raw_os_error() => {
                let mut why = vec![0; RULES_BYTES_MAX];
                let (len, _) = server_call(|| recv(&asked.end, &mut why[..], RecvFlags::empty()))?;
                Ok(Some(String::from_utf8_lossy(&why[..len]).into_owned()))
            }
            Answer::No(errno) => Err(Errno::from_raw_os_error(errno)),
            _ => Ok(None),
        }
    }

    /// Sends a request; `more` is queued in the pair before it, unless empty.
    fn ask_with(&self, request: &Request, more: &[u8]) -> Result<Reply, Errno> {
        let flags = SocketFlags::CLOEXEC;
        let control = socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None)?;
        let (end, server_end) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        let socket_server = SocketAddrUnix::new_abstract_name(server_name(self.run).as_bytes())?;
        if !more.is_empty() {
            server_call(|| send(&end, more, SendFlags::NOSIGNAL))?;
        }
        let request = request.encode(&self.key);
        // Blocks while the server's queue is full.
        server_call(|| {
            scm_rights::send(&control, Some(&socket_server), &request, server_end.as_fd()).map_err(errno)
        })?;
        drop(server_end);
        let mut bytes = [0; ANSWER_BYTES];
        let message = server_call(|| scm_rights::receive(&end, &mut bytes, true).map_err(errno))?;
        if message.lost {
            return Err(Errno::MFILE);
        }
        let answer = Answer::decode(&bytes[..message.len]).ok_or(Errno::NETDOWN)?;
        Ok(Reply { answer, end, brought: message.fd })
    }

    /// Sends a request and receives the message that follows the answer, into `bytes`.
    fn ask_for<'a>(&self, request: &Request, bytes: &'a mut [u8]) -> Result<&'a [u8], Errno> {
        let asked = self.ask(request)?;
        if let Answer::No(errno) = asked.answer {
            return Err(Errno::from_raw_os_error(errno));
        }
        let (len, _) = server_call(|| recv(&asked.end, &mut *bytes, RecvFlags::empty()))?;
        Ok(&bytes[..len])
    }

    /// Addresses of UDP socket `id`: local, and the peer's if it is connected.
    ///
    /// # Errors
    /// The errors of [`ask`](Self::ask).
    pub fn ends(&self, id: u64) -> Result<(SocketAddr, Option<SocketAddr>), Errno> {
        let mut bytes = [0; 2 * datagram_header::LEN];
        let reply = self.ask_for(&Request::Ends { id }, &mut bytes)?;
        let envelopes = reply.chunks_exact(datagram_header::LEN).map(DatagramHeader::decode);
        match envelopes.collect::<Vec<_>>()[..] {
            [Some(DatagramHeader::Peer(local)), Some(DatagramHeader::Peer(peer))] => Ok((local, Some(peer))),
            [Some(DatagramHeader::Peer(local)), Some(DatagramHeader::Connected)] => Ok((local, None)),
            _ => Err(Errno::NETDOWN),
        }
    }

    /// Value of option `name` at `level` of socket `id`, as getsockopt(2) returns it for the
    /// stack's TCP or UDP.
    ///
    /// # Errors
    /// The errors of [`ask`](Self::ask); `ENOPROTOOPT`: the stack does not implement it.
    pub fn option(&self, id: u64, level: i32, name: i32) -> Result<Vec<u8>, Errno> {
        let mut value = [0; OPTION_BYTES_MAX];
        Ok(self.ask_for(&Request::GetOption { id, level, name }, &mut value)?.to_vec())
    }

    /// Data of connection `id` that was received after the program had shut down reading, into
    /// `bytes`; `peek` leaves it. Returns its length, 0 if there is none.
    ///
    /// # Errors
    /// The errors of [`ask`](Self::ask).
    pub fn late(&self, id: u64, bytes: &mut [u8], peek: bool) -> Result<usize, Errno> {
        let len = bytes.len().min(LATE_BYTES_MAX) as u32;
        Ok(self.ask_for(&Request::Late { id, len, peek }, bytes)?.len())
    }

    /// The stack's addresses.
    ///
    /// # Errors
    /// The errors of [`ask`](Self::ask).
    pub fn interface(&self) -> Result<StackInterface, Errno> {
        let mut bytes = [0; StackInterface::BYTES_MAX];
        StackInterface::decode(self.ask_for(&Request::Interface, &mut bytes)?).ok_or(Errno::NETDOWN)
    }

    /// Maps the label table.
    ///
    /// # Errors
    /// The errors of [`ask`](Self::ask), or mapping failed.
    pub fn labels(&self) -> Result<LabelReader, Errno> {
        self.map(&Request::Labels, LabelReader::map)
    }

    /// Maps the header of the shared-memory send buffers.
    ///
    /// # Errors
    /// The errors of [`labels`](Self::labels).
    pub fn outboxes(&self) -> Result<ShmSendBuffers, Errno> {
        self.map(&Request::Outboxes, ShmSendBuffers::map)
    }

    /// Maps the send buffer of connection `id`.
    ///
    /// # Errors
    /// The errors of [`labels`](Self::labels).
    pub fn reach(&self, outboxes: &ShmSendBuffers, id: u64) -> Result<(), Errno> {
        self.map(&Request::Outboxes, |file| outboxes.reach(file, id))
    }

    /// True if `fd` is connection `id` of this server, by its peer's name in the kernel.
    #[must_use]
    pub fn is_connection(&self, fd: BorrowedFd<'_>, id: u64) -> bool {
        let named = getpeername(fd).ok().flatten().and_then(|addr| SocketAddrUnix::try_from(addr).ok());
        let number = named.and_then(|addr| Name::decode_number(addr.abstract_name()?));
        number == Some((self.run, id))
    }

    /// Maps the file that `request` returns.
    fn map<T>(
        &self,
        request: &Request,
        map: impl FnOnce(BorrowedFd<'_>) -> io::Result<T>,
    ) -> Result<T, Errno> {
        let asked = self.ask(request)?;
        let message = server_call(|| scm_rights::receive(&asked.end, &mut [0; 16], true).map_err(errno))?;
        map(message.fd.ok_or(Errno::NETDOWN)?.as_fd()).map_err(errno)
    }
}

/// Result of `call`, retried after signals; `ENETDOWN` for errors that mean that the server is
/// gone.
fn server_call<T>(call: impl FnMut() -> Result<T, Errno>) -> Result<T, Errno> {
    retry_on_intr(call).map_err(|errno| match errno {
        Errno::CONNREFUSED | Errno::PIPE | Errno::NOTCONN | Errno::CONNRESET => Errno::NETDOWN,
        other => other,
    })
}

fn errno(error: io::Error) -> Errno {
    match error.kind() {
        io::ErrorKind::OutOfMemory => Errno::NOMEM,
        _ => Errno::from_io_error(&error).unwrap_or(Errno::IO),
    }
}

impl Name {
    /// Name of `fd`, if it has the form of a stack socket's name.
    #[must_use]
    pub fn of(fd: BorrowedFd<'_>) -> Option<Self> {
        let addr = SocketAddrUnix::try_from(getpeername(fd).ok()??).ok()?;
        Self::decode(addr.abstract_name()?)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::thread::JoinHandleExt;
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::time::Instant;

    use rustix::net::{bind, connect};

    use super::super::socket_name::SocketKind;
    use super::*;

    static HANDLED: AtomicU32 = AtomicU32::new(0);

    extern "C" fn on_signal(_: libc::c_int) {
        HANDLED.fetch_add(1, Ordering::Relaxed);
    }

    /// Installs a handler for SIGURG without SA_RESTART.
    fn listen() {
        // SAFETY: all zeros are no flags, an empty mask and the default action.
        let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
        let handler: extern "C" fn(libc::c_int) = on_signal;
        action.sa_sigaction = handler as libc::sighandler_t;
        // SAFETY: the handler only adds to an atomic; `action` lives through the call.
        unsafe { libc::sigaction(libc::SIGURG, &raw const action, std::ptr::null_mut()) };
    }

    #[test]
    fn a_signal_ends_no_question_that_waits_for_room() {
        listen();
        let shim_client = ShimClient { run: std::process::id() ^ 0x5eed_5eed, key: [7; 16] };
        let name = SocketAddrUnix::new_abstract_name(server_name(shim_client.run).as_bytes()).unwrap();
        let socket = || {
            let flags = SocketFlags::CLOEXEC;
            socket_with(AddressFamily::UNIX, SocketType::DGRAM, flags, None).unwrap()
        };
        assert_eq!(shim_client.ask(&Request::Labels).unwrap_err(), Errno::NETDOWN, "no server");
        let socket_server = socket();
        bind(&socket_server, &name).unwrap();
        // The system limits the queue's length and the bytes that one socket may send.
        let sent_some = || {
            let other = socket();
            connect(&other, &name).unwrap();
            let sent = std::iter::repeat_with(|| send(&other, b"no question", SendFlags::DONTWAIT));
            sent.take_while(Result::is_ok).count() > 0
        };
        while sent_some() {}
        let before = HANDLED.load(Ordering::Relaxed);
        let asking = std::thread::spawn(move || shim_client.ask(&Request::Labels).map(|asked| asked.answer));
        let start = Instant::now();
        while HANDLED.load(Ordering::Relaxed) < before + 20 && !asking.is_finished() {
            assert!(start.elapsed() < Duration::from_secs(30), "no signal is handled");
            std::thread::yield_now();
            // SAFETY: the thread is joined only below.
            unsafe { libc::pthread_kill(asking.as_pthread_t(), libc::SIGURG) };
        }
        assert!(!asking.is_finished(), "the request is pending");
        let mut bytes = [0; super::super::REQUEST_BYTES_MAX];
        let question = loop {
            let message = scm_rights::receive(&socket_server, &mut bytes, true).unwrap();
            if let Some(end) = message.fd {
                break end;
            }
        };
        send(&question, &Answer::Done.encode(), SendFlags::NOSIGNAL).unwrap();
        assert_eq!(asking.join().unwrap(), Ok(Answer::Done));
    }

    #[test]
    fn a_name_of_another_desk_is_none_of_ours() {
        let shim_client = ShimClient { run: 7, key: [7; 16] };
        let end: SocketAddr = "10.0.0.1:53".parse().unwrap();
        let known = |run| {
            let flags = SocketFlags::CLOEXEC;
            let (client_end, ours) =
                socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
            let id = u64::from(std::process::id());
            let name = Name { run, kind: SocketKind::Datagrams, six: false, id, local: end, remote: end };
            bind(&client_end, &SocketAddrUnix::new_abstract_name(&name.encode()).unwrap()).unwrap();
            assert_eq!(Name::of(ours.as_fd()), Some(name), "a name of the same format");
            shim_client.name(ours.as_fd()).map(|name| name.run)
        };
        assert_eq!((known(7), known(8)), (Some(7), None));
    }
}
