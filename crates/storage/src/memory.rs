//! A disk in memory, on which a request is over when its holder says so.
//!
//! For tests and for worlds without a kernel: one end carries requests out, the
//! other, a clone, decides when and how. What a request does is done at its
//! end, so a write that has begun is not to be read yet.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::disk::{Buffer, Disk, FileId, IoCompletion, Memory, Opened, Options, Request};

/// See the module. A clone is the same disk.
#[derive(Clone)]
pub struct MemoryDisk(Arc<Mutex<Inside>>);

struct Inside {
    depth: usize,
    /// Buffers that nobody has asked for yet, and how long each is.
    buffers: (usize, usize),
    files: BTreeMap<PathBuf, Vec<u8>>,
    /// By [`FileId`].
    open: Vec<Option<PathBuf>>,
    begun: VecDeque<(u32, Request)>,
    over: VecDeque<IoCompletion>,
    /// Requests are over at once.
    quick: bool,
    fails: Option<io::ErrorKind>,
    direct: Option<u32>,
}

struct Bytes(Box<[u8]>);

impl Memory for Bytes {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

impl MemoryDisk {
    /// An empty disk of `depth` places, with as many `buffers` of `len` bytes. Its
    /// files cannot be opened past a page cache.
    #[must_use]
    pub fn new(depth: usize, buffers: usize, len: usize) -> Self {
        Self(Arc::new(Mutex::new(Inside {
            depth,
            buffers: (buffers, len),
            files: BTreeMap::new(),
            open: Vec::new(),
            begun: VecDeque::new(),
            over: VecDeque::new(),
            quick: false,
            fails: None,
            direct: None,
        })))
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a file there.
    pub fn put(&self, path: impl AsRef<Path>, bytes: &[u8]) {
        self.inside().files.insert(path.as_ref().to_owned(), bytes.to_owned());
    }

    /// What is in a file; nothing where there is none.
    #[must_use]
    pub fn get(&self, path: impl AsRef<Path>) -> Vec<u8> {
        self.inside().files.get(path.as_ref()).cloned().unwrap_or_default()
    }

    /// From now on files can be opened past the page cache, in multiples of `align`.
    pub fn allow_direct(&self, align: u32) {
        self.inside().direct = Some(align);
    }

    /// From now on every request is over as soon as it has begun.
    pub fn be_quick(&self) {
        self.inside().quick = true;
        while self.finish_one() {}
    }

    /// The next request to end fails.
    pub fn fail_next(&self, kind: io::ErrorKind) {
        self.inside().fails = Some(kind);
    }

    /// Requests that have begun and are not over.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.inside().begun.len()
    }

    /// Ends the request that began first, if there is one.
    pub fn finish_one(&self) -> bool {
        self.finish_nth(0)
    }

    /// Ends the `n`th of those that have begun, the first is 0; `false` when there
    /// are not as many.
    pub fn finish_nth(&self, n: usize) -> bool {
        self.inside().finish(n)
    }
}

impl Inside {
    fn finish(&mut self, n: usize) -> bool {
        let Some((number, request)) = self.begun.remove(n) else { return false };
        let failed = self.fails.take();
        let (result, buffer) = match request {
            request if failed.is_some() => {
                let kind = failed.unwrap_or(io::ErrorKind::Other);
                (Err(kind.into()), request.into_buffer())
            }
            Request::Read { file, at, len, mut buffer } => {
                let bytes = self.file(file);
                let from = bytes.len().min(at as usize);
                let read = bytes[from..].len().min(len as usize);
                buffer.bytes_mut()[..read].copy_from_slice(&bytes[from..][..read]);
                (Ok(read), Some(buffer))
            }
            Request::Write { file, at, len, buffer } => {
                let (bytes, at, len) = (self.file(file), at as usize, len as usize);
                bytes.resize(bytes.len().max(at + len), 0);
                bytes[at..at + len].copy_from_slice(&buffer.bytes()[..len]);
                (Ok(len), Some(buffer))
            }
            Request::Sync { .. } => (Ok(0), None),
        };
        self.over.push_back(IoCompletion { number, result, buffer });
        true
    }

    fn file(&mut self, file: FileId) -> &mut Vec<u8> {
        let path = self.open[file.0 as usize].as_ref().expect("it is open");
        self.files.entry(path.clone()).or_default()
    }
}

impl Disk for MemoryDisk {
    fn buffers(&mut self) -> Vec<Buffer> {
        let (count, len) = std::mem::take(&mut self.inside().buffers);
        (0..count).map(|_| Box::new(Bytes(vec![0; len].into())) as Buffer).collect()
    }

    fn depth(&self) -> usize {
        self.inside().depth
    }

    fn open(&mut self, path: &Path, options: &Options) -> io::Result<Opened> {
        let mut inside = self.inside();
        if !inside.files.contains_key(path) && !options.create {
            return Err(io::ErrorKind::NotFound.into());
        }
        let align = match (options.direct, inside.direct) {
            (false, _) => 1,
            (true, Some(align)) => align,
            (true, None) => return Err(io::ErrorKind::Unsupported.into()),
        };
        inside.files.entry(path.to_owned()).or_default();
        inside.open.push(Some(path.to_owned()));
        Ok(Opened { file: FileId(inside.open.len() as u32 - 1), align })
    }

    /// Its requests still need its name.
    fn close(&mut self, _file: FileId) {}

    fn begin(&mut self, number: u32, request: Request) {
        let mut inside = self.inside();
        assert!(inside.begun.len() + inside.over.len() < inside.depth, "no more begin than places are");
        inside.begun.push_back((number, request));
        if inside.quick {
            inside.finish(0);
        }
    }

    fn flush(&mut self) -> bool {
        true
    }

    fn done(&mut self) -> Option<IoCompletion> {
        self.inside().over.pop_front()
    }

    fn finish(&mut self) {
        while self.finish_one() {}
    }

    fn wakes(&self) -> bool {
        false
    }
}
