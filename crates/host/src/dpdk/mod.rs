//! DPDK: a port that is this process's alone, polled without the kernel.
//!
//! For cards that DPDK drives and AF_XDP does not serve well, and for its
//! virtual devices (memif, virtio-user). A received frame is lent out in the
//! mbuf that the driver put it into, and a sent one is written into an mbuf in
//! place; both cross to the driver in bursts. DPDK never sleeps: neither does
//! [`Dpdk`], and a core that serves one is always busy.
//!
//! EAL is started once in a process, by the first [`open`], whose choice of
//! memory holds for all. Ports come and go after that. EAL is told to keep
//! nothing on disk; what it makes all the same is removed at once.
//!
//! Built by the feature `dpdk` alone, since it takes a C compiler and
//! libdpdk 22.11; without it [`open`] says so. Not here: frames spread over
//! several mbufs (a port's frames fit one), segmentation by the card, sleeping
//! on receive interrupts, a second process at the same port.
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

/// Whether DPDK is built in.
pub const BUILT: bool = cfg!(feature = "dpdk");

/// Where frames lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// In huge pages, as many as it takes; what cards need.
    Huge,
    /// In ordinary pages, which no card can reach: for virtual devices.
    Plain {
        /// The most that all ports of this process may use, in MiB, 64..=65536.
        mib: u32,
    },
}

/// How to open a port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Pairs of a receive and a transmit queue, 1..=256.
    pub queues: u16,
    /// The largest packet, without the Ethernet header, 576..=9216; `None`: as
    /// the port has it.
    pub mtu: Option<u16>,
    /// Where frames lie; the first port's choice holds for the process.
    pub memory: Memory,
    /// Frames that each direction of a queue holds, 64..=32768.
    pub frames: u16,
    /// Received frames of a queue that may be out at once before the driver
    /// has too few to receive into, 0..=65536.
    pub held: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self { queues: 1, mtu: None, memory: Memory::Huge, frames: 1024, held: 6144 }
    }
}

/// A port that is open.
#[derive(Debug)]
pub struct Opened {
    /// The driver, such as `net_af_packet`.
    pub driver: String,
    /// The port's hardware address.
    pub mac: [u8; 6],
    /// The largest packet, without the Ethernet header.
    pub mtu: u16,
    /// Whether the port spreads flows over the queues by their hash. Without
    /// that its driver does as it likes: frames of a flow may change queues.
    pub rss: bool,
    /// Whether the port completes TCP checksums of what is sent.
    pub tx_checksum: bool,
    /// Whether the port verifies TCP checksums of what is received.
    pub rx_checksum: bool,
    /// One device for each queue, queue 0 first. The port is closed with the
    /// last of them.
    pub devices: Vec<Dpdk>,
}

impl Opened {
    /// How it was opened, in a line: `net_tap, 2 queues, RSS, checksums by the port`.
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
