//! getsockopt and setsockopt: what of a kernel's TCP we answer for.

use std::ffi::{c_int, c_void};

use host::seam::name::Kind;
use host::seam::options::{PRIVATE_BYTES, SOL_GREENWAVE};
use host::seam::{Answer, Name, Request, Seam};
use libc::{IPPROTO_IP, IPPROTO_TCP, SOL_SOCKET, socklen_t};
use rustix::io::Errno;

use crate::next::next;
use crate::{connecting, fail, label, letters, ours, seam};

/// Who answers for an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The kernel's socket pair: buffers, timeouts, errors.
    Kernel,
    /// Our TCP does it always, or it is a hint.
    Nobody,
    /// The stack, which may refuse.
    Stack,
}

/// Who answers for setting it on a socket of `kind`.
fn owner(kind: Kind, level: c_int, name: c_int) -> Owner {
    let datagrams = kind == Kind::Datagrams;
    match (level, name) {
        // How much may wait for the program the other end decides.
        (SOL_SOCKET, libc::SO_RCVBUF) if datagrams => Owner::Stack,
        // Without effect on these in the kernel, too; Traffic Server asks names so.
        (SOL_SOCKET, libc::SO_KEEPALIVE | libc::SO_LINGER) if datagrams => Owner::Kernel,
        (IPPROTO_TCP, _) if datagrams => Owner::Stack,
        (SOL_SOCKET, libc::SO_RCVBUF | libc::SO_SNDBUF | libc::SO_RCVTIMEO | libc::SO_SNDTIMEO) => {
            Owner::Kernel
        }
        (SOL_SOCKET, libc::SO_REUSEADDR | libc::SO_REUSEPORT | libc::SO_RCVLOWAT | libc::SO_PRIORITY) => {
            Owner::Kernel
        }
        // Urgent data is in line always; vsftpd does not serve where that is refused.
        (SOL_SOCKET, libc::SO_OOBINLINE) => Owner::Kernel,
        // Small segments go at once, and what a program writes within a round
        // is gathered.
        (IPPROTO_TCP, libc::TCP_NODELAY | libc::TCP_CORK | libc::TCP_QUICKACK) => Owner::Nobody,
        _ => Owner::Stack,
    }
}

/// What getsockopt says of a socket of ours, where that is no affair of the kernel's.
fn constant(socket: &Name, level: c_int, name: c_int) -> Option<c_int> {
    let datagrams = socket.kind == Kind::Datagrams;
    Some(match (level, name) {
        (SOL_SOCKET, libc::SO_TYPE) if datagrams => libc::SOCK_DGRAM,
        (SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
        (SOL_SOCKET, libc::SO_DOMAIN) if socket.six => libc::AF_INET6,
        (SOL_SOCKET, libc::SO_DOMAIN) => libc::AF_INET,
        (SOL_SOCKET, libc::SO_PROTOCOL) if datagrams => libc::IPPROTO_UDP,
        (SOL_SOCKET, libc::SO_PROTOCOL) => IPPROTO_TCP,
        // Of one that is bound the desk knows whether it listens.
        (SOL_SOCKET, libc::SO_ACCEPTCONN) if socket.kind != Kind::Listener => 0,
        (IPPROTO_TCP, _) if datagrams => return None,
        (IPPROTO_TCP, libc::TCP_NODELAY) => 1,
        (IPPROTO_TCP, libc::TCP_CORK | libc::TCP_QUICKACK) => 0,
        _ => return None,
    })
}

/// setsockopt(2).
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
    let (Some(seam), Some(socket)) = (seam(), ours(fd)) else {
        return next!(setsockopt(fd, level, name, value, len) as Real);
    };
    if (level, name) == (SOL_GREENWAVE, PRIVATE_BYTES) {
        // SAFETY: the program's arguments.
        return unsafe { label::set_private(seam, &socket, value, len) }.map_or_else(fail, |()| 0);
    }
    match owner(socket.kind, level, name) {
        // While its handshake is under way the pair is kept full, which a larger buffer would end.
        Owner::Kernel if is_kept_full(&seam, &socket, level, name) => return 0,
        Owner::Kernel => return next!(setsockopt(fd, level, name, value, len) as Real),
        Owner::Nobody => return 0,
        Owner::Stack => {}
    }
    let words = len as usize / size_of::<c_int>();
    // A byte does for options of IPv4 (ip(7)).
    let is_byte = level == IPPROTO_IP && words == 0 && len > 0;
    if value.is_null() || words == 0 && !is_byte {
        return fail(Errno::INVAL);
    }
    let mut values = [0; 2];
    if is_byte {
        // SAFETY: the program says that there is one.
        values[0] = unsafe { value.cast::<u8>().read() }.into();
    }
    for (at, place) in values.iter_mut().enumerate().take(words) {
        // SAFETY: the program says that `value` has `len` bytes, which hold so
        // many words.
        *place = unsafe { value.cast::<c_int>().add(at).read_unaligned() };
    }
    match seam.ask(&Request::Option { id: socket.id, level, name, value: values }) {
        // The kernel keeps what it can tell again.
        Ok(asked) if asked.answer == Answer::Done && level == SOL_SOCKET => {
            next!(setsockopt(fd, level, name, value, len) as Real)
        }
        Ok(asked) => match asked.answer {
            Answer::No(errno) => fail(Errno::from_raw_os_error(errno)),
            _ => 0,
        },
        Err(errno) => fail(errno),
    }
}

/// Whether setting this would let the program write before the handshake is over.
fn is_kept_full(seam: &Seam, socket: &Name, level: c_int, name: c_int) -> bool {
    (level, name) == (SOL_SOCKET, libc::SO_SNDBUF)
        && connecting::stands(seam, socket) == Answer::No(Errno::ALREADY.raw_os_error())
}

/// getsockopt(2).
///
/// # Safety
/// As the C library's.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
    let (Some(seam), Some(socket)) = (seam(), ours(fd)) else {
        return next!(getsockopt(fd, level, name, value, len) as Real);
    };
    let bytes = match (level, constant(&socket, level, name)) {
        (SOL_SOCKET, None) if name == libc::SO_ERROR && socket.kind == Kind::Datagrams => {
            letters::failure(fd).map_or(0, Errno::raw_os_error).to_ne_bytes().to_vec()
        }
        (_, Some(constant)) => constant.to_ne_bytes().to_vec(),
        (SOL_SOCKET, None) if name != libc::SO_ACCEPTCONN => {
            let told = next!(getsockopt(fd, level, name, value, len) as Real);
            if told == 0 && name == libc::SO_ERROR {
                // SAFETY: the kernel has written what the program has room for.
                unsafe { explain(&seam, &socket, value, len) };
            }
            return told;
        }
        (_, None) => {
            let told = match level {
                SOL_GREENWAVE => label::get(&socket, name),
                _ => seam.option(socket.id, level, name),
            };
            match told {
                Ok(bytes) => bytes,
                Err(errno) => return fail(errno),
            }
        }
    };
    if value.is_null() || len.is_null() {
        return fail(Errno::FAULT);
    }
    // SAFETY: the program's `len` is there.
    let room = unsafe { len.read() } as usize;
    let given = bytes.len().min(room);
    // SAFETY: `given` is at most the room that the program says there is.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast(), given) };
    // SAFETY: as above.
    unsafe { len.write(given as socklen_t) };
    0
}

/// Why connecting failed: the kernel knows only that it did.
///
/// # Safety
/// getsockopt(2) of SO_ERROR has filled `value` with `len` bytes.
unsafe fn explain(seam: &Seam, socket: &Name, value: *mut c_void, len: *const socklen_t) {
    // SAFETY: the kernel wrote the length.
    let whole = unsafe { len.read() } as usize == size_of::<c_int>();
    let value = value.cast::<c_int>();
    // SAFETY: so many bytes are there.
    if whole
        && unsafe { value.read_unaligned() } != 0
        && let Answer::No(why) = connecting::stands(seam, socket)
    {
        // SAFETY: as above.
        unsafe { value.write_unaligned(why) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_ours_looks_like_one_of_tcp() {
        let end = "[fd00::1]:80".parse().unwrap();
        let socket = Name { run: 1, kind: Kind::Connection, six: true, id: 2, local: end, remote: end };
        let of = |name| constant(&socket, SOL_SOCKET, name);
        assert_eq!(of(libc::SO_TYPE), Some(libc::SOCK_STREAM));
        assert_eq!(of(libc::SO_DOMAIN), Some(libc::AF_INET6));
        assert_eq!(of(libc::SO_PROTOCOL), Some(IPPROTO_TCP));
        assert_eq!(of(libc::SO_ACCEPTCONN), Some(0));
        let listener = Name { kind: Kind::Listener, ..socket };
        assert_eq!(constant(&listener, SOL_SOCKET, libc::SO_ACCEPTCONN), None, "it may be bound and no more");
        assert_eq!(of(libc::SO_ERROR), None, "the kernel knows");
        let socket = Name { kind: Kind::Datagrams, ..socket };
        let of = |level, name| constant(&socket, level, name);
        assert_eq!(of(SOL_SOCKET, libc::SO_TYPE), Some(libc::SOCK_DGRAM));
        assert_eq!(of(SOL_SOCKET, libc::SO_PROTOCOL), Some(libc::IPPROTO_UDP));
        assert_eq!(of(IPPROTO_TCP, libc::TCP_NODELAY), None);
    }

    #[test]
    fn what_would_concern_the_socket_pair_only_is_not_the_kernels() {
        let (stream, datagrams) = (Kind::Connection, Kind::Datagrams);
        for kind in [stream, datagrams] {
            assert_eq!(owner(kind, SOL_SOCKET, libc::SO_SNDTIMEO), Owner::Kernel);
        }
        assert_eq!(owner(stream, IPPROTO_TCP, libc::TCP_NODELAY), Owner::Nobody);
        assert_eq!(owner(datagrams, IPPROTO_TCP, libc::TCP_NODELAY), Owner::Stack);
        assert_eq!(owner(datagrams, SOL_SOCKET, libc::SO_RCVBUF), Owner::Stack);
        assert_eq!(owner(datagrams, SOL_SOCKET, libc::SO_KEEPALIVE), Owner::Kernel);
        for (level, name) in [
            (SOL_SOCKET, libc::SO_ATTACH_FILTER),
            (SOL_SOCKET, libc::SO_BINDTODEVICE),
            (SOL_SOCKET, libc::SO_LINGER),
            (IPPROTO_TCP, libc::TCP_FASTOPEN),
            (libc::IPPROTO_IP, libc::IP_TOS),
        ] {
            assert_eq!(owner(stream, level, name), Owner::Stack, "level {level} option {name}");
        }
    }
}
