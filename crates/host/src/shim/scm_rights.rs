//! Messages that carry a descriptor to another process (unix(7), SCM_RIGHTS).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, recvmsg, sendmsg, sendmsg_addr,
};

/// A message as it came.
#[derive(Debug)]
pub struct Message {
    /// Its length in bytes; 0 also when nobody sends any more.
    pub len: usize,
    /// The descriptor that came with it.
    pub fd: Option<OwnedFd>,
    /// One came that this process has no room for; it is gone.
    pub lost: bool,
}

/// Sends `bytes` and `fd` as one message: to `to`, or to whom `socket` is connected with. Waits for room,
/// unless the socket is one that does not.
///
/// # Errors
/// What sendmsg(2) says.
pub fn send(
    socket: impl AsFd,
    to: Option<&SocketAddrUnix>,
    bytes: &[u8],
    fd: BorrowedFd<'_>,
) -> io::Result<()> {
    send_with(socket, to, bytes, fd, SendFlags::NOSIGNAL)
}

/// The same to whom `socket` is connected with, for the desk, which waits for nobody: whether a socket
/// blocks is for all to say who have its file, and programs may.
///
/// # Errors
/// Likewise; `EAGAIN` where there is no room.
pub(super) fn hand(socket: impl AsFd, bytes: &[u8], fd: BorrowedFd<'_>) -> io::Result<()> {
    send_with(socket, None, bytes, fd, SendFlags::NOSIGNAL | SendFlags::DONTWAIT)
}

fn send_with(
    socket: impl AsFd,
    to: Option<&SocketAddrUnix>,
    bytes: &[u8],
    fd: BorrowedFd<'_>,
    flags: SendFlags,
) -> io::Result<()> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = SendAncillaryBuffer::new(&mut space);
    let fds = [fd];
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)), "there is room for one descriptor");
    let iov = [IoSlice::new(bytes)];
    match to {
        Some(to) => sendmsg_addr(socket, to, &iov, &mut control, flags)?,
        None => sendmsg(socket, &iov, &mut control, flags)?,
    };
    Ok(())
}

/// The descriptor that came with a message.
pub(super) fn brought(control: &mut RecvAncillaryBuffer<'_>) -> Option<OwnedFd> {
    let fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fds.last()
}

/// Receives one message into `bytes`. A descriptor that comes with it closes
/// on exec if `cloexec` says so.
///
/// # Errors
/// What recvmsg(2) says.
pub fn receive(socket: impl AsFd, bytes: &mut [u8], cloexec: bool) -> io::Result<Message> {
    let flags = if cloexec { RecvFlags::CMSG_CLOEXEC } else { RecvFlags::empty() };
    receive_with(socket, bytes, flags)
}

/// The same for the desk, as [`hand`]; the descriptor closes on exec.
///
/// # Errors
/// Likewise; `EAGAIN` where nothing waits.
pub(super) fn receive_now(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<Message> {
    receive_with(socket, bytes, RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT)
}

fn receive_with(socket: impl AsFd, bytes: &mut [u8], flags: RecvFlags) -> io::Result<Message> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let fd = brought(&mut control);
    let lost = fd.is_none() && got.flags.contains(ReturnFlags::CTRUNC);
    Ok(Message { len: got.bytes, fd, lost })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;

    use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};

    use super::*;

    #[test]
    fn a_descriptor_arrives_with_its_message() {
        let (a, b) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None).unwrap();
        let (mut kept, sent) = UnixStream::pair().unwrap();
        send(&a, None, b"here", sent.as_fd()).unwrap();
        drop(sent);
        let mut bytes = [0; 16];
        let message = receive(&b, &mut bytes, true).unwrap();
        assert_eq!((&bytes[..message.len], message.lost), (&b"here"[..], false));
        let mut passed = UnixStream::from(message.fd.expect("it came along"));
        passed.write_all(b"hello").unwrap();
        drop(passed);
        let mut text = String::new();
        kept.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello", "and it is closed with its last copy");
        drop(a);
        let end = receive(&b, &mut bytes, true).unwrap();
        assert_eq!((end.len, end.fd.is_none()), (0, true));
    }
}
