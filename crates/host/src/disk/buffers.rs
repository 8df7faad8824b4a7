//! I/O buffers: equal pieces of one mapping, each with one owner.

use std::any::Any;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use storage::{Buffer, BufferMemory};

use super::PAGE;
use crate::mapping::Mapping;

/// Memory of buffers of one length.
pub(super) struct BufferArena {
    memory: Mapping,
    count: usize,
    len: usize,
}

/// One buffer. There is exactly one per place in the memory.
pub(super) struct Piece {
    of: Arc<BufferArena>,
    index: usize,
}

impl BufferArena {
    /// An arena with its `count` buffers of `len` bytes.
    ///
    /// # Panics
    /// `count` is 0, or `len` is not a multiple of [`PAGE`].
    pub fn new(count: usize, len: usize) -> io::Result<(Arc<Self>, Vec<Buffer>)> {
        assert!(count > 0, "count is at least 1");
        assert!(len > 0 && len.is_multiple_of(PAGE), "{len} bytes are no multiple of {PAGE}");
        let pieces = Arc::new(Self { memory: Mapping::anonymous(count * len, false)?, count, len });
        let all = (0..count).map(|index| Box::new(Piece { of: pieces.clone(), index }) as Buffer).collect();
        Ok((pieces, all))
    }

    /// Address and length of each buffer.
    pub fn buffers(&self) -> impl Iterator<Item = (NonNull<u8>, usize)> {
        (0..self.count).map(|index| (self.start(index), self.len))
    }

    fn start(&self, index: usize) -> NonNull<u8> {
        self.memory.at(index * self.len)
    }

    /// Index of `buffer`.
    ///
    /// # Panics
    /// The buffer belongs to another arena.
    pub fn index_of(self: &Arc<Self>, buffer: &Buffer) -> usize {
        let piece = (&**buffer as &dyn Any).downcast_ref::<Piece>();
        let piece = piece.filter(|piece| Arc::ptr_eq(&piece.of, self));
        piece.expect("a request has a buffer of its disk").index
    }

    /// Address of the buffer at `index`.
    pub fn begin_of(&self, index: usize) -> *mut u8 {
        self.start(index).as_ptr()
    }
}

impl BufferMemory for Piece {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `len` bytes there, all zero or written since, and lives as long as
        // `of`. There is one piece per place, so its owner has the bytes: the kernel writes to them
        // only while a disk owns the piece.
        unsafe { std::slice::from_raw_parts(self.of.start(self.index).as_ptr(), self.of.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; this reference is exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.of.start(self.index).as_ptr(), self.of.len) }
    }
}
