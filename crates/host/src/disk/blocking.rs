//! Blocking disk: each request is a system call of the shard's thread.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use storage::{Buffer, Disk, DiskRequest, FileId, FileOptions, IoCompletion, OpenedFile};

use super::buffers::BufferArena;
use super::files::Files;

/// Disk that carries out requests in [`flush`](Disk::flush), in the order in which they
/// began.
pub struct BlockingDisk {
    files: Files,
    buffers: Vec<Buffer>,
    depth: usize,
    begun: VecDeque<(u32, DiskRequest, Arc<File>)>,
    over: VecDeque<IoCompletion>,
}

impl BlockingDisk {
    /// A disk that carries out `depth` requests per round of its shard, with `buffers` buffers of `len`
    /// bytes.
    ///
    /// # Errors
    /// Out of memory.
    ///
    /// # Panics
    /// `buffers` or `depth` is 0, or `len` is not a multiple of [`PAGE`](super::PAGE).
    pub fn new(depth: usize, buffers: usize, len: usize) -> io::Result<Self> {
        assert!(depth > 0, "depth is at least 1");
        let (_, buffers) = BufferArena::new(buffers, len)?;
        Ok(Self { files: Files::default(), buffers, depth, begun: VecDeque::new(), over: VecDeque::new() })
    }
}

impl Disk for BlockingDisk {
    fn buffers(&mut self) -> Vec<Buffer> {
        std::mem::take(&mut self.buffers)
    }

    fn depth(&self) -> usize {
        self.depth
    }

    fn open(&mut self, path: &Path, options: &FileOptions) -> io::Result<OpenedFile> {
        self.files.open(path, options)
    }

    fn close(&mut self, file: FileId) {
        self.files.close(file);
    }

    fn begin(&mut self, number: u32, request: DiskRequest) {
        assert!(self.begun.len() + self.over.len() < self.depth, "at most `depth` requests begin");
        let (DiskRequest::Read { file, .. } | DiskRequest::Write { file, .. } | DiskRequest::Sync { file }) =
            &request;
        let file = self.files.get(*file);
        self.begun.push_back((number, request, file));
    }

    fn flush(&mut self) -> bool {
        for (number, mut request, file) in self.begun.drain(..) {
            let result = match &mut request {
                DiskRequest::Read { at, len, buffer, .. } => {
                    file.read_at(&mut buffer.bytes_mut()[..*len as usize], *at)
                }
                DiskRequest::Write { at, len, buffer, .. } => {
                    file.write_at(&buffer.bytes()[..*len as usize], *at)
                }
                DiskRequest::Sync { .. } => file.sync_all().map(|()| 0),
            };
            self.over.push_back(IoCompletion { number, result, buffer: request.into_buffer() });
        }
        true
    }

    fn done(&mut self) -> Option<IoCompletion> {
        self.over.pop_front()
    }

    fn finish(&mut self) {
        self.flush();
    }

    /// False: no request is in progress while it sleeps.
    fn wakes(&self) -> bool {
        true
    }
}
