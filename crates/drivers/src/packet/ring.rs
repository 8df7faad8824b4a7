//! Packet ring whose slots carry their owner.
//!
//! A slot is ours when its status says so; the status is acquired before the slot is accessed and
//! released after.

use std::io;
use std::os::fd::OwnedFd;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use libc::{SOL_PACKET, TP_STATUS_VLAN_TPID_VALID, TP_STATUS_VLAN_VALID, tpacket_req, tpacket2_hdr};

use crate::frame_pool::LARGE_LEN;
use crate::virtio_net_hdr;
use host::mapping::Mapping;
use host::sockopt;

/// Slots of one direction, visited in order.
#[derive(Debug)]
pub(super) struct Ring {
    start: NonNull<u8>,
    slot: usize,
    count: usize,
    next: usize,
    _mapping: Arc<Mapping>,
}

// SAFETY: the pointer points into a mapping that moves with it.
unsafe impl Send for Ring {}

/// Sets up receive and send rings of `count` slots of `slot` bytes, a power of two, on the socket.
pub(super) fn map_pair(fd: &OwnedFd, slot: usize, count: u32) -> io::Result<(Ring, Ring)> {
    let block = BLOCK.max(slot);
    let blocks = (count as usize * slot).div_ceil(block);
    let count = blocks * (block / slot);
    let request = tpacket_req {
        tp_block_size: block as u32,
        tp_block_nr: blocks as u32,
        tp_frame_size: slot as u32,
        tp_frame_nr: count as u32,
    };
    sockopt::set(fd, SOL_PACKET, libc::PACKET_RX_RING, &request)?;
    sockopt::set(fd, SOL_PACKET, PACKET_TX_RING, &request)?;
    // One mapping: the receive ring, followed by the send ring.
    let mapping = Mapping::of(fd, 0, 2 * blocks * block)?;
    // SAFETY: the second half of the mapping.
    let middle = unsafe { mapping.start().add(blocks * block) };
    let mapping = Arc::new(mapping);
    let ring = |start| Ring { start, slot, count, next: 0, _mapping: mapping.clone() };
    Ok((ring(mapping.start()), ring(middle)))
}

impl Ring {
    /// Status of the current slot.
    #[inline]
    pub(super) fn current(&self) -> &AtomicU32 {
        self.status(self.next)
    }

    /// Status of the previous slot.
    #[inline]
    pub(super) fn previous(&self) -> &AtomicU32 {
        self.status((self.next + self.count - 1) % self.count)
    }

    /// Advances to the next slot.
    #[inline]
    pub(super) fn advance(&mut self) {
        self.next += 1;
        if self.next == self.count {
            self.next = 0;
        }
    }

    /// Header and frame in the current slot, which is ours; `None` if the frame is longer than the slot
    /// or than any buffer of ours.
    #[inline]
    pub(super) fn received(&self) -> Option<(&virtio_net_hdr::Header, &[u8])> {
        // SAFETY: the caller has acquired the slot, and any bytes are a valid header.
        let header = unsafe { self.header().read() };
        let (at, len) = (usize::from(header.tp_mac), header.tp_snaplen as usize);
        let is_complete = header.tp_snaplen == header.tp_len && len <= LARGE_LEN;
        let fits = is_complete && at >= virtio_net_hdr::HEADER_LEN && at + len <= self.slot;
        if !fits {
            return None;
        }
        // SAFETY: within the slot, initialised by the kernel, and ours until the status changes.
        let bytes = unsafe {
            let start = self.slot_start().add(at - virtio_net_hdr::HEADER_LEN);
            std::slice::from_raw_parts(start.as_ptr(), virtio_net_hdr::HEADER_LEN + len)
        };
        bytes.split_first_chunk()
    }

    /// VLAN tag that the kernel or the card has removed from the frame in the current slot, which is
    /// ours and has this status.
    #[inline]
    pub(super) fn tag(&self, status: u32) -> Option<[u8; TAG_LEN]> {
        if status & TP_STATUS_VLAN_VALID == 0 {
            return None;
        }
        // SAFETY: the caller has acquired the slot, and any bytes are a valid header.
        let header = unsafe { self.header().read() };
        let tpid = if status & TP_STATUS_VLAN_TPID_VALID == 0 { VLAN } else { header.tp_vlan_tpid };
        let ([a, b], [c, d]) = (tpid.to_be_bytes(), header.tp_vlan_tci.to_be_bytes());
        (header.tp_vlan_tci & VLAN_ID != 0).then_some([a, b, c, d])
    }

    /// Writes a frame of `len` bytes with its header into the current slot, which is ours.
    #[inline]
    pub(super) fn fill(&mut self, len: usize, write: impl FnOnce(&mut [u8])) {
        let len = virtio_net_hdr::HEADER_LEN + len;
        assert!(DATA + len <= self.slot, "{len} bytes do not fit a slot");
        // SAFETY: within the slot, which the caller has acquired.
        write(unsafe { std::slice::from_raw_parts_mut(self.slot_start().add(DATA).as_ptr(), len) });
        // SAFETY: as above; a plain field of the header.
        unsafe { (*self.header().as_ptr()).tp_len = len as u32 };
    }

    fn status(&self, slot: usize) -> &AtomicU32 {
        // SAFETY: the status is the first word of each slot, aligned as slots
        // are, in a mapping that lives as long as `self`.
        unsafe { self.start.add(slot * self.slot).cast().as_ref() }
    }

    fn slot_start(&self) -> NonNull<u8> {
        // SAFETY: `next` is below `count`.
        unsafe { self.start.add(self.next * self.slot) }
    }

    fn header(&self) -> NonNull<tpacket2_hdr> {
        self.slot_start().cast()
    }
}

/// Bytes of a VLAN tag.
pub(super) const TAG_LEN: usize = 4;
/// Ethertype of a tag if the kernel does not report it.
const VLAN: u16 = 0x8100;
/// VLAN number in a tag; 0 is a priority tag without a VLAN.
const VLAN_ID: u16 = 0xfff;
/// Bytes of one contiguous allocation in the kernel.
const BLOCK: usize = 1 << 16;
/// Offset of the frame in a send slot.
const DATA: usize = (size_of::<tpacket2_hdr>() + 15) & !15;
const PACKET_TX_RING: i32 = 13;
