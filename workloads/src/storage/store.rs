//! Store of blocks in a file, and digests of their contents.
//!
//! Requests for the same blocks wait for each other if one of them writes; all others run
//! concurrently.

use std::fmt;
use std::fs;
use std::hash::Hasher;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use queueing::Rng;
use runtime::task::{File, FileBuffer, FileOptions, Handle};
use siphasher::sip::SipHasher13;
use tokio::sync::RwLock;

use super::BLOCKS_MAX;
use super::slot::{BLOCK, SLOT_MIN, Sealer};

/// Error of a request.
#[derive(Debug)]
pub enum StoreError {
    /// The file cannot be read or written.
    File(io::Error),
    /// A block without its written contents.
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
pub struct BlockStore {
    path: PathBuf,
    file: File,
    /// Description of the file I/O.
    how: String,
    /// Bytes from one slot to the next.
    stride: usize,
    sealer: Mutex<Sealer>,
    digests: Mutex<Vec<Digest>>,
    /// Locks, one per maximum request size in blocks, so that a request needs two at most.
    stripes: Vec<RwLock<()>>,
}

/// Digests of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Digest {
    /// Digest of the last write.
    last: u64,
    /// Digest of an unfinished write.
    perhaps: Option<u64>,
}

/// Slot sizes are multiples of it where the file requires no more.
const ROUND: usize = 32;

impl BlockStore {
    /// Size of a buffer in bytes: the largest request, with slots of two pages.
    pub const BUFFER: usize = BLOCKS_MAX as usize * 2 * BLOCK;

    /// A new file at `path` of `blocks` blocks, 16 or more, preloaded with pieces of `text` drawn
    /// from `seed`. The tasks of `handle` do its I/O, past the page cache if `direct`; `disk` names
    /// the shard's backend. The key is random and lost with the store.
    ///
    /// # Errors
    /// The file cannot be created; no random bytes; or caching cannot be avoided
    /// ([`ErrorKind::Unsupported`]).
    ///
    /// # Panics
    /// Fewer than 16 blocks, or an empty text.
    pub fn create(
        handle: &Handle,
        disk: &str,
        path: &Path,
        direct: bool,
        Preload { blocks, text, seed }: Preload<'_>,
    ) -> Result<Self, StoreError> {
        assert!(blocks >= 16 && !text.is_empty(), "the largest request fits, and there is text");
        let mut key = [0; 32];
        fs::File::open("/dev/urandom")?.read_exact(&mut key)?;
        let preloaded = fs::File::create(path)?;
        let file = handle.open_file(path, &FileOptions { write: true, create: false, direct })?;
        let stride = SLOT_MIN.next_multiple_of((file.align() as usize).max(ROUND));
        if stride * usize::from(BLOCKS_MAX) > Self::BUFFER {
            let why = format!("slots of {stride} bytes are longer than two pages");
            return Err(io::Error::new(ErrorKind::Unsupported, why).into());
        }
        let mut sealer = Sealer::new(key);
        let mut digests = vec![Digest::default(); blocks as usize];
        let mut rng = Rng::seeded(seed);
        let (mut block, mut slot) = ([0; BLOCK], vec![0; stride]);
        for (number, digest) in (0..blocks).zip(&mut digests) {
            // From anywhere in the text, which wraps around.
            let from = rng.below(text.len() as u64) as usize;
            let mut bytes = text[from..].iter().chain(text.iter().cycle());
            block.fill_with(|| *bytes.next().expect("it begins again"));
            sealer.seal(number, &block, &mut slot);
            digest.last = digest_of(&block);
            preloaded.write_all_at(&slot, u64::from(number) * stride as u64)?;
        }
        // The first reader does not wait for the whole write-back.
        preloaded.sync_data()?;
        Ok(Self {
            path: path.to_owned(),
            file,
            how: format!("{disk}, {} the page cache", if direct { "past" } else { "through" }),
            stride,
            sealer: Mutex::new(sealer),
            digests: Mutex::new(digests),
            stripes: (0..blocks.div_ceil(BLOCKS_MAX.into())).map(|_| RwLock::new(())).collect(),
        })
    }

    /// Number of blocks.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        lock(&self.digests).len() as u32
    }

    /// Description of the file I/O.
    #[must_use]
    pub fn how(&self) -> &str {
        &self.how
    }

    /// Appends blocks `first` and the `count - 1` after it to `out`; 16 at most.
    ///
    /// # Errors
    /// The file cannot be read; a block lacks its written contents.
    ///
    /// # Panics
    /// There are no such blocks.
    pub async fn read(&self, first: u32, count: u32, out: &mut Vec<u8>) -> Result<(), StoreError> {
        let (one, other) = self.stripes(first, count);
        let held = (one.read().await, read(other).await);
        let slots = self.file.read_at(self.offset(first), count as usize * self.stride).await?;
        drop(held);
        if slots.len() < count as usize * self.stride {
            return Err(io::Error::from(ErrorKind::UnexpectedEof).into());
        }
        let mut sealer = lock(&self.sealer);
        for (number, slot) in (first..).zip(slots.chunks_exact(self.stride)) {
            sealer.open(number, slot, out).map_err(|_| StoreError::Damaged(number))?;
        }
        Ok(())
    }

    /// Writes `bytes`, whole blocks and 16 at most, from block `first` on.
    ///
    /// # Errors
    /// The file cannot be written.
    ///
    /// # Panics
    /// There are no such blocks, or the task has no shard.
    pub async fn write(&self, first: u32, bytes: &[u8]) -> Result<(), StoreError> {
        let blocks = bytes.as_chunks::<BLOCK>().0;
        let (one, other) = self.stripes(first, blocks.len() as u32);
        let held = (one.write().await, write(other).await);
        // Holders of a buffer wait for the disk only, so one will be free.
        let mut slots = FileBuffer::new(blocks.len() * self.stride).await?;
        let digests: Vec<_> = blocks.iter().map(|block| digest_of(block)).collect();
        self.seal(first, blocks, &mut slots);
        self.note(first, digests.iter().map(|new| move |old: Digest| Digest { perhaps: Some(*new), ..old }));
        self.file.write_at(self.offset(first), slots).await?;
        self.note(first, digests.iter().map(|new| move |_| Digest { last: *new, perhaps: None }));
        drop(held);
        Ok(())
    }

    fn seal(&self, first: u32, blocks: &[[u8; BLOCK]], slots: &mut [u8]) {
        let mut sealer = lock(&self.sealer);
        for ((number, slot), block) in (first..).zip(slots.chunks_exact_mut(self.stride)).zip(blocks) {
            sealer.seal(number, block, slot);
        }
    }

    /// Changes the digests of blocks from `first` on.
    fn note(&self, first: u32, changes: impl Iterator<Item = impl FnOnce(Digest) -> Digest>) {
        for (digest, change) in lock(&self.digests)[first as usize..].iter_mut().zip(changes) {
            *digest = change(*digest);
        }
    }

    /// The blocks without their last written contents. Requires that no request is running.
    pub fn wrong(&self) -> Vec<u32> {
        let Ok(file) = fs::File::open(&self.path) else { return (0..self.blocks()).collect() };
        let (mut slot, mut block) = (vec![0; self.stride], Vec::with_capacity(BLOCK));
        let (mut sealer, digests) = (lock(&self.sealer), lock(&self.digests));
        let mut is_wrong = |number: u32, digest: &Digest| {
            block.clear();
            let read = file.read_exact_at(&mut slot, self.offset(number));
            let opened = read.is_ok() && sealer.open(number, &slot, &mut block).is_ok();
            let found = digest_of(&block);
            !opened || (found != digest.last && Some(found) != digest.perhaps)
        };
        (0..)
            .zip(digests.iter())
            .filter(|(number, digest)| is_wrong(*number, digest))
            .map(|(n, _)| n)
            .collect()
    }

    /// The locks of `count` blocks from `first` on, in order.
    fn stripes(&self, first: u32, count: u32) -> (&RwLock<()>, Option<&RwLock<()>>) {
        let blocks = self.blocks();
        assert!(first + count <= blocks, "blocks {first}+{count} are outside 0..{blocks}");
        assert!((1..=BLOCKS_MAX.into()).contains(&count), "{count} blocks are outside 1..={BLOCKS_MAX}");
        let of = |block: u32| (block / u32::from(BLOCKS_MAX)) as usize;
        let (one, other) = (of(first), of(first + count - 1));
        (&self.stripes[one], (other > one).then(|| &self.stripes[other]))
    }

    fn offset(&self, number: u32) -> u64 {
        u64::from(number) * self.stride as u64
    }

    /// Bytes from one slot to the next.
    #[cfg(test)]
    pub(super) fn stride(&self) -> usize {
        self.stride
    }
}

/// Initial contents of a store.
#[derive(Clone, Copy, Debug)]
pub struct Preload<'a> {
    /// Number of blocks.
    pub blocks: u32,
    /// Source text of the contents.
    pub text: &'a [u8],
    /// Seed of the choice of pieces.
    pub seed: u64,
}

async fn read(stripe: Option<&RwLock<()>>) -> Option<tokio::sync::RwLockReadGuard<'_, ()>> {
    Some(stripe?.read().await)
}

async fn write(stripe: Option<&RwLock<()>>) -> Option<tokio::sync::RwLockWriteGuard<'_, ()>> {
    Some(stripe?.write().await)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn digest_of(bytes: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(bytes);
    hasher.finish()
}
