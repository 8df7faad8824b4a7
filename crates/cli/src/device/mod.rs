//! `--device`: the source of frames, common to all commands.
//!
//! [`DeviceKind`] is the parsed text, [`DeviceKind::open`] opens one device per queue, [`WrappedDevice`] adds
//! injected faults and a capture. All kinds share one type, [`AnyDevice`], so that a server is
//! compiled once.

use std::io::ErrorKind;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use drivers::afxdp::{self, Claimant};
use drivers::{Tap, dpdk, packet};
use host::address;
use host::interface::Interface;
use net::Device;
use net::device::fault_injector::{FaultInjector, Rates};
use net::device::pcap::PcapTap;
use queueing::{Bytes, Rng};

use crate::Error;
use crate::address::Addresses;
use crate::error::plain;

mod any_device;
mod capture;
pub mod kind;
mod link_monitor;
mod record;
#[cfg(test)]
mod tests;
mod xdp;

pub use any_device::{AnyDevice, WrappedDevice};
pub use kind::DeviceKind;
pub use link_monitor::LinkMonitor;
pub use record::Recording;

/// Open devices.
pub struct Open {
    /// One for each queue.
    pub devices: Vec<AnyDevice>,
    /// Hardware address of the device; `None`: use a generated one.
    pub mac: Option<[u8; 6]>,
    /// The largest IP packet, 68..=9216.
    pub mtu: u16,
    /// Received frames that may be held at once, if the device has a bound.
    pub held: Option<usize>,
    /// Becomes true when no more frames will come.
    pub over: Arc<AtomicBool>,
    /// Description of the open mode, if it says more than the text.
    pub how: Option<String>,
    /// Claims frames for us, on an interface that is shared by frame.
    pub claimant: Option<Claimant>,
}

/// The largest MTU that the stack supports.
const MTU_MAX: u16 = 9216;
/// The smallest MTU that carries IPv6 (RFC 8200 §5).
const MTU_IPV6: u16 = 1280;

impl DeviceKind {
    /// Opens the devices for stacks with these addresses and this secret.
    ///
    /// # Errors
    /// The reason they cannot be opened; nothing is left behind.
    pub fn open(&self, addresses: &Addresses, secret: [u8; 16]) -> Result<Open, Error> {
        let advice = match self.has_kernel_end() {
            true => "--addr in another subnet, such as 10.78.0.2/24",
            false => "--addr with an unused address of the subnet",
        };
        for addr in addresses.given().chain(addresses.kernel.iter().map(|end| end.addr)) {
            if self.is_live() {
                not_the_kernels(addr, advice)?;
            }
        }
        let open = self.open_unchecked(addresses, secret)?;
        if addresses.has_ipv6() && open.mtu < MTU_IPV6 {
            let (name, advice) = match self.name() {
                Some(name) => (name.to_owned(), format!("ip link set {name} mtu {MTU_IPV6}")),
                None => (self.to_string(), format!("mtu={MTU_IPV6}")),
            };
            let what = format!("{name}: mtu {} is below {MTU_IPV6}, which IPv6 needs", open.mtu);
            return Err(Error::new(what).advice(advice));
        }
        Ok(open)
    }

    /// Checks that the device exists on this machine, where [`open`](Self::open) does not create
    /// it.
    ///
    /// # Errors
    /// The errors of [`open`](Self::open).
    pub fn check(&self) -> Result<(), Error> {
        match self {
            Self::Packet { name, .. } | Self::Xdp { name, .. } => Ok(Interface::find(name).map(drop)?),
            Self::Pcap { path, pace } => capture::replay(path, *pace, Arc::default()).map(drop),
            Self::Tap { .. } | Self::Dpdk { .. } => Ok(()),
        }
    }

    /// Reason for which the driving process keeps capabilities and all system calls, if any.
    #[must_use]
    pub fn kept(&self) -> Option<&'static str> {
        matches!(self, Self::Dpdk { .. }).then_some("DPDK's drivers make calls of their own")
    }

    /// Keeps other greenwave stacks from these addresses on this device until the result is
    /// dropped.
    ///
    /// # Errors
    /// Another stack has one of them.
    pub fn take(&self, addresses: &Addresses) -> Result<Vec<OwnedFd>, Error> {
        let Some(name) = self.name() else { return Ok(Vec::new()) };
        let take = |addr: IpAddr| {
            address::take(name, addr).map_err(|e| match e.kind() {
                ErrorKind::AddrInUse => {
                    Error::new(format!("address {addr} is in use: another greenwave has it on {name}"))
                        .advice("--addr with an unused address of the subnet")
                }
                _ => Error::new(format!("taking {addr} on {name}: {}", plain(&e.to_string()))),
            })
        };
        addresses.given().map(take).collect()
    }

    fn open_unchecked(&self, addresses: &Addresses, secret: [u8; 16]) -> Result<Open, Error> {
        let over = Arc::new(AtomicBool::new(false));
        let claimant = None;
        match self {
            Self::Tap { name, queues } => {
                let taps = Tap::create_queues(name, *queues)?;
                taps[0].up_bare()?;
                for end in &addresses.kernel {
                    taps[0].up(end.addr, end.prefix)?;
                }
                let devices = taps.into_iter().map(AnyDevice::Tap).collect();
                Ok(Open { devices, mac: None, mtu: 1500, held: None, over, how: None, claimant })
            }
            Self::Packet { name, options } => {
                let (interface, sockets) = packet::open(name, options)?;
                if address::forwards() {
                    errln!(
                        "note: this machine forwards packets (net.ipv4.ip_forward=1) and also forwards frames that are addressed to greenwave; xdp:{name} prevents that"
                    );
                }
                let devices = sockets.into_iter().map(AnyDevice::Packet).collect();
                let mtu = interface.mtu.min(MTU_MAX);
                Ok(Open { devices, mac: Some(interface.mac), mtu, held: None, over, how: None, claimant })
            }
            Self::Xdp { name, options } => {
                let claims = addresses.claims(Interface::find(name)?.mac, secret);
                let opened = afxdp::open(name, options, &claims)?;
                let (mac, mtu) = (Some(opened.interface.mac), opened.interface.mtu.min(MTU_MAX));
                let how = Some(opened.summary());
                let copy = addresses.are_found().then(|| packet::open_copy(&opened.interface)).transpose()?;
                let mut packet_socket = copy.map(Box::new);
                let with_packet_socket =
                    |queue| AnyDevice::Xdp(xdp::Xdp { queue, packet_socket: packet_socket.take() });
                let devices = opened.devices.into_iter().map(with_packet_socket).collect();
                let claimant = Some(opened.claimant);
                Ok(Open { devices, mac, mtu, held: Some(options.held as usize), over, how, claimant })
            }
            Self::Dpdk { device, options } => {
                let opened = dpdk::open(device, options)?;
                let (mac, mtu, how) = (Some(opened.mac), opened.mtu, Some(opened.summary()));
                let devices = opened.devices.into_iter().map(AnyDevice::Dpdk).collect();
                let held = Some(options.held as usize);
                Ok(Open { devices, mac, mtu, held, over, how, claimant: None })
            }
            Self::Pcap { path, pace } => {
                let (mac, frames) = capture::scan(path, &addresses.given().collect::<Vec<_>>())?;
                let replay = capture::replay(path, *pace, over.clone())?;
                let how = Some(format!("{frames} frames"));
                let devices = vec![AnyDevice::Replay(Box::new(replay))];
                Ok(Open { devices, mac: Some(mac), mtu: MTU_MAX, held: None, over, how, claimant })
            }
        }
    }
}

/// Refuses an address that this machine has already: the kernel would answer for it, or route
/// answers elsewhere.
pub fn not_the_kernels(addr: IpAddr, advice: &str) -> Result<(), Error> {
    if address::is_ours(addr) {
        let what = format!("address {addr} is in use: this machine has it already");
        return Err(Error::new(what).advice(advice));
    }
    Ok(())
}

/// Wraps `device` in the faults of `fault` and a capture of the frames between them and the stack,
/// up to the given size.
///
/// # Errors
/// The capture cannot be written.
pub fn wrap<D: Device>(
    device: D,
    fault: Option<Rates>,
    pcap: Option<(&Path, Bytes)>,
) -> Result<WrappedDevice<D>, Error> {
    let log = |path: (&Path, Bytes)| Recording::create(path.0, path.1);
    let bad = |e: std::io::Error| Error::new(format!("pcap: {}", plain(&e.to_string())));
    let faulty = |device, rates| FaultInjector::new(device, rates, &Rng::seeded(FAULT_SEED));
    Ok(match (fault, pcap) {
        (None, None) => WrappedDevice::Plain(device),
        (Some(rates), None) => WrappedDevice::Faulty(Box::new(faulty(device, rates))),
        (None, Some(path)) => WrappedDevice::Tee(Box::new(PcapTap::new(device, log(path)?).map_err(bad)?)),
        (Some(rates), Some(path)) => {
            WrappedDevice::Both(Box::new(PcapTap::new(faulty(device, rates), log(path)?).map_err(bad)?))
        }
    })
}

/// Seed of the faults: every start draws the same.
const FAULT_SEED: u64 = 1;
