//! The kernel's status of each thread of a process.

use std::path::Path;

/// The empty capability set.
pub const NONE: &str = "0000000000000000";

/// Values of `keys` in `status` of each thread of the running `process`.
#[track_caller]
pub fn statuses<const N: usize>(process: u32, keys: [&str; N]) -> Vec<[String; N]> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    threads.map(|thread| status(thread.expect("it runs").path().join("status"), keys)).collect()
}

/// Values of `keys` in the file `path` of a running thread.
#[track_caller]
pub fn status<const N: usize>(path: impl AsRef<Path>, keys: [&str; N]) -> [String; N] {
    let text = std::fs::read_to_string(path).expect("its threads go on");
    keys.map(|key| {
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("{key} is missing")).trim().to_owned()
    })
}
