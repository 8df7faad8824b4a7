//! Device, addresses and classifier of a stack: arguments common to `serve` and `run`.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;

use classify::rules::Observed;
use net::Device;
use net::device::fault_injector::Rates;
use net::device::multi_queue::MultiQueue;
use queueing::Bytes;
use runtime::mode::Classifiers;

use crate::address::{Addresses, KernelEnd, RequestedAddress, Scoped};
use crate::device::{self, DeviceKind, WrappedDevice};
use crate::{Error, check, dry_run};

/// The arguments.
#[derive(clap::Args)]
pub struct NetworkArgs {
    /// Network device (needs root, except pcap):
    /// tap:NAME[,queues=N], a new TAP device;
    /// xdp:INTERFACE[,mode=native|skb][,zerocopy][,queues=N][,frames=N]
    /// [,busy-poll][,hugepages], an AF_XDP socket;
    /// packet:INTERFACE[,queues=N][,fanout=flow|queue], packet sockets;
    /// dpdk:DEVICE[,queues=N][,mtu=N][,no-huge[=MIB]][,ARGUMENT=VALUE],
    /// a DPDK port and its driver's arguments, if built in;
    /// pcap:FILE[,fast], replay of a capture.
    // Brackets are literal text of the help, not links.
    #[allow(rustdoc::broken_intra_doc_links)]
    #[arg(long, value_name = "KIND:NAME", verbatim_doc_comment)]
    pub device: String,
    /// Addresses of the stack with prefix lengths: 10.77.0.2/24,
    /// fd00::2/64; dhcp for IPv4 by DHCP; slaac for IPv6 from router
    /// advertisements; comma-separated, or repeat the flag.
    #[arg(long, required = true, value_name = "ADDRESSES", value_delimiter = ',', verbatim_doc_comment)]
    pub addr: Vec<RequestedAddress>,
    /// Kernel's address on a TAP device [default: first free one of the subnet].
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',')]
    pub host_addr: Vec<KernelEnd>,
    /// Gateways, one for each address family
    /// [default: the kernel's address, or from dhcp and slaac].
    #[arg(long, value_name = "ADDRESS", value_delimiter = ',', verbatim_doc_comment)]
    pub gateway: Vec<Scoped<IpAddr>>,
    /// Policy file: rules that give requests priorities (see `greenwave check`).
    #[arg(long, value_name = "FILE")]
    pub policy: Option<PathBuf>,
    /// Write every frame to this file in pcap format.
    #[arg(long, value_name = "FILE")]
    pub pcap: Option<PathBuf>,
    /// Maximum size of the --pcap file; later frames are not written.
    #[arg(long, value_name = "SIZE", requires = "pcap", default_value = "1024MiB", value_parser = pcap_max)]
    pub pcap_max: Bytes,
    /// Network impairments to emulate, such as loss=1%,delay=5ms.
    #[arg(long, value_name = "FAULTS")]
    pub fault: Option<Rates>,
}

/// A size of at least the file's header and one frame.
fn pcap_max(text: &str) -> Result<Bytes, String> {
    let size: Bytes = text.parse().map_err(|e: queueing::ParseBytesError| e.to_string())?;
    match size.get() {
        0..=4095 => Err(format!("{text:?} is less than 4096B")),
        _ => Ok(size),
    }
}

impl NetworkArgs {
    /// The device, and the addresses on it.
    ///
    /// # Errors
    /// Unparsable or contradictory arguments.
    pub fn plan(&self) -> Result<(DeviceKind, Addresses), Error> {
        let kind: DeviceKind = self.device.parse()?;
        let addresses = Addresses::plan(&kind, &self.addr, &self.host_addr, &self.gateway)?;
        Ok((kind, addresses))
    }

    /// Checks the given device and addresses before anything is opened; `has` is true for a given
    /// flag's name. Does not check if an address or a name is in use.
    ///
    /// # Errors
    /// The errors of [`plan`](Self::plan); a device that cannot exist.
    pub fn check(&self, has: &dyn Fn(&str) -> bool) -> Result<(), Error> {
        if !has("device") {
            return Ok(());
        }
        let kind = if has("addr") { self.plan()?.0 } else { self.device.parse()? };
        kind.check()
    }

    /// Device, addresses and policy, for a plan.
    ///
    /// # Errors
    /// The errors of [`plan`](Self::plan); a device that cannot exist.
    pub fn rows(&self) -> Result<Vec<dry_run::PlanRow>, Error> {
        let (kind, addresses) = self.plan()?;
        kind.check()?;
        let new = if kind.has_kernel_end() { " (new)" } else { "" };
        let addr = self.addr.iter().map(ToString::to_string);
        let ends = addresses.kernel.iter().map(|end| end.addr.to_string());
        let policy = self.policy.iter().map(|path| path.display().to_string());
        Ok(vec![
            ("device", format!("{kind}{new}")),
            ("addresses", dry_run::list(addr)),
            ("kernel side", dry_run::list(ends)),
            ("policy", dry_run::list(policy)),
        ])
    }

    /// The kind of the device, as given.
    pub fn device_kind(&self) -> &str {
        self.device.split(':').next().unwrap_or_default()
    }

    /// The classifiers of the policy file, if one is named.
    ///
    /// # Errors
    /// The file's.
    pub fn classifiers(&self) -> Result<Option<(Classifiers, Arc<Observed>)>, Error> {
        let load = |path: &PathBuf| {
            check::load(path).map_err(|e| e.advice(format!("greenwave check {}", path.display())))
        };
        self.policy.as_ref().map(load).transpose()
    }

    /// Checks that the capture can be written, before anything is opened.
    ///
    /// # Errors
    /// The capture cannot be written.
    pub fn check_capture(&self) -> Result<(), Error> {
        self.pcap.as_deref().map_or(Ok(()), Error::unless_writable)
    }

    /// `devices` as one, wrapped in the requested faults and capture.
    ///
    /// # Errors
    /// The capture cannot be written.
    pub fn wrap<D: Device>(&self, devices: Vec<D>) -> Result<WrappedDevice<MultiQueue<D>>, Error> {
        let pcap = self.pcap.as_deref().map(|path| (path, self.pcap_max));
        device::wrap(MultiQueue::new(devices), self.fault, pcap)
    }
}
