//! Addresses as C has them.

use std::ffi::c_int;
use std::net::{IpAddr, SocketAddr};

use host::seam::envelope::mapped;
use libc::{sockaddr, sockaddr_in, sockaddr_in6, socklen_t};
use rustix::io::Errno;

/// The address that a program gives; `None` when it is not one of IP.
///
/// # Safety
/// `addr` points to `len` bytes, or is null.
pub(crate) unsafe fn read(addr: *const sockaddr, len: socklen_t) -> Option<SocketAddr> {
    if addr.is_null() || (len as usize) < size_of::<libc::sa_family_t>() {
        return None;
    }
    // SAFETY: the caller's `len` covers the family.
    let family = unsafe { (&raw const (*addr).sa_family).read_unaligned() };
    match c_int::from(family) {
        libc::AF_INET if len as usize >= size_of::<sockaddr_in>() => {
            // SAFETY: the caller's `len` covers the whole of it.
            let addr = unsafe { addr.cast::<sockaddr_in>().read_unaligned() };
            Some((addr.sin_addr.s_addr.to_ne_bytes(), u16::from_be(addr.sin_port)).into())
        }
        libc::AF_INET6 if len as usize >= size_of::<sockaddr_in6>() => {
            // SAFETY: as above.
            let addr = unsafe { addr.cast::<sockaddr_in6>().read_unaligned() };
            let ip = IpAddr::from(addr.sin6_addr.s6_addr).to_canonical();
            Some(SocketAddr::new(ip, u16::from_be(addr.sin6_port)))
        }
        _ => None,
    }
}

/// Whether `addr` is an address of IPv6, as the program gives it.
///
/// # Safety
/// [`read`] has read `addr`.
pub(crate) unsafe fn is_v6(addr: *const sockaddr) -> bool {
    // SAFETY: the caller has read as much.
    c_int::from(unsafe { (&raw const (*addr).sa_family).read_unaligned() }) == libc::AF_INET6
}

/// Gives the program `from`, for a socket that speaks IPv6 or not; as much as
/// it has room for.
///
/// # Safety
/// `addr` and `len` are what the program gave to accept(2) and its kin: null,
/// or `len` says how much room there is.
pub(crate) unsafe fn write(
    from: SocketAddr,
    six: bool,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> Result<(), Errno> {
    if addr.is_null() || len.is_null() {
        return Ok(());
    }
    // SAFETY: the program's `len` is there.
    let room = unsafe { len.read() };
    if i32::try_from(room).is_err() {
        return Err(Errno::INVAL);
    }
    let mut bytes = [0_u8; size_of::<sockaddr_in6>()];
    let whole = match (from.ip(), six) {
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
    let given = whole.min(room as usize);
    // SAFETY: `given` is at most the room that the program says there is, and
    // at most what `bytes` hold.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), addr.cast(), given) };
    // SAFETY: as above.
    unsafe { len.write(whole as socklen_t) };
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes `addr` where `room` bytes are; what was written, and the length told.
    fn written(addr: &str, six: bool, room: usize) -> (Vec<u8>, usize) {
        let mut bytes = [0xee_u8; 64];
        let mut len = room as socklen_t;
        // SAFETY: 64 bytes are there, and `len` says less.
        unsafe { write(addr.parse().unwrap(), six, bytes.as_mut_ptr().cast(), &raw mut len) }.unwrap();
        assert!(bytes[room..].iter().all(|byte| *byte == 0xee), "nothing beyond the room");
        (bytes[..room].to_vec(), len as usize)
    }

    #[test]
    fn addresses_read_as_they_are_written() {
        for (addr, six) in [("10.0.0.1:80", false), ("10.0.0.1:80", true), ("[fd00::1]:443", true)] {
            let (bytes, len) = written(addr, six, 40);
            assert_eq!(len, if six { 28 } else { 16 });
            // SAFETY: so many bytes are there.
            let read = unsafe { read(bytes.as_ptr().cast(), len as socklen_t) };
            assert_eq!(read, addr.parse().ok());
        }
    }

    #[test]
    fn an_address_is_cut_to_the_room_and_its_length_told() {
        assert_eq!(written("10.0.0.1:80", false, 4), (vec![2, 0, 0, 80], 16));
        // SAFETY: null is allowed.
        assert_eq!(unsafe { read(std::ptr::null(), 16) }, None);
        let unix = [1_u8, 0, b'/', 0];
        // SAFETY: so many bytes are there.
        assert_eq!(unsafe { read(unix.as_ptr().cast(), 4) }, None);
    }
}
