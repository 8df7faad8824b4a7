//! Setup of a port, until it is started or closed again.

use std::ffi::{CStr, CString};
use std::ptr::NonNull;
use std::sync::Arc;

use super::burst::BURST;
use super::eal::{self, Eal};
use super::error::{DpdkError, is_pci};
use super::port::{Pool, Port, close};
use super::queue::Dpdk;
use super::shim::{self, Mempool, RSS, RX_CHECKSUM, RawPort, RteDevice, TX_CHECKSUM};
use super::{Opened, Options};

/// Opens `device`: a PCI address or the name of a virtual device, with the driver's arguments, in
/// DPDK's notation: `net_af_packet0,iface=eth0,qpairs=2`. Virtual devices look for network interfaces
/// in this thread's network namespace.
///
/// # Errors
/// The reason, with a remedy. Nothing is left behind.
///
/// # Panics
/// An option is outside its range.
pub fn open(device: &str, options: &Options) -> Result<Opened, DpdkError> {
    let Options { queues, mtu, frames, held, .. } = *options;
    assert!((1..=256).contains(&queues), "{queues} queues are outside 1..=256");
    assert!((64..=32_768).contains(&frames), "{frames} frames are outside 64..=32768");
    assert!(held <= 65_536, "{held} frames held are outside 0..=65536");
    let name = name_of(device);
    let bytes = usize::from(queues) * mbufs(options) as usize * (room(mtu.unwrap_or(1500)) + MBUF);
    let mib = bytes.div_ceil(1 << 20) + SPARE_MIB;
    let mut eal = eal::lock();
    eal.start(options.memory, device, mib)?;
    let opening = Opening::probe(&mut eal, device, &name)?;
    let described = opening.described;
    if queues > described.queues_max {
        return Err(DpdkError::Queues { name, asked: queues, there: described.queues_max });
    }
    let chosen = mtu.unwrap_or(described.mtu);
    if chosen < MTU_MIN {
        return Err(DpdkError::MtuSmall { name, mtu: chosen, min: MTU_MIN });
    }
    let mtu_max = described.mtu_max.min(MTU_MAX);
    if chosen > mtu_max {
        return Err(DpdkError::MtuLarge { name, mtu: chosen, max: mtu_max });
    }
    let can = |what| described.can & what != 0;
    let rss = queues > 1 && can(RSS);
    let uses = described.can & (TX_CHECKSUM | RX_CHECKSUM) | if rss { RSS } else { 0 };
    let port = opening.start(&mut eal, &name, options, chosen, uses, mib)?;
    drop(eal);
    let port = Arc::new(port);
    let devices = (0..queues).map(|queue| Dpdk::new(port.clone(), queue, chosen, can(TX_CHECKSUM)));
    let devices = devices.collect();
    // SAFETY: the shim ends the text with a NUL.
    let driver = unsafe { CStr::from_ptr(described.driver.as_ptr()) }.to_string_lossy().into_owned();
    let [tx_checksum, rx_checksum] = [TX_CHECKSUM, RX_CHECKSUM].map(can);
    Ok(Opened { driver, mac: described.mac, mtu: chosen, rss, tx_checksum, rx_checksum, devices })
}

/// The driver's error without the port's name, with which some drivers begin.
fn refusal(name: &str, what: &'static str, why: &str) -> DpdkError {
    let why = why.strip_prefix(name).and_then(|why| why.strip_prefix(": ")).unwrap_or(why);
    DpdkError::Refused { name: name.to_owned(), what, why: why.to_owned() }
}

/// DPDK's name of the port of `device`.
fn name_of(device: &str) -> String {
    let name = device.split(',').next().unwrap_or_default();
    match is_pci(name) && name.len() == "01:00.0".len() {
        true => format!("0000:{name}"),
        false => name.to_owned(),
    }
}

/// Mbufs of one queue: both rings, the held frames, and the device's bursts.
fn mbufs(options: &Options) -> u32 {
    2 * u32::from(options.frames) + options.held + 8 * BURST as u32
}

/// Bytes of an mbuf for headroom and frame.
fn room(mtu: u16) -> usize {
    HEADROOM + (ETHERNET + usize::from(mtu)).max(ROOM_MIN)
}

/// A port that is probed but not started; closed on drop.
struct Opening {
    id: u16,
    device: NonNull<RteDevice>,
    described: RawPort,
    pools: Vec<Pool>,
}

impl Opening {
    fn probe(eal: &mut Eal, device: &str, name: &str) -> Result<Self, DpdkError> {
        let unknown = || DpdkError::Unknown(name.to_owned());
        let refused = |what| move |(_, why): (i32, String)| refusal(name, what, &why);
        let c_device = CString::new(device).map_err(|_| unknown())?;
        let c_name = CString::new(name).map_err(|_| unknown())?;
        let mut id = 0;
        let mut find = || {
            // SAFETY: a string and a number that live through the call.
            unsafe { shim::rte_eth_dev_get_port_by_name(c_name.as_ptr(), &raw mut id) }
        };
        if find() == 0 {
            return Err(DpdkError::InUse(name.to_owned()));
        }
        // SAFETY: a string that lives through the call; the lock is held.
        let probed = eal.ask(|| unsafe { shim::rte_dev_probe(c_device.as_ptr()) });
        probed.map_err(|(code, why)| match -code {
            libc::EFAULT | libc::ENODEV => unknown(),
            _ => refused("to attach")((code, why)),
        })?;
        // A device, but no network port.
        eal.ask(find).map_err(|_| unknown())?;
        let mut described = NO_PORT;
        // SAFETY: a description that lives through the call.
        let asked = eal.ask(|| unsafe { shim::gw_describe(id, &raw mut described) });
        let device = NonNull::new(described.device);
        let Some(device) = device.filter(|_| asked.is_ok()) else {
            // SAFETY: the port was probed above and is not in use.
            unsafe { shim::rte_eth_dev_close(id) };
            return Err(refused("to say what it is")(asked.err().unwrap_or_default()));
        };
        Ok(Self { id, device, described, pools: Vec::new() })
    }

    fn start(
        mut self,
        eal: &mut Eal,
        name: &str,
        options: &Options,
        mtu: u16,
        uses: u32,
        mib: usize,
    ) -> Result<Port, DpdkError> {
        // SAFETY: returns a number.
        let socket = unsafe { shim::rte_eth_dev_socket_id(self.id) };
        for _ in 0..options.queues {
            let pool = Pool::new(mbufs(options), room(mtu) as u16, socket);
            self.pools.push(pool.ok_or_else(|| DpdkError::NoMemory { name: name.to_owned(), mib })?);
        }
        let mut pools: Vec<*mut Mempool> = self.pools.iter().map(|pool| pool.0.as_ptr()).collect();
        let mtu = options.mtu.unwrap_or(0);
        // SAFETY: a pool for each queue; the lock is held, and the port is not in use.
        let started = eal.ask(|| unsafe {
            shim::gw_start(self.id, options.queues, options.frames, mtu, uses, pools.as_mut_ptr())
        });
        started.map_err(|(_, why)| refusal(name, "to start", &why))?;
        let port = Port { id: self.id, device: self.device, pools: std::mem::take(&mut self.pools) };
        std::mem::forget(self);
        Ok(port)
    }
}

impl Drop for Opening {
    /// The caller holds the lock of EAL.
    fn drop(&mut self) {
        close(self.id, self.device, &self.pools);
    }
}

const NO_PORT: RawPort = RawPort {
    device: std::ptr::null_mut(),
    driver: [0; 32],
    mac: [0; 6],
    mtu: 0,
    mtu_max: 0,
    queues_max: 0,
    can: 0,
};
/// Minimum MTU: every IPv4 host must accept such packets (RFC 1122 §3.3.2).
const MTU_MIN: u16 = 576;
/// Maximum MTU of the stack.
const MTU_MAX: u16 = 9216;
/// Bytes of an Ethernet header with two tags.
const ETHERNET: usize = 22;
/// Headroom before a frame, `RTE_PKTMBUF_HEADROOM`.
const HEADROOM: usize = 128;
/// Memory for DPDK and its drivers in addition to frames, in MiB.
const SPARE_MIB: usize = 4;
/// Minimum buffer size that all drivers accept.
const ROOM_MIN: usize = 2048;
/// Bytes of an mbuf besides its buffer: two cache lines of `struct rte_mbuf`, one of the pool's, and
/// alignment.
const MBUF: usize = 256;
