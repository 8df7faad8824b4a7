//! Packet socket for frames longer than the MTU, which the kernel segments: send only, one frame per
//! system call. Also used by devices that send all other frames another way.
//!
//! Source: packet(7), PACKET_VNET_HDR.

use std::fs::File;

use net::device::Full;

use super::{BUFFER, PACKET_VNET_HDR, SOL_PACKET, bind, refusal, socket};
use crate::tx_frame::TxFrame;
use host::interface::{Interface, InterfaceError};
use host::sockopt;

/// The socket, and the frame that waits to be sent.
#[derive(Debug)]
pub(crate) struct RawSocket {
    socket: File,
    outgoing: TxFrame,
}

impl RawSocket {
    /// A socket for `interface`.
    ///
    /// # Errors
    /// The kernel's error.
    pub(crate) fn open(interface: &Interface) -> Result<Self, InterfaceError> {
        let refused = |what| move |e: std::io::Error| refusal(&interface.name, what, e);
        let socket = socket(libc::SOCK_NONBLOCK).map_err(refused("a packet socket"))?;
        sockopt::set(&socket, SOL_PACKET, PACKET_VNET_HDR, &1).map_err(refused("segmentation offload"))?;
        // A smaller buffer than requested will do.
        let _ = sockopt::set(&socket, libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &BUFFER);
        bind(&socket, interface.index, 0).map_err(refused("a packet socket on it"))?;
        Ok(Self { socket: File::from(socket), outgoing: TxFrame::new() })
    }

    /// As [`Device::transmit_cut`](net::Device::transmit_cut).
    ///
    /// # Errors
    /// [`Full`] while an earlier frame waits.
    pub(crate) fn send(
        &mut self,
        len: usize,
        size: u16,
        fill: &mut dyn FnMut(&mut [u8]),
    ) -> Result<(), Full> {
        self.outgoing.send(&self.socket, len, Some(size), fill)
    }

    /// Passes the waiting frame to the kernel; true if it still waits.
    pub(crate) fn flush(&mut self) -> bool {
        self.outgoing.flush(&self.socket);
        self.outgoing.is_held()
    }

    /// True if a frame waits.
    pub(crate) fn is_held(&self) -> bool {
        self.outgoing.is_held()
    }
}
