//! Errors of opening a DPDK port, with remedies.

use std::fmt;

/// Error of opening a DPDK port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DpdkError {
    /// This build lacks DPDK.
    NotBuilt,
    /// Too few huge pages.
    NoHugepages {
        /// The device as given.
        device: String,
        /// MiB needed.
        mib: usize,
        /// MiB in free huge pages.
        free: usize,
    },
    /// EAL does not start; a process cannot start it twice.
    Eal {
        /// The reason that EAL logged.
        why: String,
    },
    /// No driver of this name, or no device at this address.
    Unknown(String),
    /// This process has the port open already.
    InUse(String),
    /// The port has fewer queues.
    Queues {
        /// The port.
        name: String,
        /// Number requested.
        asked: u16,
        /// Number available.
        there: u16,
    },
    /// The MTU is too small.
    MtuSmall {
        /// The port.
        name: String,
        /// MTU.
        mtu: u16,
        /// The minimum.
        min: u16,
    },
    /// The MTU exceeds the port's maximum.
    MtuLarge {
        /// The port.
        name: String,
        /// The MTU requested, or the port's own.
        mtu: u16,
        /// The maximum.
        max: u16,
    },
    /// The frames do not fit into the memory that EAL was started with.
    NoMemory {
        /// The port.
        name: String,
        /// MiB needed.
        mib: usize,
    },
    /// The driver rejects an operation.
    Refused {
        /// The port.
        name: String,
        /// The operation.
        what: &'static str,
        /// The driver's error.
        why: String,
    },
}

impl DpdkError {
    /// A remedy, if one is known.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        Some(match self {
            Self::NotBuilt => {
                "apt-get install libdpdk-dev && cargo build --release -p cli --features dpdk".to_owned()
            }
            Self::NoHugepages { device, mib, .. } => {
                let pages = mib.div_ceil(2);
                format!(
                    "sysctl -w vm.nr_hugepages={pages}, or, with a virtual device: --device dpdk:{device},no-huge"
                )
            }
            Self::Eal { .. } => "run as root, or no-huge=MIB with less memory".to_owned(),
            Self::Unknown(name) if is_pci(name) => {
                "dpdk-devbind.py --status-dev net, for a list of NICs and their addresses".to_owned()
            }
            Self::Unknown(_) => {
                "a PCI address such as 0000:01:00.0, net_af_packet0,iface=NAME or net_tap0,iface=NAME"
                    .to_owned()
            }
            Self::InUse(_) => "another number after the driver's name, such as net_tap1".to_owned(),
            Self::Queues { there, .. } => format!("queues={there}, or the driver's argument for more queues"),
            Self::MtuSmall { min, .. } => format!("mtu=1500, or another one of at least {min}"),
            Self::MtuLarge { max, .. } => format!("mtu={max}"),
            Self::NoMemory { mib, .. } => format!("no-huge={}, or fewer queues", (2 * mib).max(64)),
            Self::Refused { name, .. } if is_pci(name) => {
                format!("dpdk-devbind.py --bind=vfio-pci {name}, if the kernel's driver uses it")
            }
            Self::Refused { .. } if !rustix::process::geteuid().is_root() => "run as root".to_owned(),
            Self::Refused { .. } => "the driver's arguments, see doc.dpdk.org/guides-22.11/nics".to_owned(),
        })
    }
}

impl fmt::Display for DpdkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotBuilt => f.write_str("this greenwave was built without DPDK"),
            Self::NoHugepages { device, mib, free } => {
                write!(f, "dpdk:{device}: frame buffers need {mib} MiB of huge pages, and {free} are free")
            }
            Self::Eal { why } => write!(f, "DPDK does not start: {why}"),
            Self::Unknown(name) if is_pci(name) => write!(f, "no PCI device {name} that DPDK can drive"),
            Self::Unknown(name) => write!(f, "DPDK has no driver for {name:?}"),
            Self::InUse(name) => write!(f, "{name} is already open"),
            Self::Queues { name, asked, there } => {
                let queues = if *there == 1 { "queue" } else { "queues" };
                write!(f, "{name} has {there} {queues}, not {asked}")
            }
            Self::MtuSmall { name, mtu, min } => write!(f, "{name}: mtu {mtu} is below {min}"),
            Self::MtuLarge { name, mtu, max } => {
                write!(f, "{name}: mtu {mtu} exceeds the port's {max}")
            }
            Self::NoMemory { name, mib } => {
                write!(f, "{name}: frame buffers need {mib} MiB, more than DPDK has free")
            }
            Self::Refused { name, what, why } => write!(f, "{name}: the driver refuses {what}: {why}"),
        }
    }
}

impl std::error::Error for DpdkError {}

/// True if `name` has the form of a PCI address: `[DOMAIN:]BUS:DEVICE.FUNCTION`.
pub(super) fn is_pci(name: &str) -> bool {
    let hex = |text: &str, len: usize| text.len() == len && text.bytes().all(|b| b.is_ascii_hexdigit());
    let mut parts = name.rsplit(':');
    let slot = parts.next().and_then(|slot| slot.split_once('.'));
    slot.is_some_and(|(device, function)| hex(device, 2) && hex(function, 1))
        && parts.next().is_some_and(|bus| hex(bus, 2))
        && parts.next().is_none_or(|domain| hex(domain, 4))
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_error_is_one_line_and_says_what_helps() {
        let name = || "net_tap0".to_owned();
        let why = || "no".to_owned();
        let errors = [
            DpdkError::NotBuilt,
            DpdkError::NoHugepages { device: "net_tap0,iface=gw0".to_owned(), mib: 31, free: 0 },
            DpdkError::Eal { why: why() },
            DpdkError::Unknown(name()),
            DpdkError::Unknown("0000:01:00.0".to_owned()),
            DpdkError::InUse(name()),
            DpdkError::Queues { name: name(), asked: 4, there: 1 },
            DpdkError::MtuSmall { name: name(), mtu: 500, min: 576 },
            DpdkError::MtuLarge { name: name(), mtu: 9000, max: 1504 },
            DpdkError::NoMemory { name: name(), mib: 600 },
            DpdkError::Refused { name: name(), what: "to start", why: why() },
            DpdkError::Refused { name: "01:00.0".to_owned(), what: "to start", why: why() },
        ];
        for error in errors {
            let (line, advice) = (error.to_string(), error.advice().expect("there is a remedy"));
            assert!(!line.contains('\n') && !line.is_empty(), "{line}");
            assert!(!advice.contains('\n') && !advice.is_empty(), "{line}: {advice}");
        }
        let no_pages = DpdkError::NoHugepages { device: "net_tap0".to_owned(), mib: 31, free: 0 };
        assert!(no_pages.advice().is_some_and(|advice| advice.contains("vm.nr_hugepages=16")));
    }

    #[test]
    fn pci_addresses_are_distinguished_from_virtual_devices() {
        for name in ["0000:01:00.0", "01:00.0", "ffff:ff:1f.7"] {
            assert!(is_pci(name), "{name}");
        }
        for name in ["net_tap0", "", "01:00", "1:00.0", "0:01:00.0", "0000:0000:01:00.0", "01:00.x"] {
            assert!(!is_pci(name), "{name}");
        }
    }
}
