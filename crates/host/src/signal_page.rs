//! Signal page of a program, in memory shared with the core scheduler's process.
//!
//! The program creates a memory file (memfd) and keeps it open; the scheduler finds it by name among
//! the program's descriptors. This needs no configuration, gives access only to processes that may
//! inspect the program, and leaves nothing behind, however either ends. The size is sealed: no program
//! can truncate the memory under a reading scheduler.
//!
//! Source: memfd_create(2), fcntl(2) on sealing, futex(2), proc_pid_fd(5).

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, fcntl_get_seals, ftruncate, memfd_create};
use rustix::thread::futex;
use rustix::time::Timespec;
use sched::cores::worker_signals::{SignalMemory, SignalPage};

use crate::mapping::Mapping;

/// Signal page of one program.
#[derive(Debug)]
pub struct SharedPage {
    memory: Mapping,
    /// The memfd, open as long as others may look for it.
    file: File,
}

const NAME: &str = "greenwave-signal-page";
/// Name that the previous release uses.
const NAME_OLD: &str = "greenwave-pulse";
const SEALS: SealFlags = SealFlags::SHRINK.union(SealFlags::GROW).union(SealFlags::SEAL);
/// Maximum of descriptors examined per process.
const LOOKED_MAX: usize = 65_536;

impl SharedPage {
    /// A page of `lanes` workers of this process, under the well-known name.
    ///
    /// # Errors
    /// The kernel's error: out of memory or descriptors.
    ///
    /// # Panics
    /// `lanes` is outside 1..=[`WORKERS_MAX`](sched::cores::worker_signals::WORKERS_MAX).
    pub fn create(lanes: usize) -> io::Result<Self> {
        Self::named(NAME, lanes)
    }

    /// Creates a page under the caller's name, which no scheduler looks for.
    pub fn named(name: &str, lanes: usize) -> io::Result<Self> {
        let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        ftruncate(&file, size_of::<SignalPage>() as u64)?;
        fcntl_add_seals(&file, SEALS)?;
        let page = Self::of(file.into())?;
        page.page().init(lanes, std::process::id());
        Ok(page)
    }

    /// Page of `process`.
    ///
    /// # Errors
    /// [`NotFound`](io::ErrorKind::NotFound) if it has none or does not exist;
    /// [`InvalidData`](io::ErrorKind::InvalidData) if its page is malformed; or no permission.
    pub fn of_process(process: u32) -> io::Result<Self> {
        match Self::find(process, NAME) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Self::find(process, NAME_OLD),
            found => found,
        }
    }

    /// Page of `process` under that name.
    pub fn find(process: u32, name: &str) -> io::Result<Self> {
        // Link target of such a descriptor.
        let its = format!("/memfd:{name} (deleted)");
        for entry in fs::read_dir(format!("/proc/{process}/fd"))?.take(LOOKED_MAX) {
            let path = entry?.path();
            if fs::read_link(&path).is_ok_and(|link| link.as_os_str() == its.as_str()) {
                return Self::open(fs::OpenOptions::new().read(true).write(true).open(path)?);
            }
        }
        Err(io::ErrorKind::NotFound.into())
    }

    /// True if both are the same memory: a forked process has its parent's.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        let number = |page: &Self| page.file.metadata().ok().map(|file| (file.dev(), file.ino()));
        number(self).is_some() && number(self) == number(other)
    }

    fn open(file: File) -> io::Result<Self> {
        let invalid =
            |what: &str| io::Error::new(io::ErrorKind::InvalidData, format!("its signal page {what}"));
        if !fcntl_get_seals(&file)?.contains(SealFlags::SHRINK) {
            return Err(invalid("is not sealed against truncation"));
        }
        let len = file.metadata()?.len();
        if len != size_of::<SignalPage>() as u64 {
            return Err(invalid(&format!("has {len} bytes and not {}", size_of::<SignalPage>())));
        }
        let page = Self::of(file)?;
        if !page.page().is_initialized() {
            return Err(invalid("has another version"));
        }
        Ok(page)
    }

    fn of(file: File) -> io::Result<Self> {
        let memory = Mapping::of(&file, 0, size_of::<SignalPage>())?.without_dumps();
        Ok(Self { memory, file })
    }
}

impl SignalMemory for SharedPage {
    fn page(&self) -> &SignalPage {
        // SAFETY: the mapping is as large as a page, page-aligned, and lives as long as `self`; its
        // file is sealed against shrinking. A page consists of atomics, for which any bits are valid,
        // and others change them by atomic operations.
        unsafe { self.memory.at::<SignalPage>(0).as_ref() }
    }

    fn wait(&self, word: &AtomicU32, value: u32, span: Duration) {
        let timeout = Timespec { tv_sec: span.as_secs() as i64, tv_nsec: span.subsec_nanos().into() };
        // Changed, woken, interrupted or timed out: the caller checks.
        let _ = futex::wait(word, futex::Flags::empty(), value, Some(&timeout));
    }

    fn wake(&self, word: &AtomicU32) {
        // Without sleepers this wakes no thread.
        let _ = futex::wake(word, futex::Flags::empty(), i32::MAX as u32);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use queueing::{Clock, Time};
    use sched::cores::worker_signals::WorkerSignals;

    use super::*;
    use crate::Monotonic;

    /// A process has one page, so tests take turns.
    static PAGE: std::sync::Mutex<()> = std::sync::Mutex::new(());

    #[test]
    fn a_scheduler_finds_a_programs_signal_page_by_its_number_and_reads_it() {
        let _turn = PAGE.lock();
        let ours = SharedPage::create(2).unwrap();
        let mapped = SharedPage::of_process(std::process::id()).unwrap();
        let signals =
            WorkerSignals { tasks: Some(Time::from_nanos(5)), runnable: 3, ..WorkerSignals::default() };
        ours.page().slots()[1].publish(&signals);
        assert_eq!(mapped.page().slots().len(), 2);
        assert_eq!(mapped.page().slots()[1].read(), Some(signals));
        assert!(ours.is_same(&mapped));
        drop(ours);
        // The last name is that of the program's descriptor; the memory stays mapped.
        assert_eq!(mapped.page().slots()[1].read(), Some(signals));
    }

    #[test]
    fn an_invalid_signal_page_is_refused_with_the_reason() {
        let sealed = |len: usize, seals| {
            let file = memfd_create("other", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
            ftruncate(&file, len as u64).unwrap();
            fcntl_add_seals(&file, seals).unwrap();
            SharedPage::open(file.into()).unwrap_err().to_string()
        };
        let size = size_of::<SignalPage>();
        assert_eq!(sealed(size, SealFlags::GROW), "its signal page is not sealed against truncation");
        assert_eq!(sealed(64, SEALS), format!("its signal page has 64 bytes and not {size}"));
        assert_eq!(sealed(size, SEALS), "its signal page has another version");
    }

    #[test]
    fn a_worker_in_one_mapping_is_parked_and_woken_through_the_other() {
        let _turn = PAGE.lock();
        let ours = Arc::new(SharedPage::create(1).unwrap());
        let mapped = SharedPage::of_process(std::process::id()).unwrap();
        assert!(mapped.request_park(0, true) && !mapped.request_park(1, true));
        let worker = std::thread::spawn({
            let ours = ours.clone();
            move || {
                let asked = &ours.page().slots()[0].park;
                while let Some(wish) = asked.acknowledge() {
                    ours.wait(asked.word(), wish, Duration::from_secs(20));
                }
            }
        });
        let asked = &mapped.page().slots()[0].park;
        let until = Monotonic.now() + queueing::Span::from_secs(20);
        while !asked.is_done() && Monotonic.now() < until {
            std::thread::yield_now();
        }
        assert!(asked.is_done(), "it has left its core");
        mapped.request_park(0, false);
        worker.join().unwrap();
        assert!(asked.is_done());
    }
}
