//! Calls that send: send(2) and its variants, write(2), sendfile(2), splice(2).
//!
//! On a connection they are the kernel's, with two exceptions: a socket pair takes no address, and
//! MSG_FASTOPEN may open a connection on the stack. A datagram is sent with a header. An unbound
//! UDP socket moves to the stack with its first datagram, if the stack routes to its destination.

use std::ffi::{c_int, c_uint, c_void};
use std::net::SocketAddr;

use libc::{iovec, mmsghdr, msghdr, off_t, off64_t, size_t, sockaddr, socklen_t, ssize_t};
use rustix::io::Errno;
use shim::socket_name::SocketKind;
use shim::{Cmsg, Name};

use crate::datagram_io::{piece, send as send_pieces};
use crate::real_fn::next;
use crate::{
    cmsg, connect, fail, is_loaded, memory, ours, shm_send, socket_address, stream, udp_fds, udp_socket,
};

/// Destination of a datagram of an IPv6 (`six`) or IPv4 socket, from the address given to `sendto` or
/// `sendmsg` (Linux, `udp_sendmsg`, `udpv6_sendmsg`).
///
/// # Safety
/// `addr` points to `len` bytes, or is null.
unsafe fn target(addr: *const sockaddr, len: socklen_t, six: bool) -> Result<Option<SocketAddr>, Errno> {
    if addr.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's address.
    match unsafe { (family(addr, len), socket_address::read(addr, len)) } {
        (Some(libc::AF_INET6), Some(_)) if !six => Err(Errno::AFNOSUPPORT),
        (_, Some(to)) => Ok(Some(to)),
        (Some(libc::AF_UNSPEC), None) if six => Ok(None),
        // SAFETY: as above.
        (Some(libc::AF_UNSPEC), None) => match unsafe { socket_address::read_as(libc::AF_INET, addr, len) } {
            Some(to) => Ok(Some(to)),
            None => Err(Errno::INVAL),
        },
        (Some(libc::AF_INET | libc::AF_INET6) | None, None) => Err(Errno::INVAL),
        (Some(_), None) => Err(if six { Errno::INVAL } else { Errno::AFNOSUPPORT }),
    }
}

/// Address family of the program's address.
///
/// # Safety
/// The same as for [`target`].
unsafe fn family(addr: *const sockaddr, len: socklen_t) -> Option<c_int> {
    // SAFETY: the caller's address.
    unsafe { socket_address::family(addr, len) }.map(c_int::from)
}

/// Name of `fd`, if it is a UDP socket on the stack, or becomes one because it sends to `addr`.
///
/// # Safety
/// The same as for [`target`].
unsafe fn sender(fd: c_int, addr: *const sockaddr, len: socklen_t) -> Result<Option<Name>, Errno> {
    if let Some(name) = udp_fds::of(fd) {
        return Ok(Some(name));
    }
    // SAFETY: the caller's address.
    match unsafe { socket_address::read(addr, len) } {
        // SAFETY: as above.
        Some(to) if udp_socket::adopt(fd, to, unsafe { family(addr, len) }, false)? => Ok(udp_fds::of(fd)),
        _ => Ok(None),
    }
}

/// Sends a datagram from socket `name` to `addr`.
///
/// # Safety
/// The program's arguments to sendmsg(2).
unsafe fn send_one(
    (fd, name): (c_int, &Name),
    cmsg: Cmsg,
    pieces: &[iovec],
    flags: c_int,
    (addr, len): (*const sockaddr, socklen_t),
) -> ssize_t {
    // SAFETY: the program's address.
    match unsafe { target(addr, len, name.six) } {
        // SAFETY: the program's iovecs.
        Ok(to) => unsafe { send_pieces(fd, name, to, cmsg, pieces, flags) },
        Err(errno) => fail(errno) as ssize_t,
    }
}

/// Sends a datagram from socket `name` to its connected peer.
///
/// # Safety
/// The program's arguments to send(2).
unsafe fn send_bytes(fd: c_int, name: &Name, bytes: *const c_void, n: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the program's bytes.
    unsafe { send_pieces(fd, name, None, Cmsg::default(), &[piece(bytes, n)], flags) }
}

/// send(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn send(fd: c_int, bytes: *const c_void, n: size_t, flags: c_int) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, *const c_void, size_t, c_int) -> ssize_t;
    match udp_fds::of(fd) {
        // SAFETY: the program's arguments.
        Some(name) => unsafe { send_bytes(fd, &name, bytes, n, flags) },
        None => {
            let call = || stream::send(fd, bytes, n, flags, || next!(send(fd, bytes, n, flags) as Real));
            // SAFETY: as above.
            unsafe { shm_send::write(fd, &[piece(bytes, n)], flags, call) }
        }
    }
}

/// sendto(2). On TCP the address is not needed; a socket pair would refuse it.
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn sendto(
    fd: c_int,
    bytes: *const c_void,
    n: size_t,
    flags: c_int,
    addr: *const sockaddr,
    len: socklen_t,
) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(
        c_int,
        *const c_void,
        size_t,
        c_int,
        *const sockaddr,
        socklen_t,
    ) -> ssize_t;
    // SAFETY: the program's arguments.
    match unsafe { sender(fd, addr, len) } {
        // SAFETY: as above.
        Ok(Some(name)) => unsafe {
            send_one((fd, &name), Cmsg::default(), &[piece(bytes, n)], flags, (addr, len))
        },
        // SAFETY: as above.
        Ok(None) => match unsafe { bare(fd, flags, addr, len) } {
            Ok(Some(flags)) => {
                let call = || next!(sendto(fd, bytes, n, flags, std::ptr::null(), 0) as Real);
                stream::send(fd, bytes, n, flags, call)
            }
            // SAFETY: as above.
            Ok(None) if addr.is_null() => unsafe { send(fd, bytes, n, flags) },
            Ok(None) if shm_send::is_listener(fd) => stream::send_unconnected(flags),
            Ok(None) => next!(sendto(fd, bytes, n, flags, addr, len) as Real),
            Err(errno) => fail(errno) as ssize_t,
        },
        Err(errno) => fail(errno) as ssize_t,
    }
}

/// Flags with which data for `addr` is sent without the address, if `fd` is a connection on the
/// stack. MSG_FASTOPEN opens one if the stack routes there; its data follows the handshake, as
/// without a cookie (RFC 7413 §4.1.3).
///
/// # Safety
/// `addr` points to `len` bytes, or is null.
unsafe fn bare(
    fd: c_int,
    flags: c_int,
    addr: *const sockaddr,
    len: socklen_t,
) -> Result<Option<c_int>, Errno> {
    if addr.is_null() || flags & libc::MSG_FASTOPEN == 0 && shm_send::is_listener(fd) {
        return Ok(None);
    }
    let is_open = ours(fd).is_some_and(|name| name.kind != SocketKind::Listener);
    let opens = !is_open && flags & libc::MSG_FASTOPEN != 0;
    // SAFETY: the caller's address.
    let goes_here = is_open || opens && unsafe { connect::opens(fd, addr, len) }?;
    Ok(goes_here.then_some(if is_open { flags } else { flags & !libc::MSG_FASTOPEN }))
}

/// sendmsg(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn sendmsg(fd: c_int, message: *const msghdr, flags: c_int) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, *const msghdr, c_int) -> ssize_t;
    // SAFETY: the program's message; the kernel reports an invalid one.
    let Ok(copy) = (unsafe { memory::read(message) }) else {
        return next!(sendmsg(fd, message, flags) as Real);
    };
    // SAFETY: as above.
    match unsafe { sender(fd, copy.msg_name.cast_const().cast(), copy.msg_namelen) } {
        // SAFETY: as above.
        Ok(Some(name)) => unsafe { send_message(fd, &name, &copy, flags) },
        // SAFETY: as above.
        Ok(None) => unsafe { send_bare(fd, &copy, flags) },
        Err(errno) => fail(errno) as ssize_t,
    }
}

/// Sends a message on a descriptor that is no UDP socket on the stack.
///
/// # Safety
/// The same as for sendmsg(2).
unsafe fn send_bare(fd: c_int, message: &msghdr, flags: c_int) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, *const msghdr, c_int) -> ssize_t;
    // The pair would pass descriptors, and check credentials.
    if message.msg_controllen > 0 && ours(fd).is_some() {
        let plain = msghdr { msg_control: std::ptr::null_mut(), msg_controllen: 0, ..*message };
        // SAFETY: the program's message.
        return match unsafe { cmsg::read(message, cmsg::Sender::Stream) } {
            // SAFETY: as above.
            Ok(_) => unsafe { send_bare(fd, &plain, flags) },
            Err(errno) => fail(errno) as ssize_t,
        };
    }
    // SAFETY: the program's message.
    match unsafe { bare(fd, flags, message.msg_name.cast_const().cast(), message.msg_namelen) } {
        Ok(Some(flags)) => {
            let plain = msghdr { msg_name: std::ptr::null_mut(), msg_namelen: 0, ..*message };
            let plain = msghdr { msg_control: std::ptr::null_mut(), msg_controllen: 0, ..plain };
            stream::send_message(fd, &plain, flags, || next!(sendmsg(fd, &raw const plain, flags) as Real))
        }
        Ok(None) => {
            let kernel = || next!(sendmsg(fd, std::ptr::from_ref(message), flags) as Real);
            let call = || stream::send_message(fd, message, flags, kernel);
            let bare = message.msg_controllen == 0 && message.msg_name.is_null();
            if !bare || shm_send::noted(fd).is_none() {
                return call();
            }
            // SAFETY: as above; the kernel reports invalid iovecs.
            match unsafe { memory::pieces(message.msg_iov, message.msg_iovlen) } {
                // SAFETY: as above.
                Ok(pieces) => unsafe { shm_send::write(fd, &pieces, flags, call) },
                Err(_) => call(),
            }
        }
        Err(errno) => fail(errno) as ssize_t,
    }
}

/// Rules of the control data of `message` on UDP socket `name`.
///
/// # Safety
/// The same as for sendmsg(2).
unsafe fn cmsg_sender(name: &Name, message: &msghdr) -> cmsg::Sender {
    // SAFETY: the program's address; an invalid one is refused later.
    match unsafe { socket_address::read(message.msg_name.cast_const().cast(), message.msg_namelen) } {
        Some(SocketAddr::V4(_)) => cmsg::Sender::Four(name.six),
        Some(SocketAddr::V6(_)) => cmsg::Sender::Six,
        None if name.six => cmsg::Sender::Connected,
        None => cmsg::Sender::Four(false),
    }
}

/// # Safety
/// The same as for sendmsg(2).
unsafe fn send_message(fd: c_int, name: &Name, message: &msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's message.
    let cmsg = match unsafe { cmsg::read(message, cmsg_sender(name, message)) } {
        Ok(cmsg) => cmsg,
        Err(errno) => return fail(errno) as ssize_t,
    };
    // SAFETY: the program's iovecs.
    match unsafe { memory::pieces(message.msg_iov, message.msg_iovlen) } {
        Ok(pieces) => {
            let to = (message.msg_name.cast_const().cast(), message.msg_namelen);
            // SAFETY: as above.
            unsafe { send_one((fd, name), cmsg, &pieces, flags, to) }
        }
        Err(errno) => fail(errno) as ssize_t,
    }
}

/// sendmmsg(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn sendmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
) -> c_int {
    type Real = unsafe extern "C-unwind" fn(c_int, *mut mmsghdr, c_uint, c_int) -> c_int;
    // SAFETY: the program's messages, of which each starts with its header.
    let first = if count == 0 { None } else { unsafe { memory::read(messages.cast::<msghdr>()) }.ok() };
    let (addr, len) =
        first.map_or((std::ptr::null(), 0), |first| (first.msg_name.cast_const(), first.msg_namelen));
    // SAFETY: as above.
    let udp_sender = match unsafe { sender(fd, addr.cast(), len) } {
        Ok(udp_sender) => udp_sender,
        Err(errno) => return fail(errno),
    };
    if first.is_none() || udp_sender.is_none() && ours(fd).is_none() {
        return next!(sendmmsg(fd, messages, count, flags) as Real);
    }
    for at in 0..count.min(1024) {
        let message = messages.wrapping_add(at as usize);
        // SAFETY: as above.
        let sent = unsafe { memory::read(message.cast::<msghdr>()) }.map_or_else(
            |errno| fail(errno) as ssize_t,
            |header| match &udp_sender {
                // SAFETY: as above.
                Some(name) => unsafe { send_message(fd, name, &header, flags) },
                // SAFETY: as above.
                None => unsafe { send_bare(fd, &header, flags) },
            },
        );
        if sent < 0 {
            return if at == 0 { -1 } else { at as c_int };
        }
        let len = message.wrapping_byte_add(std::mem::offset_of!(mmsghdr, msg_len)).cast::<c_uint>();
        // SAFETY: as above. The datagram is sent by then; the kernel reports no more than that
        // either.
        if let Err(errno) = unsafe { memory::write(len, sent as c_uint) } {
            return if at == 0 { fail(errno) } else { at as c_int };
        }
    }
    count.min(1024) as c_int
}

/// sendfile(2) of the kernel. It ends the effect of `MSG_MORE` on earlier bytes.
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn sendfile(to: c_int, from: c_int, at: *mut off_t, n: size_t) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, c_int, *mut off_t, size_t) -> ssize_t;
    shm_send::follow(to);
    next!(sendfile(to, from, at, n) as Real)
}

/// sendfile(2) for programs built with large-file support.
///
/// # Safety
/// The same as for [`sendfile`].
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn sendfile64(to: c_int, from: c_int, at: *mut off_t, n: size_t) -> ssize_t {
    // SAFETY: the program's arguments; on 64-bit machines the two are the same.
    unsafe { sendfile(to, from, at, n) }
}

/// splice(2). It ends the effect of `MSG_MORE`, as [`sendfile`] does.
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn splice(
    from: c_int,
    from_at: *mut off64_t,
    to: c_int,
    to_at: *mut off64_t,
    n: size_t,
    flags: c_uint,
) -> ssize_t {
    type Real =
        unsafe extern "C-unwind" fn(c_int, *mut off64_t, c_int, *mut off64_t, size_t, c_uint) -> ssize_t;
    if flags & libc::SPLICE_F_MORE == 0 {
        shm_send::follow(to);
    }
    next!(splice(from, from_at, to, to_at, n, flags) as Real)
}

/// write(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn write(fd: c_int, bytes: *const c_void, n: size_t) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, *const c_void, size_t) -> ssize_t;
    match udp_fds::of(fd) {
        // SAFETY: the program's arguments.
        Some(name) => unsafe { send_bytes(fd, &name, bytes, n, 0) },
        None if is_loaded() => {
            let call = || stream::send(fd, bytes, n, 0, || next!(write(fd, bytes, n) as Real));
            // SAFETY: as above.
            unsafe { shm_send::write(fd, &[piece(bytes, n)], 0, call) }
        }
        // SAFETY: the program's arguments; see `read`.
        None => unsafe { libc::syscall(libc::SYS_write, fd, bytes, n) as ssize_t },
    }
}

/// writev(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn writev(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, *const iovec, c_int) -> ssize_t;
    let count_of = usize::try_from(count).unwrap_or(usize::MAX);
    let kernel = || next!(writev(fd, pieces, count) as Real);
    let call = || stream::send_pieces(fd, pieces, count_of, kernel);
    let name = udp_fds::of(fd);
    if name.is_none() && shm_send::noted(fd).is_none() {
        return call();
    }
    // SAFETY: the program's iovecs.
    match (unsafe { memory::pieces(pieces, count_of) }, name) {
        // SAFETY: as above.
        (Ok(pieces), Some(name)) => unsafe { send_pieces(fd, &name, None, Cmsg::default(), &pieces, 0) },
        // SAFETY: as above.
        (Ok(pieces), None) => unsafe { shm_send::write(fd, &pieces, 0, call) },
        (Err(Errno::FAULT), Some(_)) => fail(Errno::FAULT) as ssize_t,
        (Err(_), Some(_)) => fail(Errno::INVAL) as ssize_t,
        // The kernel reports invalid iovecs.
        (Err(_), None) => call(),
    }
}
