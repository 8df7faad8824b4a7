//! The kernel's answer for a socket option that the stack does not implement.
//!
//! It is that of a new kernel socket of the same family and type. The socket pair of a connection
//! is not used, because its options differ from TCP's (`SO_PEERCRED`, `SO_PASSCRED`).

use std::ffi::{c_int, c_void};
use std::os::fd::{AsRawFd, OwnedFd};

use libc::socklen_t;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use shim::Name;
use shim::socket_name::SocketKind;

use crate::real_fn::next;
use crate::{errno, fail, fd_replace};

/// Bytes of an option's value that are compared.
const VALUE_MAX: usize = 64;

/// Effect that setting an option would have on a new kernel socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// The kernel refuses it.
    Refused(Errno),
    /// The option reads as before: it has its default value.
    None,
    /// The option has another value, or cannot be read.
    Changed,
}

/// A new kernel socket of the family and type of `socket`.
pub(crate) fn new(socket: &Name) -> Result<OwnedFd, Errno> {
    let family = if socket.six { AddressFamily::INET6 } else { AddressFamily::INET };
    let kind = if socket.kind == SocketKind::Datagrams { SocketType::DGRAM } else { SocketType::STREAM };
    socket_with(family, kind, SocketFlags::CLOEXEC, None)
}

/// getsockopt(2) on a new kernel socket of the kind of `socket`.
///
/// # Safety
/// `value` and `len` are the program's arguments to getsockopt(2).
pub(crate) unsafe fn get(
    socket: &Name,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
    match new(socket) {
        Ok(kernel) => next!(getsockopt(kernel.as_raw_fd(), level, name, value, len) as Real),
        Err(_) => fail(Errno::NOPROTOOPT),
    }
}

/// Effect of setsockopt(2) on a new kernel socket of the kind of `socket`.
///
/// # Safety
/// `value` and `len` are the program's arguments to setsockopt(2).
pub(crate) unsafe fn effect(
    socket: &Name,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> Effect {
    type Real = unsafe extern "C" fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
    let Ok(kernel) = new(socket) else { return Effect::Changed };
    let before = read(&kernel, level, name);
    if next!(setsockopt(kernel.as_raw_fd(), level, name, value, len) as Real) != 0 {
        return Effect::Refused(errno());
    }
    match before {
        Some(before) if read(&kernel, level, name) == Some(before) => Effect::None,
        _ => Effect::Changed,
    }
}

/// Value of an option, up to [`VALUE_MAX`] bytes; `None` if it cannot be read.
pub(crate) fn read(socket: &impl AsRawFd, level: c_int, name: c_int) -> Option<([u8; VALUE_MAX], usize)> {
    fd_replace::get(socket.as_raw_fd(), level, name)
}

#[cfg(test)]
mod tests {
    use libc::{IPPROTO_TCP, SOL_SOCKET};

    use super::*;

    fn stream() -> Name {
        let end = "10.0.0.1:80".parse().expect("an address");
        Name { run: 1, kind: SocketKind::Connection, six: false, id: 2, local: end, remote: end }
    }

    #[test]
    fn an_option_has_an_effect_where_it_reads_otherwise_afterwards() {
        let effect = |level, name, value: c_int| {
            // SAFETY: the value has so many bytes.
            unsafe { effect(&stream(), level, name, (&raw const value).cast(), 4) }
        };
        for (level, name, value, expected) in [
            (IPPROTO_TCP, libc::TCP_SYNCNT, 6, Effect::None),
            (IPPROTO_TCP, libc::TCP_SYNCNT, 5, Effect::Changed),
            (IPPROTO_TCP, libc::TCP_SYNCNT, 0, Effect::Refused(Errno::INVAL)),
            (IPPROTO_TCP, libc::TCP_KEEPIDLE, 0, Effect::Refused(Errno::INVAL)),
            (SOL_SOCKET, libc::SO_ZEROCOPY, 1, Effect::Changed),
            (SOL_SOCKET, libc::SO_ZEROCOPY, 0, Effect::None),
            (SOL_SOCKET, libc::SO_PEERCRED, 1, Effect::Refused(Errno::NOPROTOOPT)),
            (SOL_SOCKET, 255, 1, Effect::Refused(Errno::NOPROTOOPT)),
        ] {
            assert_eq!(effect(level, name, value), expected, "level {level} option {name} to {value}");
        }
    }

    //~ programs: peer credentials are those of a TCP socket
    #[test]
    fn peer_credentials_are_those_of_a_tcp_socket() {
        let (mut value, mut len) = ([7_i32; 3], 12);
        // SAFETY: the value has so many bytes.
        let got =
            unsafe { get(&stream(), SOL_SOCKET, libc::SO_PEERCRED, value.as_mut_ptr().cast(), &raw mut len) };
        assert_eq!((got, len, value), (0, 12, [0, -1, -1]), "no process, no user, no group");
    }
}
