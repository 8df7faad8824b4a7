//! Tail latencies that clients measure and write into files, each a span such as `812us`.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use queueing::{Span, Time};
use sched::cores::TaskSignals;

use host::queue_report;

/// Interval at which the files are read.
const EVERY: Span = Span::from_millis(100);

/// The files, by task.
#[derive(Debug)]
pub struct TailFiles {
    files: Vec<Option<PathBuf>>,
    read: Time,
}

impl TailFiles {
    /// Reads these files, from `now` on.
    pub fn new(files: Vec<Option<PathBuf>>, now: Time) -> Self {
        Self { files, read: now }
    }

    /// Reads the files if the interval has passed.
    pub fn read(&mut self, now: Time, signals: &mut [TaskSignals]) {
        if now.since(self.read) < EVERY {
            return;
        }
        self.read = now;
        for (file, seen) in self.files.iter().zip(signals) {
            if let Some(path) = file {
                seen.tail = tail(path);
            }
        }
    }
}

/// The tail latency in a file. The file is not trusted: reading it never blocks, and at most 64
/// bytes are read.
fn tail(path: &Path) -> Option<Span> {
    let mut bytes = [0; 64];
    let len = queue_report::open(path).ok()?.read(&mut bytes).ok()?;
    std::str::from_utf8(&bytes[..len]).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlab::TempDir;

    #[test]
    fn a_tail_latency_is_read_and_an_invalid_file_blocks_nothing() {
        let folder = TempDir::new("tails").unwrap();
        let [file, fifo, long] = ["file", "fifo", "long"].map(|name| folder.path().join(name));
        std::fs::write(&file, "812us\n").unwrap();
        std::fs::write(&long, format!("{}812us", " ".repeat(64))).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        assert_eq!(tail(&file), Some(Span::from_micros(812)));
        let _writer = std::fs::OpenOptions::new().read(true).write(true).open(&fifo).unwrap();
        for path in [&*fifo, &long, folder.path(), Path::new("/dev/zero"), Path::new("/no/such/file")] {
            assert_eq!(tail(path), None, "{}", path.display());
        }
    }
}
