//! Datagrams over the socket pair of a UDP socket: a header, then the payload.
//!
//! The header precedes the program's iovecs. The kernel does the rest: blocking, MSG_PEEK,
//! MSG_TRUNC, MSG_DONTWAIT, timeouts. A header may report that an earlier datagram was
//! undeliverable. The next send or receive returns that error, as with the kernel's UDP.

use std::ffi::{c_int, c_void};
use std::net::{IpAddr, SocketAddr};

use libc::{iovec, msghdr, ssize_t};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv};
use shim::datagram_header::{LEN, PAYLOAD_MAX, SEGMENTS_MAX};
use shim::{Cmsg, DatagramHeader, Name};

use crate::real_fn::next;
use crate::{borrow, errors, fail, label};

/// Received datagram.
#[derive(Debug)]
pub(crate) struct ReceivedDatagram {
    /// Length, as recv(2) returns it.
    pub len: usize,
    /// Sender; `None` after the socket was shut down.
    pub from: Option<SocketAddr>,
    /// Ancillary data that the program requested.
    pub cmsg: Cmsg,
    /// `msg_flags`.
    pub flags: c_int,
}

/// Number of iovecs that fit without an allocation.
const FEW: usize = 16;

/// `iovec` of one buffer.
pub(crate) fn piece(bytes: *const c_void, len: usize) -> iovec {
    iovec { iov_base: bytes.cast_mut(), iov_len: len }
}

/// Calls `call` with the message that consists of `envelope` and `pieces`.
fn with<T>(envelope: &mut [u8; LEN], pieces: &[iovec], call: impl FnOnce(&mut msghdr) -> T) -> T {
    let head = piece(envelope.as_mut_ptr().cast(), LEN);
    let mut few = [piece(std::ptr::null(), 0); FEW + 1];
    let mut many = Vec::new();
    let all = match few.get_mut(..=pieces.len()) {
        Some(few) => few,
        None => {
            many.resize(pieces.len() + 1, head);
            &mut many[..]
        }
    };
    all[0] = head;
    all[1..].copy_from_slice(pieces);
    // SAFETY: a zeroed header is an empty message.
    let mut message: msghdr = unsafe { std::mem::zeroed() };
    message.msg_iov = all.as_mut_ptr();
    message.msg_iovlen = all.len();
    call(&mut message)
}

/// Receives a datagram into `pieces`; `None`: errno is set.
///
/// # Safety
/// `pieces` are the iovecs that the program passed to recvmsg(2).
pub(crate) unsafe fn receive(fd: c_int, pieces: &[iovec], flags: c_int) -> Option<ReceivedDatagram> {
    type Real = unsafe extern "C-unwind" fn(c_int, *mut msghdr, c_int) -> ssize_t;
    if flags & libc::MSG_ERRQUEUE != 0 {
        fail(Errno::AGAIN);
        return None;
    }
    let mut envelope = [0; LEN];
    let (got, received_flags) = with(&mut envelope, pieces, |message| {
        let message: *mut msghdr = message;
        // There is no urgent data; the kernel's UDP ignores the flag.
        let got = next!(recvmsg(fd, message, flags & !libc::MSG_OOB) as Real);
        // SAFETY: the message is a local of `with`.
        (got, unsafe { (*message).msg_flags })
    });
    let got = usize::try_from(got).ok()?;
    if got == 0 && (flags & libc::MSG_DONTWAIT != 0 || is_nonblocking(fd)) && !errors::is_hung_up(fd) {
        // Shut down for reading: only blocking calls return 0.
        fail(Errno::AGAIN);
        return None;
    }
    if got == 0 {
        return Some(ReceivedDatagram { len: 0, from: None, cmsg: Cmsg::default(), flags: 0 });
    }
    // A message shorter than the header is not from the stack.
    match (DatagramHeader::decode(&envelope), got.checked_sub(LEN)) {
        (Some(DatagramHeader::Peer(from)), Some(len)) => {
            let cmsg = Cmsg::decode(&envelope);
            Some(ReceivedDatagram { len, from: Some(from), cmsg, flags: received_flags })
        }
        (Some(DatagramHeader::Failed(errno)), Some(_)) => {
            if flags & libc::MSG_PEEK != 0 {
                take_failure(fd);
            }
            fail(Errno::from_raw_os_error(errno.into()));
            None
        }
        _ => {
            fail(Errno::IO);
            None
        }
    }
}

fn is_nonblocking(fd: c_int) -> bool {
    borrow(fd).and_then(|fd| fcntl_getfl(fd).ok()).is_some_and(|flags| flags.contains(OFlags::NONBLOCK))
}

/// Sends `pieces` to `to`, or to the connected peer, with ancillary data `cmsg`.
///
/// # Safety
/// `pieces` are the iovecs that the program passed to sendmsg(2).
pub(crate) unsafe fn send(
    fd: c_int,
    name: &Name,
    to: Option<SocketAddr>,
    cmsg: Cmsg,
    pieces: &[iovec],
    flags: c_int,
) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, *const msghdr, c_int) -> ssize_t;
    let failed = |errno| fail(errno) as ssize_t;
    let len = pieces.iter().fold(0_usize, |len, piece| len.saturating_add(piece.iov_len));
    let far6 = to.map_or(name.six, |to| to.is_ipv6());
    // IPv6 ignores MSG_OOB.
    if flags & libc::MSG_MORE != 0 || flags & libc::MSG_OOB != 0 && !far6 {
        return failed(Errno::OPNOTSUPP);
    }
    match to {
        Some(to) if to.port() == 0 => return failed(Errno::INVAL),
        Some(_) if far6 && !name.six => return failed(Errno::AFNOSUPPORT),
        Some(_) if let Some(errno) = other_family(name, far6) => return failed(errno),
        _ if len > PAYLOAD_MAX[usize::from(far6)] => return failed(Errno::MSGSIZE),
        _ if cmsg.segment > 0 && len.div_ceil(cmsg.segment.into()) > SEGMENTS_MAX => {
            return failed(Errno::INVAL);
        }
        _ => {}
    }
    // A connected socket reports the failure of an earlier datagram first.
    let connected = label::is_connected(name);
    if (to.is_none() || connected == Some(true))
        && let Some(errno) = failure(fd)
    {
        return failed(errno);
    }
    if to.is_none() && connected == Some(false) {
        return failed(Errno::DESTADDRREQ);
    }
    let mut envelope = to.map_or(DatagramHeader::Connected, DatagramHeader::Peer).encode_with(cmsg);
    let sent = with(&mut envelope, pieces, |message| {
        let message: *const msghdr = message;
        next!(sendmsg(fd, message, flags & libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL) as Real)
    });
    match sent {
        sent @ 0.. => (sent - LEN as ssize_t).max(0),
        failed => failed,
    }
}

/// Error of sending over IPv6 (`far6`) or IPv4 from socket `name`, whose own address is of the other
/// family (Linux, `udpv6_sendmsg`).
fn other_family(name: &Name, far6: bool) -> Option<Errno> {
    match name.local.ip() {
        IpAddr::V6(bound) if !far6 && !bound.is_unspecified() => Some(Errno::NETUNREACH),
        IpAddr::V4(_) if far6 => Some(Errno::AFNOSUPPORT),
        _ => None,
    }
}

/// Takes the error of an earlier datagram, if it is the next message. It is reported once.
pub(crate) fn failure(fd: c_int) -> Option<Errno> {
    let (envelope, len) = read_head(fd, RecvFlags::PEEK)?;
    match (DatagramHeader::decode(&envelope), len) {
        (Some(DatagramHeader::Failed(errno)), LEN) => {
            take_failure(fd);
            Some(Errno::from_raw_os_error(errno.into()))
        }
        _ => None,
    }
}

/// Removes a failure message.
fn take_failure(fd: c_int) {
    read_head(fd, RecvFlags::empty());
}

/// Header of the next message, if there is one, and the message's length. It leaves the program's
/// errno as it is and is no cancellation point.
fn read_head(fd: c_int, flags: RecvFlags) -> Option<([u8; LEN], usize)> {
    let mut envelope = [0; LEN];
    let flags = flags | RecvFlags::DONTWAIT | RecvFlags::TRUNC;
    let (_, len) = recv(borrow(fd)?, &mut envelope[..], flags).ok()?;
    (len > 0).then_some((envelope, len))
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsRawFd, OwnedFd};

    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, socketpair};
    use shim::socket_name::SocketKind;

    use super::*;

    fn pair() -> (OwnedFd, OwnedFd) {
        socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap()
    }

    fn name(six: bool) -> Name {
        let end = if six { "[::]:53" } else { "10.0.0.1:53" }.parse().unwrap();
        Name { run: 1, kind: SocketKind::Datagrams, six, id: 2, local: end, remote: end }
    }

    fn errno() -> Option<i32> {
        std::io::Error::last_os_error().raw_os_error()
    }

    fn come(end: &OwnedFd, envelope: DatagramHeader, payload: &[u8]) {
        let bytes = [&envelope.encode()[..], payload].concat();
        rustix::net::send(end, &bytes, SendFlags::empty()).unwrap();
    }

    fn get(fd: &OwnedFd, buf: &mut [u8], flags: c_int) -> Option<(usize, Option<SocketAddr>, c_int)> {
        let pieces = [piece(buf.as_ptr().cast(), buf.len())];
        // SAFETY: the iovec is `buf`.
        let got = unsafe { receive(fd.as_raw_fd(), &pieces, flags | libc::MSG_DONTWAIT) };
        got.map(|got| (got.len, got.from, got.flags & libc::MSG_TRUNC))
    }

    fn put(fd: &OwnedFd, six: bool, to: Option<&str>, payload: &[u8]) -> ssize_t {
        let pieces: Vec<iovec> =
            payload.chunks(3).map(|part| piece(part.as_ptr().cast(), part.len())).collect();
        let to = to.map(|to| to.parse().unwrap());
        // SAFETY: the iovecs are of `payload`.
        unsafe { send(fd.as_raw_fd(), &name(six), to, Cmsg::default(), &pieces, 0) }
    }

    #[test]
    fn a_program_sees_the_payload_and_its_sender() {
        let (program, end) = pair();
        let peer: SocketAddr = "10.0.0.9:7".parse().unwrap();
        let mut buf = [0; 8];
        assert_eq!((get(&end, &mut buf, 0), errno()), (None, Some(libc::EAGAIN)));
        for payload in [&b"hello"[..], b"", b"more than eight"] {
            come(&program, DatagramHeader::Peer(peer), payload);
        }
        assert_eq!(get(&end, &mut buf, libc::MSG_PEEK), Some((5, Some(peer), 0)));
        assert_eq!(get(&end, &mut buf, 0), Some((5, Some(peer), 0)));
        assert_eq!(&buf[..5], b"hello");
        assert_eq!(get(&end, &mut buf, 0), Some((0, Some(peer), 0)), "an empty datagram");
        let (peek, trunc) = (libc::MSG_PEEK, libc::MSG_TRUNC);
        assert_eq!(get(&end, &mut buf, peek | trunc), Some((15, Some(peer), trunc)));
        assert_eq!(get(&end, &mut buf, 0), Some((8, Some(peer), trunc)));
        assert_eq!(&buf, b"more tha");
        drop(program);
        assert_eq!(get(&end, &mut buf, 0), Some((0, None, 0)), "end of stream");
    }

    #[test]
    fn what_is_shorter_than_an_envelope_is_an_error_and_no_length() {
        let (ours, peer) = pair();
        let mut buf = [0; 8];
        for envelope in [DatagramHeader::Peer("10.0.0.9:7".parse().unwrap()), DatagramHeader::Failed(111)] {
            for len in [1, 20, LEN - 1] {
                rustix::net::send(&ours, &envelope.encode()[..len], SendFlags::empty()).unwrap();
                assert_eq!((get(&peer, &mut buf, 0), errno()), (None, Some(libc::EIO)), "{len} bytes");
            }
        }
    }

    #[test]
    fn the_stack_sees_the_payload_and_whom_it_is_for() {
        let (ours, end) = pair();
        let peer = "10.0.0.9:7";
        let noise: Vec<u8> = (0..100).collect();
        assert_eq!(put(&end, false, Some(peer), &noise), 100, "in more iovecs than `FEW`");
        assert_eq!(put(&end, false, None, b""), 0);
        let mut bytes = [0; 200];
        let (len, _) = recv(&ours, &mut bytes[..], RecvFlags::empty()).unwrap();
        assert_eq!(DatagramHeader::decode(&bytes), Some(DatagramHeader::Peer(peer.parse().unwrap())));
        assert_eq!(bytes[LEN..len], noise);
        let (len, _) = recv(&ours, &mut bytes[..], RecvFlags::empty()).unwrap();
        assert_eq!((DatagramHeader::decode(&bytes), len), (Some(DatagramHeader::Connected), LEN));
    }

    #[test]
    fn what_udp_cannot_send_is_refused() {
        let (_ours, peer) = pair();
        let refused = |six, to: &str, len, expected| {
            assert_eq!((put(&peer, six, Some(to), &vec![0; len]), errno()), (-1, Some(expected)), "{to}");
        };
        refused(false, "10.0.0.9:0", 1, libc::EINVAL);
        refused(false, "[fd00::9]:7", 1, libc::EAFNOSUPPORT);
        refused(true, "10.0.0.9:7", 65_508, libc::EMSGSIZE);
        refused(true, "[fd00::9]:7", 65_528, libc::EMSGSIZE);
    }

    //~ datagrams: a socket with an address of one IP version sends none over the other
    #[test]
    fn a_socket_with_an_address_sends_over_its_family_only() {
        for (local, to, expected) in [
            ("[::]:53", "10.0.0.9:7", None),
            ("[::]:53", "[fd00::9]:7", None),
            ("[fd00::1]:53", "[fd00::9]:7", None),
            ("[fd00::1]:53", "10.0.0.9:7", Some(Errno::NETUNREACH)),
            ("10.0.0.1:53", "10.0.0.9:7", None),
            ("10.0.0.1:53", "[fd00::9]:7", Some(Errno::AFNOSUPPORT)),
            ("0.0.0.0:53", "[fd00::9]:7", Some(Errno::AFNOSUPPORT)),
        ] {
            let to: SocketAddr = to.parse().unwrap();
            let of = Name { local: local.parse().unwrap(), ..name(true) };
            assert_eq!(other_family(&of, to.is_ipv6()), expected, "{local} to {to}");
        }
    }

    //~ datagrams: a connected socket reports a missing listener once, by the next call
    #[test]
    fn a_failure_is_returned_once_by_the_first_call() {
        let (ours, peer) = pair();
        let refused = || come(&ours, DatagramHeader::Failed(111), b"");
        let mut buf = [0; 8];
        refused();
        assert_eq!((get(&peer, &mut buf, 0), errno()), (None, Some(111)));
        refused();
        assert_eq!((get(&peer, &mut buf, libc::MSG_PEEK), errno()), (None, Some(111)));
        assert_eq!((get(&peer, &mut buf, 0), errno()), (None, Some(libc::EAGAIN)), "a peek takes the error");
        refused();
        assert_eq!((put(&peer, false, None, b"x"), errno()), (-1, Some(111)));
        assert_eq!(put(&peer, false, None, b"x"), 1);
        refused();
        assert_eq!(put(&peer, false, Some("10.0.0.9:7"), b"x"), 1, "to another address");
        assert_eq!(failure(peer.as_raw_fd()), Some(Errno::CONNREFUSED));
        assert_eq!(failure(peer.as_raw_fd()), None);
        come(&ours, DatagramHeader::Peer("10.0.0.9:7".parse().unwrap()), b"");
        assert_eq!(failure(peer.as_raw_fd()), None, "a datagram is no error");
        assert!(get(&peer, &mut buf, 0).is_some(), "and is not removed");
    }
}
