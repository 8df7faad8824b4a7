//! The text of `--device`, as a [`DeviceKind`] of device.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use drivers::afxdp::{self, Mode};
use drivers::dpdk::{self, Memory};
use drivers::packet::{self, Fanout};
use net::device::pcap::ReplayPace;

use crate::Error;

/// A parsed `--device`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceKind {
    /// A new TAP device.
    Tap {
        /// Interface name.
        name: String,
        /// Number of queues.
        queues: u16,
    },
    /// Packet sockets on an interface.
    Packet {
        /// The interface.
        name: String,
        /// Open options.
        options: packet::Options,
    },
    /// AF_XDP on an interface.
    Xdp {
        /// The interface.
        name: String,
        /// Open options.
        options: afxdp::Options,
    },
    /// A port of DPDK.
    Dpdk {
        /// The device with its driver's arguments, as DPDK writes it.
        device: String,
        /// Open options.
        options: dpdk::Options,
    },
    /// A capture that is replayed.
    Pcap {
        /// The capture file.
        path: PathBuf,
        /// Replay speed.
        pace: ReplayPace,
    },
}

/// The texts that [`DeviceKind`] reads, for help and errors.
const KINDS: &str = "tap:NAME, packet:INTERFACE, xdp:INTERFACE, dpdk:DEVICE or pcap:FILE";

/// Meaning of `no-huge` without a size: enough for about 20 queues.
const PLAIN: Memory = Memory::Plain { mib: 512 };
impl FromStr for DeviceKind {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::new(format!("device {text:?} is not {KINDS}")).advice("--device tap:gw0");
        let (kind, rest) = text.split_once(':').ok_or_else(bad)?;
        if kind == "pcap" {
            let (path, pace) = match rest.strip_suffix(",fast") {
                Some(path) => (path, ReplayPace::Fast),
                None => (rest, ReplayPace::Captured),
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

impl DeviceKind {
    fn named(kind: &str, name: String) -> Option<Self> {
        Some(match kind {
            "tap" => Self::Tap { name, queues: 1 },
            "packet" => Self::Packet { name, options: packet::Options::default() },
            "xdp" => Self::Xdp { name, options: afxdp::Options::default() },
            "dpdk" => Self::Dpdk { device: name, options: dpdk::Options::default() },
            _ => return None,
        })
    }

    /// The valid options after the name.
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

    /// Applies one option; `None` if there is no such option.
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
            // DPDK's driver reads these; behind a dot any text.
            (Self::Dpdk { .. }, "" | ".", _) => return None,
            (Self::Dpdk { device, .. }, _, _) => {
                device.push(',');
                device.push_str(word.strip_prefix('.').unwrap_or(word));
            }
            _ => return None,
        }
        Some(())
    }

    /// True if the kernel has an end of its own, with its own address.
    #[must_use]
    pub fn has_kernel_end(&self) -> bool {
        matches!(self, Self::Tap { .. })
    }

    /// The other user of the device, where that is not the kernel's end, as text.
    #[must_use]
    pub fn polling(&self) -> &'static str {
        match self {
            Self::Dpdk { .. } => "DPDK owns the port, and a core polls it",
            Self::Pcap { .. } => "the capture is played back, and nothing is sent",
            _ => "the kernel keeps the other addresses",
        }
    }

    /// True if there is a peer at the other end.
    #[must_use]
    pub fn is_live(&self) -> bool {
        !matches!(self, Self::Pcap { .. })
    }

    /// The interface, if the device is one.
    #[must_use]
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Tap { name, .. } | Self::Packet { name, .. } | Self::Xdp { name, .. } => Some(name),
            Self::Dpdk { .. } | Self::Pcap { .. } => None,
        }
    }
}

impl fmt::Display for DeviceKind {
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
