//! Wrappers of the bpf(2) calls that greenwave needs.
//!
//! No library is used, because no other calls are needed, so greenwave builds without a BPF
//! toolchain. Descriptors own the kernel's objects, so that a process leaves nothing behind however
//! it dies, unless an object is attached to an interface.
//!
//! Source: bpf(2), linux/bpf.h.

use std::io;
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};

pub mod asm;
pub mod map;
#[cfg(feature = "bpf")]
pub mod object;

pub use map::Map;

/// `union bpf_attr` as these calls use it: 128 bytes, zero where unused.
#[repr(C, align(8))]
struct Attributes([u8; 128]);

impl Attributes {
    fn new() -> Self {
        Self([0; 128])
    }

    fn with<const N: usize>(mut self, at: usize, bytes: [u8; N]) -> Self {
        self.0[at..at + N].copy_from_slice(&bytes);
        self
    }

    fn u32(self, at: usize, value: u32) -> Self {
        self.with(at, value.to_ne_bytes())
    }

    fn fd(self, at: usize, fd: impl AsFd) -> Self {
        self.u32(at, fd.as_fd().as_raw_fd() as u32)
    }

    /// Sets a pointer that the kernel reads from or writes to during the call.
    fn pointer<T>(self, at: usize, pointer: *const T) -> Self {
        self.with(at, (pointer as u64).to_ne_bytes())
    }

    /// # Safety
    /// Every pointer in `self` points to memory of the size that the call assumes, writable where the
    /// call writes.
    unsafe fn call(&mut self, command: libc::c_long) -> io::Result<i32> {
        // SAFETY: the kernel reads and writes 128 bytes of attributes, which live through the call; the
        // caller guarantees the pointers in them.
        let result =
            unsafe { libc::syscall(libc::SYS_bpf, command, std::ptr::from_mut(self), size_of::<Self>()) };
        if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result as i32) }
    }

    /// As [`call`](Self::call), for a command that returns a descriptor.
    ///
    /// # Safety
    /// The same as for [`call`](Self::call).
    unsafe fn open(mut self, command: libc::c_long) -> io::Result<OwnedFd> {
        // SAFETY: guaranteed by the caller.
        let fd = unsafe { self.call(command)? };
        // SAFETY: the descriptor is new and has no other owner.
        Ok(unsafe { OwnedFd::from_raw_fd(fd) })
    }
}

const MAP_CREATE: libc::c_long = 0;
const MAP_LOOKUP: libc::c_long = 1;
const MAP_UPDATE: libc::c_long = 2;
const MAP_NEXT_KEY: libc::c_long = 4;
const PROG_LOAD: libc::c_long = 5;
const PROG_TEST_RUN: libc::c_long = 10;
const PROG_BY_ID: libc::c_long = 13;
const MAP_BY_ID: libc::c_long = 14;
const INFO_BY_FD: libc::c_long = 15;
const PROG_QUERY: libc::c_long = 16;
const LINK_CREATE: libc::c_long = 28;
const LINK_UPDATE: libc::c_long = 29;
const LINK_BY_ID: libc::c_long = 30;
const LINK_NEXT_ID: libc::c_long = 31;
const LINK_DETACH: libc::c_long = 34;

const MAP_XSK: u32 = 17;
const ATTACH_XDP: u32 = 37;
const ATTACH_TCX_EGRESS: u32 = 47;

/// Bytes of a program's info that are requested, and offsets in it: number of maps, pointer to their
/// IDs, and name.
const INFO_LEN: usize = 80;
const INFO_MAP_COUNT: usize = 52;
const INFO_MAPS: usize = 56;
const INFO_NAME: usize = 64;

/// Length of a link's information, and offset of its program's ID.
const LINK_INFO_LEN: usize = 32;
const LINK_INFO_PROGRAM: usize = 8;

/// Kind of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Runs for every frame that an interface receives.
    Xdp,
    /// Runs for every packet that passes a traffic-control hook.
    Classifier,
}

impl Kind {
    /// Program type, and expected attach type.
    fn numbers(self) -> [u32; 2] {
        match self {
            Self::Xdp => [6, ATTACH_XDP],
            Self::Classifier => [3, 0],
        }
    }
}

/// A map from receive queue to AF_XDP socket, for queues below `queues`.
pub fn socket_map(queues: u32) -> io::Result<OwnedFd> {
    let attributes = Attributes::new().u32(0, MAP_XSK).u32(4, 4).u32(8, 4).u32(12, queues);
    // SAFETY: no pointers.
    unsafe { attributes.open(MAP_CREATE) }
}

/// Redirects frames of `queue` to `socket` from now on.
pub fn set_socket(map: impl AsFd, queue: u32, socket: impl AsFd) -> io::Result<()> {
    let value = socket.as_fd().as_raw_fd() as u32;
    let mut attributes =
        Attributes::new().fd(0, map).pointer(8, &raw const queue).pointer(16, &raw const value);
    // SAFETY: key and value of this map have 4 bytes each and live here.
    unsafe { attributes.call(MAP_UPDATE) }.map(drop)
}

/// A name in the kernel's format: 15 bytes and a NUL.
fn named(name: &str) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes.iter_mut().take(15).zip(name.bytes()).for_each(|(to, from)| *to = from);
    bytes
}

/// Has the kernel verify and load a program.
///
/// # Errors
/// The kernel's error, with the last line of the verifier's log if there is one.
pub fn load(kind: Kind, name: &str, code: &[u64]) -> io::Result<OwnedFd> {
    let mut log = vec![0_u8; 256 * 1024];
    let license = c"Apache-2.0";
    let [kind, attach] = kind.numbers();
    let attributes = |log: &mut [u8]| {
        let attributes = Attributes::new()
            .u32(0, kind)
            .u32(4, code.len() as u32)
            .pointer(8, code.as_ptr())
            .pointer(16, license.as_ptr())
            .with(48, named(name))
            .u32(68, attach);
        match log.len() as u32 {
            0 => attributes,
            len => attributes.u32(24, 1).u32(28, len).pointer(32, log.as_mut_ptr().cast_const()),
        }
    };
    // SAFETY: code and license live through the call and are as long as said.
    let loaded = unsafe { attributes(&mut []).open(PROG_LOAD) };
    let Err(first) = loaded else { return loaded };
    if !matches!(first.raw_os_error(), Some(libc::EACCES | libc::EINVAL)) {
        return Err(first);
    }
    // SAFETY: as above, and the log is writable and as long as said.
    unsafe { attributes(&mut log).open(PROG_LOAD) }.map_err(|e| {
        let text = String::from_utf8_lossy(&log);
        match text.trim_end_matches(['\0', '\n']).lines().rfind(|line| !line.starts_with("processed")) {
            Some(last) if !last.is_empty() => io::Error::new(e.kind(), format!("{e}: {last}")),
            _ => e,
        }
    })
}

/// Attaches `program` to interface `index` for as long as the link is open.
pub fn link_xdp(program: impl AsFd, index: u32, flags: u32) -> io::Result<OwnedFd> {
    let attributes = Attributes::new().fd(0, program).u32(4, index).u32(8, ATTACH_XDP).u32(12, flags);
    // SAFETY: no pointers.
    unsafe { attributes.open(LINK_CREATE) }
}

/// Replaces the program of `link` by `program`, between two frames.
pub fn replace(link: impl AsFd, program: impl AsFd) -> io::Result<()> {
    // SAFETY: no pointers.
    unsafe { Attributes::new().fd(0, link).fd(4, program).call(LINK_UPDATE) }.map(drop)
}

/// Detaches the program of `link`, even while a process forked from this one still holds the link open.
pub fn detach(link: impl AsFd) -> io::Result<()> {
    // SAFETY: no pointers.
    unsafe { Attributes::new().fd(0, link).call(LINK_DETACH) }.map(drop)
}

/// The link of program `id`, if there is one.
pub fn link_of(id: u32) -> io::Result<Option<OwnedFd>> {
    let mut last = 0;
    loop {
        let mut attributes = Attributes::new().u32(0, last);
        // SAFETY: no pointers.
        match unsafe { attributes.call(LINK_NEXT_ID) } {
            Ok(_) => {}
            Err(e) if e.raw_os_error() == Some(libc::ENOENT) => return Ok(None),
            Err(e) => return Err(e),
        }
        last = u32::from_ne_bytes(*attributes.0[4..].first_chunk().expect("in range"));
        // SAFETY: no pointers. A link that is gone by now was not the one.
        let Ok(link) = (unsafe { Attributes::new().u32(0, last).open(LINK_BY_ID) }) else { continue };
        let mut info = [0_u8; LINK_INFO_LEN];
        let mut attributes = Attributes::new()
            .fd(0, &link)
            .u32(4, LINK_INFO_LEN as u32)
            .pointer(8, info.as_mut_ptr().cast_const());
        // SAFETY: the kernel writes at most `LINK_INFO_LEN` bytes.
        unsafe { attributes.call(INFO_BY_FD)? };
        if info[LINK_INFO_PROGRAM..][..4] == id.to_ne_bytes() {
            return Ok(Some(link));
        }
    }
}

/// The program with this ID, and its info; up to `maps.len()` IDs of its maps are written to `maps`.
fn program(id: u32, maps: &mut [u32]) -> io::Result<(OwnedFd, [u8; INFO_LEN])> {
    // SAFETY: no pointers.
    let program = unsafe { Attributes::new().u32(0, id).open(PROG_BY_ID) }?;
    let mut info = [0_u8; INFO_LEN];
    info[INFO_MAP_COUNT..][..4].copy_from_slice(&(maps.len() as u32).to_ne_bytes());
    info[INFO_MAPS..][..8].copy_from_slice(&(maps.as_mut_ptr() as u64).to_ne_bytes());
    let mut attributes =
        Attributes::new().fd(0, &program).u32(4, INFO_LEN as u32).pointer(8, info.as_mut_ptr().cast_const());
    // SAFETY: the kernel writes at most `INFO_LEN` bytes, and as many map IDs as the info gives space
    // for.
    unsafe { attributes.call(INFO_BY_FD)? };
    Ok((program, info))
}

/// Name of the program with this ID, if it is accessible.
pub fn program_name(id: u32) -> Option<String> {
    let (_, info) = program(id, &mut []).ok()?;
    let name = info[INFO_NAME..].split(|&byte| byte == 0).next()?;
    (!name.is_empty()).then(|| String::from_utf8_lossy(name).into_owned())
}

/// IDs of the program's maps, at most 16.
pub fn program_maps(id: u32) -> io::Result<Vec<u32>> {
    let mut maps = [0_u32; 16];
    let (_, info) = program(id, &mut maps)?;
    let count = u32::from_ne_bytes(*info[INFO_MAP_COUNT..].first_chunk().expect("within the info"));
    Ok(maps.iter().copied().take(count as usize).collect())
}

/// IDs of the tcx programs at the egress of interface `index`, in order, at most 64; none on kernels
/// without tcx (before 6.6).
pub fn tcx_egress(index: u32) -> io::Result<Vec<u32>> {
    let mut ids = [0_u32; 64];
    let mut attributes = Attributes::new()
        .u32(0, index)
        .u32(4, ATTACH_TCX_EGRESS)
        .pointer(16, ids.as_mut_ptr().cast_const())
        .u32(24, ids.len() as u32);
    // SAFETY: the kernel writes at most as many IDs as there is space for.
    match unsafe { attributes.call(PROG_QUERY) } {
        Ok(_) => {}
        // Space for some only: those are written.
        Err(e) if e.raw_os_error() == Some(libc::ENOSPC) => {}
        Err(e) if matches!(e.raw_os_error(), Some(libc::EINVAL | libc::EOPNOTSUPP | libc::ENOENT)) => {
            return Ok(Vec::new());
        }
        Err(e) => return Err(e),
    }
    let count = u32::from_ne_bytes(*attributes.0[24..].first_chunk().expect("in range"));
    Ok(ids.iter().copied().take(count as usize).collect())
}

/// Runs a program on `frame` and `context`; its verdict, and the bytes it left in `out`. The context is
/// updated.
pub fn run(program: impl AsFd, frame: &[u8], context: &mut [u8], out: &mut [u8]) -> io::Result<(u32, usize)> {
    let mut attributes = Attributes::new()
        .fd(0, program)
        .u32(8, frame.len() as u32)
        .u32(12, out.len() as u32)
        .pointer(16, frame.as_ptr());
    if !out.is_empty() {
        attributes = attributes.pointer(24, out.as_mut_ptr().cast_const());
    }
    if !context.is_empty() {
        let (len, pointer) = (context.len() as u32, context.as_mut_ptr().cast_const());
        attributes = attributes.u32(40, len).u32(44, len).pointer(48, pointer).pointer(56, pointer);
    }
    // SAFETY: the kernel reads the frame's length, and writes no more than `out` and the context hold.
    unsafe { attributes.call(PROG_TEST_RUN)? };
    let word = |at: usize| u32::from_ne_bytes(*attributes.0[at..].first_chunk().expect("in range"));
    Ok((word(4), word(12) as usize))
}

/// Runs a syscall program with `arguments`, which it may change.
#[cfg(feature = "bpf")]
pub fn call(program: impl AsFd, arguments: &mut [u8]) -> io::Result<u32> {
    let mut attributes = Attributes::new()
        .fd(0, program)
        .u32(40, arguments.len() as u32)
        .pointer(48, arguments.as_mut_ptr().cast_const());
    // SAFETY: the kernel reads and writes no more than the arguments' length.
    unsafe { attributes.call(PROG_TEST_RUN)? };
    Ok(u32::from_ne_bytes(*attributes.0[4..].first_chunk().expect("in range")))
}

/// Mean time of `times` runs of an XDP program on `frame`.
#[cfg(feature = "bpf")]
pub fn time_xdp(program: impl AsFd, frame: &[u8], times: u32) -> io::Result<queueing::Span> {
    let mut attributes = Attributes::new()
        .fd(0, program)
        .u32(8, frame.len() as u32)
        .pointer(16, frame.as_ptr())
        .u32(32, times);
    // SAFETY: the kernel reads the frame's length.
    unsafe { attributes.call(PROG_TEST_RUN)? };
    let ns = u32::from_ne_bytes(*attributes.0[36..].first_chunk().expect("in range"));
    Ok(queueing::Span::from_nanos(ns.into()))
}
