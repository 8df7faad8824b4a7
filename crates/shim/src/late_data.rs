//! Data received after the program has shut down reading (`shutdown(SHUT_RD)`).
//!
//! TCP still delivers it, but a socket pair takes nothing for an end that has shut down reading. The
//! data waits in a second pair, both ends of which belong to the stack's process, and the library
//! requests it ([`Request::Late`](super::Request::Late)). The kernel bounds that pair, so the peer's
//! window closes as it would. Source: `tcp_recvmsg_locked` of Linux (net/ipv4/tcp.c).

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, recv, socketpair};

/// Late data of all connections.
#[derive(Debug, Default)]
pub(super) struct LateData(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    /// Ends from which the data is read, by number of the connection.
    ends: BTreeMap<u64, OwnedFd>,
    /// Connections that have ended, oldest first: their programs may still read.
    ended: VecDeque<u64>,
}

/// Maximum number of ended connections whose late data is kept.
const ENDED_MAX: usize = 256;

impl LateData {
    /// Starts keeping late data of connection `id`: the end to write it to. `None` if there is no
    /// descriptor left.
    pub(super) fn open(&self, id: u64) -> Option<OwnedFd> {
        let (write, read) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None).ok()?;
        self.table().ends.insert(id, read);
        Some(write)
    }

    /// Reads late data of connection `id` into `bytes`, which are not empty; `peek` leaves it.
    /// Returns its length.
    pub(super) fn read(&self, id: u64, bytes: &mut [u8], peek: bool) -> usize {
        let flags = if peek { RecvFlags::DONTWAIT | RecvFlags::PEEK } else { RecvFlags::DONTWAIT };
        let table = self.table();
        table.ends.get(&id).and_then(|end| recv(end, bytes, flags).ok()).map_or(0, |(len, _)| len)
    }

    /// Ends connection `id`, whose late data may still be read.
    pub(super) fn end(&self, id: u64) {
        let mut table = self.table();
        table.ended.push_back(id);
        if table.ended.len() > ENDED_MAX
            && let Some(oldest) = table.ended.pop_front()
        {
            table.ends.remove(&oldest);
        }
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use rustix::net::{SendFlags, send};

    use super::*;

    //~ programs: data that arrives after SHUT_RD is read, as from the kernel's TCP
    #[test]
    fn late_data_is_read_in_order_and_kept_for_a_while_after_the_end() {
        let late = LateData::default();
        let mut bytes = [0; 8];
        assert_eq!(late.read(7, &mut bytes, false), 0, "none yet");
        let end = late.open(7).expect("a descriptor");
        assert_eq!(send(&end, b"sixsix", SendFlags::empty()), Ok(6));
        assert_eq!((late.read(7, &mut bytes, true), late.read(7, &mut bytes[..4], false)), (6, 4));
        drop(end);
        late.end(7);
        assert_eq!((late.read(7, &mut bytes, false), &bytes[..2]), (2, &b"ix"[..]));
        assert_eq!(late.read(7, &mut bytes, false), 0);
        (8..8 + ENDED_MAX as u64).for_each(|id| late.end(id));
        assert!(late.table().ends.is_empty(), "the oldest is dropped");
    }
}
