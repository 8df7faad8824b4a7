//! Checks of file I/O of tasks: io_uring, and blocking system calls as the fallback.
//!
//! A page is written to a file in memory and read back, so nothing is left behind. Limits of a file
//! system, such as missing direct I/O, are not checked: they differ per file system, and opening a file
//! reports them.

use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, memfd_create};
use storage::{Disk, DiskRequest, FileOptions, IoCompletion};

use super::Finding;
use host::disk::{BlockingDisk, PAGE, Ring, RingError};

const AREA: &str = "files";

pub(super) fn examine() -> Vec<Finding> {
    vec![ring(Ring::new(1, 1, PAGE)), plain()]
}

/// Asynchronous requests.
fn ring(opened: Result<Ring, RingError>) -> Finding {
    const WHAT: &str = "io_uring";
    match opened.map(|mut ring| comes_back(&mut ring)) {
        Ok(Ok(())) => Finding::works(AREA, WHAT, "file I/O does not block other tasks"),
        Ok(Err(e)) => {
            let seen = format!("the ring opens, but a request failed: {e}");
            Finding::absent(AREA, WHAT, seen, [RingError::Ring(e).advice()])
        }
        Err(e) => Finding::absent(AREA, WHAT, e.why(), [e.advice()]),
    }
}

/// Blocking requests.
fn plain() -> Finding {
    const WHAT: &str = "system calls";
    match BlockingDisk::new(1, 1, PAGE).and_then(|mut plain| comes_back(&mut plain)) {
        Ok(()) => Finding::works(AREA, WHAT, "fallback without io_uring: the thread blocks for each request"),
        Err(e) => Finding::absent(AREA, WHAT, e.to_string(), []),
    }
}

/// Checks that a page is read as it was written.
fn comes_back(disk: &mut dyn Disk) -> io::Result<()> {
    let memory = memfd_create("greenwave-doctor", MemfdFlags::CLOEXEC)?;
    let path = PathBuf::from(format!("/proc/self/fd/{}", memory.as_raw_fd()));
    let file = disk.open(&path, &FileOptions { write: true, ..FileOptions::default() })?.file;
    let mut buffer = disk.buffers().pop().ok_or(io::ErrorKind::OutOfMemory)?;
    let mut pattern = [0; PAGE];
    pattern.iter_mut().enumerate().for_each(|(at, byte)| *byte = at as u8 ^ 0xa5);
    buffer.bytes_mut().copy_from_slice(&pattern);
    let (at, len) = (0, PAGE as u32);
    let mut buffer = carry_out(disk, DiskRequest::Write { file, at, len, buffer })?;
    buffer.bytes_mut().fill(0);
    let buffer = carry_out(disk, DiskRequest::Read { file, at, len, buffer })?;
    let same = buffer.bytes() == pattern;
    same.then_some(()).ok_or_else(|| io::Error::other("the data read back differs from the data written"))
}

/// Carries out a request of a page; its buffer.
fn carry_out(disk: &mut dyn Disk, request: DiskRequest) -> io::Result<storage::Buffer> {
    disk.begin(0, request);
    disk.flush();
    disk.finish();
    match disk.done() {
        Some(IoCompletion { result: Ok(PAGE), buffer: Some(buffer), .. }) => Ok(buffer),
        Some(IoCompletion { result: Err(e), .. }) => Err(e),
        _ => Err(io::Error::other("a request was only partly done")),
    }
}

//~ tasks: `doctor files` reports whether io_uring works, the reason if not, and a remedy
#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, apply_filter};

    use super::super::{Health, serves};
    use super::*;

    #[test]
    fn what_a_disk_can_be_had_by_works() {
        let found = examine();
        assert_eq!(
            found.iter().map(|finding| finding.what.as_str()).collect::<Vec<_>>(),
            ["io_uring", "system calls"]
        );
        let is_there = Ring::new(1, 1, PAGE).is_ok();
        let wanted = if is_there { Health::Works } else { Health::Absent };
        assert_eq!((found[0].health, found[1].health), (wanted, Health::Works), "{found:?}");
    }

    #[test]
    fn each_reason_has_a_way_out() {
        let errno = io::Error::from_raw_os_error;
        for (e, why, way_out) in [
            (RingError::Ring(errno(libc::ENOSYS)), "this kernel has no io_uring (", "Linux 5.6"),
            (
                RingError::Ring(errno(libc::EPERM)),
                "io_uring is not available (",
                "kernel.io_uring_disabled=0",
            ),
            (RingError::Buffers(4, errno(libc::ENOMEM)), "4 KiB of buffers", "ulimit -l"),
        ] {
            let Finding { health, seen, remedies, .. } = ring(Err(e));
            assert_eq!(health, Health::Absent, "{seen}");
            assert!(
                seen.starts_with(why) && remedies.len() == 1 && remedies[0].contains(way_out),
                "{seen}: {remedies:?}"
            );
        }
    }

    #[test]
    fn a_thread_that_is_refused_io_uring_has_its_files_by_system_calls() {
        let refused = std::thread::spawn(|| {
            let calls = BTreeMap::from([(libc::SYS_io_uring_setup, Vec::new())]);
            let arch = std::env::consts::ARCH.try_into().unwrap();
            let refuse = SeccompAction::Errno(libc::EPERM as u32);
            let filter = SeccompFilter::new(calls, SeccompAction::Allow, refuse, arch).unwrap();
            // For this thread only.
            apply_filter(&BpfProgram::try_from(filter).unwrap()).unwrap();
            examine()
        });
        let found = refused.join().unwrap();
        assert_eq!((found[0].health, found[1].health), (Health::Absent, Health::Works), "{found:?}");
        assert!(found[0].seen.contains("not permitted") && serves(AREA, &found), "{found:?}");
    }
}
