//! I/O scheduler: priority queues for buffers, for the disk and for completions.
//!
//! A request occupies one slot from [`IoScheduler::begin`] until its result is
//! fetched or it is cancelled. It is in one queue at a time: for a buffer, if it
//! needs one and has none; for the disk; and, once complete, for notification.
//! Each queue is ordered by label. A request cancelled in flight keeps its slot
//! and its buffer until the disk completes it.

use std::io;
use std::path::Path;

use queueing::{Priority, Time};

use crate::disk::{Buffer, Disk, DiskRequest, FileId, FileOptions, IoCompletion, OpenedFile};
use crate::request_queue::{RequestQueue, Waiting};

/// Maximum number of requests at a time, including cancelled ones that are still in flight.
pub const REQUESTS_MAX: usize = 1 << 16;

/// See the module. `W` identifies the waiter to notify.
pub struct IoScheduler<W> {
    disk: Box<dyn Disk>,
    depth: usize,
    /// Free buffers.
    buffers: Vec<Buffer>,
    buffer_len: usize,
    slots: Vec<Slot<W>>,
    free: Vec<u32>,
    /// Sequence number of the latest request.
    sequence: u64,
    buffer_queue: RequestQueue,
    disk_queue: RequestQueue,
    completion_queue: RequestQueue,
    in_flight: usize,
    /// True if the disk must be flushed again.
    unflushed: bool,
}

/// Operation to schedule.
pub enum IoRequest {
    /// Allocate a buffer.
    Buffer,
    /// Read `len` bytes of a file into a buffer.
    Read {
        /// File to read.
        file: FileId,
        /// Offset of the first byte.
        at: u64,
        /// At most [`IoScheduler::buffer_len`].
        len: u32,
    },
    /// Write the first `len` bytes of a buffer.
    Write {
        /// File to write.
        file: FileId,
        /// Offset of the first byte.
        at: u64,
        /// Number of bytes, at most the buffer's length.
        len: u32,
        /// Buffer of this scheduler.
        buffer: Buffer,
    },
    /// Make completed writes durable (`fsync`).
    Sync {
        /// File to sync.
        file: FileId,
    },
}

/// Result of a request: bytes read or written, and its buffer.
pub type Completion = (io::Result<usize>, Option<Buffer>);

/// Sequence number of a slot without a waiting owner.
const UNOWNED: u64 = 0;

/// Handle of a request, with which its owner polls or cancels it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a request that is not polled to its end must be cancelled"]
pub struct Ticket {
    slot: u32,
    sequence: u64,
}

struct Slot<W> {
    sequence: u64,
    level: Priority,
    stage: Stage,
    waiter: Option<W>,
}

enum Stage {
    Free,
    /// Waits for a buffer: for its own sake, or to read `(file, at, len)` into.
    WaitsForBuffer(Option<(FileId, u64, u32)>),
    WaitsForDisk(DiskRequest),
    InFlight,
    /// In flight and cancelled.
    Cancelled,
    Complete(Completion),
}

impl<W> IoScheduler<W> {
    /// Scheduler in front of `disk`.
    ///
    /// # Panics
    /// If the disk has no buffers or a depth of 0.
    #[must_use]
    pub fn new(mut disk: Box<dyn Disk>) -> Self {
        let (buffers, depth) = (disk.buffers(), disk.depth());
        assert!(depth > 0, "Disk::depth is 0; at least 1 is needed");
        let buffer_len = buffers.first().expect("Disk::buffers is empty; at least 1 is needed").bytes().len();
        let queue = || RequestQueue::new(REQUESTS_MAX);
        Self {
            disk,
            depth,
            buffers,
            buffer_len,
            slots: Vec::new(),
            free: Vec::new(),
            sequence: UNOWNED,
            buffer_queue: queue(),
            disk_queue: queue(),
            completion_queue: queue(),
            in_flight: 0,
            unflushed: false,
        }
    }

    /// Length of a buffer in bytes.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        self.buffer_len
    }

    /// Completion time of the oldest request whose waiter was not yet notified.
    #[must_use]
    pub fn oldest(&self) -> Option<Time> {
        self.completion_queue.oldest()
    }

    /// True if the disk must be polled, since its completions wake no thread.
    #[must_use]
    pub fn needs_poll(&self) -> bool {
        self.unflushed || (self.in_flight > 0 && !self.disk.wakes())
    }

    /// Opens a file; see [`Disk::open`].
    ///
    /// # Errors
    /// The disk's.
    pub fn open(&mut self, path: &Path, options: &FileOptions) -> io::Result<OpenedFile> {
        self.disk.open(path, options)
    }

    /// Closes a file. No request for it may follow.
    pub fn close(&mut self, file: FileId) {
        // Futures of queued requests hold the file open.
        self.disk.close(file);
    }

    /// Queues a request at priority `level`. `waiter` is returned by
    /// [`IoScheduler::pop_waiter`] when the request is complete.
    ///
    /// # Errors
    /// `waiter`, if [`REQUESTS_MAX`] requests exist; a buffer in `request` is freed.
    ///
    /// # Panics
    /// If a length exceeds [`IoScheduler::buffer_len`].
    pub fn begin(&mut self, now: Time, level: Priority, request: IoRequest, waiter: W) -> Result<Ticket, W> {
        let stage = match request {
            IoRequest::Buffer => Stage::WaitsForBuffer(None),
            IoRequest::Read { file, at, len } => Stage::WaitsForBuffer(Some((file, at, len))),
            IoRequest::Write { file, at, len, buffer } => {
                Stage::WaitsForDisk(DiskRequest::Write { file, at, len, buffer })
            }
            IoRequest::Sync { file } => Stage::WaitsForDisk(DiskRequest::Sync { file }),
        };
        let len = match stage {
            Stage::WaitsForBuffer(Some((_, _, len)))
            | Stage::WaitsForDisk(DiskRequest::Write { len, .. }) => len,
            _ => 0,
        };
        assert!(
            len as usize <= self.buffer_len,
            "length {len} exceeds the buffer's {} bytes",
            self.buffer_len
        );
        if self.slots.len() - self.free.len() == REQUESTS_MAX {
            self.buffers.extend(stage.into_buffer());
            return Err(waiter);
        }
        self.sequence += 1;
        let new_slot = Slot { sequence: self.sequence, level, stage, waiter: Some(waiter) };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = new_slot;
                slot
            }
            None => {
                self.slots.push(new_slot);
                self.slots.len() as u32 - 1
            }
        };
        self.enqueue(now, slot);
        Ok(Ticket { slot, sequence: self.sequence })
    }

    /// Enqueues a request in the queue of its stage.
    fn enqueue(&mut self, now: Time, slot: u32) {
        let Slot { sequence, level, stage, .. } = &self.slots[slot as usize];
        let waiting = Waiting { slot, sequence: *sequence, level: *level, since: now };
        let queue = match stage {
            Stage::WaitsForBuffer(_) => &mut self.buffer_queue,
            Stage::WaitsForDisk(_) => &mut self.disk_queue,
            Stage::Complete(_) => &mut self.completion_queue,
            Stage::Free | Stage::InFlight | Stage::Cancelled => return,
        };
        let slots = &self.slots;
        queue.push(waiting, |other| is_live(slots, other));
    }

    /// Assigns free buffers, then starts requests up to the disk's depth, each by
    /// priority. Returns the number of requests started.
    pub fn submit(&mut self, now: Time) -> usize {
        let mut started = 0;
        while !self.buffers.is_empty() {
            let slots = &self.slots;
            let Some(next) = self.buffer_queue.pop(now, |other| is_live(slots, other)) else { break };
            let slot = &mut self.slots[next.slot as usize];
            let Stage::WaitsForBuffer(read) = slot.stage else { continue };
            let buffer = self.buffers.pop().expect("a buffer is free");
            slot.stage = match read {
                Some((file, at, len)) => Stage::WaitsForDisk(DiskRequest::Read { file, at, len, buffer }),
                None => Stage::Complete((Ok(0), Some(buffer))),
            };
            self.enqueue(now, next.slot);
        }
        while self.in_flight < self.depth {
            let slots = &self.slots;
            let Some(next) = self.disk_queue.pop(now, |other| is_live(slots, other)) else { break };
            let slot = &mut self.slots[next.slot as usize];
            if let Stage::WaitsForDisk(request) = std::mem::replace(&mut slot.stage, Stage::InFlight) {
                self.disk.begin(next.slot, request);
                self.in_flight += 1;
                started += 1;
            }
        }
        if started > 0 || self.unflushed {
            self.unflushed = !self.disk.flush();
        }
        started
    }

    /// Takes completions from the disk and queues them for notification.
    pub fn collect(&mut self, now: Time) {
        while self.in_flight > 0 {
            let Some(IoCompletion { number, result, buffer }) = self.disk.done() else { return };
            self.in_flight -= 1;
            let slot = &mut self.slots[number as usize];
            if matches!(slot.stage, Stage::Cancelled) {
                slot.stage = Stage::Free;
                self.free.push(number);
                self.buffers.extend(buffer);
            } else {
                slot.stage = Stage::Complete((result, buffer));
                self.enqueue(now, number);
            }
        }
    }

    /// Dequeues the next waiter to notify, with the priority of its request.
    pub fn pop_waiter(&mut self, now: Time) -> Option<(W, Priority)> {
        loop {
            let slots = &self.slots;
            let next = self.completion_queue.pop(now, |other| is_live(slots, other))?;
            if let Some(waiter) = self.slots[next.slot as usize].waiter.take() {
                return Some((waiter, next.level));
            }
        }
    }

    /// Result of a request, once; while it is incomplete, `waiter` replaces the
    /// previous waiter.
    ///
    /// # Errors
    /// The previous waiter, if the request is incomplete.
    pub fn poll(
        &mut self,
        Ticket { slot: index, sequence }: Ticket,
        waiter: W,
    ) -> Result<Completion, Option<W>> {
        let slot = &mut self.slots[index as usize];
        assert_eq!(slot.sequence, sequence, "the request was already fetched or cancelled");
        match std::mem::replace(&mut slot.stage, Stage::Free) {
            Stage::Complete(answer) => {
                slot.sequence = UNOWNED;
                self.free.push(index);
                Ok(answer)
            }
            stage => {
                slot.stage = stage;
                Err(slot.waiter.replace(waiter))
            }
        }
    }

    /// Cancels a request and frees its buffer, at once or when the disk completes
    /// it. Returns the waiter, unless it was notified or the request has ended.
    pub fn cancel(&mut self, Ticket { slot: index, sequence }: Ticket) -> Option<W> {
        let slot = &mut self.slots[index as usize];
        if slot.sequence != sequence {
            return None;
        }
        slot.sequence = UNOWNED;
        match std::mem::replace(&mut slot.stage, Stage::Free) {
            Stage::InFlight => slot.stage = Stage::Cancelled,
            stage => {
                self.buffers.extend(stage.into_buffer());
                self.free.push(index);
            }
        }
        slot.waiter.take()
    }

    /// Returns a buffer to the pool.
    pub fn release(&mut self, buffer: Buffer) {
        self.buffers.push(buffer);
    }

    /// Blocks until the disk has no request in flight, then collects.
    pub fn finish(&mut self, now: Time) {
        self.disk.finish();
        self.collect(now);
    }
}

/// Waits for requests in flight, since the disk writes to their buffers.
impl<W> Drop for IoScheduler<W> {
    fn drop(&mut self) {
        self.disk.finish();
    }
}

/// True if a queue entry belongs to a live request. A cancelled request leaves
/// its entry in the queue; one that advances does not.
fn is_live<W>(slots: &[Slot<W>], waiting: &Waiting) -> bool {
    slots[waiting.slot as usize].sequence == waiting.sequence
}

impl Stage {
    fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::WaitsForDisk(request) => request.into_buffer(),
            Self::Complete((_, buffer)) => buffer,
            Self::Free | Self::WaitsForBuffer(_) | Self::InFlight | Self::Cancelled => None,
        }
    }
}

#[cfg(test)]
mod tests;
