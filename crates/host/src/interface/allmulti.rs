//! All-multicast mode of an interface, for the life of this object.
//!
//! A card passes up only requested multicast groups, and IPv6 neighbours solicit us by multicast. The
//! membership belongs to a packet socket, so the kernel drops it when the process ends, however it
//! ends.
//!
//! Source: packet(7), `PACKET_ADD_MEMBERSHIP`.

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

use crate::sockopt;

/// The membership; dropped with this.
#[derive(Debug)]
pub struct AllMulticast {
    _socket: OwnedFd,
}

impl AllMulticast {
    /// Joins all groups of the interface `index`.
    ///
    /// # Errors
    /// The kernel's error: no permission, or no such interface.
    pub fn on(index: u32) -> io::Result<Self> {
        // Protocol 0: this socket receives nothing.
        // SAFETY: a plain call; its result is checked.
        let fd = unsafe { libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the descriptor is new and has no other owner.
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
