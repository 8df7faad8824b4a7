//! Tails that clients measure and write into files, a span such as `812us`.

use std::path::PathBuf;

use queueing::{Span, Time};
use sched::cores::TaskSignals;

/// How often files with tails are read.
const EVERY: Span = Span::from_millis(100);

/// The files, by task.
#[derive(Debug)]
pub struct Tails {
    files: Vec<Option<PathBuf>>,
    read: Time,
}

impl Tails {
    /// Of these files, from `now` on.
    pub fn new(files: Vec<Option<PathBuf>>, now: Time) -> Self {
        Self { files, read: now }
    }

    /// Reads them, if it is time to.
    pub fn read(&mut self, now: Time, signals: &mut [TaskSignals]) {
        if now.since(self.read) < EVERY {
            return;
        }
        self.read = now;
        for (file, seen) in self.files.iter().zip(signals) {
            if let Some(path) = file {
                let text = std::fs::read_to_string(path).ok();
                seen.tail = text.and_then(|text| text.trim().parse().ok());
            }
        }
    }
}
