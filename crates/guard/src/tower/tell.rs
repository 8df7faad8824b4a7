//! Tells of a service's requests, in the one file that this crate writes.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::Queue;
use crate::joined::Told;

/// A file of one line, which is written over.
pub(super) struct Teller {
    file: File,
    told: Told,
}

impl Teller {
    /// That nobody has come yet is told at once.
    pub fn create(path: &Path) -> io::Result<Self> {
        let file = OpenOptions::new().write(true).create(true).truncate(true).open(path)?;
        let told = Told::default();
        file.write_all_at(told.line().as_bytes(), 0)?;
        Ok(Self { file, told })
    }

    /// Tells what waits, and that so many came and were served since the last time.
    pub fn tell(&mut self, queue: Queue, came: u64, served: u64) {
        let Queue { waiting, delay, reordered, budget } = queue;
        let told = self.told;
        let (came, served) = (told.came + came, told.served + served);
        self.told = Told { turn: told.turn + 1, waiting, delay, reordered, budget, came, served };
        // Of who cannot be heard, readers believe nothing after a while.
        let _ = self.file.write_all_at(self.told.line().as_bytes(), 0);
    }
}
