//! The file, and what must be in it.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::hash::Hasher;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;

use queueing::Rng;
use siphasher::sip::SipHasher13;

use super::slot::{BLOCK, SLOT, Sealer};

/// Why a request could not be carried out.
#[derive(Debug)]
pub enum StoreError {
    /// The file could not be read or written.
    File(io::Error),
    /// This block is not what was written.
    Damaged(u32),
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(e) => write!(f, "the store's file: {e}"),
            Self::Damaged(number) => write!(f, "block {number} is not what was written"),
        }
    }
}

impl std::error::Error for StoreError {}

impl From<io::Error> for StoreError {
    fn from(e: io::Error) -> Self {
        Self::File(e)
    }
}

/// Blocks on a file.
pub struct Store {
    file: File,
    sealer: Sealer,
    /// A digest of each block as it was last written.
    digests: Vec<u64>,
    slots: Vec<u8>,
}

impl Store {
    /// A new file at `path` of `blocks` blocks, 16 or more, preloaded with pieces
    /// of `text`; which, `seed` says. Its key is random and forgotten with it.
    ///
    /// # Errors
    /// The file cannot be made; or no random bytes.
    ///
    /// # Panics
    /// When there are fewer than 16 blocks, or there is no text.
    pub fn create(path: &Path, blocks: u32, text: &[u8], seed: u64) -> Result<Self, StoreError> {
        assert!(blocks >= 16 && !text.is_empty(), "the largest request fits, and there is text");
        let mut key = [0; 32];
        File::open("/dev/urandom")?.read_exact(&mut key)?;
        let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(path)?;
        let mut store =
            Self { file, sealer: Sealer::new(key), digests: vec![0; blocks as usize], slots: Vec::new() };
        let mut rng = Rng::seeded(seed);
        let mut block = [0; BLOCK];
        for number in 0..blocks {
            // From anywhere in the text, which begins again at its end.
            let from = rng.below(text.len() as u64) as usize;
            let mut bytes = text[from..].iter().chain(text.iter().cycle());
            block.fill_with(|| *bytes.next().expect("it begins again"));
            store.write(number, &block)?;
        }
        Ok(store)
    }

    /// How many blocks there are.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.digests.len() as u32
    }

    /// Appends blocks `first` and the `count - 1` after it to `out`.
    ///
    /// # Errors
    /// The file cannot be read; or a block is not what was written.
    ///
    /// # Panics
    /// When there are no such blocks.
    pub fn read(&mut self, first: u32, count: u32, out: &mut Vec<u8>) -> Result<(), StoreError> {
        assert!(first + count <= self.blocks(), "blocks {first}+{count} are outside 0..{}", self.blocks());
        self.slots.resize(count as usize * SLOT, 0);
        self.file.read_exact_at(&mut self.slots, offset(first))?;
        for (number, slot) in (first..).zip(self.slots.chunks_exact(SLOT)) {
            self.sealer.open(number, slot, out).map_err(|_| StoreError::Damaged(number))?;
        }
        Ok(())
    }

    /// Writes `bytes`, whole blocks, from block `first` on.
    ///
    /// # Errors
    /// The file cannot be written.
    ///
    /// # Panics
    /// When there are no such blocks.
    pub fn write(&mut self, first: u32, bytes: &[u8]) -> Result<(), StoreError> {
        let count = (bytes.len() / BLOCK) as u32;
        assert!(first + count <= self.blocks(), "blocks {first}+{count} are outside 0..{}", self.blocks());
        self.slots.resize(count as usize * SLOT, 0);
        let blocks = bytes.as_chunks::<BLOCK>().0;
        for ((number, slot), block) in (first..).zip(self.slots.chunks_exact_mut(SLOT)).zip(blocks) {
            self.sealer.seal(number, block, slot);
            self.digests[number as usize] = digest(block);
        }
        Ok(self.file.write_all_at(&self.slots, offset(first))?)
    }

    /// The blocks that are not what was last written.
    pub fn wrong(&mut self) -> Vec<u32> {
        let mut block = Vec::with_capacity(BLOCK);
        let mut wrong = Vec::new();
        for number in 0..self.blocks() {
            block.clear();
            let read = self.read(number, 1, &mut block);
            if read.is_err() || digest(&block) != self.digests[number as usize] {
                wrong.push(number);
            }
        }
        wrong
    }
}

fn offset(number: u32) -> u64 {
    u64::from(number) * SLOT as u64
}

fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}
