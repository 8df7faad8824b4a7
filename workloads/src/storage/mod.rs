//! Server of compressed and encrypted blocks in a file.
//!
//! A request reads or writes 1 to 16 consecutive blocks of 4 KiB. The first block follows from the
//! request's id, so that a client needs no state. At rest a block is compressed, then encrypted and
//! bound to its place; a request's cost depends on the number of blocks and on how well they
//! compress. The file is preloaded with text. I/O uses io_uring, past the page cache where the file
//! system supports it, and other requests are answered meanwhile; without io_uring ([`disk()`]) it
//! uses system calls that hold the core. Differs from the paper: any disk, not an NVMe drive of its
//! own. Source: Caladan (OSDI '20) §7; requests use `load`'s synthetic protocol.

mod disk;
mod slot;
mod store;

pub use disk::{Io, disk};
pub use slot::{BLOCK, Damaged};
pub use store::{BlockStore, Preload, StoreError};

use load::protocol::synthetic::{REQUEST_LEN_MIN, RequestHeader};

use crate::progress::Check;
use crate::serve::{Refused, Service};

/// A request's operation: its protocol's `kind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StorageOp {
    /// Reads 1 to 16 blocks: 4 to 64 KiB.
    Read(u8),
    /// Writes 1 to 15 blocks, whose bytes follow the header.
    Write(u8),
}

/// Maximum number of blocks of a read.
pub const BLOCKS_MAX: u8 = 16;
/// Bit of a kind that marks a write.
const WRITE: u8 = 0x80;

impl StorageOp {
    /// The kind as a byte of the protocol.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Read(blocks) => blocks,
            Self::Write(blocks) => WRITE | blocks,
        }
    }

    /// The kind of `code`; `None` if invalid.
    #[must_use]
    pub const fn of(code: u8) -> Option<Self> {
        match code & !WRITE {
            blocks @ 1..BLOCKS_MAX if code & WRITE != 0 => Some(Self::Write(blocks)),
            blocks @ 1..=BLOCKS_MAX if code & WRITE == 0 => Some(Self::Read(blocks)),
            _ => None,
        }
    }
}

/// The first block of a request of `blocks` with this id, in a store of `of` blocks; consecutive
/// ids are far apart.
#[must_use]
pub const fn first(id: u64, blocks: u8, of: u32) -> u32 {
    // Fibonacci hashing: the upper half of a product.
    let spread = id.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    ((spread * (of as u64 - blocks as u64 + 1)) >> 32) as u32
}

impl Service for BlockStore {
    async fn serve(&self, request: &RequestHeader, body: &[u8], answer: &mut Vec<u8>) -> Result<(), Refused> {
        let damaged = |e: StoreError| Refused(e.to_string());
        match StorageOp::of(request.kind) {
            Some(StorageOp::Read(blocks)) => {
                let at = first(request.id, blocks, self.blocks());
                self.read(at, blocks.into(), answer).await.map_err(damaged)
            }
            Some(StorageOp::Write(blocks)) if body.len() == usize::from(blocks) * BLOCK => {
                let at = first(request.id, blocks, self.blocks());
                self.write(at, body).await.map_err(damaged)
            }
            Some(StorageOp::Write(blocks)) => {
                let length = REQUEST_LEN_MIN + usize::from(blocks) * BLOCK;
                Err(Refused(format!("a write of {blocks} blocks has {length} bytes, not {}", request.length)))
            }
            None => Err(Refused(format!("kind {} is outside 1..=16 and 129..=143", request.kind))),
        }
    }

    /// Checks that every block has its last written contents.
    fn check(&self) -> Check {
        let wrong = self.wrong();
        let says = match wrong.first() {
            None => format!("{} blocks are what was written ({})", self.blocks(), self.how()),
            Some(first) => format!("{} of {} blocks are wrong, {first} first", wrong.len(), self.blocks()),
        };
        Check { holds: wrong.is_empty(), says }
    }
}

#[cfg(test)]
mod tests;
