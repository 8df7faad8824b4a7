//! Disk in memory whose requests complete on command.
//!
//! For tests and simulations without a kernel. One clone is the disk; another
//! decides when, in which order and how requests complete. A request takes
//! effect at its completion, so a read never sees a write in flight.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Buffer, BufferMemory, Disk, DiskRequest, FileId, FileOptions, IoCompletion, OpenedFile};

/// See the module. Clones share one disk.
#[derive(Clone)]
pub struct MemoryDisk(Arc<Mutex<State>>);

struct State {
    depth: usize,
    /// Count and length of the buffers that [`Disk::buffers`] has yet to hand out.
    buffers: (usize, usize),
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// By [`FileId`].
    open: Vec<Option<PathBuf>>,
    in_flight: VecDeque<(u32, DiskRequest)>,
    completed: VecDeque<IoCompletion>,
    /// True if requests complete as soon as they start.
    immediate: bool,
    next_error: Option<io::ErrorKind>,
    direct: Option<u32>,
}

struct Bytes(Box<[u8]>);

impl BufferMemory for Bytes {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl MemoryDisk {
    /// Empty disk of the given queue `depth` and `buffers` buffers of `len` bytes.
    /// Its files cannot bypass the page cache.
    #[must_use]
    pub fn new(depth: usize, buffers: usize, len: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            depth,
            buffers: (buffers, len),
            files: BTreeMap::new(),
            open: Vec::new(),
            in_flight: VecDeque::new(),
            completed: VecDeque::new(),
            immediate: false,
            next_error: None,
            direct: None,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores a file.
    pub fn put(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        self.state().files.insert(path.as_ref().to_owned(), bytes.to_owned());
    }

    /// Contents of a file; empty if there is none.
    #[must_use]
    pub fn get(&self, path: impl AsRef<Path>) -> Vec<u8> {
        self.state().files.get(path.as_ref()).cloned().unwrap_or_default()
    }

    /// Lets files bypass the page cache from now on, in multiples of `align` bytes.
    pub fn allow_direct(&self, align: u32) {
        self.state().direct = Some(align);
    }

    /// Completes all requests in flight, and later ones as soon as they start.
    pub fn complete_immediately(&self) {
        self.state().immediate = true;
        while self.finish_one() {}
    }

    /// Makes the next completion fail with `kind`.
    pub fn fail_next(&self, kind: io::ErrorKind) {
        self.state().next_error = Some(kind);
    }

    /// Requests in flight.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.state().in_flight.len()
    }

    /// Completes the request started first; `false` if none is in flight.
    pub fn finish_one(&self) -> bool {
        self.finish_nth(0)
    }

    /// Completes the `n`th request in flight, counted from 0 in order of start;
    /// `false` if there are fewer.
    pub fn finish_nth(&self, n: usize) -> bool {
        self.state().finish(n)
    }
}

impl State {
    fn finish(&mut self, n: usize) -> bool {
        let Some((number, request)) = self.in_flight.remove(n) else { return false };
        let failed = self.next_error.take();
        let (result, buffer) = match request {
            request if failed.is_some() => {
                let kind = failed.unwrap_or(io::ErrorKind::Other);
                (Err(kind.into()), request.into_buffer())
            }
            DiskRequest::Read { file, at, len, mut buffer } => {
                let bytes = self.file(file);
                let from = bytes.len().min(at as usize);
                let read = bytes[from..].len().min(len as usize);
                buffer.bytes_mut()[..read].copy_from_slice(&bytes[from..][..read]);
                (Ok(read), Some(buffer))
            }
            DiskRequest::Write { file, at, len, buffer } => {
                let (bytes, at, len) = (self.file(file), at as usize, len as usize);
                bytes.resize(bytes.len().max(at + len), 0);
                bytes[at..at + len].copy_from_slice(&buffer.bytes()[..len]);
                (Ok(len), Some(buffer))
            }
            DiskRequest::Sync { .. } => (Ok(0), None),
        };
        self.completed.push_back(IoCompletion { number, result, buffer });
        true
    }

    fn file(&mut self, file: FileId) -> &mut Vec<u8> {
        let path = self.open[file.0 as usize].as_ref().expect("the file is open");
        self.files.entry(path.clone()).or_default()
    }
}

impl Disk for MemoryDisk {
    fn buffers(&mut self) -> Vec<Buffer> {
        let (count, len) = std::mem::take(&mut self.state().buffers);
        (0..count).map(|_| Box::new(Bytes(vec![0; len].into())) as Buffer).collect()
    }

    fn depth(&self) -> usize {
        self.state().depth
    }

    fn open(&mut self, path: &Path, options: &FileOptions) -> io::Result<OpenedFile> {
        let mut state = self.state();
        if !state.files.contains_key(path) && !options.create {
            return Err(io::ErrorKind::NotFound.into());
        }
        let align = match (options.direct, state.direct) {
            (false, _) => 1,
            (true, Some(align)) => align,
            (true, None) => return Err(io::ErrorKind::Unsupported.into()),
        };
        state.files.entry(path.to_owned()).or_default();
        state.open.push(Some(path.to_owned()));
        Ok(OpenedFile { file: FileId(state.open.len() as u32 - 1), align })
    }

    /// Keeps the path, which requests in flight still need.
    fn close(&mut self, _file: FileId) {}

    fn begin(&mut self, number: u32, request: DiskRequest) {
        let mut state = self.state();
        assert!(
            state.in_flight.len() + state.completed.len() < state.depth,
            "requests in flight exceed the depth"
        );
        state.in_flight.push_back((number, request));
        if state.immediate {
            state.finish(0);
        }
    }

    fn flush(&mut self) -> bool {
        true
    }

    fn done(&mut self) -> Option<IoCompletion> {
        self.state().completed.pop_front()
    }

    fn finish(&mut self) {
        while self.finish_one() {}
    }

    fn wakes(&self) -> bool {
        false
    }
}
