//! getsockopt(2) and setsockopt(2) on sockets of the stack.
//!
//! Options behave as on the kernel's TCP or UDP. The connection's socket pair holds only options
//! with the same meaning there ([`PAIR`]). An option that the stack does not implement reads as on
//! a new kernel socket, and accepts that value only.

use std::ffi::{c_int, c_void};

use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, socklen_t};
use rustix::io::Errno;
use shim::socket_name::SocketKind;
use shim::tcp_sockopt::{self, PRIVATE_BYTES, SOL_GREENWAVE};
use shim::{Answer, ErrorUse, Name, Request, ShimClient};

use crate::kernel_socket::{self, Effect};
use crate::real_fn::next;
use crate::{connect, datagram_io, errors, fail, fd_replace, label, low_water, memory, ours, shim_client};

/// Owner of a socket option's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The socket pair: the option means the same there as on TCP or UDP.
    Pair,
    /// None: the option has no effect visible to a program, here as in the kernel, or is advice.
    Hint,
    /// The stack, which may refuse a value.
    Stack,
    /// The kernel: the stack does not implement the option ([`kernel_socket`]).
    Kernel,
}

/// Options at `SOL_SOCKET` with the same meaning on a socket pair as on TCP.
const PAIR: [c_int; 17] = [
    libc::SO_ERROR,
    libc::SO_REUSEADDR,
    libc::SO_RCVBUF,
    libc::SO_SNDBUF,
    libc::SO_RCVBUFFORCE,
    libc::SO_SNDBUFFORCE,
    libc::SO_RCVLOWAT,
    libc::SO_SNDLOWAT,
    libc::SO_PRIORITY,
    // Urgent data is always in line; vsftpd does not serve if this is refused.
    libc::SO_OOBINLINE,
    libc::SO_RCVTIMEO,
    libc::SO_SNDTIMEO,
    SO_RCVTIMEO_NEW,
    SO_SNDTIMEO_NEW,
    libc::SO_COOKIE,
    libc::SO_MEMINFO,
    libc::SO_NETNS_COOKIE,
];
/// As `SO_RCVTIMEO` and `SO_SNDTIMEO`, with 64-bit seconds on every machine (asm-generic/socket.h).
const SO_RCVTIMEO_NEW: c_int = 66;
const SO_SNDTIMEO_NEW: c_int = 67;
/// From asm-generic/socket.h.
const SO_BUF_LOCK: c_int = 72;
const SO_TXREHASH: c_int = 74;
const SO_RCVMARK: c_int = 75;
const SO_RCVPRIORITY: c_int = 82;

/// Options at `SOL_SOCKET` without effect on a connection in the kernel, or that are advice.
const HINTS: [c_int; 18] = [
    libc::SO_DEBUG,
    libc::SO_REUSEPORT,
    libc::SO_BROADCAST,
    libc::SO_NO_CHECK,
    libc::SO_RXQ_OVFL,
    libc::SO_WIFI_STATUS,
    libc::SO_NOFCS,
    libc::SO_LOCK_FILTER,
    libc::SO_SELECT_ERR_QUEUE,
    libc::SO_BUSY_POLL,
    libc::SO_INCOMING_CPU,
    libc::SO_CNX_ADVICE,
    libc::SO_PREFER_BUSY_POLL,
    libc::SO_BUSY_POLL_BUDGET,
    SO_BUF_LOCK,
    SO_TXREHASH,
    SO_RCVMARK,
    SO_RCVPRIORITY,
];
/// Those of [`HINTS`] with an effect on a UDP socket.
const DATAGRAM_EFFECTS: [c_int; 5] =
    [libc::SO_BROADCAST, libc::SO_NO_CHECK, libc::SO_RXQ_OVFL, SO_RCVMARK, SO_RCVPRIORITY];

/// Owner of option `name` at `level` of `socket`.
fn owner(socket: &Name, level: c_int, name: c_int) -> Owner {
    let datagrams = socket.kind == SocketKind::Datagrams;
    match (level, name) {
        // The receive queue of a UDP socket is in the stack.
        (SOL_SOCKET, libc::SO_RCVBUF) if datagrams => Owner::Stack,
        // Without effect on UDP in the kernel, too; Traffic Server's resolver sets them.
        (SOL_SOCKET, libc::SO_KEEPALIVE | libc::SO_LINGER) if datagrams => Owner::Pair,
        // An offset would include the header before each datagram.
        (SOL_SOCKET, libc::SO_PEEK_OFF) if !datagrams => Owner::Pair,
        (SOL_SOCKET, _) if PAIR.contains(&name) => Owner::Pair,
        (SOL_SOCKET, _) if HINTS.contains(&name) && !(datagrams && DATAGRAM_EFFECTS.contains(&name)) => {
            Owner::Hint
        }
        // Small segments leave at once, unless corked.
        (IPPROTO_TCP, libc::TCP_NODELAY | libc::TCP_QUICKACK) if !datagrams => Owner::Hint,
        // An IPv4 socket has none of these.
        (IPPROTO_IPV6, _) if !socket.six => Owner::Kernel,
        _ if tcp_sockopt::is_stacks(datagrams, level, name) => Owner::Stack,
        _ => Owner::Kernel,
    }
}

/// Constant value of an option of a stack socket, if it has one.
fn constant(socket: &Name, level: c_int, name: c_int) -> Option<c_int> {
    let datagrams = socket.kind == SocketKind::Datagrams;
    Some(match (level, name) {
        (SOL_SOCKET, libc::SO_TYPE) if datagrams => libc::SOCK_DGRAM,
        (SOL_SOCKET, libc::SO_TYPE) => libc::SOCK_STREAM,
        (SOL_SOCKET, libc::SO_DOMAIN) if socket.six => libc::AF_INET6,
        (SOL_SOCKET, libc::SO_DOMAIN) => libc::AF_INET,
        (SOL_SOCKET, libc::SO_PROTOCOL) if datagrams => libc::IPPROTO_UDP,
        (SOL_SOCKET, libc::SO_PROTOCOL) => IPPROTO_TCP,
        // The socket server knows if a bound socket listens.
        (SOL_SOCKET, libc::SO_ACCEPTCONN) if socket.kind != SocketKind::Listener => 0,
        (IPPROTO_TCP, _) if datagrams => return None,
        (IPPROTO_TCP, libc::TCP_NODELAY) => 1,
        (IPPROTO_TCP, libc::TCP_CORK | libc::TCP_QUICKACK) => 0,
        _ => return None,
    })
}

/// setsockopt(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn setsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
    let (Some(shim_client), Some(socket)) = (shim_client(), ours(fd)) else {
        return next!(setsockopt(fd, level, name, value, len) as Real);
    };
    if (level, name) == (SOL_GREENWAVE, PRIVATE_BYTES) {
        // SAFETY: the program's arguments.
        return unsafe { label::set_private(shim_client, &socket, value, len) }.map_or_else(fail, |()| 0);
    }
    // It is set before the socket has an address (Linux, `do_ipv6_setsockopt`).
    if socket.six && (level, name) == (libc::IPPROTO_IPV6, libc::IPV6_V6ONLY) && len >= 4 && !value.is_null()
    {
        return fail(Errno::INVAL);
    }
    // SAFETY: the program's arguments.
    let effect = || unsafe { kernel_socket::effect(&socket, level, name, value, len) };
    match owner(&socket, level, name) {
        // A larger buffer would make the pair writable, which is kept full during the handshake.
        Owner::Pair if is_kept_full(&shim_client, &socket, level, name) => return 0,
        Owner::Pair => {
            let done = next!(setsockopt(fd, level, name, value, len) as Real);
            if done == 0 && name == libc::SO_RCVLOWAT && socket.kind != SocketKind::Datagrams {
                low_water::expect();
                let value = [fd_replace::int(fd, level, name).unwrap_or(1), 0];
                // A stack that is gone withholds nothing.
                drop(shim_client.ask(&Request::Option { id: socket.id, level, name, value }));
                low_water::sync(shim_client, socket.id);
            }
            return done;
        }
        Owner::Hint => {
            if let Effect::Refused(errno) = effect() {
                return fail(errno);
            }
            // The pair keeps the value, so that it can be read.
            if level == SOL_SOCKET {
                next!(setsockopt(fd, level, name, value, len) as Real);
            }
            return 0;
        }
        Owner::Kernel => match effect() {
            Effect::Refused(errno) => return fail(errno),
            Effect::None => return 0,
            // The socket server refuses and counts it.
            Effect::Changed => {}
        },
        Owner::Stack => {}
    }
    let words = len as usize / size_of::<c_int>();
    // One byte is accepted for IPv4 options (ip(7)).
    let is_byte = level == IPPROTO_IP && words == 0 && len > 0;
    if words == 0 && !is_byte {
        return fail(Errno::INVAL);
    }
    // SAFETY: the program gives `len` as the size of `value`.
    let read = |at: usize| match is_byte {
        true => unsafe { memory::read(value.cast::<u8>()) }.map(c_int::from),
        false => unsafe { memory::read(value.cast::<c_int>().wrapping_add(at)) },
    };
    let mut values = [0; 2];
    for (at, slot) in values.iter_mut().enumerate().take(words.max(1)) {
        match read(at) {
            Ok(word) => *slot = word,
            Err(errno) => return fail(errno),
        }
    }
    match shim_client.ask(&Request::Option { id: socket.id, level, name, value: values }) {
        // The pair keeps the value, so that it can be read.
        Ok(asked) if asked.answer == Answer::Done && level == SOL_SOCKET => {
            next!(setsockopt(fd, level, name, value, len) as Real)
        }
        Ok(asked) => match asked.answer {
            Answer::No(errno) => match effect() {
                // The value is out of range.
                Effect::Refused(errno) => fail(errno),
                _ => fail(Errno::from_raw_os_error(errno)),
            },
            _ => 0,
        },
        // A program that has left the network namespace (vsftpd's transfers) has the options of the
        // pair.
        Err(_) if level == SOL_SOCKET => next!(setsockopt(fd, level, name, value, len) as Real),
        Err(errno) => fail(errno),
    }
}

/// True if setting the option would let the program write before the handshake is complete.
fn is_kept_full(shim_client: &ShimClient, socket: &Name, level: c_int, name: c_int) -> bool {
    (level, name) == (SOL_SOCKET, libc::SO_SNDBUF)
        && connect::handshake_state(shim_client, socket) == Answer::No(Errno::ALREADY.raw_os_error())
}

/// getsockopt(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    type Real = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
    let (Some(shim_client), Some(socket)) = (shim_client(), ours(fd)) else {
        return next!(getsockopt(fd, level, name, value, len) as Real);
    };
    let bytes = match (level, constant(&socket, level, name)) {
        (SOL_SOCKET, None) if name == libc::SO_ERROR && socket.kind == SocketKind::Datagrams => {
            datagram_io::failure(fd).map_or(0, Errno::raw_os_error).to_ne_bytes().to_vec()
        }
        (_, Some(constant)) => constant.to_ne_bytes().to_vec(),
        (SOL_SOCKET, None) if is_pairs(&socket, name) => {
            let result = next!(getsockopt(fd, level, name, value, len) as Real);
            if result == 0 && name == libc::SO_ERROR {
                // SAFETY: the kernel has written `value`, of the size that the program gives.
                unsafe { explain(&shim_client, fd, &socket, value, len) };
            }
            return result;
        }
        (_, None) => {
            let answer = match owner(&socket, level, name) {
                Owner::Kernel => Err(Errno::NOPROTOOPT),
                _ if level == SOL_GREENWAVE => label::get(&socket, name),
                _ => shim_client.option(socket.id, level, name),
            };
            match answer {
                Ok(bytes) => bytes,
                // SAFETY: the program's arguments.
                Err(Errno::NOPROTOOPT) => {
                    return unsafe { kernel_socket::get(&socket, level, name, value, len) };
                }
                Err(errno) => return fail(errno),
            }
        }
    };
    // SAFETY: the program's `len`, and a buffer of that size.
    let written = unsafe { memory::read(len) }.and_then(|room| {
        let given = bytes.len().min(room as usize);
        // SAFETY: as above.
        unsafe { memory::write_bytes(value.cast(), &bytes[..given]) }?;
        // SAFETY: as above.
        unsafe { memory::write(len, given as socklen_t) }
    });
    written.map_or_else(fail, |()| 0)
}

/// True if option `name` at `SOL_SOCKET` of `socket` is read from the socket pair.
fn is_pairs(socket: &Name, name: c_int) -> bool {
    match owner(socket, SOL_SOCKET, name) {
        Owner::Pair | Owner::Hint => true,
        // The pair keeps a copy of the value set at the stack.
        Owner::Stack => [libc::SO_KEEPALIVE, libc::SO_LINGER, libc::SO_RCVBUF].contains(&name),
        Owner::Kernel => false,
    }
}

/// Replaces the pair's SO_ERROR by the error with which the connection `socket` ended. The pair
/// reports fewer ends, and no cause.
///
/// # Safety
/// getsockopt(2) of SO_ERROR has filled `value` with `len` bytes.
unsafe fn explain(
    shim_client: &ShimClient,
    fd: c_int,
    socket: &Name,
    value: *mut c_void,
    len: *const socklen_t,
) {
    // SAFETY: the kernel wrote the length.
    let is_int = unsafe { len.read() } as usize == size_of::<c_int>();
    let value = value.cast::<c_int>();
    // SAFETY: `is_int`: the value has the size of an int.
    if is_int
        && (unsafe { value.read_unaligned() } != 0 || errors::is_hung_up(fd))
        && let Some(error) = errors::of(shim_client, socket, ErrorUse::Take)
    {
        // SAFETY: as above.
        unsafe { value.write_unaligned(error.raw_os_error()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_ours_looks_like_one_of_tcp() {
        let end = "[fd00::1]:80".parse().unwrap();
        let socket = Name { run: 1, kind: SocketKind::Connection, six: true, id: 2, local: end, remote: end };
        let of = |name| constant(&socket, SOL_SOCKET, name);
        assert_eq!(of(libc::SO_TYPE), Some(libc::SOCK_STREAM));
        assert_eq!(of(libc::SO_DOMAIN), Some(libc::AF_INET6));
        assert_eq!(of(libc::SO_PROTOCOL), Some(IPPROTO_TCP));
        assert_eq!(of(libc::SO_ACCEPTCONN), Some(0));
        let listener = Name { kind: SocketKind::Listener, ..socket };
        assert_eq!(constant(&listener, SOL_SOCKET, libc::SO_ACCEPTCONN), None, "it may be bound only");
        assert_eq!(of(libc::SO_ERROR), None, "the kernel answers");
        let socket = Name { kind: SocketKind::Datagrams, ..socket };
        let of = |level, name| constant(&socket, level, name);
        assert_eq!(of(SOL_SOCKET, libc::SO_TYPE), Some(libc::SOCK_DGRAM));
        assert_eq!(of(SOL_SOCKET, libc::SO_PROTOCOL), Some(libc::IPPROTO_UDP));
        assert_eq!(of(IPPROTO_TCP, libc::TCP_NODELAY), None);
    }

    /// Options that Unix sockets have and TCP lacks.
    const OF_UNIX: [c_int; 7] = [
        libc::SO_PASSCRED,
        libc::SO_PEERCRED,
        libc::SO_PASSSEC,
        libc::SO_PEERSEC,
        libc::SO_PEERGROUPS,
        76, // SO_PASSPIDFD
        77, // SO_PEERPIDFD
    ];

    //~ programs: only options of TCP are asked of the stack
    #[test]
    fn only_options_of_tcp_are_asked_of_the_pair() {
        let end = "10.0.0.1:80".parse().unwrap();
        let of = |kind, level, name| {
            owner(&Name { run: 1, kind, six: false, id: 2, local: end, remote: end }, level, name)
        };
        let (stream, datagrams) = (SocketKind::Connection, SocketKind::Datagrams);
        for kind in [stream, datagrams, SocketKind::Listener, SocketKind::Opened] {
            for name in OF_UNIX {
                assert_eq!(of(kind, SOL_SOCKET, name), Owner::Kernel, "option {name}");
            }
            assert_eq!(of(kind, SOL_SOCKET, libc::SO_SNDTIMEO), Owner::Pair);
            assert_eq!(of(kind, IPPROTO_IPV6, libc::IPV6_TCLASS), Owner::Kernel, "an IPv4 socket");
            let pairs = (0..=255).filter(|&name| of(kind, SOL_SOCKET, name) == Owner::Pair);
            assert!(pairs.count() <= PAIR.len() + 2);
        }
        assert_eq!(of(stream, IPPROTO_TCP, libc::TCP_NODELAY), Owner::Hint);
        assert_eq!(of(datagrams, IPPROTO_TCP, libc::TCP_NODELAY), Owner::Kernel);
        assert_eq!(of(datagrams, SOL_SOCKET, libc::SO_RCVBUF), Owner::Stack);
        assert_eq!(of(datagrams, SOL_SOCKET, libc::SO_KEEPALIVE), Owner::Pair);
        for (level, name, expected) in [
            (SOL_SOCKET, libc::SO_ATTACH_FILTER, Owner::Kernel),
            (SOL_SOCKET, libc::SO_BINDTODEVICE, Owner::Kernel),
            (SOL_SOCKET, libc::SO_ZEROCOPY, Owner::Kernel),
            (SOL_SOCKET, libc::SO_LINGER, Owner::Stack),
            (IPPROTO_TCP, libc::TCP_FASTOPEN, Owner::Stack),
            (libc::IPPROTO_IP, libc::IP_TOS, Owner::Stack),
        ] {
            assert_eq!(of(stream, level, name), expected, "level {level} option {name}");
        }
    }
}
