//! Makes an interface hear every multicast for as long as we live.
//!
//! A card passes up only the multicasts that somebody asked for, and IPv6
//! neighbours ask for us by multicast. The wish belongs to a packet socket, so
//! the kernel takes it back when the process ends, however it ends.
//! Source: packet(7), `PACKET_ADD_MEMBERSHIP`.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::sockopt;

/// The wish; taken back when dropped.
#[derive(Debug)]
pub(crate) struct AllMulticast {
    _socket: OwnedFd,
}

impl AllMulticast {
    pub(crate) fn on(index: u32) -> io::Result<Self> {
        // Protocol 0: this socket receives nothing.
        // SAFETY: a plain call; its result is checked.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is fresh and nobody else's.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let wish = libc::packet_mreq {
            mr_ifindex: index as i32,
            mr_type: libc::PACKET_MR_ALLMULTI as u16,
            mr_alen: 0,
            mr_address: [0; 8],
        };
        sockopt::set(&socket, libc::SOL_PACKET, libc::PACKET_ADD_MEMBERSHIP, &wish)?;
        Ok(Self { _socket: socket })
    }
}
