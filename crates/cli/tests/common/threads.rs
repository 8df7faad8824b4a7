//! What the kernel says of each thread of a process.

use std::path::Path;

/// No capability.
pub const NONE: &str = "0000000000000000";

/// In each thread of `process`, which runs, what `status` says of `keys`.
#[track_caller]
pub fn statuses<const N: usize>(process: u32, keys: [&str; N]) -> Vec<[String; N]> {
    let threads = std::fs::read_dir(format!("/proc/{process}/task")).expect("it runs");
    threads.map(|thread| status(thread.expect("it runs").path().join("status"), keys)).collect()
}

/// What the file `path` of a thread, which runs, says of `keys`.
#[track_caller]
pub fn status<const N: usize>(path: impl AsRef<Path>, keys: [&str; N]) -> [String; N] {
    let text = std::fs::read_to_string(path).expect("its threads go on");
    keys.map(|key| {
        let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'));
        value.unwrap_or_else(|| panic!("{key} is not told")).trim().to_owned()
    })
}
