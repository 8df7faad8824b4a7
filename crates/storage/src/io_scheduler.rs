//! Who waits for a buffer, for a place at the disk, for its end, and to be told.
//!
//! A request has one slot from its beginning until its end is fetched. It stands
//! in one line at a time: for a buffer if it needs one and has none, for a
//! place at the disk, and when it is over, to be told. Each is in the order of
//! labels, so a disk that is busy is another queue that asks who goes next.
//! Who gives up a request that the disk has begun leaves it its slot: the buffer
//! is free again when the disk is done with it, and not before.

use std::io;
use std::path::Path;

use queueing::{Priority, Time};

use crate::disk::{Buffer, Disk, FileId, IoCompletion, Opened, Options, Request};
use crate::request_queue::{RequestQueue, Waiting};

/// Requests at a time, those that nobody waits for any more included.
pub const REQUESTS_MAX: usize = 1 << 16;

/// See the module. `W` is whom to tell.
pub struct IoScheduler<W> {
    disk: Box<dyn Disk>,
    depth: usize,
    /// Those that nobody has.
    buffers: Vec<Buffer>,
    buffer_len: usize,
    slots: Vec<Slot<W>>,
    free: Vec<u32>,
    /// That of the latest request.
    turns: u64,
    for_buffer: RequestQueue,
    for_disk: RequestQueue,
    to_tell: RequestQueue,
    in_flight: usize,
    /// The disk is to be flushed again.
    held: bool,
}

/// What is asked for.
pub enum IoRequest {
    /// A buffer.
    Buffer,
    /// `len` bytes of a file from `at` on, in a buffer.
    Read {
        /// Which file.
        file: FileId,
        /// From which byte on.
        at: u64,
        /// At most [`IoScheduler::buffer_len`].
        len: u32,
    },
    /// To write the first `len` bytes of a buffer.
    Write {
        /// Which file.
        file: FileId,
        /// From which byte on.
        at: u64,
        /// At most the buffer's.
        len: u32,
        /// Of this desk.
        buffer: Buffer,
    },
    /// That what was written survives a loss of power.
    Sync {
        /// Which file.
        file: FileId,
    },
}

/// Bytes read or written, and the buffer.
pub type Answer = (io::Result<usize>, Option<Buffer>);

/// The turn of a slot whose request nobody waits for.
const NOBODYS: u64 = 0;

/// A request, for whoever waits for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a request that nobody waits for is to be given up"]
pub struct Ticket {
    slot: u32,
    turn: u64,
}

struct Slot<W> {
    turn: u64,
    level: Priority,
    stage: Stage,
    waiter: Option<W>,
}

enum Stage {
    Free,
    /// For a buffer, to be had or to be read into.
    WaitsForBuffer(Option<(FileId, u64, u32)>),
    WaitsForDisk(Request),
    InFlight,
    /// In flight, and nobody waits for it.
    Left,
    Over(Answer),
}

impl<W> IoScheduler<W> {
    /// A desk before `disk`.
    ///
    /// # Panics
    /// When the disk has no buffers or no places.
    #[must_use]
    pub fn new(mut disk: Box<dyn Disk>) -> Self {
        let (buffers, depth) = (disk.buffers(), disk.depth());
        assert!(depth > 0, "a disk has a place");
        let buffer_len = buffers.first().expect("a disk has a buffer").bytes().len();
        let line = || RequestQueue::new(REQUESTS_MAX);
        Self {
            disk,
            depth,
            buffers,
            buffer_len,
            slots: Vec::new(),
            free: Vec::new(),
            turns: NOBODYS,
            for_buffer: line(),
            for_disk: line(),
            to_tell: line(),
            in_flight: 0,
            held: false,
        }
    }

    /// Bytes of a buffer.
    #[must_use]
    pub fn buffer_len(&self) -> usize {
        self.buffer_len
    }

    /// Since when the oldest request waits that is over and whose owner was not told.
    #[must_use]
    pub fn oldest(&self) -> Option<Time> {
        self.to_tell.oldest()
    }

    /// Whether the disk has to be looked at, since nothing wakes who sleeps.
    #[must_use]
    pub fn must_look(&self) -> bool {
        self.held || (self.in_flight > 0 && !self.disk.wakes())
    }

    /// Opens a file; see [`Disk::open`].
    ///
    /// # Errors
    /// The disk's.
    pub fn open(&mut self, path: &Path, options: &Options) -> io::Result<Opened> {
        self.disk.open(path, options)
    }

    /// Closes a file for which nobody asks any more.
    pub fn close(&mut self, file: FileId) {
        // Requests that wait are of futures, and those have the file.
        self.disk.close(file);
    }

    /// Begins a request that is as urgent as `level`; `waiter` is told when it
    /// is over, or comes back when [`REQUESTS_MAX`] are not over.
    ///
    /// # Errors
    /// `waiter`; a buffer in `asked` is free then.
    ///
    /// # Panics
    /// When a length is beyond the buffer's.
    pub fn begin(&mut self, now: Time, level: Priority, asked: IoRequest, waiter: W) -> Result<Ticket, W> {
        let stage = match asked {
            IoRequest::Buffer => Stage::WaitsForBuffer(None),
            IoRequest::Read { file, at, len } => Stage::WaitsForBuffer(Some((file, at, len))),
            IoRequest::Write { file, at, len, buffer } => {
                Stage::WaitsForDisk(Request::Write { file, at, len, buffer })
            }
            IoRequest::Sync { file } => Stage::WaitsForDisk(Request::Sync { file }),
        };
        let len = match stage {
            Stage::WaitsForBuffer(Some((_, _, len))) | Stage::WaitsForDisk(Request::Write { len, .. }) => len,
            _ => 0,
        };
        assert!(len as usize <= self.buffer_len, "{len} bytes are beyond a buffer's {}", self.buffer_len);
        if self.slots.len() - self.free.len() == REQUESTS_MAX {
            self.buffers.extend(stage.into_buffer());
            return Err(waiter);
        }
        self.turns += 1;
        let fresh = Slot { turn: self.turns, level, stage, waiter: Some(waiter) };
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = fresh;
                slot
            }
            None => {
                self.slots.push(fresh);
                self.slots.len() as u32 - 1
            }
        };
        self.stand(now, slot);
        Ok(Ticket { slot, turn: self.turns })
    }

    /// Puts a request into the line of its stage.
    fn stand(&mut self, now: Time, slot: u32) {
        let Slot { turn, level, stage, .. } = &self.slots[slot as usize];
        let waiting = Waiting { slot, turn: *turn, level: *level, since: now };
        let line = match stage {
            Stage::WaitsForBuffer(_) => &mut self.for_buffer,
            Stage::WaitsForDisk(_) => &mut self.for_disk,
            Stage::Over(_) => &mut self.to_tell,
            Stage::Free | Stage::InFlight | Stage::Left => return,
        };
        let slots = &self.slots;
        line.push(waiting, |other| stands(slots, other));
    }

    /// Gives buffers and places to those whose turn it is; how many requests
    /// the disk has begun.
    pub fn submit(&mut self, now: Time) -> usize {
        let mut begun = 0;
        while !self.buffers.is_empty() {
            let slots = &self.slots;
            let Some(next) = self.for_buffer.pop(now, |other| stands(slots, other)) else { break };
            let slot = &mut self.slots[next.slot as usize];
            let Stage::WaitsForBuffer(read) = slot.stage else { continue };
            let buffer = self.buffers.pop().expect("one is free");
            slot.stage = match read {
                Some((file, at, len)) => Stage::WaitsForDisk(Request::Read { file, at, len, buffer }),
                None => Stage::Over((Ok(0), Some(buffer))),
            };
            self.stand(now, next.slot);
        }
        while self.in_flight < self.depth {
            let slots = &self.slots;
            let Some(next) = self.for_disk.pop(now, |other| stands(slots, other)) else { break };
            let slot = &mut self.slots[next.slot as usize];
            if let Stage::WaitsForDisk(request) = std::mem::replace(&mut slot.stage, Stage::InFlight) {
                self.disk.begin(next.slot, request);
                self.in_flight += 1;
                begun += 1;
            }
        }
        if begun > 0 || self.held {
            self.held = !self.disk.flush();
        }
        begun
    }

    /// Takes in what is over.
    pub fn collect(&mut self, now: Time) {
        while self.in_flight > 0 {
            let Some(IoCompletion { number, result, buffer }) = self.disk.done() else { return };
            self.in_flight -= 1;
            let slot = &mut self.slots[number as usize];
            if matches!(slot.stage, Stage::Left) {
                slot.stage = Stage::Free;
                self.free.push(number);
                self.buffers.extend(buffer);
            } else {
                slot.stage = Stage::Over((result, buffer));
                self.stand(now, number);
            }
        }
    }

    /// Whom to tell next that his request is over, and how urgent that is.
    pub fn tell(&mut self, now: Time) -> Option<(W, Priority)> {
        loop {
            let slots = &self.slots;
            let next = self.to_tell.pop(now, |other| stands(slots, other))?;
            if let Some(waiter) = self.slots[next.slot as usize].waiter.take() {
                return Some((waiter, next.level));
            }
        }
    }

    /// What became of a request, once; or else `waiter` is told, and the one
    /// before comes back.
    ///
    /// # Errors
    /// The waiter before, while it is not over.
    pub fn poll(&mut self, Ticket { slot: index, turn }: Ticket, waiter: W) -> Result<Answer, Option<W>> {
        let slot = &mut self.slots[index as usize];
        assert_eq!(slot.turn, turn, "it has ended before");
        match std::mem::replace(&mut slot.stage, Stage::Free) {
            Stage::Over(answer) => {
                slot.turn = NOBODYS;
                self.free.push(index);
                Ok(answer)
            }
            stage => {
                slot.stage = stage;
                Err(slot.waiter.replace(waiter))
            }
        }
    }

    /// Nobody waits for the request any more, nor wants its buffer; whoever was
    /// to be told comes back.
    pub fn give_up(&mut self, Ticket { slot: index, turn }: Ticket) -> Option<W> {
        let slot = &mut self.slots[index as usize];
        if slot.turn != turn {
            return None;
        }
        slot.turn = NOBODYS;
        match std::mem::replace(&mut slot.stage, Stage::Free) {
            Stage::InFlight => slot.stage = Stage::Left,
            stage => {
                self.buffers.extend(stage.into_buffer());
                self.free.push(index);
            }
        }
        slot.waiter.take()
    }

    /// A buffer is free again.
    pub fn give_back(&mut self, buffer: Buffer) {
        self.buffers.push(buffer);
    }

    /// Waits until the disk has nothing left to do.
    pub fn finish(&mut self, now: Time) {
        self.disk.finish();
        self.collect(now);
    }
}

/// What the disk has begun ends before its buffers do.
impl<W> Drop for IoScheduler<W> {
    fn drop(&mut self) {
        self.disk.finish();
    }
}

/// Whether a line's entry is of a request that still waits there: a request
/// that has gone on stands elsewhere, and leaves no entry behind.
fn stands<W>(slots: &[Slot<W>], waiting: &Waiting) -> bool {
    slots[waiting.slot as usize].turn == waiting.turn
}

impl Stage {
    fn into_buffer(self) -> Option<Buffer> {
        match self {
            Self::WaitsForDisk(request) => request.into_buffer(),
            Self::Over((_, buffer)) => buffer,
            Self::Free | Self::WaitsForBuffer(_) | Self::InFlight | Self::Left => None,
        }
    }
}

#[cfg(test)]
mod tests;
