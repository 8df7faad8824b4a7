//! AF_XDP socket with its memory and four rings, and the system calls that drive them.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::time::Duration;

use libc::{
    SOL_XDP, XDP_MMAP_OFFSETS, XDP_OPTIONS, XDP_OPTIONS_ZEROCOPY, XDP_PGOFF_RX_RING, XDP_PGOFF_TX_RING,
    XDP_RX_RING, XDP_TX_RING, XDP_UMEM_COMPLETION_RING, XDP_UMEM_FILL_RING, XDP_UMEM_PGOFF_COMPLETION_RING,
    XDP_UMEM_PGOFF_FILL_RING, XDP_UMEM_REG, XDP_USE_NEED_WAKEUP, XDP_ZEROCOPY,
};

use super::ring::{Consumer, Producer};
use super::ring_mmap::Shared;
use super::umem::Umem;
use host::sockopt;

pub(super) type Descriptor = libc::xdp_desc;

/// A bound socket.
#[derive(Debug)]
pub(super) struct Socket {
    fd: OwnedFd,
    pub(super) fill: Producer<Shared<u64>>,
    pub(super) completed: Consumer<Shared<u64>>,
    pub(super) received: Consumer<Shared<Descriptor>>,
    pub(super) sending: Producer<Shared<Descriptor>>,
}

/// Opens an AF_XDP socket.
pub(super) fn open() -> io::Result<OwnedFd> {
    // SAFETY: a plain call; its result is checked.
    let fd = unsafe { libc::socket(libc::AF_XDP, libc::SOCK_RAW | libc::SOCK_CLOEXEC, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

impl Socket {
    /// Registers the memory of `fd`, and sets up rings of `slots` slots and a fill ring of
    /// `fill_slots`.
    pub(super) fn set_up(
        fd: OwnedFd,
        umem: &Umem,
        chunk: usize,
        slots: u32,
        fill_slots: u32,
    ) -> io::Result<Self> {
        let region = libc::xdp_umem_reg {
            addr: umem.address(),
            len: umem.len() as u64,
            chunk_size: chunk as u32,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        };
        sockopt::set(&fd, SOL_XDP, XDP_UMEM_REG, &region)?;
        sockopt::set(&fd, SOL_XDP, XDP_UMEM_FILL_RING, &fill_slots)?;
        for ring in [XDP_UMEM_COMPLETION_RING, XDP_RX_RING, XDP_TX_RING] {
            sockopt::set(&fd, SOL_XDP, ring, &slots)?;
        }
        // SAFETY: a structure of integers.
        let offsets: libc::xdp_mmap_offsets = unsafe { sockopt::get(&fd, SOL_XDP, XDP_MMAP_OFFSETS)? };
        // One call sends a whole batch. Linux before 6.17 stays at 32 frames.
        let _ = sockopt::set(&fd, SOL_XDP, XDP_MAX_TX_SKB_BUDGET, &slots.min(TX_BUDGET));
        let fill = Shared::map(&fd, XDP_UMEM_PGOFF_FILL_RING as i64, &offsets.fr, fill_slots)?;
        let completed = Shared::map(&fd, XDP_UMEM_PGOFF_COMPLETION_RING as i64, &offsets.cr, slots)?;
        let received = Shared::map(&fd, XDP_PGOFF_RX_RING, &offsets.rx, slots)?;
        let sending = Shared::map(&fd, XDP_PGOFF_TX_RING, &offsets.tx, slots)?;
        Ok(Self {
            fd,
            fill: Producer::new(fill, fill_slots),
            completed: Consumer::new(completed, slots),
            received: Consumer::new(received, slots),
            sending: Producer::new(sending, slots),
        })
    }

    /// Binds to a queue, with `zerocopy` or as the driver prefers. Waits for a queue whose last socket
    /// was just closed, which is busy for some milliseconds.
    pub(super) fn bind(&self, index: u32, queue: u32, zerocopy: bool) -> io::Result<()> {
        let address = libc::sockaddr_xdp {
            sxdp_family: libc::AF_XDP as u16,
            sxdp_flags: XDP_USE_NEED_WAKEUP | if zerocopy { XDP_ZEROCOPY } else { 0 },
            sxdp_ifindex: index,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        let mut tries = BUSY_WAIT.as_millis();
        loop {
            let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
            // SAFETY: the address lives through the call and has this length.
            let bound = unsafe { libc::bind(self.fd.as_raw_fd(), (&raw const address).cast(), len) };
            if bound == 0 {
                return Ok(());
            }
            let error = io::Error::last_os_error();
            if error.raw_os_error() != Some(libc::EBUSY) || tries == 0 {
                return Err(error);
            }
            tries -= 1;
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// True if frames are not copied between kernel and us.
    pub(super) fn is_zerocopy(&self) -> bool {
        // SAFETY: a structure of integers.
        let options = unsafe { sockopt::get::<libc::xdp_options>(&self.fd, SOL_XDP, XDP_OPTIONS) };
        options.is_ok_and(|options| options.flags & XDP_OPTIONS_ZEROCOPY != 0)
    }

    /// Frames that the kernel dropped: no slot in the receive ring, or no chunk to fill.
    pub(super) fn dropped(&self) -> u64 {
        // SAFETY: a structure of integers.
        let counts = unsafe { sockopt::get::<libc::xdp_statistics>(&self.fd, SOL_XDP, libc::XDP_STATISTICS) };
        counts.map_or(0, |counts| counts.rx_dropped + counts.rx_ring_full)
    }

    /// Enables busy polling: our system calls do the card's work, `budget` frames at a time, in place
    /// of its interrupts.
    pub(super) fn busy_poll(&self, micros: i32, budget: i32) -> io::Result<()> {
        sockopt::set(&self.fd, libc::SOL_SOCKET, SO_PREFER_BUSY_POLL, &1_i32)?;
        sockopt::set(&self.fd, libc::SOL_SOCKET, SO_BUSY_POLL, &micros)?;
        sockopt::set(&self.fd, libc::SOL_SOCKET, SO_BUSY_POLL_BUDGET, &budget)
    }

    /// Wakes the kernel for the fill ring, or polls the card.
    pub(super) fn kick_receive(&self) {
        // SAFETY: no buffer; nothing is written.
        unsafe {
            libc::recvfrom(
                self.fd.as_raw_fd(),
                std::ptr::null_mut(),
                0,
                libc::MSG_DONTWAIT,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
    }

    /// Wakes the kernel to send from the transmit ring; true if it must be called again, because the
    /// link was busy or frames exceeded the limit of one call.
    pub(super) fn kick_send(&self) -> bool {
        // SAFETY: no buffer and no address; nothing is read.
        let sent = unsafe {
            libc::sendto(self.fd.as_raw_fd(), std::ptr::null(), 0, libc::MSG_DONTWAIT, std::ptr::null(), 0)
        };
        // The link is busy or out of buffers: retry later.
        sent < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::EAGAIN)
    }
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Maximum wait for a busy queue; 10 to 13 ms are usual.
const BUSY_WAIT: Duration = Duration::from_millis(50);

/// Frames per call if the kernel copies them (linux/if_xdp.h).
const XDP_MAX_TX_SKB_BUDGET: i32 = 9;
const TX_BUDGET: u32 = 256;

/// Options of the generic architectures, asm-generic/socket.h.
const SO_BUSY_POLL: i32 = 46;
const SO_PREFER_BUSY_POLL: i32 = 69;
const SO_BUSY_POLL_BUDGET: i32 = 70;
