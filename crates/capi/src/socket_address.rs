//! Conversion between `sockaddr` and [`SocketAddr`].

use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr};

use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use rustix::io::Errno;
use shim::datagram_header::mapped;

use crate::memory;

/// Family of the program's address; `None` if there is none.
///
/// # Safety
/// The same as for [`read`].
pub(crate) unsafe fn family(addr: *const sockaddr, len: socklen_t) -> Option<libc::sa_family_t> {
    // SAFETY: the caller's `len` covers the family, which is the first field.
    (len as usize >= size_of::<libc::sa_family_t>()).then(|| unsafe { memory::read(addr.cast()) })?.ok()
}

/// The program's address; `None` if it is not an IP address or cannot be read. The kernel reports
/// the error.
///
/// # Safety
/// `addr` and `len` are the address and the length that the program passed.
pub(crate) unsafe fn read(addr: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    // SAFETY: the caller's address.
    unsafe { read_as(c_int::from(family(addr, len)?), addr, len) }
}

/// The program's address, read as one of `family`, as [`read`].
///
/// # Safety
/// The same as for [`read`].
pub(crate) unsafe fn read_as(family: c_int, addr: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    match family {
        libc::AF_INET if len as usize >= size_of::<sockaddr_in>() => {
            // SAFETY: the caller's `len` covers the whole structure.
            let addr = unsafe { memory::read(addr.cast::<sockaddr_in>()) }.ok()?;
            Some((addr.sin_addr.s_addr.to_ne_bytes(), u16::from_be(addr.sin_port)).into())
        }
        libc::AF_INET6 if len as usize >= size_of::<sockaddr_in6>() => {
            // SAFETY: as above.
            let addr = unsafe { memory::read(addr.cast::<sockaddr_in6>()) }.ok()?;
            let ip = IpAddr::from(addr.sin6_addr.s6_addr).to_canonical();
            Some(SocketAddr::new(ip, u16::from_be(addr.sin6_port)))
        }
        _ => None,
    }
}

/// Writes `from` to the program's buffer, unless `addr` is null; `six`: as an IPv6 address. The
/// address is truncated to the buffer's size.
///
/// # Errors
/// The errors of [`tell`].
///
/// # Safety
/// The same as for [`tell`]; or `addr` is null.
pub(crate) unsafe fn write(
    from: SocketAddr,
    six: bool,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> Result<(), Errno> {
    // SAFETY: the caller's.
    if addr.is_null() { Ok(()) } else { unsafe { tell(from, six, addr, len) } }
}

/// Writes `from` as [`write`] does; a null `addr` is an error.
///
/// # Errors
/// `EFAULT`: the buffer cannot be written; `EINVAL`: its size is negative.
///
/// # Safety
/// `addr` and `len` are the program's arguments to accept(2) and the like: `len` gives the buffer's
/// size.
pub(crate) unsafe fn tell(
    from: SocketAddr,
    six: bool,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> Result<(), Errno> {
    // SAFETY: the program's.
    let room = unsafe { memory::read(len) }?;
    if i32::try_from(room).is_err() {
        return Err(Errno::INVAL);
    }
    let mut bytes = [0_u8; size_of::<sockaddr_in6>()];
    let address_len = match (from.ip(), six) {
        (IpAddr::V4(ip), false) => {
            bytes[..2].copy_from_slice(&(libc::AF_INET as libc::sa_family_t).to_ne_bytes());
            bytes[2..4].copy_from_slice(&from.port().to_be_bytes());
            bytes[4..8].copy_from_slice(&ip.octets());
            size_of::<sockaddr_in>()
        }
        (ip, _) => {
            let ip = mapped(ip);
            bytes[..2].copy_from_slice(&(libc::AF_INET6 as libc::sa_family_t).to_ne_bytes());
            bytes[2..4].copy_from_slice(&from.port().to_be_bytes());
            bytes[8..24].copy_from_slice(&ip.octets());
            size_of::<sockaddr_in6>()
        }
    };
    let given = address_len.min(room as usize);
    // SAFETY: `given` is at most the buffer's size.
    unsafe { memory::write_bytes(addr.cast(), &bytes[..given]) }?;
    // SAFETY: as above.
    unsafe { memory::write(len, address_len as socklen_t) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes `addr` to a buffer of `room` bytes; returns its content, and the length reported.
    fn written(addr: &str, six: bool, room: usize) -> (Vec<u8>, usize) {
        let mut bytes = [0xee_u8; 64];
        let mut len = room as socklen_t;
        // SAFETY: the buffer has 64 bytes, and `len` is less.
        unsafe { write(addr.parse().unwrap(), six, bytes.as_mut_ptr().cast(), &raw mut len) }.unwrap();
        assert!(bytes[room..].iter().all(|byte| *byte == 0xee), "nothing beyond the buffer");
        (bytes[..room].to_vec(), len as usize)
    }

    #[test]
    fn addresses_read_as_they_are_written() {
        for (addr, six) in [("10.0.0.1:80", false), ("10.0.0.1:80", true), ("[fd00::1]:443", true)] {
            let (bytes, len) = written(addr, six, 40);
            assert_eq!(len, if six { 28 } else { 16 });
            // SAFETY: the buffer has `len` bytes.
            let read = unsafe { read(bytes.as_ptr().cast(), len as socklen_t) };
            assert_eq!(read, addr.parse().ok());
        }
    }

    #[test]
    fn an_address_is_truncated_to_the_buffer_and_its_length_returned() {
        assert_eq!(written("10.0.0.1:80", false, 4), (vec![2, 0, 0, 80], 16));
        // SAFETY: null is allowed.
        assert_eq!(unsafe { read(std::ptr::null(), 16) }, None);
        let unix = [1_u8, 0, b'/', 0];
        // SAFETY: the buffer has four bytes.
        assert_eq!(unsafe { read(unix.as_ptr().cast(), 4) }, None);
    }
}
