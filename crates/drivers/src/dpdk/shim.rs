//! Bindings to DPDK's functions and to those of `shim.h`.

use std::ffi::{c_char, c_int, c_uint};

/// A frame's buffer, `struct rte_mbuf`; opaque.
#[repr(C)]
pub(super) struct Mbuf {
    _opaque: [u8; 0],
}

/// An mbuf pool, `struct rte_mempool`.
#[repr(C)]
pub(super) struct Mempool {
    _opaque: [u8; 0],
}

/// `struct rte_device`.
#[repr(C)]
pub(super) struct RteDevice {
    _opaque: [u8; 0],
}

/// `struct gw_frame`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawFrame {
    pub mbuf: *mut Mbuf,
    pub data: *mut u8,
    pub len: u16,
    pub note: u16,
}

impl RawFrame {
    /// No frame.
    pub const NONE: Self = Self { mbuf: std::ptr::null_mut(), data: std::ptr::null_mut(), len: 0, note: 0 };
}

pub(super) const CHECKED: u16 = 1;
pub(super) const CHAINED: u16 = 2;

/// `struct gw_port`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RawPort {
    pub device: *mut RteDevice,
    pub driver: [c_char; 32],
    pub mac: [u8; 6],
    pub mtu: u16,
    pub mtu_max: u16,
    pub queues_max: u16,
    pub can: u32,
}

pub(super) const TX_CHECKSUM: u32 = 1;
pub(super) const RX_CHECKSUM: u32 = 2;
pub(super) const RSS: u32 = 4;

// From the shim.
unsafe extern "C" {
    pub(super) fn gw_init(argc: c_int, argv: *mut *mut c_char) -> c_int;
    pub(super) fn gw_log() -> *const c_char;
    pub(super) fn gw_forget();
    pub(super) fn gw_describe(port: u16, out: *mut RawPort) -> c_int;
    pub(super) fn gw_start(
        port: u16,
        queues: u16,
        frames: u16,
        mtu: u16,
        uses: u32,
        pools: *mut *mut Mempool,
    ) -> c_int;
    pub(super) fn gw_close(port: u16, device: *mut RteDevice);
    pub(super) fn gw_receive(port: u16, queue: u16, frames: *mut RawFrame, max: u16) -> u16;
    pub(super) fn gw_take(pool: *mut Mempool, frames: *mut RawFrame, count: u16) -> u16;
    pub(super) fn gw_send(port: u16, queue: u16, frames: *const RawFrame, count: u16, bad: *mut u64) -> u16;
    pub(super) fn gw_is_full(pool: *const Mempool) -> c_int;
}

// From DPDK.
unsafe extern "C" {
    pub(super) fn rte_strerror(code: c_int) -> *const c_char;
    pub(super) fn rte_eal_get_runtime_dir() -> *const c_char;
    pub(super) fn rte_dev_probe(devargs: *const c_char) -> c_int;
    pub(super) fn rte_eth_dev_get_port_by_name(name: *const c_char, port: *mut u16) -> c_int;
    pub(super) fn rte_eth_dev_socket_id(port: u16) -> c_int;
    pub(super) fn rte_eth_dev_close(port: u16) -> c_int;
    pub(super) fn rte_pktmbuf_pool_create(
        name: *const c_char,
        count: c_uint,
        cache: c_uint,
        private_len: u16,
        data_room: u16,
        socket: c_int,
    ) -> *mut Mempool;
    pub(super) fn rte_mempool_free(pool: *mut Mempool);
    pub(super) fn rte_pktmbuf_free_bulk(mbufs: *mut *mut Mbuf, count: c_uint);
}
