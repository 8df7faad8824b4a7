//! A capture file as a device: our address in it, and its end.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use net::Device;
use net::device::pcap::{Replay, ReplayPace};
use queueing::Time;

use crate::Error;
use crate::address::list;

/// A file that reports its end.
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

/// Replays `path`; `over` becomes true after its last frame.
pub(super) fn replay(path: &Path, pace: ReplayPace, over: Arc<AtomicBool>) -> Result<Replay<Ending>, Error> {
    let file = File::open(path).map_err(|e| Error::file(path, &e).advice(WRITERS))?;
    Replay::new(Ending { file: BufReader::new(file), over }, pace).map_err(|e| damaged(path, &e))
}

/// Reads `path` to its end: the hardware address of `ours` in it, and the number of frames. Finds a
/// damaged capture now instead of halfway through the replay.
pub(super) fn scan(path: &Path, ours: &[IpAddr]) -> Result<([u8; 6], u64), Error> {
    let mut replay = replay(path, ReplayPace::Fast, Arc::default())?;
    let (mut mac, mut other) = (None, None);
    while let Some(received) = replay.receive(Time::ZERO) {
        if let Some((target, addr)) = target(&received.frame) {
            match ours.contains(&addr) {
                true => mac = mac.or(Some(target)),
                false => other = other.or(Some(addr)),
            }
        }
        replay.recycle(received.frame);
    }
    if let Some(e) = replay.error() {
        return Err(damaged(path, e));
    }
    let no_such_frame = || {
        let error = Error::new(format!("{}: no frame has the destination {}", path.display(), list(ours)));
        match other {
            Some(other) => {
                let prefix = if other.is_ipv4() { 24 } else { 64 };
                error.advice(format!("--addr {other}/{prefix}, the destination of the first packet"))
            }
            None => error.advice("a capture with IP packets"),
        }
    };
    Ok((mac.ok_or_else(no_such_frame)?, replay.counters().played))
}

fn damaged(path: &Path, e: &dyn std::fmt::Display) -> Error {
    Error::new(format!("{} {e}", path.display())).advice(WRITERS)
}

/// Destination of a unicast IP packet.
fn target(frame: &[u8]) -> Option<([u8; 6], IpAddr)> {
    let mac = *frame.first_chunk::<6>()?;
    let addr: IpAddr = match frame.get(12..14)? {
        [0x08, 0x00] => Ipv4Addr::from(*frame.get(30..)?.first_chunk::<4>()?).into(),
        [0x86, 0xdd] => Ipv6Addr::from(*frame.get(38..)?.first_chunk::<16>()?).into(),
        _ => return None,
    };
    (mac[0] & 1 == 0).then_some((mac, addr))
}

/// Programs that write captures that can be replayed.
const WRITERS: &str = "a file written by tcpdump -w FILE or serve --pcap FILE";
