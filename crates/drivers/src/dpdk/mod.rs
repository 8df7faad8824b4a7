//! DPDK: a port owned by this process, polled without the kernel.
//!
//! For cards that DPDK drives and AF_XDP does not serve well, and for its virtual devices (memif,
//! virtio-user). A received frame is lent in the mbuf that the driver put it into, and a sent one is
//! written into an mbuf in place; both cross to the driver in bursts. DPDK never sleeps: neither does
//! [`Dpdk`], and a core that serves one is always busy.
//!
//! EAL is started once per process, by the first [`open`], whose choice of memory holds for all. Ports
//! can be opened and closed after that. EAL is configured to keep nothing on disk; the directory that
//! it makes all the same is removed at once.
//!
//! Needs the feature `dpdk`, a C compiler and libdpdk 22.11; without the feature [`open`] returns an
//! error. Not here: frames in several mbufs (a port's frames fit one), segmentation by the card,
//! sleeping on receive interrupts, a second process at the same port.
//!
//! Source: DPDK 22.11 Programmer's Guide, chapters on EAL, mbuf and ethdev.

#[cfg(any(feature = "dpdk", test))]
mod burst;
#[cfg(feature = "dpdk")]
mod eal;
mod error;
#[cfg(feature = "dpdk")]
mod port;
#[cfg(feature = "dpdk")]
mod port_setup;
#[cfg(feature = "dpdk")]
mod queue;
#[cfg(feature = "dpdk")]
mod shim;
#[cfg(not(feature = "dpdk"))]
mod stub;

pub use error::DpdkError;

#[cfg(feature = "dpdk")]
pub use port_setup::open;
#[cfg(feature = "dpdk")]
pub use queue::{Dpdk, Frame};
#[cfg(not(feature = "dpdk"))]
pub use stub::{Dpdk, Frame, open};

/// True if DPDK is built in.
pub const BUILT: bool = cfg!(feature = "dpdk");

/// Memory of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Huge pages, as many as needed; required by cards.
    Huge,
    /// Ordinary pages, which no card can access: for virtual devices.
    Plain {
        /// Maximum for all ports of this process, in MiB, 64..=65536.
        mib: u32,
    },
}

/// Options of a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Pairs of a receive and a transmit queue, 1..=256.
    pub queues: u16,
    /// MTU, 576..=9216; `None`: the port's own.
    pub mtu: Option<u16>,
    /// Memory of frames; the first port's choice holds for the process.
    pub memory: Memory,
    /// Ring size in each direction of a queue, in frames, 64..=32768.
    pub frames: u16,
    /// Received frames per queue that may be held before the driver runs short of mbufs, 0..=65536.
    pub held: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { queues: 1, mtu: None, memory: Memory::Huge, frames: 1024, held: 6144 }
    }
}

/// An open port.
#[derive(Debug)]
pub struct Opened {
    /// The driver, such as `net_af_packet`.
    pub driver: String,
    /// The port's hardware address.
    pub mac: [u8; 6],
    /// MTU.
    pub mtu: u16,
    /// True if the port spreads flows over the queues by RSS. Otherwise frames of a flow may change
    /// queues.
    pub rss: bool,
    /// True if the port computes TCP checksums of sent frames.
    pub tx_checksum: bool,
    /// True if the port verifies TCP checksums of received frames.
    pub rx_checksum: bool,
    /// One device per queue, queue 0 first. The port is closed with the last of them.
    pub devices: Vec<Dpdk>,
}

impl Opened {
    /// Summary in one line: `net_tap, 2 queues, RSS, checksums by the port`.
    #[must_use]
    pub fn summary(&self) -> String {
        let queues = match (self.devices.len(), self.rss) {
            (1, _) => "1 queue".to_owned(),
            (n, true) => format!("{n} queues, RSS"),
            (n, false) => format!("{n} queues, no RSS"),
        };
        let checksums = match (self.tx_checksum, self.rx_checksum) {
            (true, true) => "checksums by the port",
            (true, false) => "sent checksums by the port",
            (false, true) => "received checksums by the port",
            (false, false) => "checksums in software",
        };
        format!("{}, {queues}, {checksums}", self.driver)
    }
}
