//! Control data that a program sends.
//!
//! The rules depend on the socket and on the destination's address. Source: Linux,
//! `__sock_cmsg_send`, `ip_cmsg_send`, `ip6_datagram_send_ctl`, `__udp_cmsg_send`.

use std::ffi::c_int;
use std::net::{Ipv4Addr, Ipv6Addr};

use libc::{IPPROTO_IP, IPPROTO_IPV6, in_pktinfo, in6_pktinfo, msghdr};
use rustix::io::Errno;
use shim::{Cmsg, PktInfo, class_of_v6};

use super::{Control, all};
use crate::memory;

/// Socket on which control data is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sender {
    /// A connection.
    Stream,
    /// A UDP socket, to an IPv4 address; true if the socket is IPv6.
    Four(bool),
    /// A UDP socket, to an IPv6 address.
    Six,
    /// An IPv6 socket, to the peer to which it is connected, of either family.
    Connected,
}

/// Ancillary data of `message`, which `sender` sends.
///
/// # Errors
/// As in the kernel, `EINVAL`: truncated, unknown, or an invalid value; `ENOBUFS`: longer than the
/// kernel accepts; `EFAULT`. `EOPNOTSUPP`: the kernel knows this control message, the stack does not.
///
/// # Safety
/// `message` is the program's argument to sendmsg(2).
pub(crate) unsafe fn read(message: &msghdr, sender: Sender) -> Result<Cmsg, Errno> {
    /// Order of magnitude of the kernel's limit (`net.core.optmem_max`).
    const MOST: usize = 1 << 17;
    let (start, len) = (message.msg_control.cast_const(), message.msg_controllen);
    if len > MOST {
        return Err(Errno::NOBUFS);
    }
    if !memory::is_readable(start, len) {
        return Err(Errno::FAULT);
    }
    let mut cmsg = Cmsg::default();
    // SAFETY: `len` bytes can be read.
    for control in unsafe { all(start.cast(), len) } {
        let control = control?;
        match (control.of.0, sender) {
            (libc::SOL_SOCKET, _) => of_socket(&control)?,
            // SAFETY: as above.
            (libc::SOL_UDP, Sender::Four(_) | Sender::Six | Sender::Connected) => unsafe {
                cmsg.segment = of_udp(&control)?;
            },
            // SAFETY: as above.
            (IPPROTO_IP, Sender::Four(_)) => unsafe { of_four(&control, &mut cmsg) }?,
            // SAFETY: as above.
            (IPPROTO_IP, Sender::Connected) if OF_FOUR.contains(&control.of.1) => unsafe {
                of_four(&control, &mut cmsg)?;
            },
            // SAFETY: as above.
            (IPPROTO_IPV6, Sender::Six | Sender::Connected) => unsafe { of_six(&control, &mut cmsg) }?,
            // SAFETY: as above.
            (IPPROTO_IPV6, Sender::Four(true)) if control.of.1 == libc::IPV6_PKTINFO => unsafe {
                of_six(&control, &mut cmsg)?;
            },
            // The kernel ignores other levels.
            _ => {}
        }
    }
    Ok(cmsg)
}

/// Control messages of `SOL_SOCKET` (Linux, `__sock_cmsg_send`).
fn of_socket(control: &Control) -> Result<(), Errno> {
    match control.of.1 {
        // Ignored: only Unix sockets pass them.
        libc::SCM_RIGHTS | libc::SCM_CREDENTIALS => Ok(()),
        known if OF_SOCKET.contains(&known) && control.len == size_of::<c_int>() => Err(Errno::OPNOTSUPP),
        _ => Err(Errno::INVAL),
    }
}

/// Control messages of `SOL_SOCKET` that the stack does not implement, all of four bytes: priority,
/// mark, time stamps, device memory. From include/uapi/asm-generic/socket.h.
const OF_SOCKET: [c_int; 5] = [libc::SO_PRIORITY, libc::SO_MARK, libc::SO_TIMESTAMPING, 65, 79];
/// Control messages of IPv4 that apply to a connected IPv6 socket whose peer has an IPv4 address.
const OF_FOUR: [c_int; 3] = [libc::IP_PKTINFO, libc::IP_TOS, libc::IP_TTL];
/// From include/uapi/linux/in.h.
const IP_PROTOCOL: c_int = 52;

/// Segment size (Linux, `__udp_cmsg_send`).
///
/// # Safety
/// `control` is in a buffer that can be read.
unsafe fn of_udp(control: &Control) -> Result<u16, Errno> {
    if control.of.1 != libc::UDP_SEGMENT || control.len != size_of::<u16>() {
        return Err(Errno::INVAL);
    }
    // SAFETY: the caller's.
    unsafe { control.value() }
}

/// Control messages of IPv4 (Linux, `ip_cmsg_send`).
///
/// # Safety
/// `control` is in a buffer that can be read.
unsafe fn of_four(control: &Control, cmsg: &mut Cmsg) -> Result<(), Errno> {
    const INT: usize = size_of::<c_int>();
    match (control.of.1, control.len) {
        (libc::IP_PKTINFO, len) if len == size_of::<in_pktinfo>() => {
            // SAFETY: the caller's.
            let info: in_pktinfo = unsafe { control.value() }?;
            let addr = Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr));
            cmsg.local = Some(PktInfo { addr: addr.into(), interface: info.ipi_ifindex.cast_unsigned() });
        }
        // SAFETY: the caller's.
        (libc::IP_TOS, 1) => cmsg.class = Some(unsafe { control.value() }?),
        (libc::IP_TOS, INT) => {
            // SAFETY: the caller's.
            let class: c_int = unsafe { control.value() }?;
            cmsg.class = Some(u8::try_from(class).map_err(|_| Errno::INVAL)?);
        }
        (kind @ (libc::IP_TTL | IP_PROTOCOL), INT) => {
            // SAFETY: the caller's.
            let value: c_int = unsafe { control.value() }?;
            let value = u8::try_from(value).ok().filter(|value| *value > 0).ok_or(Errno::INVAL)?;
            // The protocol is for raw sockets.
            if kind == libc::IP_TTL {
                cmsg.hops = Some(value);
            }
        }
        (libc::IP_RETOPTS, 1..) => return Err(Errno::OPNOTSUPP),
        (libc::IP_RETOPTS, 0) => {}
        _ => return Err(Errno::INVAL),
    }
    Ok(())
}

/// Control messages of IPv6 (Linux, `ip6_datagram_send_ctl`; RFC 3542, RFC 2292).
///
/// # Safety
/// `control` is in a buffer that can be read.
unsafe fn of_six(control: &Control, cmsg: &mut Cmsg) -> Result<(), Errno> {
    /// From include/uapi/linux/in6.h.
    const PKTINFO: [c_int; 2] = [libc::IPV6_PKTINFO, 2];
    const HOPLIMIT: [c_int; 2] = [libc::IPV6_HOPLIMIT, 8];
    let (kind, is_int) = (control.of.1, control.len == size_of::<c_int>());
    match kind {
        _ if PKTINFO.contains(&kind) => {
            // SAFETY: the caller's.
            let info: in6_pktinfo = unsafe { control.value() }?;
            let addr = Ipv6Addr::from(info.ipi6_addr.s6_addr).to_canonical();
            cmsg.local = Some(PktInfo { addr, interface: info.ipi6_ifindex });
        }
        _ if HOPLIMIT.contains(&kind) && is_int => {
            // SAFETY: the caller's.
            let hops: c_int = unsafe { control.value() }?;
            // -1 is the socket's.
            cmsg.hops = if hops == -1 { None } else { Some(u8::try_from(hops).map_err(|_| Errno::INVAL)?) };
        }
        libc::IPV6_TCLASS if is_int => {
            // SAFETY: the caller's.
            cmsg.class = class_of_v6(unsafe { control.value() }?).ok_or(Errno::INVAL)?;
        }
        known if OF_SIX.iter().any(|&(of, least)| of == known && control.len >= least) => {
            return Err(Errno::OPNOTSUPP);
        }
        _ => return Err(Errno::INVAL),
    }
    Ok(())
}

/// Control messages of IPv6 that the stack does not implement, and their least length: extension
/// headers, flow label, `IPV6_DONTFRAG`.
const OF_SIX: [(c_int, usize); 7] = [
    (3, 8),
    (4, 8),
    (libc::IPV6_HOPOPTS, 8),
    (libc::IPV6_RTHDRDSTOPTS, 8),
    (libc::IPV6_DSTOPTS, 8),
    (libc::IPV6_FLOWINFO, 4),
    (libc::IPV6_DONTFRAG, 4),
];
