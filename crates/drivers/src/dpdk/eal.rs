//! EAL, DPDK's runtime: started once per process, and serialized by a lock.

use std::ffi::{CStr, CString, c_char};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::error::DpdkError;
use super::{Memory, shim};
use host::affinity;

/// State of EAL. The holder of its lock is the only one to open, close, or make DPDK log.
#[derive(Debug)]
pub(super) struct Eal {
    /// Result of the start; `None` before it.
    started: Option<Result<(), DpdkError>>,
}

static EAL: Mutex<Eal> = Mutex::new(Eal { started: None });

/// Locks EAL, started or not.
pub(super) fn lock() -> MutexGuard<'static, Eal> {
    EAL.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Eal {
    /// Starts EAL unless it was started. `device` is the first to be opened, and needs `mib` MiB.
    pub(super) fn start(&mut self, memory: Memory, device: &str, mib: usize) -> Result<(), DpdkError> {
        if self.started.is_none() {
            if memory == Memory::Huge {
                let free = huge_mib_free();
                if free < mib {
                    return Err(DpdkError::NoHugepages { device: device.to_owned(), mib, free });
                }
            }
            self.started = Some(start(memory));
        }
        self.started.clone().unwrap_or(Ok(()))
    }

    /// Calls into DPDK. On a negative result: the result, and DPDK's log line or the meaning of the
    /// number.
    pub(super) fn ask(&mut self, question: impl FnOnce() -> i32) -> Result<(), (i32, String)> {
        // SAFETY: the log is open once EAL was started, and no other thread reads or rewinds it while
        // we hold the lock.
        unsafe { shim::gw_forget() };
        match question() {
            code if code < 0 => Err((code, log_line().unwrap_or_else(|| meaning(code)))),
            _ => Ok(()),
        }
    }
}

fn start(memory: Memory) -> Result<(), DpdkError> {
    let cores = affinity::cores().unwrap_or_default();
    let cores: Vec<String> = cores.iter().map(|core| core.0.to_string()).collect();
    // One logical core, on all permitted CPUs: we place the threads. Only requested devices are probed:
    // no card has the address below.
    let mut words = vec!["greenwave".to_owned(), "--no-telemetry".to_owned(), "--no-shconf".to_owned()];
    words.push(format!("--lcores=0@({})", cores.join(",")));
    words.push(format!("--file-prefix=greenwave-{}", std::process::id()));
    words.extend(["--log-level=*:error", "--allow=0000:00:00.0"].map(str::to_owned));
    match memory {
        Memory::Huge => words.push("--in-memory".to_owned()),
        Memory::Plain { mib } => words.extend(["--no-huge".to_owned(), format!("-m{mib}")]),
    }
    // EAL keeps pointers to some of its arguments, so they are leaked.
    let words = words.into_iter().map(|word| CString::new(word).expect("no argument has a NUL").into_raw());
    let words: &'static mut [*mut c_char] = words.collect::<Vec<_>>().leak();
    // SAFETY: `argc` strings that live as long as the process; called once.
    let code = unsafe { shim::gw_init(words.len() as i32, words.as_mut_ptr()) };
    remove_folder();
    match code {
        0 => Ok(()),
        code => Err(DpdkError::Eal { why: log_line().unwrap_or_else(|| meaning(code)) }),
    }
}

/// Removes the directory that EAL makes for files it then does not keep.
fn remove_folder() {
    // SAFETY: a string that EAL keeps, empty before there is a folder.
    let path = unsafe { CStr::from_ptr(shim::rte_eal_get_runtime_dir()) };
    if let Ok(path) = path.to_str()
        && path.ends_with(&format!("greenwave-{}", std::process::id()))
    {
        // Fails unless it is empty; otherwise it is not ours.
        let _ = std::fs::remove_dir(path);
    }
}

/// First log line of DPDK that gives more than the fact of a failure.
fn log_line() -> Option<String> {
    // SAFETY: a buffer that ends with a NUL; a concurrent log call may tear a line, not that NUL.
    let text = unsafe { CStr::from_ptr(shim::gw_log()) }.to_string_lossy().into_owned();
    let plain = |line: &str| {
        // `EAL: FATAL: text`, `function_name(): text`.
        let line = line.trim_start_matches("EAL: ").trim_start_matches("FATAL: ");
        let line = line.split_once("(): ").map_or(line, |(_, rest)| rest);
        line.trim().trim_end_matches('.').to_owned()
    };
    let mut lines = text.lines().map(plain);
    lines.find(|line| !line.is_empty() && !line.starts_with("Failed to attach"))
}

/// Meaning of a DPDK error number.
pub(super) fn meaning(code: i32) -> String {
    // SAFETY: a string of DPDK's or of this thread's own.
    unsafe { CStr::from_ptr(shim::rte_strerror(code.saturating_abs())) }.to_string_lossy().into_owned()
}

/// Free huge pages of all sizes, in MiB.
fn huge_mib_free() -> usize {
    let folders = std::fs::read_dir("/sys/kernel/mm/hugepages").into_iter().flatten().flatten();
    let mib = |folder: std::fs::DirEntry| {
        let name = folder.file_name();
        let kib: usize = name.to_str()?.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        let free = std::fs::read_to_string(folder.path().join("free_hugepages")).ok()?;
        Some(free.trim().parse::<usize>().ok()? * kib / 1024)
    };
    folders.filter_map(mib).sum()
}
