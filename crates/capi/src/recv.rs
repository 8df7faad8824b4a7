//! Calls that receive: recv(2) and its variants, and read(2).
//!
//! On a connection they are the kernel's, except that `recvfrom` returns no sender. From a datagram
//! they strip the header. In a process that never had a UDP socket on the stack they cost one flag
//! check.

use std::ffi::{c_int, c_uint, c_void};
use std::time::{Duration, Instant};

use libc::{iovec, mmsghdr, msghdr, size_t, sockaddr, socklen_t, ssize_t, timespec};
use rustix::io::Errno;

use crate::datagram_io::{ReceivedDatagram, piece, receive};
use crate::real_fn::next;
use crate::{
    cmsg, duplicates, errors, fail, is_loaded, late_data, low_water, memory, ours, shm_send, socket_address,
    stream, udp_fds,
};

/// Receives a datagram into `n` bytes at `bytes`; returns its length or -1.
///
/// # Safety
/// The program's arguments to recv(2).
unsafe fn one(fd: c_int, bytes: *mut c_void, n: size_t, flags: c_int) -> ssize_t {
    // SAFETY: the program's bytes.
    unsafe { receive(fd, &[piece(bytes, n)], flags) }.map_or(-1, |got| got.len as ssize_t)
}

/// recv(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn recv(fd: c_int, bytes: *mut c_void, n: size_t, flags: c_int) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t, c_int) -> ssize_t;
    match udp_fds::of(fd) {
        // SAFETY: the program's arguments.
        Some(_) => unsafe { one(fd, bytes, n, flags) },
        None => {
            let call = || next!(recv(fd, bytes, n, flags) as Real);
            // SAFETY: as above.
            unsafe { stream::receive(fd, flags, bytes, n, call) }
        }
    }
}

/// recv(2) as compiled with `_FORTIFY_SOURCE`, with the size of the buffer.
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn __recv_chk(
    fd: c_int,
    bytes: *mut c_void,
    n: size_t,
    room: size_t,
    flags: c_int,
) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t, size_t, c_int) -> ssize_t;
    match udp_fds::of(fd) {
        // SAFETY: the program's arguments.
        Some(_) if n <= room => unsafe { one(fd, bytes, n, flags) },
        _ => {
            let call = || next!(__recv_chk(fd, bytes, n, room, flags) as Real);
            // SAFETY: as above.
            unsafe { stream::receive(fd, flags, bytes, n, call) }
        }
    }
}

/// recvfrom(2). On TCP it returns no sender; a socket pair would.
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn recvfrom(
    fd: c_int,
    bytes: *mut c_void,
    n: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(
        c_int,
        *mut c_void,
        size_t,
        c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t;
    let (null, none) = (std::ptr::null_mut(), std::ptr::null_mut());
    if let Some(name) = udp_fds::of(fd) {
        // SAFETY: the program's bytes.
        let got = unsafe { receive(fd, &[piece(bytes, n)], flags) };
        // SAFETY: the program's arguments.
        return got.map_or(-1, |got| unsafe { write_sender(&got, name.six, addr, len) });
    }
    if addr.is_null() || ours(fd).is_none() {
        let call = || next!(recvfrom(fd, bytes, n, flags, addr, len) as Real);
        // SAFETY: the program's arguments.
        return unsafe { stream::receive(fd, flags, bytes, n, call) };
    }
    let call = || next!(recvfrom(fd, bytes, n, flags, null, none) as Real);
    // SAFETY: the program's arguments.
    let got = unsafe { stream::receive(fd, flags, bytes, n, call) };
    // SAFETY: the program's `len`; the kernel, too, writes it only on success.
    match got {
        0.. => unsafe { no_name(len) }.map_or_else(|errno| fail(errno) as ssize_t, |()| got),
        _ => got,
    }
}

/// Writes the length 0: there is no sender address.
///
/// # Safety
/// `len` is the pointer that the program passed.
unsafe fn no_name(len: *mut socklen_t) -> Result<(), Errno> {
    // SAFETY: the caller's.
    unsafe { memory::write(len, 0) }
}

/// recvfrom(2) as compiled with `_FORTIFY_SOURCE`, with the size of the buffer.
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn __recvfrom_chk(
    fd: c_int,
    bytes: *mut c_void,
    n: size_t,
    room: size_t,
    flags: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(
        c_int,
        *mut c_void,
        size_t,
        size_t,
        c_int,
        *mut sockaddr,
        *mut socklen_t,
    ) -> ssize_t;
    if n > room {
        return next!(__recvfrom_chk(fd, bytes, n, room, flags, addr, len) as Real);
    }
    // SAFETY: the program's arguments.
    unsafe { recvfrom(fd, bytes, n, flags, addr, len) }
}

/// Writes the sender of a received datagram; returns the datagram's length.
///
/// # Safety
/// The same as for recvfrom(2).
unsafe fn write_sender(
    got: &ReceivedDatagram,
    six: bool,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> ssize_t {
    // SAFETY: the program's arguments.
    let named = unsafe {
        match got.from {
            Some(from) => socket_address::write(from, six, addr, len),
            None if len.is_null() => Ok(()),
            None => no_name(len),
        }
    };
    named.map_or_else(|errno| fail(errno) as ssize_t, |()| got.len as ssize_t)
}

/// recvmsg(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn recvmsg(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, *mut msghdr, c_int) -> ssize_t;
    if let Some(name) = udp_fds::of(fd) {
        // SAFETY: the program's arguments.
        return unsafe { into(fd, name.six, message, flags) };
    }
    if shm_send::is_listener(fd) {
        return stream::receive_unconnected(fd, flags);
    }
    if stream::is_unlike(fd, flags) {
        // SAFETY: the program's message.
        return unsafe { discard(fd, message, flags) };
    }
    low_water::flush(fd, usize::MAX);
    // SAFETY: the program's message; the kernel reports an invalid one.
    let named = unsafe { memory::read(message) }.ok().filter(|named| !named.msg_name.is_null());
    let got = match named {
        Some(named) if ours(fd).is_some() => {
            // As in TCP: for the pair's end the kernel would return the pair's name.
            let mut nameless = msghdr { msg_name: std::ptr::null_mut(), msg_namelen: 0, ..named };
            let got = next!(recvmsg(fd, &raw mut nameless, flags) as Real);
            let result = msghdr { msg_name: named.msg_name, ..nameless };
            // SAFETY: as above.
            match unsafe { if got >= 0 { memory::write(message, result) } else { Ok(()) } } {
                Ok(()) => got,
                Err(errno) => fail(errno) as ssize_t,
            }
        }
        _ => next!(recvmsg(fd, message, flags) as Real),
    };
    // SAFETY: the kernel has filled it, if it returned no error.
    let got = unsafe { add_late(fd, flags, message, got) };
    // SAFETY: as above.
    let got = errors::received(fd, got, || unsafe { room(message) } > 0);
    // SAFETY: the kernel has filled it.
    if got >= 0 && unsafe { received_fd(message) }.is_some() {
        udp_fds::expect();
        duplicates::expect();
    }
    got
}

/// Adds late data to `message`, of which `got` bytes are filled.
///
/// # Safety
/// The same as for recvmsg(2), which has succeeded unless `got` is -1.
unsafe fn add_late(fd: c_int, flags: c_int, message: *const msghdr, got: ssize_t) -> ssize_t {
    if !late_data::may_follow(got) {
        return got;
    }
    // SAFETY: the caller's message, and its iovecs.
    match unsafe { memory::read(message).and_then(|m| memory::pieces(m.msg_iov, m.msg_iovlen)) } {
        // SAFETY: as above.
        Ok(pieces) => unsafe { late_data::add(fd, flags, &pieces, got) },
        Err(_) => got,
    }
}

/// Capacity in bytes of the iovecs of `message`.
///
/// # Safety
/// `message` points to a message, or is null.
unsafe fn room(message: *const msghdr) -> usize {
    // SAFETY: the caller's message, and its iovecs; the kernel reports invalid ones.
    let pieces = unsafe { memory::read(message).and_then(|m| memory::pieces(m.msg_iov, m.msg_iovlen)) };
    pieces.map_or(0, |pieces| pieces.iter().fold(0, |room, piece| room.saturating_add(piece.iov_len)))
}

/// recvmsg(2) on a connection with flags that differ on a socket pair: no bytes are copied.
///
/// # Safety
/// The same as for recvmsg(2).
unsafe fn discard(fd: c_int, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the caller's message.
    let got = stream::receive_unlike(fd, flags, unsafe { room(message) });
    // SAFETY: the caller's message.
    if let (0.., Ok(header)) = (got, unsafe { memory::read(message) }) {
        let cleared = msghdr { msg_namelen: 0, msg_controllen: 0, msg_flags: 0, ..header };
        // SAFETY: as above; it was just read.
        let _ = unsafe { memory::write(message, cleared) };
    }
    got
}

/// First descriptor received with `message`. Other ancillary data may precede it, such as
/// credentials (SO_PASSCRED, unix(7)).
///
/// # Safety
/// recvmsg(2) has filled `message`.
pub(crate) unsafe fn received_fd(message: *const msghdr) -> Option<c_int> {
    // SAFETY: the caller's message can be read, aligned or not.
    let message = unsafe { message.read_unaligned() };
    // SAFETY: its control buffer can be read.
    let mut all = unsafe { cmsg::all(message.msg_control.cast_const().cast(), message.msg_controllen) };
    let rights = |of: &cmsg::Control| of.of == (libc::SOL_SOCKET, libc::SCM_RIGHTS);
    // The kernel writes no SCM_RIGHTS without a descriptor.
    let first = all.find_map(|of| of.ok().filter(rights))?;
    // SAFETY: as above.
    unsafe { first.value() }.ok()
}

/// True if descriptors were received with any of `count` messages.
///
/// # Safety
/// recvmmsg(2) has filled `count` messages.
unsafe fn any_brings(messages: *const mmsghdr, count: usize) -> bool {
    (0..count).any(|at| {
        // SAFETY: the caller has this many, and each starts with its header.
        unsafe { received_fd(messages.add(at).cast()) }.is_some()
    })
}

/// Receives a datagram into `message`.
///
/// # Safety
/// The same as for recvmsg(2).
unsafe fn into(fd: c_int, six: bool, message: *mut msghdr, flags: c_int) -> ssize_t {
    // SAFETY: the program's message; an invalid one is refused.
    let mut copy = match unsafe { memory::read(message) } {
        Ok(copy) => copy,
        Err(errno) => return fail(errno) as ssize_t,
    };
    // SAFETY: the program's iovecs.
    let pieces = match unsafe { memory::pieces(copy.msg_iov, copy.msg_iovlen) } {
        Ok(pieces) => pieces,
        Err(errno) => return fail(errno) as ssize_t,
    };
    // SAFETY: as above.
    let Some(got) = (unsafe { receive(fd, &pieces, flags) }) else { return -1 };
    let len = if copy.msg_name.is_null() { std::ptr::null_mut() } else { &raw mut copy.msg_namelen };
    // SAFETY: the program gives the size of the name buffer.
    let written = unsafe { write_sender(&got, six, copy.msg_name.cast(), len) };
    copy.msg_flags = got.flags;
    // SAFETY: the program gives the size of the control buffer.
    let done = unsafe { cmsg::write(&mut copy, six, got.from, got.cmsg) };
    // SAFETY: as above.
    match done.and_then(|()| unsafe { memory::write(message, copy) }) {
        Ok(()) => written,
        Err(errno) => fail(errno) as ssize_t,
    }
}

/// recvmmsg(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn recvmmsg(
    fd: c_int,
    messages: *mut mmsghdr,
    count: c_uint,
    flags: c_int,
    timeout: *mut timespec,
) -> c_int {
    type Real = unsafe extern "C-unwind" fn(c_int, *mut mmsghdr, c_uint, c_int, *mut timespec) -> c_int;
    let udp_fd = udp_fds::of(fd);
    if udp_fd.is_none() && ours(fd).is_none() {
        let got = next!(recvmmsg(fd, messages, count, flags, timeout) as Real);
        // SAFETY: the kernel has filled this many of the program's.
        if unsafe { any_brings(messages, usize::try_from(got).unwrap_or(0)) } {
            udp_fds::expect();
            duplicates::expect();
        }
        return got;
    }
    let end = match timeout.is_null() {
        true => None,
        // SAFETY: the program's timeout.
        false => match unsafe { memory::read(timeout) }.and_then(|of| span(&of)) {
            Ok(span) => Instant::now().checked_add(span),
            Err(errno) => return fail(errno),
        },
    };
    let mut flags = flags;
    for at in 0..count.min(1024) {
        let message = messages.wrapping_add(at as usize);
        let wait = flags & !libc::MSG_WAITFORONE;
        // Each `mmsghdr` starts with its header.
        let header = message.cast::<msghdr>();
        let got = match &udp_fd {
            // SAFETY: the program has `count` messages.
            Some(name) => unsafe { into(fd, name.six, header, wait) },
            // SAFETY: as above.
            None => unsafe { recvmsg(fd, header, wait) },
        };
        if got < 0 {
            return if at == 0 { -1 } else { at as c_int };
        }
        let len = message.wrapping_byte_add(std::mem::offset_of!(mmsghdr, msg_len)).cast::<c_uint>();
        // SAFETY: as above.
        if let Err(errno) = unsafe { memory::write(len, got as c_uint) } {
            return if at == 0 { fail(errno) } else { at as c_int };
        }
        if flags & libc::MSG_WAITFORONE != 0 {
            flags |= libc::MSG_DONTWAIT;
        }
        // The kernel, too, checks the timeout only after each datagram.
        if end.is_some_and(|end| Instant::now() >= end) {
            return at as c_int + 1;
        }
    }
    count.min(1024) as c_int
}

/// Timeout of a program.
fn span(of: &timespec) -> Result<Duration, Errno> {
    match (u64::try_from(of.tv_sec), u32::try_from(of.tv_nsec)) {
        (Ok(seconds), Ok(rest @ ..1_000_000_000)) => Ok(Duration::new(seconds, rest)),
        _ => Err(Errno::INVAL),
    }
}

/// read(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn read(fd: c_int, bytes: *mut c_void, n: size_t) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t) -> ssize_t;
    match udp_fds::of(fd) {
        // SAFETY: the program's arguments.
        Some(_) => unsafe { one(fd, bytes, n, 0) },
        // Zero bytes read as zero on any file.
        None if n > 0 && shm_send::is_listener(fd) => stream::receive_unconnected(fd, 0),
        None if is_loaded() => {
            low_water::flush(fd, n);
            let got = next!(read(fd, bytes, n) as Real);
            // SAFETY: as above.
            errors::received(fd, unsafe { late_data::add_to(fd, 0, bytes, n, got) }, || n > 0)
        }
        // SAFETY: the program's arguments; its allocator may read before the loader is done, when
        // no function can be looked up.
        None => unsafe { libc::syscall(libc::SYS_read, fd, bytes, n) as ssize_t },
    }
}

/// read(2) as compiled with `_FORTIFY_SOURCE`, with the size of the buffer.
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    bytes: *mut c_void,
    n: size_t,
    room: size_t,
) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, *mut c_void, size_t, size_t) -> ssize_t;
    match udp_fds::of(fd) {
        // SAFETY: the program's arguments.
        Some(_) if n <= room => unsafe { one(fd, bytes, n, 0) },
        None if (1..=room).contains(&n) && shm_send::is_listener(fd) => stream::receive_unconnected(fd, 0),
        _ => {
            low_water::flush(fd, n);
            let got = next!(__read_chk(fd, bytes, n, room) as Real);
            // SAFETY: as above.
            errors::received(fd, unsafe { late_data::add_to(fd, 0, bytes, n, got) }, || n > 0)
        }
    }
}

/// readv(2).
///
/// # Safety
/// The same as for the C library's function.
#[cfg_attr(not(test), unsafe(no_mangle))]
pub unsafe extern "C-unwind" fn readv(fd: c_int, pieces: *const iovec, count: c_int) -> ssize_t {
    type Real = unsafe extern "C-unwind" fn(c_int, *const iovec, c_int) -> ssize_t;
    if udp_fds::of(fd).is_none() {
        if shm_send::is_listener(fd) {
            return stream::receive_unconnected(fd, 0);
        }
        low_water::flush(fd, usize::MAX);
        let got = next!(readv(fd, pieces, count) as Real);
        // SAFETY: the kernel has checked them, if it returned no error.
        let pieces = || unsafe { memory::pieces(pieces, usize::try_from(count).unwrap_or(0)) };
        let late = if late_data::may_follow(got) { pieces().ok() } else { None };
        // SAFETY: as above.
        let got = late.map_or(got, |pieces| unsafe { late_data::add(fd, 0, &pieces, got) });
        return errors::received(fd, got, || pieces().is_ok_and(|all| all.iter().any(|one| one.iov_len > 0)));
    }
    // SAFETY: the program's iovecs.
    match unsafe { memory::pieces(pieces, usize::try_from(count).unwrap_or(usize::MAX)) } {
        // SAFETY: as above.
        Ok(pieces) => unsafe { receive(fd, &pieces, 0) }.map_or(-1, |got| got.len as ssize_t),
        Err(Errno::FAULT) => fail(Errno::FAULT) as ssize_t,
        Err(_) => fail(Errno::INVAL) as ssize_t,
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
    use std::os::unix::net::{UnixDatagram, UnixStream};

    use libc::{SCM_CREDENTIALS, SCM_RIGHTS, SOL_SOCKET, cmsghdr};
    use rustix::net::sockopt::set_socket_passcred;
    use shim::scm_rights;

    use super::*;

    /// Receives a message at `end`. Returns true if credentials come first, and the descriptor
    /// received.
    fn got(end: &UnixDatagram) -> (bool, Option<OwnedFd>) {
        let (mut bytes, mut room) = ([0_u8; 8], [0_u64; 16]);
        let mut pieces = piece(bytes.as_mut_ptr().cast(), bytes.len());
        // SAFETY: a zeroed header is an empty message.
        let mut message: msghdr = unsafe { std::mem::zeroed() };
        message.msg_iov = &raw mut pieces;
        message.msg_iovlen = 1;
        message.msg_control = room.as_mut_ptr().cast();
        message.msg_controllen = size_of_val(&room);
        // SAFETY: the message gives the sizes of its buffers.
        assert_eq!(unsafe { recvmsg(end.as_raw_fd(), &raw mut message, 0) }, 1);
        // SAFETY: it was just filled.
        let first = unsafe { libc::CMSG_FIRSTHDR(&raw const message).as_ref() };
        let credentials = first.is_some_and(|first| first.cmsg_type == SCM_CREDENTIALS);
        // SAFETY: as above.
        let fd = unsafe { received_fd(&raw const message) };
        // SAFETY: no other code refers to it.
        (credentials, fd.map(|fd| unsafe { OwnedFd::from_raw_fd(fd) }))
    }

    #[test]
    fn descriptors_are_seen_behind_credentials() {
        let (near, far) = UnixDatagram::pair().unwrap();
        let (_kept, sent) = UnixStream::pair().unwrap();
        for passcred in [false, true] {
            set_socket_passcred(&far, passcred).unwrap();
            scm_rights::send(&near, None, b"x", sent.as_fd()).unwrap();
            let (credentials, fd) = got(&far);
            assert_eq!((credentials, fd.is_some()), (passcred, true));
            near.send(b"x").unwrap();
            let (credentials, fd) = got(&far);
            assert_eq!((credentials, fd.is_some()), (passcred, false));
        }
    }

    #[test]
    fn each_of_several_messages_is_looked_at() {
        let mut room = [0_u64; 3];
        // SAFETY: it only computes.
        let cmsg_len = unsafe { libc::CMSG_LEN(size_of::<c_int>() as u32) } as usize;
        let header = cmsghdr { cmsg_len, cmsg_level: SOL_SOCKET, cmsg_type: SCM_RIGHTS };
        // SAFETY: the buffer is large enough.
        unsafe { room.as_mut_ptr().cast::<cmsghdr>().write(header) };
        // SAFETY: zeroed headers are empty messages.
        let mut messages: [mmsghdr; 2] = unsafe { std::mem::zeroed() };
        messages[1].msg_hdr.msg_control = room.as_mut_ptr().cast();
        messages[1].msg_hdr.msg_controllen = size_of_val(&room);
        // SAFETY: at most two are read.
        let seen = |count| unsafe { any_brings(messages.as_ptr(), count) };
        assert_eq!((seen(1), seen(2)), (false, true));
    }
}
