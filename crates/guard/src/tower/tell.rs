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
        let Queue { waiting, delay, reordered, behind, budget } = queue;
        let (came, served) = (self.told.came + came, self.told.served + served);
        self.write(Told {
            turn: self.told.turn + 1,
            waiting,
            delay,
            reordered,
            behind,
            budget,
            came,
            served,
        });
    }

    /// Tells whether somebody is behind, unless that is what was told last.
    pub fn tell_behind(&mut self, behind: bool) {
        if self.told.behind != behind {
            self.write(Told { turn: self.told.turn + 1, behind, ..self.told });
        }
    }

    fn write(&mut self, told: Told) {
        self.told = told;
        // Of who cannot be heard, readers believe nothing after a while.
        let _ = self.file.write_all_at(told.line().as_bytes(), 0);
    }
}
