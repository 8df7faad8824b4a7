//! `--device`: where frames come from, in one place for every command.
//!
//! [`Kind`] reads the text, [`Kind::open`] makes the devices, one for each
//! queue, [`Wrapped`] puts a bad path and a capture around one. All kinds come
//! out as one type, [`AnyDevice`], so that a server is compiled once.

use std::fmt;
use std::fs::File;
use std::io::{BufWriter, ErrorKind};
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use host::afxdp::{self, Claimant, Mode};
use host::dpdk::{self, Memory};
use host::interface::Interface;
use host::packet::{self, Fanout};
use host::{Tap, address};
use net::Device;
use net::device::fault::{Faulty, Rates};
use net::device::pcap::{Pace, Tee};
use queueing::Rng;

use crate::Error;
use crate::address::Addresses;
use crate::error::plain;

mod any;
mod capture;
#[cfg(test)]
mod tests;
mod xdp;

pub use any::{AnyDevice, Wrapped};

/// What `--device` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A new TAP device.
    Tap {
        /// Its name.
        name: String,
        /// Its queues.
        queues: u16,
    },
    /// Packet sockets on an interface.
    Packet {
        /// The interface.
        name: String,
        /// How to open it.
        options: packet::Options,
    },
    /// AF_XDP on an interface.
    Xdp {
        /// The interface.
        name: String,
        /// How to open it.
        options: afxdp::Options,
    },
    /// A port of DPDK.
    Dpdk {
        /// The device with its driver's arguments, as DPDK writes it.
        device: String,
        /// How to open it.
        options: dpdk::Options,
    },
    /// A capture that is played back.
    Pcap {
        /// The file.
        path: PathBuf,
        /// How fast.
        pace: Pace,
    },
}

/// The texts that [`Kind`] reads, for help and errors.
pub const KINDS: &str = "tap:NAME, packet:INTERFACE, xdp:INTERFACE, dpdk:DEVICE or pcap:FILE";

/// Devices that are open.
pub struct Open {
    /// One for each queue.
    pub devices: Vec<AnyDevice>,
    /// The hardware address to use; `None`: one of our own.
    pub mac: Option<[u8; 6]>,
    /// The largest IP packet, 68..=9216.
    pub mtu: u16,
    /// Received frames that may be held at once, if the device has a bound.
    pub held: Option<usize>,
    /// Becomes true when nothing more will come.
    pub over: Arc<AtomicBool>,
    /// How it was opened, if that is more than the text says.
    pub how: Option<String>,
    /// Says which frames are ours, on an interface that is shared by frame.
    pub claimant: Option<Claimant>,
}

/// What `no-huge` means when it says no more: enough for some 20 queues.
const PLAIN: Memory = Memory::Plain { mib: 512 };
/// The largest MTU that the stack takes.
const MTU_MAX: u16 = 9216;
/// The smallest that carries IPv6 (RFC 8200 §5).
const MTU_IPV6: u16 = 1280;

impl FromStr for Kind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::new(format!("device {text:?} is not {KINDS}")).advice("--device tap:gw0");
        let (kind, rest) = text.split_once(':').ok_or_else(bad)?;
        if kind == "pcap" {
            let (path, pace) = match rest.strip_suffix(",fast") {
                Some(path) => (path, Pace::Fast),
                None => (rest, Pace::Captured),
            };
            return Ok(Self::Pcap { path: path.into(), pace });
        }
        let mut words = rest.split(',');
        let name = words.next().unwrap_or_default().to_owned();
        let mut read = Self::named(kind, name).ok_or_else(bad)?;
        for word in words {
            read.set(word).ok_or_else(|| {
                let valid = read.valid();
                Error::new(format!("device {text:?}: {word:?} is not one of {valid}")).advice(format!(
                    "--device {kind}:{rest}",
                    rest = rest.split(',').next().unwrap_or_default()
                ))
            })?;
        }
        Ok(read)
    }
}

impl Kind {
    fn named(kind: &str, name: String) -> Option<Self> {
        Some(match kind {
            "tap" => Self::Tap { name, queues: 1 },
            "packet" => Self::Packet { name, options: packet::Options::default() },
            "xdp" => Self::Xdp { name, options: afxdp::Options::default() },
            "dpdk" => Self::Dpdk { device: name, options: dpdk::Options::default() },
            _ => return None,
        })
    }

    /// The options that may follow the name.
    fn valid(&self) -> &'static str {
        match self {
            Self::Tap { .. } => "queues=1..=256",
            Self::Packet { .. } => "queues=1..=256, fanout=flow, fanout=queue",
            Self::Xdp { .. } => {
                "mode=native, mode=skb, zerocopy, queues=1..=256, frames=64, 128 ..=32768, busy-poll, hugepages"
            }
            Self::Dpdk { .. } => {
                "queues=1..=256, mtu=576..=9216, no-huge, no-huge=64..=65536 (MiB), DRIVER-ARGUMENT=VALUE"
            }
            Self::Pcap { .. } => "fast",
        }
    }

    /// Takes one option in; `None` when there is no such.
    fn set(&mut self, word: &str) -> Option<()> {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let queues_given = || value.parse().ok().filter(|n| (1..=256).contains(n));
        match (self, key, value) {
            (Self::Tap { queues, .. }, "queues", _) => *queues = queues_given()?,
            (Self::Packet { options, .. }, "queues", _) => options.sockets = queues_given()?,
            (Self::Packet { options, .. }, "fanout", "flow") => options.fanout = Fanout::Flow,
            (Self::Packet { options, .. }, "fanout", "queue") => options.fanout = Fanout::Queue,
            (Self::Xdp { options, .. }, "queues", _) => options.queues = Some(queues_given()?),
            (Self::Xdp { options, .. }, "frames", _) => {
                options.frames = value.parse().ok().filter(|n: &u32| n.is_power_of_two())?;
                (64..=32_768).contains(&options.frames).then_some(())?;
            }
            (Self::Xdp { options, .. }, "mode", "native") => options.mode = Some(Mode::Native),
            (Self::Xdp { options, .. }, "mode", "skb") => options.mode = Some(Mode::Generic),
            (Self::Xdp { options, .. }, _, "") => match word {
                "zerocopy" => options.zerocopy = true,
                "busy-poll" => options.busy_poll = true,
                "hugepages" => options.hugepages = true,
                _ => return None,
            },
            (Self::Dpdk { options, .. }, "queues", _) => options.queues = queues_given()?,
            (Self::Dpdk { options, .. }, "mtu", _) => {
                options.mtu = Some(value.parse().ok().filter(|mtu| (576..=9216).contains(mtu))?);
            }
            (Self::Dpdk { options, .. }, _, "") if word == "no-huge" => options.memory = PLAIN,
            (Self::Dpdk { options, .. }, "no-huge", _) => {
                let mib = value.parse().ok().filter(|mib| (64..=65_536).contains(mib))?;
                options.memory = Memory::Plain { mib };
            }
            // The driver's, which reads it; behind a dot whatever it says.
            (Self::Dpdk { .. }, "" | ".", _) => return None,
            (Self::Dpdk { device, .. }, _, _) => {
                device.push(',');
                device.push_str(word.strip_prefix('.').unwrap_or(word));
            }
            _ => return None,
        }
        Some(())
    }

    /// Whether the kernel has an end of its own, with an address of its own.
    #[must_use]
    pub fn has_kernel_end(&self) -> bool {
        matches!(self, Self::Tap { .. })
    }

    /// Who else uses the device, where that is not the kernel's end, in words.
    #[must_use]
    pub fn company(&self) -> &'static str {
        match self {
            Self::Dpdk { .. } => "DPDK has the port, and a core polls it",
            _ => "other addresses are the kernel's",
        }
    }

    /// Whether somebody is at the other end.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !matches!(self, Self::Pcap { .. })
    }

    /// The interface, if it is one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Tap { name, .. } | Self::Packet { name, .. } | Self::Xdp { name, .. } => Some(name),
            Self::Dpdk { .. } | Self::Pcap { .. } => None,
        }
    }

    /// Makes the devices for stacks with these addresses and this secret.
    ///
    /// # Errors
    /// Whatever keeps them from being made; nothing is left behind.
    pub fn open(&self, addresses: &Addresses, secret: [u8; 16]) -> Result<Open, Error> {
        let advice = match self.has_kernel_end() {
            true => "--addr in another subnet, such as 10.78.0.2/24",
            false => "--addr with an address of the subnet that nobody has",
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

    /// Keeps other stacks of ours from these addresses on this device while what
    /// is returned lives.
    ///
    /// # Errors
    /// One has them already.
    pub fn take(&self, addresses: &Addresses) -> Result<Vec<OwnedFd>, Error> {
        let Some(name) = self.name() else { return Ok(Vec::new()) };
        let take = |addr: IpAddr| {
            address::take(name, addr).map_err(|e| match e.kind() {
                ErrorKind::AddrInUse => {
                    Error::new(format!("address {addr} is in use: another greenwave has it on {name}"))
                        .advice("--addr with an address of the subnet that nobody has")
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
                    eprintln!(
                        "note: this machine forwards packets (net.ipv4.ip_forward=1) and will send on what is for us; xdp:{name} keeps it from that"
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
                let heard =
                    addresses.are_found().then(|| packet::eavesdrop(&opened.interface)).transpose()?;
                let mut ear = heard.map(Box::new);
                let with_ear = |queue| AnyDevice::Xdp(xdp::Xdp { queue, ear: ear.take() });
                let devices = opened.devices.into_iter().map(with_ear).collect();
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
                let (mac, frames) = capture::look_through(path, &addresses.given().collect::<Vec<_>>())?;
                let replay = capture::replay(path, *pace, over.clone())?;
                let how = Some(format!("{frames} frames"));
                let devices = vec![AnyDevice::Replay(Box::new(replay))];
                Ok(Open { devices, mac: Some(mac), mtu: MTU_MAX, held: None, over, how, claimant })
            }
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tap { name, .. } => write!(f, "tap:{name}"),
            Self::Packet { name, .. } => write!(f, "packet:{name}"),
            Self::Xdp { name, .. } => write!(f, "xdp:{name}"),
            Self::Dpdk { device, .. } => write!(f, "dpdk:{device}"),
            Self::Pcap { path, .. } => write!(f, "pcap:{}", path.display()),
        }
    }
}

/// Refuses an address that this machine has already: the kernel would answer
/// for it, or send answers elsewhere.
pub fn not_the_kernels(addr: IpAddr, advice: &str) -> Result<(), Error> {
    if address::is_ours(addr) {
        let what = format!("address {addr} is in use: this machine has it already");
        return Err(Error::new(what).advice(advice));
    }
    Ok(())
}

/// Puts around `device` the path that `fault` describes and a capture of what
/// passes between path and stack.
///
/// # Errors
/// When the capture cannot be written.
pub fn wrap<D: Device>(device: D, fault: Option<Rates>, pcap: Option<&Path>) -> Result<Wrapped<D>, Error> {
    let log = |path: &Path| File::create(path).map(BufWriter::new).map_err(|e| Error::file(path, &e));
    let bad = |e: std::io::Error| Error::new(format!("pcap: {e}"));
    let faulty = |device, rates| Faulty::new(device, rates, &Rng::seeded(FAULT_SEED));
    Ok(match (fault, pcap) {
        (None, None) => Wrapped::Plain(device),
        (Some(rates), None) => Wrapped::Faulty(Box::new(faulty(device, rates))),
        (None, Some(path)) => Wrapped::Tee(Box::new(Tee::new(device, log(path)?).map_err(bad)?)),
        (Some(rates), Some(path)) => {
            Wrapped::Both(Box::new(Tee::new(faulty(device, rates), log(path)?).map_err(bad)?))
        }
    })
}

/// Of the faults: each start decides alike.
const FAULT_SEED: u64 = 1;
