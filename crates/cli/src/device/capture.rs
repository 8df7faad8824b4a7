//! A capture as a device: who we are in it, and when it is over.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use net::Device;
use net::device::pcap::{Pace, Replay};
use queueing::Time;

use crate::Error;

/// A file that says when it has been read to its end.
#[derive(Debug)]
pub struct Ending {
    file: BufReader<File>,
    over: Arc<AtomicBool>,
}

impl Read for Ending {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let got = self.file.read(buf)?;
        if got == 0 && !buf.is_empty() {
            self.over.store(true, Ordering::Relaxed);
        }
        Ok(got)
    }
}

/// Plays `path`; `over` becomes true after its last frame.
pub(super) fn replay(path: &Path, pace: Pace, over: Arc<AtomicBool>) -> Result<Replay<Ending>, Error> {
    let file = File::open(path).map_err(|e| Error::file(path, &e).advice(WRITERS))?;
    Replay::new(Ending { file: BufReader::new(file), over }, pace).map_err(|e| damaged(path, &e))
}

/// Reads `path` to its end: the hardware address of `ours` in it, and how many
/// frames it holds. A capture that is damaged is found now, not when it has
/// been half played.
pub(super) fn look_through(path: &Path, ours: Ipv4Addr) -> Result<([u8; 6], u64), Error> {
    let mut replay = replay(path, Pace::Fast, Arc::default())?;
    let (mut mac, mut other) = (None, None);
    while let Some(received) = replay.receive(Time::ZERO) {
        if let Some((target, addr)) = target(&received.frame) {
            match addr == ours {
                true => mac = mac.or(Some(target)),
                false => other = other.or(Some(addr)),
            }
        }
        replay.recycle(received.frame);
    }
    if let Some(e) = replay.error() {
        return Err(damaged(path, e));
    }
    let nobody = || {
        let error = Error::new(format!("{}: no frame is for {ours}", path.display()));
        match other {
            Some(other) => error.advice(format!("--addr {other}/24, whom the first packet is for")),
            None => error.advice("a capture with IPv4 packets"),
        }
    };
    Ok((mac.ok_or_else(nobody)?, replay.counters().played))
}

fn damaged(path: &Path, e: &dyn std::fmt::Display) -> Error {
    Error::new(format!("{} {e}", path.display())).advice(WRITERS)
}

/// Whom an IPv4 frame is for.
fn target(frame: &[u8]) -> Option<([u8; 6], Ipv4Addr)> {
    let addr = frame.get(30..34)?.first_chunk::<4>()?;
    let mac = *frame.first_chunk::<6>()?;
    (frame[12..14] == [8, 0]).then(|| (mac, Ipv4Addr::from(*addr)))
}

/// What writes captures that can be played.
const WRITERS: &str = "a file written by tcpdump -w FILE or serve --pcap FILE";
