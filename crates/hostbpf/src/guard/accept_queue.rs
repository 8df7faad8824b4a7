//! Accept queues of guarded ports: length of each, and age of the first connection.
//!
//! Listeners are read from the kernel's socket table ([`Listeners`]), a walk that takes longer the more
//! memory the machine has: once a second, and while a listener is missing. The queues are read at every
//! control step by the BPF program `gw_look`, which is run on a query in place of a frame.
//!
//! Source: bpf(2) `BPF_PROG_TEST_RUN`; `bpf/queues.h`.

use std::io;
use std::os::fd::OwnedFd;

use queueing::{Span, Time};

use super::map_layout::QUEUES;
use super::sock_diag::{Listener, Listeners};
use crate::bpf;

/// A listener's accept queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Queue {
    pub port: u16,
    pub waiting: u32,
    pub room: u32,
    /// Identifies the first connection in it; 0 if it is empty.
    pub first: u64,
    /// Time at which that was established; `None` if the queue is empty or the time is unknown.
    pub since: Option<Time>,
}

/// Bytes of `struct question` and of `struct queue`.
const QUESTION: usize = 24;
pub(super) const QUEUE: usize = 16;

/// Interval between reads of the socket table.
const TABLE_PERIOD: Span = Span::from_secs(1);

/// Reader of the accept queues of some ports.
#[derive(Debug)]
pub(super) struct Queues {
    listeners: Listeners,
    ports: Vec<u16>,
    /// Listeners of the last read of the socket table, one per address, port and device.
    known: Vec<Listener>,
    /// Time of the next read of the socket table.
    due: Time,
    found: Vec<Queue>,
    /// A query and its result.
    frame: Vec<u8>,
}

impl Queues {
    /// Reader for this thread's network namespace, in which it must stay.
    pub fn new(ports: &[u16]) -> io::Result<Self> {
        Ok(Self {
            listeners: Listeners::new()?,
            ports: ports.to_vec(),
            known: Vec::new(),
            due: Time::ZERO,
            found: Vec::new(),
            frame: vec![0; QUESTION + QUEUE * QUEUES],
        })
    }

    /// Number of waiting connections of each guarded port, and the ports with a listener.
    pub fn sample(&mut self) -> io::Result<(Vec<u64>, Vec<u16>)> {
        let (mut waiting, mut open) = (vec![0; self.ports.len()], Vec::new());
        self.listeners.each(None, |listener| {
            let of_port = self.ports.iter().zip(&mut waiting).find(|(port, _)| **port == listener.port);
            of_port.into_iter().for_each(|(_, waiting)| *waiting += u64::from(listener.waiting));
            open.push(listener.port);
        })?;
        open.sort_unstable();
        open.dedup();
        Ok((waiting, open))
    }

    /// Number of connections of each guarded port.
    pub fn connections(&mut self) -> io::Result<Vec<u32>> {
        self.ports.iter().map(|&port| self.listeners.connections(port)).collect()
    }

    /// Queues found by `gw_look`, in no particular order.
    pub fn observe(&mut self, program: &OwnedFd, now: Time) -> io::Result<&[Queue]> {
        if now < self.due && self.read_queues(program)? {
            return Ok(&self.found);
        }
        self.list()?;
        // While a listener is missing, the table is read at every control step.
        self.due = if self.read_queues(program)? { now + TABLE_PERIOD } else { now };
        Ok(&self.found)
    }

    /// Reads the socket table.
    fn list(&mut self) -> io::Result<()> {
        self.known.clear();
        let only = if let [port] = self.ports[..] { Some(port) } else { None };
        let (ports, known) = (&self.ports, &mut self.known);
        self.listeners.each(only, |listener| {
            let key = |other: &Listener| (other.target, other.port, other.device);
            if !ports.contains(&listener.port) {
                return;
            }
            match known.iter_mut().find(|other| key(other) == key(&listener)) {
                Some(other) => {
                    other.waiting += listener.waiting;
                    other.room += listener.room;
                }
                None => known.push(listener),
            }
        })
    }

    /// Reads the queues of all known listeners; true if all were found.
    fn read_queues(&mut self, program: &OwnedFd) -> io::Result<bool> {
        self.found.clear();
        let mut all = true;
        for listener in &self.known {
            let count = query(program, listener, &mut self.frame)?;
            all &= count > 0;
            if count == 0 {
                let Listener { port, waiting, room, .. } = *listener;
                self.found.push(Queue { port, waiting, room, first: 0, since: None });
            }
            let queues = self.frame[QUESTION..].chunks_exact(QUEUE).take(count);
            self.found.extend(queues.map(|bytes| read(listener.port, bytes)));
        }
        Ok(all)
    }
}

/// Number of queues that the program finds behind a listener's address and port; they follow the query
/// in `frame`.
fn query(program: &OwnedFd, listener: &Listener, frame: &mut [u8]) -> io::Result<usize> {
    let mut query = [0; QUESTION + QUEUE * QUEUES];
    query[..16].copy_from_slice(&listener.target);
    query[16..18].copy_from_slice(&listener.port.to_be_bytes());
    query[18..20].copy_from_slice(&u16::from(listener.is_v6).to_ne_bytes());
    if listener.device == 0 {
        let (found, _) = bpf::run(program, &query, &mut [], frame)?;
        return Ok((found as usize).min(QUEUES));
    }
    // `struct xdp_md`: a listener bound to a device is found by its ingress interface.
    let words = [0, query.len() as u32, 0, listener.device, 0, 0];
    let mut context = words.map(u32::to_ne_bytes).concat();
    let result = bpf::run(program, &query, &mut context, frame);
    Ok(result.map_or(0, |(found, _)| (found as usize).min(QUEUES)))
}

/// `struct queue`. Its last word is the time at which the first connection was made, or, if that is
/// unknown, the connection's address in the kernel, which has the highest bit.
pub(super) fn read(port: u16, bytes: &[u8]) -> Queue {
    let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u32::from_ne_bytes(*word));
    let first = bytes[8..].first_chunk().map_or(0, |word| u64::from_ne_bytes(*word));
    let (waiting, room) = (word(0), word(4));
    let first = if waiting > 0 { first } else { 0 };
    let since = (1..1 << 63).contains(&first).then(|| Time::from_nanos(first));
    Queue { port, waiting, room, first, since }
}
