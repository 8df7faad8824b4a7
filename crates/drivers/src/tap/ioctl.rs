//! System calls of a TAP device, each wrapped once.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::{AsFd, AsRawFd};

use libc::{__c_anonymous_ifr_ifru as Argument, IFNAMSIZ, c_char, c_short, ifreq};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};

use super::TapError;

/// A device name in the kernel's form: NUL-terminated, at most 15 bytes.
#[derive(Clone, Copy)]
pub(super) struct Name([c_char; IFNAMSIZ]);

impl Name {
    /// # Errors
    /// [`TapError::Name`] for an invalid name.
    pub(super) fn new(text: &str) -> Result<Self, TapError> {
        let bad = |b: u8| b == b'/' || b == b':' || b == b'%' || b == 0 || b.is_ascii_whitespace();
        if text.is_empty() || text.len() >= IFNAMSIZ || text == "." || text == ".." || text.bytes().any(bad) {
            return Err(TapError::Name(text.to_owned()));
        }
        let mut name = [0; IFNAMSIZ];
        name.iter_mut().zip(text.bytes()).for_each(|(to, from)| *to = from as c_char);
        Ok(Self(name))
    }
}

/// Request to an open `/dev/net/tun`.
#[derive(Clone, Copy)]
pub(super) enum TunSetIff {
    /// A device with one queue.
    Single,
    /// The first queue of a device with several.
    FirstQueue,
    /// One more queue of that device.
    NextQueue,
}

/// Makes `file`, an open `/dev/net/tun`, the TAP device `name` or a queue of it. Each frame is preceded
/// by a virtio header, and the kernel neither completes checksums nor segments TCP for us.
pub(super) fn attach(file: &File, name: Name, kind: TunSetIff) -> io::Result<()> {
    let more = match kind {
        // EXCL: never take over a device made by another program.
        TunSetIff::Single => libc::IFF_TUN_EXCL,
        TunSetIff::FirstQueue => libc::IFF_TUN_EXCL | libc::IFF_MULTI_QUEUE,
        TunSetIff::NextQueue => libc::IFF_MULTI_QUEUE,
    };
    let flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR | more;
    request(file, libc::TUNSETIFF, name, Argument { ifru_flags: flags as c_short })?;
    let offloads = libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
    // SAFETY: this request takes an integer; the descriptor is borrowed, so open.
    match unsafe { libc::ioctl(file.as_raw_fd(), libc::TUNSETOFFLOAD, libc::c_ulong::from(offloads)) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Sets the address of device `name`.
pub(super) fn configure(name: Name, addr: Ipv4Addr, prefix: u8) -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let mask = u32::MAX.checked_shl(32 - u32::from(prefix)).unwrap_or(0);
    request(&socket, libc::SIOCSIFADDR, name, Argument { ifru_addr: sockaddr(addr) })?;
    request(&socket, libc::SIOCSIFNETMASK, name, Argument { ifru_netmask: sockaddr(mask.into()) }).map(drop)
}

/// Adds an address to device `name`.
pub(super) fn configure6(name: Name, addr: Ipv6Addr, prefix: u8) -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET6, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let number = request(&socket, libc::SIOCGIFINDEX, name, Argument { ifru_ifindex: 0 })?;
    let addr = libc::in6_addr { s6_addr: addr.octets() };
    let wish = libc::in6_ifreq {
        ifr6_addr: addr,
        ifr6_prefixlen: prefix.into(),
        // SAFETY: this request fills in the index.
        ifr6_ifindex: unsafe { number.ifru_ifindex },
    };
    // SAFETY: on an IPv6 socket this request reads one `in6_ifreq`, which lives on this frame until the
    // call returns.
    match unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFADDR, &raw const wish) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Brings device `name` up.
pub(super) fn up(name: Name) -> io::Result<()> {
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    let flags = libc::IFF_UP | libc::IFF_RUNNING;
    request(&socket, libc::SIOCSIFFLAGS, name, Argument { ifru_flags: flags as c_short }).map(drop)
}

/// One `ifreq` ioctl; its argument after the call.
fn request(fd: impl AsFd, request: libc::Ioctl, name: Name, argument: Argument) -> io::Result<Argument> {
    let mut ifreq = ifreq { ifr_name: name.0, ifr_ifru: argument };
    // SAFETY: all requests above read and write one `ifreq`, which lives on this frame until the call
    // returns; the descriptor is borrowed, so open.
    match unsafe { libc::ioctl(fd.as_fd().as_raw_fd(), request, &raw mut ifreq) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(ifreq.ifr_ifru),
    }
}

/// `addr` in the layout of `sockaddr_in`: port 0 first, then the address.
fn sockaddr(addr: Ipv4Addr) -> libc::sockaddr {
    let mut sa_data = [0; 14];
    sa_data[2..6].iter_mut().zip(addr.octets()).for_each(|(to, from)| *to = from as c_char);
    libc::sockaddr { sa_family: libc::AF_INET as libc::sa_family_t, sa_data }
}
