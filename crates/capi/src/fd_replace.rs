//! Replacement of a kernel socket by a stack socket under the same descriptor.
//!
//! Flags, options and epoll registrations are carried over. Options that a socket pair keeps are
//! set on it; options of TCP go to the socket server.

use std::ffi::{c_int, c_void};
use std::mem::ManuallyDrop;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, socklen_t};
use rustix::fs::{OFlags, fcntl_getfl};
use rustix::io::{DupFlags, Errno, FdFlags, dup3, fcntl_getfd, ioctl_fionbio};
use shim::socket_name::SocketKind;
use shim::tcp_sockopt::is_stacks;
use shim::{HopLimits, Name, Request, ShimClient};

use crate::real_fn::next;
use crate::{borrow, duplicates, epoll_registry, kernel_socket, label, low_water, shm_send, udp_fds};

/// Options that a socket pair keeps; a value of all zeros is the default.
const KEPT: [c_int; 8] = [
    libc::SO_REUSEADDR,
    libc::SO_REUSEPORT,
    libc::SO_KEEPALIVE,
    libc::SO_LINGER,
    libc::SO_RCVTIMEO,
    libc::SO_SNDTIMEO,
    libc::SO_OOBINLINE,
    libc::SO_RCVLOWAT,
];
/// Bit mask of buffers whose size the program set: bit 0 send, bit 1 receive (socket(7)).
const SO_BUF_LOCK: c_int = 72;

/// Options that the stack implements, with Linux's defaults (tcp(7), ip(7), ipv6(7)).
const STACK_OPTIONS: [(c_int, c_int, c_int); 13] = [
    (SOL_SOCKET, libc::SO_RCVLOWAT, 1),
    (IPPROTO_TCP, libc::TCP_KEEPIDLE, 7200),
    (IPPROTO_TCP, libc::TCP_KEEPINTVL, 75),
    (IPPROTO_TCP, libc::TCP_KEEPCNT, 9),
    (IPPROTO_TCP, libc::TCP_USER_TIMEOUT, 0),
    (IPPROTO_TCP, libc::TCP_FASTOPEN, 0),
    (IPPROTO_TCP, libc::TCP_CORK, 0),
    (IPPROTO_IP, libc::IP_TOS, 0),
    (IPPROTO_IPV6, libc::IPV6_TCLASS, 0),
    (IPPROTO_IP, libc::IP_TTL, 64),
    (IPPROTO_IP, libc::IP_MINTTL, 0),
    (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, 64),
    (IPPROTO_IPV6, libc::IPV6_MINHOPCOUNT, 0),
];

/// Options with an effect that the stack lacks on some kinds of sockets: level, name, true if zero
/// is the default.
const EFFECTS: [(c_int, c_int, bool); 70] = [
    (SOL_SOCKET, libc::SO_DONTROUTE, true),
    (SOL_SOCKET, libc::SO_TIMESTAMP, true),
    (SOL_SOCKET, libc::SO_TIMESTAMPNS, true),
    (SOL_SOCKET, libc::SO_TIMESTAMPING, true),
    (SOL_SOCKET, SO_TIMESTAMP_NEW, true),
    (SOL_SOCKET, SO_TIMESTAMPNS_NEW, true),
    (SOL_SOCKET, SO_TIMESTAMPING_NEW, true),
    (SOL_SOCKET, libc::SO_ATTACH_FILTER, true),
    (SOL_SOCKET, libc::SO_MARK, true),
    (SOL_SOCKET, libc::SO_MAX_PACING_RATE, false),
    (SOL_SOCKET, libc::SO_ZEROCOPY, true),
    (IPPROTO_TCP, libc::TCP_MAXSEG, false),
    (IPPROTO_TCP, libc::TCP_SYNCNT, false),
    (IPPROTO_TCP, libc::TCP_LINGER2, false),
    (IPPROTO_TCP, libc::TCP_DEFER_ACCEPT, true),
    (IPPROTO_TCP, libc::TCP_WINDOW_CLAMP, true),
    (IPPROTO_TCP, libc::TCP_CONGESTION, false),
    (IPPROTO_TCP, libc::TCP_THIN_LINEAR_TIMEOUTS, true),
    (IPPROTO_TCP, libc::TCP_NOTSENT_LOWAT, true),
    (IPPROTO_TCP, libc::TCP_SAVE_SYN, true),
    (IPPROTO_TCP, libc::TCP_FASTOPEN_CONNECT, true),
    (IPPROTO_TCP, TCP_FASTOPEN_NO_COOKIE, true),
    (IPPROTO_TCP, libc::TCP_ULP, true),
    (IPPROTO_TCP, libc::TCP_REPAIR, true),
    (IPPROTO_TCP, TCP_INQ, true),
    (IPPROTO_TCP, TCP_TX_DELAY, true),
    (IPPROTO_IP, libc::IP_OPTIONS, true),
    (IPPROTO_IP, libc::IP_RECVOPTS, true),
    (IPPROTO_IP, libc::IP_RETOPTS, true),
    (IPPROTO_IP, libc::IP_PKTINFO, true),
    (IPPROTO_IP, libc::IP_MTU_DISCOVER, false),
    (IPPROTO_IP, libc::IP_RECVERR, true),
    (IPPROTO_IP, IP_RECVERR_RFC4884, true),
    (IPPROTO_IP, libc::IP_RECVTTL, true),
    (IPPROTO_IP, libc::IP_RECVTOS, true),
    (IPPROTO_IP, libc::IP_FREEBIND, true),
    (IPPROTO_IP, libc::IP_PASSSEC, true),
    (IPPROTO_IP, libc::IP_TRANSPARENT, true),
    (IPPROTO_IP, libc::IP_ORIGDSTADDR, true),
    (IPPROTO_IP, IP_CHECKSUM, true),
    (IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, true),
    (IPPROTO_IP, IP_RECVFRAGSIZE, true),
    (IPPROTO_IP, IP_MULTICAST_ALL, false),
    (IPPROTO_IP, IP_UNICAST_IF, true),
    (IPPROTO_IP, IP_LOCAL_PORT_RANGE, true),
    (IPPROTO_IPV6, libc::IPV6_2292PKTINFO, true),
    (IPPROTO_IPV6, libc::IPV6_2292HOPOPTS, true),
    (IPPROTO_IPV6, libc::IPV6_2292DSTOPTS, true),
    (IPPROTO_IPV6, libc::IPV6_2292RTHDR, true),
    (IPPROTO_IPV6, libc::IPV6_2292HOPLIMIT, true),
    (IPPROTO_IPV6, libc::IPV6_FLOWINFO, true),
    (IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, false),
    (IPPROTO_IPV6, libc::IPV6_RECVERR, true),
    (IPPROTO_IPV6, IPV6_ROUTER_ALERT_ISOLATE, true),
    (IPPROTO_IPV6, IPV6_RECVERR_RFC4884, true),
    (IPPROTO_IPV6, libc::IPV6_FLOWINFO_SEND, true),
    (IPPROTO_IPV6, libc::IPV6_RECVPKTINFO, true),
    (IPPROTO_IPV6, libc::IPV6_RECVHOPLIMIT, true),
    (IPPROTO_IPV6, libc::IPV6_RECVHOPOPTS, true),
    (IPPROTO_IPV6, libc::IPV6_RECVRTHDR, true),
    (IPPROTO_IPV6, libc::IPV6_RECVDSTOPTS, true),
    (IPPROTO_IPV6, libc::IPV6_RECVPATHMTU, true),
    (IPPROTO_IPV6, libc::IPV6_DONTFRAG, true),
    (IPPROTO_IPV6, libc::IPV6_RECVTCLASS, true),
    (IPPROTO_IPV6, libc::IPV6_AUTOFLOWLABEL, false),
    (IPPROTO_IPV6, libc::IPV6_ADDR_PREFERENCES, false),
    (IPPROTO_IPV6, libc::IPV6_RECVORIGDSTADDR, true),
    (IPPROTO_IPV6, libc::IPV6_TRANSPARENT, true),
    (IPPROTO_IPV6, libc::IPV6_RECVFRAGSIZE, true),
    (IPPROTO_IPV6, libc::IPV6_FREEBIND, true),
];
/// From include/uapi/linux/in.h and asm-generic/socket.h.
const IP_CHECKSUM: c_int = 23;
const IP_RECVFRAGSIZE: c_int = 25;
const IP_RECVERR_RFC4884: c_int = 26;
const IP_MULTICAST_ALL: c_int = 49;
const IP_UNICAST_IF: c_int = 50;
const IP_LOCAL_PORT_RANGE: c_int = 51;
/// From include/uapi/linux/in6.h.
const IPV6_ROUTER_ALERT_ISOLATE: c_int = 30;
const IPV6_RECVERR_RFC4884: c_int = 31;
const SO_TIMESTAMP_NEW: c_int = 63;
const SO_TIMESTAMPNS_NEW: c_int = 64;
const SO_TIMESTAMPING_NEW: c_int = 65;
/// From include/uapi/linux/tcp.h.
const TCP_FASTOPEN_NO_COOKIE: c_int = 34;
const TCP_INQ: c_int = 36;
const TCP_TX_DELAY: c_int = 37;

/// Replaces the program's socket `fd` and its duplicates by copies of `end`.
pub(crate) fn replace_fd(shim_client: &ShimClient, fd: c_int, end: &OwnedFd) -> Result<(), Errno> {
    let name = Name::of(end.as_fd());
    if let Some(name) = &name {
        count_effects(shim_client, fd, name);
    }
    match name {
        Some(Name { kind: SocketKind::Datagrams, id, .. }) => {
            // Set before any thread can use the descriptor.
            udp_fds::expect();
            tell_room(shim_client, fd, id);
        }
        Some(name) => tell(shim_client, fd, name.id),
        None => {}
    }
    for other in duplicates::of(fd) {
        // A duplicate closed meanwhile needs no replacement.
        let _ = replace(other, end);
    }
    replace(fd, end)
}

/// Reports to the socket server the options set on the kernel socket `fd` that the stack ignores;
/// it counts them.
fn count_effects(shim_client: &ShimClient, fd: c_int, name: &Name) {
    let Some(socket) = borrow(fd) else { return };
    let mut fresh = None;
    let datagrams = name.kind == SocketKind::Datagrams;
    for (level, option, zero) in EFFECTS {
        // The socket server would set it.
        if datagrams && is_stacks(datagrams, level, option) {
            continue;
        }
        let Some(value) = kernel_socket::read(&socket, level, option) else { continue };
        if zero && value.0.iter().all(|byte| *byte == 0) {
            continue;
        }
        let fresh = fresh.get_or_insert_with(|| kernel_socket::new(name).ok());
        if fresh.as_ref().is_some_and(|fresh| kernel_socket::read(fresh, level, option) != Some(value)) {
            drop(shim_client.ask(&Request::Option { id: name.id, level, name: option, value: [0; 2] }));
        }
    }
}

/// True if `socket` is bound to an interface other than the stack's device (`SO_BINDTODEVICE`).
pub(crate) fn is_elsewhere(shim_client: &ShimClient, socket: BorrowedFd<'_>) -> bool {
    let bound = int(socket.as_raw_fd(), SOL_SOCKET, libc::SO_BINDTOIFINDEX).unwrap_or(0);
    bound != 0 && shim_client.interface().is_ok_and(|device| device.number != bound.cast_unsigned())
}

/// Replaces the program's descriptor `fd` by a copy of `end`, with its flags, options and epoll
/// registrations.
pub(crate) fn replace(fd: c_int, end: &OwnedFd) -> Result<(), Errno> {
    let socket = borrow(fd).ok_or(Errno::BADF)?;
    ioctl_fionbio(end, fcntl_getfl(socket)?.contains(OFlags::NONBLOCK))?;
    inherit(fd, end.as_raw_fd());
    // Connections do not inherit it from their listener.
    if let Some(level) = int(fd, SOL_SOCKET, libc::SO_PRIORITY).filter(|level| *level != 0) {
        set(end.as_raw_fd(), SOL_SOCKET, libc::SO_PRIORITY, &level.to_ne_bytes());
    }
    let name = Name::of(end.as_fd());
    let cloexec = fcntl_getfd(socket)?.contains(FdFlags::CLOEXEC);
    let flags = if cloexec { DupFlags::CLOEXEC } else { DupFlags::empty() };
    let watches = epoll_registry::of(fd);
    // SAFETY: the program owns the descriptor and keeps it: it is not dropped here.
    let mut target = ManuallyDrop::new(unsafe { OwnedFd::from_raw_fd(fd) });
    shm_send::forget(fd);
    epoll_registry::leave(fd, &watches);
    let taken = dup3(end, &mut target, flags);
    match name.filter(|_| taken.is_ok()) {
        Some(name) if label::has(&name) => shm_send::register(fd, &name),
        Some(Name { kind: SocketKind::Listener, .. }) => shm_send::note_listener(fd),
        _ => {}
    }
    epoll_registry::again(fd, &watches);
    taken
}

/// Copies the options of `from`, a kernel socket or a listener, to the pair `to`.
pub(crate) fn inherit(from: c_int, to: c_int) {
    for name in KEPT {
        if let Some((value, len)) = get::<16>(from, SOL_SOCKET, name)
            && value[..len].iter().any(|byte| *byte != 0)
            && !(name == libc::SO_RCVLOWAT && low_water::of(from).is_none())
        {
            if name == libc::SO_RCVLOWAT {
                low_water::expect();
            }
            set(to, SOL_SOCKET, name, &value[..len]);
        }
    }
    let locked = int(from, SOL_SOCKET, SO_BUF_LOCK).unwrap_or(0);
    for (bit, name) in [(1, libc::SO_SNDBUF), (2, libc::SO_RCVBUF)] {
        // While a handshake is pending, the pair's send buffer is kept full.
        let filling = name == libc::SO_SNDBUF && int(to, SOL_SOCKET, SO_BUF_LOCK).is_some_and(|l| l & 1 == 1);
        if locked & bit != 0
            && !filling
            && let Some(size) = int(from, SOL_SOCKET, name)
        {
            // The kernel reports twice the value set.
            set(to, SOL_SOCKET, name, &(size / 2).to_ne_bytes());
        }
    }
}

/// `SO_SNDBUF` as the program set it, in bytes; 0: not set.
pub(crate) fn send_buffer(fd: c_int) -> u32 {
    let chosen = int(fd, SOL_SOCKET, SO_BUF_LOCK).is_some_and(|locked| locked & 1 == 1);
    let size = if chosen { int(fd, SOL_SOCKET, libc::SO_SNDBUF) } else { None };
    size.and_then(|size| u32::try_from(size / 2).ok()).unwrap_or(0)
}

/// Hop limits of the kernel socket `fd` for the address family of `to`.
pub(crate) fn hop_limits(fd: c_int, to: SocketAddr) -> HopLimits {
    let (level, sent, received_min) = match to {
        SocketAddr::V4(_) => (libc::IPPROTO_IP, libc::IP_TTL, libc::IP_MINTTL),
        SocketAddr::V6(_) => (IPPROTO_IPV6, libc::IPV6_UNICAST_HOPS, libc::IPV6_MINHOPCOUNT),
    };
    let read = |name| int(fd, level, name).and_then(|value| u8::try_from(value).ok());
    let usual = HopLimits::default();
    HopLimits {
        sent: read(sent).unwrap_or(usual.sent),
        received_min: read(received_min).unwrap_or(usual.received_min),
    }
}

/// Sends the receive buffer size of `fd`, if the program set it, to the socket server for socket
/// `id`.
fn tell_room(shim_client: &ShimClient, fd: c_int, id: u64) {
    let (level, name) = (SOL_SOCKET, libc::SO_RCVBUF);
    let chosen = int(fd, level, SO_BUF_LOCK).is_some_and(|locked| locked & 2 == 2);
    if let (true, Some(size)) = (chosen, int(fd, level, name)) {
        drop(shim_client.ask(&Request::Option { id, level, name, value: [size / 2, 0] }));
    }
}

/// Sends the options of `fd` that the stack implements to the socket server, for number `id`.
fn tell(shim_client: &ShimClient, fd: c_int, id: u64) {
    // The kernel accepted the value; the socket server counts it if it refuses it.
    let ask = |level, name, value| drop(shim_client.ask(&Request::Option { id, level, name, value }));
    for (level, name, usual) in STACK_OPTIONS {
        if let Some(value) = int(fd, level, name).filter(|value| *value != usual) {
            ask(level, name, [value, 0]);
        }
    }
    if int(fd, SOL_SOCKET, libc::SO_KEEPALIVE).is_some_and(|on| on != 0) {
        ask(SOL_SOCKET, libc::SO_KEEPALIVE, [1, 0]);
    }
    if let Some(([1, 0, 0, 0, 0, 0, 0, 0], 8)) = get::<8>(fd, SOL_SOCKET, libc::SO_LINGER) {
        ask(SOL_SOCKET, libc::SO_LINGER, [1, 0]);
    }
}

/// Value of an option in the kernel, and its length in bytes.
pub(crate) fn get<const N: usize>(fd: c_int, level: c_int, name: c_int) -> Option<([u8; N], usize)> {
    type Real = unsafe extern "C" fn(c_int, c_int, c_int, *mut c_void, *mut socklen_t) -> c_int;
    let mut value = [0; N];
    let mut len = N as socklen_t;
    let got = next!(getsockopt(fd, level, name, value.as_mut_ptr().cast(), &raw mut len) as Real);
    (got == 0).then_some((value, (len as usize).min(N)))
}

/// Value of a four-byte option in the kernel.
pub(crate) fn int(fd: c_int, level: c_int, name: c_int) -> Option<c_int> {
    let (value, len) = get::<4>(fd, level, name)?;
    (len == 4).then_some(c_int::from_ne_bytes(value))
}

/// Sets an option in the kernel.
pub(crate) fn set(fd: c_int, level: c_int, name: c_int, value: &[u8]) {
    type Real = unsafe extern "C" fn(c_int, c_int, c_int, *const c_void, socklen_t) -> c_int;
    // An option that a pair does not support has no effect.
    next!(setsockopt(fd, level, name, value.as_ptr().cast(), value.len() as socklen_t) as Real);
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_pair_has_the_options_of_its_socket() {
        let socket = TcpListener::bind("127.0.0.1:0").unwrap();
        let of = socket.as_raw_fd();
        set(of, SOL_SOCKET, libc::SO_KEEPALIVE, &1_i32.to_ne_bytes());
        set(of, SOL_SOCKET, libc::SO_SNDBUF, &10_000_i32.to_ne_bytes());
        let wait = libc::timeval { tv_sec: 7, tv_usec: 0 };
        set(of, SOL_SOCKET, libc::SO_RCVTIMEO, &[wait.tv_sec.to_ne_bytes(), [0; 8]].concat());
        let (pair, _other) = UnixStream::pair().unwrap();
        let usual = int(pair.as_raw_fd(), SOL_SOCKET, libc::SO_RCVBUF);
        inherit(of, pair.as_raw_fd());
        assert_eq!(pair.read_timeout().unwrap(), Some(Duration::from_secs(7)));
        assert_eq!(pair.write_timeout().unwrap(), None);
        assert_eq!(int(pair.as_raw_fd(), SOL_SOCKET, libc::SO_KEEPALIVE), Some(1));
        assert_eq!(int(pair.as_raw_fd(), SOL_SOCKET, libc::SO_SNDBUF), Some(20_000));
        assert_eq!(int(pair.as_raw_fd(), SOL_SOCKET, libc::SO_RCVBUF), usual, "not set by the program");
        assert_eq!((send_buffer(of), send_buffer(_other.as_raw_fd())), (10_000, 0));
    }
}
