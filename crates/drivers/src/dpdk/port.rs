//! A started port, closed with its last queue.

use std::ffi::CString;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use super::eal;
use super::shim::{self, Mempool, RteDevice};

/// A started port.
#[derive(Debug)]
pub(super) struct Port {
    pub id: u16,
    pub device: NonNull<RteDevice>,
    /// Mbuf pools, by queue.
    pub pools: Vec<Pool>,
}

// SAFETY: the pointers are to objects that DPDK keeps for the port; `Port` uses them only while EAL is
// locked.
unsafe impl Send for Port {}

// SAFETY: a shared `Port` gives out its number and its pools' addresses only.
unsafe impl Sync for Port {}

/// Mbuf pool of one queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pool(pub NonNull<Mempool>);

impl Port {
    /// Mbuf pool of `queue`.
    pub(super) fn pool(&self, queue: u16) -> Pool {
        self.pools[usize::from(queue)]
    }
}

impl Drop for Port {
    fn drop(&mut self) {
        let _eal = eal::lock();
        close(self.id, self.device, &self.pools);
    }
}

/// Closes a port that no queue uses any more, with EAL locked. Errors are of no use here.
pub(super) fn close(id: u16, device: NonNull<RteDevice>, pools: &[Pool]) {
    // SAFETY: the caller is the port's only owner, started or not; the device is the port's and lives
    // until now; the port's queues return their mbufs.
    unsafe { shim::gw_close(id, device.as_ptr()) };
    pools.iter().for_each(|pool| pool.free());
}

impl Pool {
    /// `count` mbufs with `room` bytes each for headroom and frame.
    pub(super) fn new(count: u32, room: u16, socket: i32) -> Option<Self> {
        static SERIAL: AtomicU32 = AtomicU32::new(0);
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let name = CString::new(format!("greenwave_{serial}")).expect("no NUL");
        // Without DPDK's caches, which are for threads that EAL knows.
        // SAFETY: the name lives through the call.
        let pool = unsafe { shim::rte_pktmbuf_pool_create(name.as_ptr(), count, 0, 0, room, socket) };
        NonNull::new(pool).map(Self)
    }

    /// Frees the pool, unless a frame is still lent: then its memory must stay.
    fn free(self) {
        // SAFETY: the pool lives: it is freed once, with its port.
        if unsafe { shim::gw_is_full(self.0.as_ptr()) } != 0 {
            // SAFETY: all mbufs are in it, so none is in use.
            unsafe { shim::rte_mempool_free(self.0.as_ptr()) };
        }
    }
}
