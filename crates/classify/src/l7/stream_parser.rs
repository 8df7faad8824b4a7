//! Incremental parser of one connection's byte stream.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{HEAD_BYTES_MAX, HELD_BYTES_MAX, L7Protocol, Nonsense, Notes, RequestHead, Step, Then, step};

/// Receiver of the requests that a parser finds.
pub trait RequestVisitor {
    /// The head of a request is complete. The parser keeps the result as the request's mark.
    fn on_request(&mut self, protocol: &L7Protocol, request: &RequestHead<'_>) -> u64;
    /// A piece holds bytes of the request with this mark. Called once per request and piece, and
    /// not before the head is complete.
    fn on_segment(&mut self, mark: u64);
    /// The last byte of the request has arrived.
    fn on_end(&mut self);
}

/// Parser of one connection.
#[derive(Clone)]
pub struct StreamParser {
    protocol: L7Protocol,
    notes: Arc<Notes>,
    /// Offset of the next stream byte.
    next: u64,
    /// Bytes to skip before `then`.
    skip: u64,
    then: Then,
    /// Mark of the current request.
    mark: Option<u64>,
    /// Start of an incomplete element.
    held: Held,
    failed: bool,
}

impl StreamParser {
    /// Parser of a connection of `protocol`, from stream byte `start` on.
    #[must_use]
    pub fn new(protocol: L7Protocol, notes: Arc<Notes>, start: u64) -> Self {
        let held = Held { bytes: Vec::new(), notes: Arc::clone(&notes) };
        Self { protocol, notes, next: start, skip: 0, then: Then::Head, mark: None, held, failed: false }
    }

    /// True if the stream could not be parsed.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.failed
    }

    /// True if the parser reads `protocol` and knows the request boundaries of all of the stream
    /// before byte `start`.
    #[must_use]
    pub fn is_in_sync(&self, protocol: &L7Protocol, start: u64) -> bool {
        !self.failed && self.protocol == *protocol && start <= self.next
    }

    /// Counts in `notes` from now on, for a new visitor. The new visitor has not seen the head of
    /// the current request, so its mark becomes 0.
    pub fn set_visitor(&mut self, notes: Arc<Notes>) {
        let bytes = self.held.take();
        notes.held.fetch_add(bytes.len(), Ordering::Relaxed);
        self.held = Held { bytes, notes: Arc::clone(&notes) };
        self.notes = notes;
        self.mark = self.mark.map(|_| 0);
    }

    /// Parses the piece of the stream that starts at byte `start`. Bytes seen before are ignored.
    pub fn read(&mut self, start: u64, bytes: &[u8], visit: &mut dyn RequestVisitor) {
        if self.failed {
            return;
        }
        if start > self.next {
            return self.fail(Nonsense::Gap);
        }
        let seen = (self.next - start).min(bytes.len() as u64) as usize;
        let fresh = &bytes[seen..];
        self.next += fresh.len() as u64;
        if let Some(mark) = self.mark {
            visit.on_segment(mark);
        }
        if let Err(why) = self.parse(fresh, visit) {
            self.fail(why);
        }
    }

    fn parse(&mut self, fresh: &[u8], visit: &mut dyn RequestVisitor) -> Result<(), Nonsense> {
        if self.held.bytes.is_empty() {
            let used = self.walk(fresh, visit)?;
            return self.held.hold(&fresh[used..]);
        }
        let mut bytes = self.held.take();
        bytes.extend_from_slice(fresh);
        let used = self.walk(&bytes, visit)?;
        bytes.drain(..used);
        self.held.keep(bytes)
    }

    /// Parses as many complete elements as there are; returns the number of bytes used.
    fn walk(&mut self, bytes: &[u8], visit: &mut dyn RequestVisitor) -> Result<usize, Nonsense> {
        let mut at = 0;
        loop {
            let passed = self.skip.min((bytes.len() - at) as u64);
            self.skip -= passed;
            at += passed as usize;
            if self.skip == 0 && self.then == Then::Head && self.mark.take().is_some() {
                visit.on_end();
            }
            if at == bytes.len() {
                return Ok(at);
            }
            let mark = &mut self.mark;
            let step = step(&self.protocol, self.then, &bytes[at..], &mut |request| {
                let started = visit.on_request(&self.protocol, request);
                visit.on_segment(started);
                *mark = Some(started);
                self.notes.requests.fetch_add(1, Ordering::Relaxed);
            })?;
            match step {
                Step::More => return Ok(at),
                Step::Go { used, skip, then } => {
                    at += used;
                    (self.skip, self.then) = (skip, then);
                }
            }
        }
    }

    #[cold]
    fn fail(&mut self, why: Nonsense) {
        self.notes.failed[why as usize].fetch_add(1, Ordering::Relaxed);
        self.failed = true;
        self.mark = None;
        self.held.take();
    }
}

/// Buffered bytes, counted towards [`HELD_BYTES_MAX`].
struct Held {
    bytes: Vec<u8>,
    notes: Arc<Notes>,
}

impl Held {
    fn hold(&mut self, bytes: &[u8]) -> Result<(), Nonsense> {
        if bytes.is_empty() { Ok(()) } else { self.keep(bytes.to_vec()) }
    }

    fn keep(&mut self, bytes: Vec<u8>) -> Result<(), Nonsense> {
        if bytes.len() >= HEAD_BYTES_MAX {
            return Err(Nonsense::TooLong);
        }
        let before = self.notes.held.fetch_add(bytes.len(), Ordering::Relaxed);
        self.bytes = bytes;
        if before + self.bytes.len() > HELD_BYTES_MAX { Err(Nonsense::Crowded) } else { Ok(()) }
    }

    fn take(&mut self) -> Vec<u8> {
        self.notes.held.fetch_sub(self.bytes.len(), Ordering::Relaxed);
        std::mem::take(&mut self.bytes)
    }
}

impl Clone for Held {
    fn clone(&self) -> Self {
        self.notes.held.fetch_add(self.bytes.len(), Ordering::Relaxed);
        Self { bytes: self.bytes.clone(), notes: Arc::clone(&self.notes) }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.take();
    }
}
