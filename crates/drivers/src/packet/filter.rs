//! BPF filter that the kernel runs before it copies a frame to a packet socket.
//!
//! Source: Linux, Documentation/networking/filter.rst; opcodes of linux/bpf_common.h.

use std::io;
use std::os::fd::OwnedFd;

use libc::{sock_filter, sock_fprog};

use host::sockopt;

/// Loads into the accumulator, by size, from a fixed offset of the frame.
const HALF: u16 = 0x28;
const BYTE: u16 = 0x30;
/// Loads a half word relative to the index register.
const HALF_AFTER: u16 = 0x48;
/// Loads the length of an IPv4 header into the index register.
const IPV4_LEN: u16 = 0xb1;
const JUMP_EQUAL: u16 = 0x15;
const JUMP_GREATER: u16 = 0x25;
const JUMP_SET: u16 = 0x45;
const RETURN: u16 = 0x06;

const fn op(code: u16, value: u32) -> sock_filter {
    sock_filter { code, jt: 0, jf: 0, k: value }
}

/// Skips `holds` instructions if the comparison holds, `fails` if not.
const fn jump(code: u16, value: u32, holds: u8, fails: u8) -> sock_filter {
    sock_filter { code, jt: holds, jf: fails, k: value }
}

/// ICMPv6 types 134 to 136 without extension headers, and UDP over IPv4 to port 68.
pub(super) const CONCERNS_ALL: [sock_filter; 17] = [
    op(HALF, 12),
    jump(JUMP_EQUAL, 0x86dd, 0, 5),
    op(BYTE, 20),
    jump(JUMP_EQUAL, 58, 0, 12),
    op(BYTE, 54),
    jump(JUMP_GREATER, 136, 10, 0),
    jump(JUMP_GREATER, 133, 8, 9),
    jump(JUMP_EQUAL, 0x0800, 0, 8),
    op(BYTE, 23),
    jump(JUMP_EQUAL, 17, 0, 6),
    op(HALF, 20),
    // A later fragment has no ports.
    jump(JUMP_SET, 0x1fff, 4, 0),
    op(IPV4_LEN, 14),
    op(HALF_AFTER, 16),
    jump(JUMP_EQUAL, 68, 0, 1),
    op(RETURN, u32::MAX),
    op(RETURN, 0),
];

/// Restricts `socket` to frames that pass `filter`.
pub(super) fn attach(socket: &OwnedFd, filter: &[sock_filter]) -> io::Result<()> {
    let program = sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
    // The kernel copies the instructions, which live through the call.
    sockopt::set(socket, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, &program)
}
