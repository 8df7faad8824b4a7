//! Buffers: pieces of one mapping, each of which somebody owns.

use std::any::Any;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use storage::{Buffer, Memory};

use super::PAGE;
use crate::mapping::Mapping;

/// Memory for buffers of one length.
pub(super) struct BufferArena {
    memory: Mapping,
    count: usize,
    len: usize,
}

/// One buffer. There is one for each place in the memory, and no other way to it.
pub(super) struct Piece {
    of: Arc<BufferArena>,
    place: usize,
}

impl BufferArena {
    /// `count` buffers of `len` bytes, and them.
    ///
    /// # Panics
    /// When there are none, or `len` is no multiple of [`PAGE`].
    pub fn new(count: usize, len: usize) -> io::Result<(Arc<Self>, Vec<Buffer>)> {
        assert!(count > 0, "a disk has a buffer");
        assert!(len > 0 && len.is_multiple_of(PAGE), "{len} bytes are no multiple of {PAGE}");
        let pieces = Arc::new(Self { memory: Mapping::anonymous(count * len, false)?, count, len });
        let all = (0..count).map(|place| Box::new(Piece { of: pieces.clone(), place }) as Buffer).collect();
        Ok((pieces, all))
    }

    /// Where each of them begins, and how long it is.
    pub fn places(&self) -> impl Iterator<Item = (NonNull<u8>, usize)> {
        (0..self.count).map(|place| (self.start(place), self.len))
    }

    fn start(&self, place: usize) -> NonNull<u8> {
        self.memory.at(place * self.len)
    }

    /// Which one `buffer` is.
    ///
    /// # Panics
    /// When it is none of these.
    pub fn place(self: &Arc<Self>, buffer: &Buffer) -> usize {
        let piece = (&**buffer as &dyn Any).downcast_ref::<Piece>();
        let piece = piece.filter(|piece| Arc::ptr_eq(&piece.of, self));
        piece.expect("a request has a buffer of its disk").place
    }

    /// Where one begins.
    pub fn begin_of(&self, place: usize) -> *mut u8 {
        self.start(place).as_ptr()
    }
}

impl Memory for Piece {
    fn bytes(&self) -> &[u8] {
        // SAFETY: the mapping has `len` bytes from there on, all of them zero or
        // written since, and lives as long as `of`. There is one piece for a
        // place, so who has it has the bytes: the kernel writes to them only while
        // a disk has it.
        unsafe { std::slice::from_raw_parts(self.of.start(self.place).as_ptr(), self.of.len) }
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `bytes`; nobody else has a reference, since this one is
        // exclusive.
        unsafe { std::slice::from_raw_parts_mut(self.of.start(self.place).as_ptr(), self.of.len) }
    }
}
