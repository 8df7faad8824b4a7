//! Descriptor passing between processes (unix(7), SCM_RIGHTS).

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, recvmsg, sendmsg, sendmsg_addr,
};

/// A received message.
#[derive(Debug)]
pub struct ReceivedMessage {
    /// Length in bytes; 0 also at the end of the stream.
    pub len: usize,
    /// Descriptor received with the message.
    pub fd: Option<OwnedFd>,
    /// A descriptor was lost because this process has none left.
    pub lost: bool,
}

/// Sends `bytes` and `fd` as one message, to `to` or to the connected peer. Blocks while the queue
/// is full, unless the socket is non-blocking.
///
/// # Errors
/// An error of sendmsg(2).
pub fn send(
    socket: impl AsFd,
    to: Option<&SocketAddrUnix>,
    bytes: &[u8],
    fd: BorrowedFd<'_>,
) -> io::Result<()> {
    send_with(socket, to, bytes, fd, SendFlags::NOSIGNAL)
}

/// Sends to the connected peer without blocking, for the socket server. `O_NONBLOCK` does not
/// suffice: it belongs to the file, and programs that share the file may change it.
///
/// # Errors
/// An error of sendmsg(2); `EAGAIN`: the queue is full.
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
    assert!(control.push(SendAncillaryMessage::ScmRights(&fds)), "a buffer for one descriptor");
    let iov = [IoSlice::new(bytes)];
    match to {
        Some(to) => sendmsg_addr(socket, to, &iov, &mut control, flags)?,
        None => sendmsg(socket, &iov, &mut control, flags)?,
    };
    Ok(())
}

/// Descriptor received with a message.
pub(super) fn brought(control: &mut RecvAncillaryBuffer<'_>) -> Option<OwnedFd> {
    let fds = control.drain().filter_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
        _ => None,
    });
    fds.last()
}

/// Receives one message into `bytes`; `cloexec` sets close-on-exec on its descriptor.
///
/// # Errors
/// An error of recvmsg(2).
pub fn receive(socket: impl AsFd, bytes: &mut [u8], cloexec: bool) -> io::Result<ReceivedMessage> {
    let flags = if cloexec { RecvFlags::CMSG_CLOEXEC } else { RecvFlags::empty() };
    receive_with(socket, bytes, flags)
}

/// Receives without blocking, for the socket server, as [`hand`]; sets close-on-exec.
///
/// # Errors
/// An error of recvmsg(2); `EAGAIN`: the queue is empty.
pub(super) fn receive_now(socket: impl AsFd, bytes: &mut [u8]) -> io::Result<ReceivedMessage> {
    receive_with(socket, bytes, RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT)
}

fn receive_with(socket: impl AsFd, bytes: &mut [u8], flags: RecvFlags) -> io::Result<ReceivedMessage> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let got = recvmsg(socket, &mut [IoSliceMut::new(bytes)], &mut control, flags)?;
    let fd = brought(&mut control);
    let lost = fd.is_none() && got.flags.contains(ReturnFlags::CTRUNC);
    Ok(ReceivedMessage { len: got.bytes, fd, lost })
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
        let mut passed = UnixStream::from(message.fd.expect("a descriptor"));
        passed.write_all(b"hello").unwrap();
        drop(passed);
        let mut text = String::new();
        kept.read_to_string(&mut text).unwrap();
        assert_eq!(text, "hello", "the last copy is closed");
        drop(a);
        let end = receive(&b, &mut bytes, true).unwrap();
        assert_eq!((end.len, end.fd.is_none()), (0, true));
    }
}
