//! Control data of datagrams: at which address of ours they came, from which
//! they are to leave, and how what a program sends at once is cut into them.
//!
//! As `IP_PKTINFO` says it of a socket of IPv4, and `IPV6_PKTINFO` of one of IPv6,
//! where IPv4 is written as it is mapped; and as `UDP_SEGMENT` does. Other control
//! data that a program sends is refused: what it asks for would not be done.
//! Source: cmsg(3), ip(7), udp(7), RFC 3542 §6.

use std::ffi::c_int;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use host::seam::Here;
use host::seam::envelope::mapped;
use libc::{IPPROTO_IP, IPPROTO_IPV6, cmsghdr, in_pktinfo, in6_pktinfo, msghdr};
use rustix::io::Errno;

/// What a message says of itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Said {
    /// Our end of its datagram.
    pub here: Option<Here>,
    /// Bytes of each datagram that it is to be cut into; 0: nothing is said.
    pub segment: u16,
}

/// What `message` says.
///
/// # Errors
/// `EINVAL`: it is cut short; `EOPNOTSUPP`: it says something else, too.
///
/// # Safety
/// The program's message, for sendmsg(2).
pub(crate) unsafe fn read(message: &msghdr) -> Result<Said, Errno> {
    let mut said = Said::default();
    // SAFETY: the program says how many bytes of control data there are.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(message) };
    // SAFETY: not null, it is a header within those bytes.
    while let Some(header) = unsafe { next.as_ref() } {
        // SAFETY: as above.
        unsafe { one(header, &mut said) }?;
        // SAFETY: as above.
        next = unsafe { libc::CMSG_NXTHDR(message, header) };
    }
    Ok(said)
}

/// # Safety
/// `header` is within the control data of a program's message, of which it says its length.
unsafe fn one(header: &cmsghdr, said: &mut Said) -> Result<(), Errno> {
    /// # Safety
    /// As that of `one`.
    unsafe fn value<T>(header: &cmsghdr) -> Result<T, Errno> {
        // SAFETY: it takes a number and gives one.
        let needed = unsafe { libc::CMSG_LEN(size_of::<T>() as u32) } as usize;
        if header.cmsg_len < needed {
            return Err(Errno::INVAL);
        }
        // SAFETY: so many bytes follow the header, as the program says.
        Ok(unsafe { libc::CMSG_DATA(header).cast::<T>().read_unaligned() })
    }
    match (header.cmsg_level, header.cmsg_type) {
        (IPPROTO_IP, libc::IP_PKTINFO) => {
            // SAFETY: the caller's.
            let info: in_pktinfo = unsafe { value(header) }?;
            let addr = Ipv4Addr::from(u32::from_be(info.ipi_spec_dst.s_addr));
            said.here = Some(Here { addr: addr.into(), interface: info.ipi_ifindex.cast_unsigned() });
        }
        (IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
            // SAFETY: the caller's.
            let info: in6_pktinfo = unsafe { value(header) }?;
            let addr = Ipv6Addr::from(info.ipi6_addr.s6_addr).to_canonical();
            said.here = Some(Here { addr, interface: info.ipi6_ifindex });
        }
        (libc::SOL_UDP, libc::UDP_SEGMENT) => {
            // SAFETY: the caller's.
            said.segment = unsafe { value(header) }?;
        }
        _ => return Err(Errno::OPNOTSUPP),
    }
    Ok(())
}

/// Writes where a datagram came, for a socket that speaks IPv6 if `six`, into the
/// room for control data; MSG_CTRUNC where that has none.
///
/// # Safety
/// The program's message, for recvmsg(2).
pub(crate) unsafe fn write(message: &mut msghdr, six: bool, here: Option<Here>) {
    let room = std::mem::take(&mut message.msg_controllen);
    let Some(Here { addr, interface }) = here else { return };
    match addr {
        _ if six => {
            let ipi6_addr = libc::in6_addr { s6_addr: mapped(addr).octets() };
            let info = in6_pktinfo { ipi6_addr, ipi6_ifindex: interface };
            // SAFETY: the caller's.
            unsafe { put(message, room, (IPPROTO_IPV6, libc::IPV6_PKTINFO), info) };
        }
        IpAddr::V4(addr) => {
            let addr = libc::in_addr { s_addr: addr.to_bits().to_be() };
            let info =
                in_pktinfo { ipi_ifindex: interface.cast_signed(), ipi_spec_dst: addr, ipi_addr: addr };
            // SAFETY: the caller's.
            unsafe { put(message, room, (IPPROTO_IP, libc::IP_PKTINFO), info) };
        }
        // No socket of IPv4 has it.
        IpAddr::V6(_) => {}
    }
}

/// # Safety
/// `message` has room for `room` bytes of control data.
unsafe fn put<T>(message: &mut msghdr, room: usize, (level, kind): (c_int, c_int), value: T) {
    let len = size_of::<T>() as u32;
    // SAFETY: they take a number and give one.
    let (needed, space) = unsafe { (libc::CMSG_LEN(len) as usize, libc::CMSG_SPACE(len) as usize) };
    if message.msg_control.is_null() || room < needed {
        message.msg_flags |= libc::MSG_CTRUNC;
        return;
    }
    let header = cmsghdr { cmsg_len: needed, cmsg_level: level, cmsg_type: kind };
    let first = message.msg_control.cast::<cmsghdr>();
    // SAFETY: there is room for a header and the value behind it.
    unsafe { first.write_unaligned(header) };
    // SAFETY: as above.
    unsafe { libc::CMSG_DATA(first).cast::<T>().write_unaligned(value) };
    message.msg_controllen = space.min(room);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A message with room for `room` bytes of control data, of 256.
    fn with<R>(room: usize, see: impl FnOnce(&mut msghdr) -> R) -> R {
        let mut space = [0_u64; 32];
        // SAFETY: a header of zeros is a message of nothing.
        let mut message: msghdr = unsafe { std::mem::zeroed() };
        message.msg_control = space.as_mut_ptr().cast();
        message.msg_controllen = room;
        see(&mut message)
    }

    #[test]
    fn what_is_written_is_read() {
        for (six, addr, read_as) in
            [(false, "10.0.0.1", "10.0.0.1"), (true, "fd00::1", "fd00::1"), (true, "10.0.0.1", "10.0.0.1")]
        {
            let here = Here { addr: addr.parse().unwrap(), interface: 3 };
            let read = with(256, |message| {
                // SAFETY: there is so much room.
                unsafe { write(message, six, Some(here)) };
                // SAFETY: it was just filled.
                unsafe { read(message) }
            });
            let here = Some(Here { addr: read_as.parse().unwrap(), interface: 3 });
            assert_eq!(read, Ok(Said { here, segment: 0 }));
        }
    }

    #[test]
    fn where_there_is_no_room_that_is_said() {
        let here = Here { addr: "10.0.0.1".parse().unwrap(), interface: 3 };
        for (room, here, expected) in
            [(0, Some(here), libc::MSG_CTRUNC), (27, Some(here), libc::MSG_CTRUNC), (0, None, 0)]
        {
            let told = with(room, |message| {
                // SAFETY: there is so much room.
                unsafe { write(message, false, here) };
                (message.msg_controllen, message.msg_flags)
            });
            assert_eq!(told, (0, expected), "{room}");
        }
    }

    #[test]
    fn what_would_not_be_done_is_refused() {
        let read = |level, kind, len| {
            with(24, |message| {
                let header = cmsghdr { cmsg_len: len, cmsg_level: level, cmsg_type: kind };
                // SAFETY: there is room for it.
                unsafe { message.msg_control.cast::<cmsghdr>().write(header) };
                // SAFETY: it was just filled.
                unsafe { read(message) }
            })
        };
        assert_eq!(read(libc::SOL_UDP, libc::UDP_GRO, 20), Err(Errno::OPNOTSUPP));
        assert_eq!(read(libc::SOL_UDP, libc::UDP_SEGMENT, 17), Err(Errno::INVAL));
        assert_eq!(read(libc::SOL_UDP, libc::UDP_SEGMENT, 18), Ok(Said { here: None, segment: 0 }));
        assert_eq!(read(IPPROTO_IP, libc::IP_PKTINFO, 20), Err(Errno::INVAL));
        // SAFETY: a header of zeros is a message of nothing.
        assert_eq!(unsafe { super::read(&std::mem::zeroed()) }, Ok(Said::default()));
    }
}
