//! Control data of messages: local address, traffic class, hop limit and segment size of datagrams;
//! none of connections.
//!
//! * `IP_PKTINFO` on IPv4 sockets; `IPV6_PKTINFO` on IPv6 sockets, with IPv4 addresses mapped;
//! * `IP_TOS` on IPv4 datagrams, `IPV6_TCLASS` on IPv6 datagrams;
//! * `IP_TTL` on IPv4 datagrams, `IPV6_HOPLIMIT` on IPv6 datagrams;
//! * `UDP_SEGMENT` when sending, `UDP_GRO` when receiving.
//!
//! A control message that the kernel implements and the stack does not is refused; one of which the
//! kernel takes no notice has no effect. Source: cmsg(3), ip(7), udp(7), RFC 3542 §6.

use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr};

use libc::{IPPROTO_IP, IPPROTO_IPV6, cmsghdr, in_pktinfo, in6_pktinfo, msghdr};
use rustix::io::Errno;
use shim::datagram_header::mapped;
use shim::{Cmsg, PktInfo};

use crate::memory;

mod sent;

pub(crate) use sent::{Sender, read};

/// Control message: its level and type, and the address and length of its data.
pub(crate) struct Control {
    pub(crate) of: (c_int, c_int),
    start: *const u8,
    len: usize,
}

impl Control {
    /// The first bytes of the data, as a value.
    ///
    /// # Errors
    /// `EINVAL`: the data is too short.
    ///
    /// # Safety
    /// The buffer can be read, and any bytes are a valid `T`.
    pub(crate) unsafe fn value<T: Copy>(&self) -> Result<T, Errno> {
        if self.len < size_of::<T>() {
            return Err(Errno::INVAL);
        }
        // SAFETY: the buffer has this many bytes and can be read, by the caller's contract.
        Ok(unsafe { self.start.cast::<T>().read_unaligned() })
    }
}

/// Control messages in `len` bytes at `start`, aligned or not. A message with a length beyond the
/// buffer yields `EINVAL` and ends the iteration (`CMSG_OK` of Linux).
///
/// # Safety
/// The bytes can be read as long as the iterator is used.
pub(crate) unsafe fn all(start: *const u8, len: usize) -> impl Iterator<Item = Result<Control, Errno>> {
    const HEADER: usize = size_of::<cmsghdr>();
    // The header's length is a multiple of its alignment.
    const { assert!(HEADER.is_multiple_of(align_of::<usize>())) };
    let mut at = 0;
    std::iter::from_fn(move || {
        let left = len.checked_sub(at).filter(|left| *left >= HEADER && !start.is_null())?;
        let position = start.wrapping_add(at);
        // SAFETY: at least one header is left.
        let header = unsafe { position.cast::<cmsghdr>().read_unaligned() };
        if !(HEADER..=left).contains(&header.cmsg_len) {
            at = len;
            return Some(Err(Errno::INVAL));
        }
        at += header.cmsg_len.next_multiple_of(align_of::<usize>());
        let of = (header.cmsg_level, header.cmsg_type);
        Some(Ok(Control { of, start: position.wrapping_add(HEADER), len: header.cmsg_len - HEADER }))
    })
}

/// Writes ancillary data `cmsg` of a datagram from `from` into the control buffer of `message`;
/// `six`: the socket is IPv6. Sets MSG_CTRUNC if the buffer is too small.
///
/// # Errors
/// `EFAULT`: the buffer cannot be written.
///
/// # Safety
/// `message` is the program's argument to recvmsg(2).
pub(crate) unsafe fn write(
    message: &mut msghdr,
    six: bool,
    from: Option<SocketAddr>,
    cmsg: Cmsg,
) -> Result<(), Errno> {
    let left = std::mem::take(&mut message.msg_controllen);
    let mut room = Room { message, left };
    let Cmsg { local, class, hops, segment } = cmsg;
    match local {
        Some(PktInfo { addr, interface }) if six => {
            let ipi6_addr = libc::in6_addr { s6_addr: mapped(addr).octets() };
            let info = in6_pktinfo { ipi6_addr, ipi6_ifindex: interface };
            // SAFETY: the caller's.
            unsafe { room.put((IPPROTO_IPV6, libc::IPV6_PKTINFO), info) }?;
        }
        Some(PktInfo { addr: IpAddr::V4(addr), interface }) => {
            let addr = libc::in_addr { s_addr: addr.to_bits().to_be() };
            let info =
                in_pktinfo { ipi_ifindex: interface.cast_signed(), ipi_spec_dst: addr, ipi_addr: addr };
            // SAFETY: the caller's.
            unsafe { room.put((IPPROTO_IP, libc::IP_PKTINFO), info) }?;
        }
        // An IPv4 socket has no IPv6 address.
        Some(_) | None => {}
    }
    match (hops.map(c_int::from), from) {
        // SAFETY: the caller's.
        (Some(hops), Some(SocketAddr::V4(_))) => unsafe { room.put((IPPROTO_IP, libc::IP_TTL), hops) }?,
        (Some(hops), Some(SocketAddr::V6(_))) => {
            // SAFETY: the caller's.
            unsafe { room.put((IPPROTO_IPV6, libc::IPV6_HOPLIMIT), hops) }?;
        }
        _ => {}
    }
    match (class, from) {
        // SAFETY: the caller's.
        (Some(class), Some(SocketAddr::V4(_))) => unsafe { room.put((IPPROTO_IP, libc::IP_TOS), class) }?,
        (Some(class), Some(SocketAddr::V6(_))) => {
            // SAFETY: the caller's.
            unsafe { room.put((IPPROTO_IPV6, libc::IPV6_TCLASS), c_int::from(class)) }?;
        }
        _ => {}
    }
    if segment > 0 {
        // SAFETY: the caller's.
        unsafe { room.put((libc::SOL_UDP, libc::UDP_GRO), c_int::from(segment)) }?;
    }
    Ok(())
}

/// Control buffer of the program, of which `msg_controllen` bytes are used.
struct Room<'a> {
    message: &'a mut msghdr,
    left: usize,
}

impl Room<'_> {
    /// # Safety
    /// `left` bytes are free after `msg_controllen`.
    unsafe fn put<T: Copy>(&mut self, (level, kind): (c_int, c_int), value: T) -> Result<(), Errno> {
        let len = size_of::<T>() as u32;
        // SAFETY: both only compute.
        let (needed, space) = unsafe { (libc::CMSG_LEN(len) as usize, libc::CMSG_SPACE(len) as usize) };
        let Self { message, left } = self;
        if message.msg_control.is_null() || *left < needed {
            message.msg_flags |= libc::MSG_CTRUNC;
            *left = 0;
            return Ok(());
        }
        let header = cmsghdr { cmsg_len: needed, cmsg_level: level, cmsg_type: kind };
        let next = message.msg_control.wrapping_byte_add(message.msg_controllen);
        // SAFETY: the buffer has space for the header and the value after it.
        unsafe { memory::write(next.cast(), header) }?;
        // SAFETY: as above.
        unsafe { memory::write(next.wrapping_byte_add(size_of::<cmsghdr>()).cast(), value) }?;
        let taken = space.min(*left);
        message.msg_controllen += taken;
        *left -= taken;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// A message with a control buffer of `room` bytes, of 256.
    fn with<R>(room: usize, see: impl FnOnce(&mut msghdr) -> R) -> R {
        let mut space = [0_u64; 32];
        // SAFETY: a zeroed header is an empty message.
        let mut message: msghdr = unsafe { std::mem::zeroed() };
        message.msg_control = space.as_mut_ptr().cast();
        message.msg_controllen = room;
        see(&mut message)
    }

    const PEER4: &str = "10.0.0.9:7";
    const PEER6: &str = "[fd00::9]:7";

    #[test]
    fn what_is_written_is_read() {
        for (six, addr, from) in
            [(false, "10.0.0.1", PEER4), (true, "fd00::1", PEER6), (true, "10.0.0.1", PEER4)]
        {
            let local = Some(PktInfo { addr: addr.parse().unwrap(), interface: 3 });
            for (local, class, hops) in
                [(local, None, Some(1)), (None, Some(0), None), (local, Some(255), Some(255))]
            {
                let cmsg = Cmsg { local, class, hops, segment: 0 };
                let read = with(256, |message| {
                    // SAFETY: the buffer is large enough.
                    unsafe { write(message, six, Some(from.parse().unwrap()), cmsg) }.unwrap();
                    // SAFETY: it was just filled.
                    unsafe { read(message, if six { Sender::Connected } else { Sender::Four(false) }) }
                });
                assert_eq!(read, Ok(cmsg));
            }
        }
    }

    #[test]
    fn the_segment_size_of_received_datagrams_comes_last() {
        let segment_cmsg = with(256, |message| {
            let cmsg = Cmsg { local: None, class: Some(1), hops: None, segment: 1200 };
            // SAFETY: the buffer is large enough.
            unsafe { write(message, false, Some(PEER4.parse().unwrap()), cmsg) }.unwrap();
            // SAFETY: it was just filled.
            let second = unsafe { libc::CMSG_NXTHDR(message, libc::CMSG_FIRSTHDR(message)) };
            // SAFETY: there are two messages.
            unsafe { (*second, libc::CMSG_DATA(second).cast::<c_int>().read_unaligned()) }
        });
        assert_eq!(
            (segment_cmsg.0.cmsg_level, segment_cmsg.0.cmsg_type, segment_cmsg.1),
            (libc::SOL_UDP, libc::UDP_GRO, 1200)
        );
    }

    /// An address with its interface takes 28 bytes (32 padded), a traffic class 17.
    #[test]
    fn where_there_is_no_room_that_is_said() {
        let local = Some(PktInfo { addr: "10.0.0.1".parse().unwrap(), interface: 3 });
        let (both, none) = (Cmsg { local, class: Some(1), hops: None, segment: 0 }, Cmsg::default());
        let lost = libc::MSG_CTRUNC;
        for (room, sent, expected) in [
            (0, both, (0, lost)),
            (27, both, (0, lost)),
            (28, both, (28, lost)),
            (48, both, (32, lost)),
            (49, both, (49, 0)),
            (56, both, (56, 0)),
            (0, none, (0, 0)),
        ] {
            let written = with(room, |message| {
                // SAFETY: the buffer is large enough.
                unsafe { write(message, false, Some(PEER4.parse().unwrap()), sent) }.unwrap();
                (message.msg_controllen, message.msg_flags)
            });
            assert_eq!(written, expected, "{room}");
        }
    }

    /// `read` of one control message whose data has `len` bytes, all zeros after a first byte of 1.
    fn read_one(of: (c_int, c_int), len: usize, sender: Sender) -> Result<Cmsg, Errno> {
        with(16 + len, |message| {
            let header = cmsghdr { cmsg_len: 16 + len, cmsg_level: of.0, cmsg_type: of.1 };
            // SAFETY: the buffer is large enough.
            unsafe { message.msg_control.cast::<cmsghdr>().write(header) };
            // SAFETY: as above.
            unsafe { message.msg_control.cast::<u8>().add(16).write(1) };
            // SAFETY: it was just filled.
            unsafe { read(message, sender) }
        })
    }

    const FOUR: Sender = Sender::Four(false);

    //~ datagrams: control messages that have no effect give the kernel's errors
    #[test]
    fn a_control_message_that_has_no_effect_is_refused_or_ignored_as_by_the_kernel() {
        let (none, wrong, unknown) = (Ok(Cmsg::default()), Err(Errno::INVAL), Err(Errno::OPNOTSUPP));
        for (of, len, sender, expected) in [
            ((libc::SOL_UDP, libc::UDP_GRO), 4, FOUR, wrong),
            ((libc::SOL_UDP, libc::UDP_SEGMENT), 1, FOUR, wrong),
            ((libc::SOL_UDP, libc::UDP_SEGMENT), 2, FOUR, Ok(Cmsg { segment: 1, ..Cmsg::default() })),
            ((libc::SOL_UDP, libc::UDP_SEGMENT), 2, Sender::Stream, none),
            ((IPPROTO_IP, libc::IP_TOS), 2, FOUR, wrong),
            ((IPPROTO_IP, libc::IP_TOS), 1, FOUR, Ok(Cmsg { class: Some(1), ..Cmsg::default() })),
            (
                (IPPROTO_IP, libc::IP_TOS),
                1,
                Sender::Connected,
                Ok(Cmsg { class: Some(1), ..Cmsg::default() }),
            ),
            ((IPPROTO_IP, libc::IP_TOS), 1, Sender::Six, none),
            ((IPPROTO_IP, 52), 4, FOUR, none),
            ((IPPROTO_IP, libc::IP_RETOPTS), 4, FOUR, unknown),
            ((IPPROTO_IP, 80), 4, FOUR, wrong),
            ((IPPROTO_IP, 80), 4, Sender::Connected, none),
            ((IPPROTO_IPV6, libc::IPV6_TCLASS), 1, Sender::Six, wrong),
            ((IPPROTO_IPV6, libc::IPV6_TCLASS), 1, FOUR, none),
            ((IPPROTO_IPV6, libc::IPV6_DSTOPTS), 8, Sender::Six, unknown),
            ((IPPROTO_IP, libc::IP_PKTINFO), 4, FOUR, wrong),
            ((libc::SOL_SOCKET, libc::SCM_RIGHTS), 4, Sender::Stream, none),
            ((libc::SOL_SOCKET, libc::SCM_CREDENTIALS), 12, FOUR, none),
            ((libc::SOL_SOCKET, libc::SO_MARK), 4, Sender::Stream, unknown),
            ((libc::SOL_SOCKET, libc::SO_MARK), 8, FOUR, wrong),
            ((libc::SOL_SOCKET, 200), 4, FOUR, wrong),
            ((200, 1), 4, FOUR, none),
        ] {
            assert_eq!(read_one(of, len, sender), expected, "{of:?} of {len} bytes on {sender:?}");
        }
        // SAFETY: a zeroed header is an empty message.
        assert_eq!(unsafe { super::read(&std::mem::zeroed(), FOUR) }, none);
    }

    //~ programs: wrong pointers and lengths give the kernel's errors and end no program
    /// Header lengths in buffers of every size, aligned and unaligned: nothing is read beyond the
    /// buffer (checked by Miri and by an unmapped page).
    #[test]
    fn a_length_that_a_header_says_is_not_believed() {
        let (level, kind) = (IPPROTO_IP, libc::IP_PKTINFO);
        for shift in [0, 1, 4] {
            for room in 0..=40_usize {
                for cmsg_len in
                    [0, 1, 15, 16, 17, 27, 28, 29, 32, 40, 41, 1 << 31, usize::MAX - 7, usize::MAX]
                {
                    // Exactly this many bytes, so that Miri sees any read beyond them.
                    let mut bytes = vec![0_u8; shift + room];
                    let header = cmsghdr { cmsg_len, cmsg_level: level, cmsg_type: kind };
                    // SAFETY: a header is plain bytes.
                    let header_bytes: [u8; size_of::<cmsghdr>()] = unsafe { std::mem::transmute(header) };
                    let len = header_bytes.len().min(room);
                    bytes[shift..shift + len].copy_from_slice(&header_bytes[..len]);
                    // SAFETY: a zeroed header is an empty message.
                    let mut message: msghdr = unsafe { std::mem::zeroed() };
                    message.msg_control = bytes[shift..].as_mut_ptr().cast();
                    message.msg_controllen = room;
                    // SAFETY: the buffer has `room` bytes.
                    let read = unsafe { super::read(&message, FOUR) };
                    let expected = match room {
                        0..16 => Ok(Cmsg::default()),
                        _ if cmsg_len != 28 || cmsg_len > room => Err(Errno::INVAL),
                        _ => Ok(Cmsg {
                            local: Some(PktInfo { addr: Ipv4Addr::UNSPECIFIED.into(), interface: 0 }),
                            ..Cmsg::default()
                        }),
                    };
                    assert_eq!(read, expected, "{cmsg_len} in {room} bytes at {shift}");
                }
            }
        }
    }
}
