//! UDP sockets for tasks.
//!
//! Received datagrams wait in the stack, the most urgent first, in a bounded queue. A task that
//! receives one runs with its label from then on, and its output has its label. A datagram more
//! urgent than the waiting ones raises the waiting task. A datagram that could not be sent is an
//! error; one that was lost on the way is not reported.

use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use net::stack::{ListenError, SendError, UdpDatagram, UdpId, UdpOptions, UdpPath};
use queueing::Label;

use super::control_block::{UNLABELED, pack, unpack};
use super::handle::{Shared, lock};
use super::waiter::Waiter;
use super::{Handle, current};

/// A UDP socket. One task may receive at a time, any number may send.
pub struct UdpSocket {
    home: Arc<Shared>,
    id: UdpId,
    local: SocketAddr,
}

/// A received datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DatagramInfo {
    /// Bytes consumed.
    pub len: usize,
    /// Sender.
    pub remote: SocketAddr,
    /// Our address to which the datagram was sent.
    pub local: IpAddr,
}

impl UdpSocket {
    /// Binds `port` of the current task's stack; 0 selects a free one.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`]; [`io::ErrorKind::AddrNotAvailable`] if no port is free.
    ///
    /// # Panics
    /// If called outside a task; see [`Handle::bind_udp`].
    pub fn bind(port: u16) -> io::Result<Self> {
        Handle::current().bind_udp(port, UdpOptions::default())
    }

    /// Local address.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.local
    }

    /// Receives the most urgent datagram into `buf`, truncated to its length.
    pub async fn recv_from(&mut self, buf: &mut [u8]) -> DatagramInfo {
        poll_fn(|cx| {
            self.poll_recv_with(cx, |payload| {
                let len = payload.len().min(buf.len());
                buf[..len].copy_from_slice(&payload[..len]);
                len
            })
        })
        .await
    }

    /// Passes the most urgent datagram to `take`, whose result becomes [`DatagramInfo::len`]. The task
    /// runs with its label from then on.
    pub fn poll_recv_with(
        &mut self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&[u8]) -> usize,
    ) -> Poll<DatagramInfo> {
        let now = self.home.now();
        let mut sockets = lock(&self.home.sockets);
        let Some(datagram) = sockets.stack.receive_from(now, self.id) else {
            let before = sockets.udp_waiters.insert(self.id, Waiter::new(cx));
            drop(sockets);
            drop(before);
            return Poll::Pending;
        };
        let UdpDatagram { remote, local, payload, label, .. } = datagram;
        let before = sockets.udp_waiters.remove(&self.id);
        let len = take(&payload);
        sockets.stack.recycle(payload);
        drop(sockets);
        drop(before);
        current::with(|running| running.task.set_label(pack(now, label)));
        Poll::Ready(DatagramInfo { len, remote, local })
    }

    /// Sends `payload` to `remote` at the task's level. Never waits.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if the send queue is full;
    /// [`io::ErrorKind::NetworkUnreachable`]; [`io::ErrorKind::InvalidInput`] if it is longer than
    /// a datagram can be.
    pub fn send_to(&self, payload: &[u8], remote: SocketAddr) -> io::Result<()> {
        self.send_from(IpAddr::V4(Ipv4Addr::UNSPECIFIED), payload, remote)
    }

    /// Sends `payload` back to the sender of `received`, from the address to which it was sent.
    ///
    /// # Errors
    /// The errors of [`UdpSocket::send_to`].
    pub fn answer(&self, received: &DatagramInfo, payload: &[u8]) -> io::Result<()> {
        self.send_from(received.local, payload, received.remote)
    }

    fn send_from(&self, local: IpAddr, payload: &[u8], remote: SocketAddr) -> io::Result<()> {
        let now = self.home.now();
        let label = current::with(|running| running.task.label()).unwrap_or(UNLABELED);
        let label = Label { deadline: None, ..unpack(now, label) };
        let path = UdpPath { id: self.id, local, remote };
        let sent = lock(&self.home.sockets).stack.answer(&path, &label.into(), payload);
        self.home.notify();
        sent.map_err(|e| match e {
            SendError::NotOpen => io::ErrorKind::NotConnected.into(),
            SendError::NoRoute => io::ErrorKind::NetworkUnreachable.into(),
            SendError::TooLong => io::ErrorKind::InvalidInput.into(),
            SendError::Full => io::ErrorKind::WouldBlock.into(),
        })
    }
}

/// Drops the queued datagrams and frees the port.
impl Drop for UdpSocket {
    fn drop(&mut self) {
        let mut sockets = lock(&self.home.sockets);
        sockets.stack.close_udp(self.id);
        let waiter = sockets.udp_waiters.remove(&self.id);
        drop(sockets);
        drop(waiter);
    }
}

impl Handle {
    /// Binds `port` for datagrams; 0 selects a free one.
    ///
    /// # Errors
    /// [`io::ErrorKind::AddrInUse`]; [`io::ErrorKind::AddrNotAvailable`] if no port is free.
    pub fn bind_udp(&self, port: u16, options: UdpOptions) -> io::Result<UdpSocket> {
        let mut sockets = lock(&self.0.sockets);
        let id = sockets.stack.bind_udp(port, options).map_err(|e| match e {
            ListenError::PortInUse(_) | ListenError::TooMany => io::ErrorKind::AddrInUse,
            ListenError::PortZero => io::ErrorKind::AddrNotAvailable,
        })?;
        let local = SocketAddr::new(sockets.stack.config().addr.into(), id.0);
        Ok(UdpSocket { home: self.0.clone(), id, local })
    }
}
