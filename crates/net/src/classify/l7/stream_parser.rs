//! The stream of one connection, piece by piece.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{HEAD_BYTES_MAX, HELD_BYTES_MAX, Nonsense, Notes, Protocol, Request, Step, Then, step};

/// Who is told of requests.
pub trait RequestVisitor {
    /// A request's head is complete; what is answered is remembered as its mark.
    fn begun(&mut self, protocol: &Protocol, request: &Request<'_>) -> u64;
    /// The piece holds bytes of the request with this mark: once for each
    /// request of a piece, and not before its head is complete.
    fn touched(&mut self, mark: u64);
    /// The request's last byte is here.
    fn ended(&mut self);
}

/// Reads one connection.
#[derive(Clone)]
pub struct StreamParser {
    protocol: Protocol,
    notes: Arc<Notes>,
    /// Number of the next stream byte.
    next: u64,
    /// Bytes that concern nobody, and what comes behind them.
    skip: u64,
    then: Then,
    /// The request that the bytes belong to.
    mark: Option<u64>,
    /// The start of what is not all there.
    held: Held,
    given_up: bool,
}

impl StreamParser {
    /// A reader of a connection that speaks `protocol`, from stream byte `start` on.
    #[must_use]
    pub fn new(protocol: Protocol, notes: Arc<Notes>, start: u64) -> Self {
        let held = Held { bytes: Vec::new(), notes: Arc::clone(&notes) };
        Self { protocol, notes, next: start, skip: 0, then: Then::Head, mark: None, held, given_up: false }
    }

    /// Whether the stream made no sense.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.given_up
    }

    /// Whether it knows where the requests of `protocol` end, in all of the
    /// stream before byte `start`.
    #[must_use]
    pub fn is_in_sync(&self, protocol: &Protocol, start: u64) -> bool {
        !self.given_up && self.protocol == *protocol && start <= self.next
    }

    /// From now on others are told, and count in `notes`. The request under
    /// way has begun without them: its mark is 0.
    pub fn set_visitor(&mut self, notes: Arc<Notes>) {
        let bytes = self.held.take();
        notes.held.fetch_add(bytes.len(), Ordering::Relaxed);
        self.held = Held { bytes, notes: Arc::clone(&notes) };
        self.notes = notes;
        self.mark = self.mark.map(|_| 0);
    }

    /// Takes in the piece of the stream that starts at byte `start`; what was
    /// seen before counts once.
    pub fn read(&mut self, start: u64, piece: &[u8], visit: &mut dyn RequestVisitor) {
        if self.given_up {
            return;
        }
        if start > self.next {
            return self.give_up(Nonsense::Gap);
        }
        let seen = (self.next - start).min(piece.len() as u64) as usize;
        let fresh = &piece[seen..];
        self.next += fresh.len() as u64;
        if let Some(mark) = self.mark {
            visit.touched(mark);
        }
        if let Err(why) = self.take(fresh, visit) {
            self.give_up(why);
        }
    }

    fn take(&mut self, fresh: &[u8], visit: &mut dyn RequestVisitor) -> Result<(), Nonsense> {
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

    /// Goes as far as whole steps go; the bytes that they took.
    fn walk(&mut self, bytes: &[u8], visit: &mut dyn RequestVisitor) -> Result<usize, Nonsense> {
        let mut at = 0;
        loop {
            let passed = self.skip.min((bytes.len() - at) as u64);
            self.skip -= passed;
            at += passed as usize;
            if self.skip == 0 && self.then == Then::Head && self.mark.take().is_some() {
                visit.ended();
            }
            if at == bytes.len() {
                return Ok(at);
            }
            let mark = &mut self.mark;
            let step = step(&self.protocol, self.then, &bytes[at..], &mut |request| {
                let begun = visit.begun(&self.protocol, request);
                visit.touched(begun);
                *mark = Some(begun);
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
    fn give_up(&mut self, why: Nonsense) {
        self.notes.given_up[why as usize].fetch_add(1, Ordering::Relaxed);
        self.given_up = true;
        self.mark = None;
        self.held.take();
    }
}

/// Bytes that count towards what all may hold.
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
