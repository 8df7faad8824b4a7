//! Perf events, counted for all threads on a core.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{FromRawFd, OwnedFd};

use super::Meter;

/// A perf event and its core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// Type of the counter, from `/sys/bus/event_source/devices/*/type`; 0 for the processor's generic
    /// ones.
    pub kind: u32,
    /// Event in that counter (`config`).
    pub config: u64,
    /// Linux's core, or the core that stands for its socket.
    pub core: u32,
}

/// Bytes of `struct perf_event_attr` passed; the rest is zero.
const LEN: usize = 128;

/// Starts a counter.
///
/// # Errors
/// No such counter; no permission (CAP_PERFMON, `kernel.perf_event_paranoid`).
pub fn open(event: &Event) -> io::Result<Box<dyn Meter>> {
    let mut attributes = [0_u8; LEN];
    attributes[..4].copy_from_slice(&event.kind.to_ne_bytes());
    attributes[4..8].copy_from_slice(&(LEN as u32).to_ne_bytes());
    attributes[8..16].copy_from_slice(&event.config.to_ne_bytes());
    let everybody: libc::pid_t = -1;
    let (alone, flags): (libc::c_int, libc::c_ulong) = (-1, 8);
    // SAFETY: the kernel reads as many bytes as the second word gives, all of which exist.
    let fd = unsafe {
        libc::syscall(
            libc::SYS_perf_event_open,
            attributes.as_ptr(),
            everybody,
            event.core as libc::c_int,
            alone,
            flags,
        )
    };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as libc::c_int) };
    Ok(Box::new(Counter(fd.into())))
}

struct Counter(File);

impl Meter for Counter {
    fn count(&mut self) -> Option<u64> {
        let mut bytes = [0; 8];
        self.0.read_exact(&mut bytes).ok().map(|()| u64::from_ne_bytes(bytes))
    }
}
