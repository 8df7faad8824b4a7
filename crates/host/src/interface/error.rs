//! Errors of opening a driver on an interface, with remedies.

use std::fmt;
use std::io;

/// Error of opening an interface by AF_XDP or a packet socket.
#[derive(Debug)]
pub enum InterfaceError {
    /// No interface of this name.
    Missing {
        /// The name.
        name: String,
        /// Existing interfaces.
        there: Vec<String>,
    },
    /// The interface is down.
    Down(String),
    /// The interface carries no Ethernet frames.
    NotEthernet(String),
    /// The MTU is too small.
    MtuSmall {
        /// The interface.
        name: String,
        /// MTU.
        mtu: u16,
        /// The minimum.
        min: u16,
    },
    /// The MTU exceeds a frame buffer.
    MtuLarge {
        /// The interface.
        name: String,
        /// MTU.
        mtu: u16,
        /// The maximum.
        max: u16,
    },
    /// The kernel denies permission.
    NoPermission {
        /// The interface.
        name: String,
        /// The operation: "AF_XDP" or "a packet socket".
        what: &'static str,
        /// Required capabilities, as setcap names them.
        capabilities: &'static str,
    },
    /// The kernel lacks a feature.
    Unsupported {
        /// The feature.
        what: &'static str,
        /// Linux version that introduced it.
        since: &'static str,
    },
    /// Another XDP program is attached.
    XdpAttached {
        /// The interface.
        name: String,
        /// The program's ID, if known.
        id: Option<u32>,
        /// The program's name, if known.
        program: Option<String>,
    },
    /// The driver does not support XDP.
    NoNativeXdp(String),
    /// Driver or mode does not support zero-copy.
    NoZeroCopy(String),
    /// Another socket uses the queue.
    QueueBusy {
        /// The interface.
        name: String,
        /// Queue, from 0.
        queue: u16,
    },
    /// The number of queues does not match.
    Queues {
        /// The interface.
        name: String,
        /// Number requested.
        asked: u16,
        /// Number available.
        there: u16,
    },
    /// Too few huge pages.
    NoHugepages {
        /// Huge pages of 2 MiB needed.
        pages: usize,
    },
    /// Memory cannot be locked or allocated.
    NoMemory {
        /// Bytes requested.
        bytes: usize,
    },
    /// The kernel rejects an operation.
    Refused {
        /// The interface.
        name: String,
        /// The operation.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
}

impl InterfaceError {
    /// A remedy, if one is known.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Missing { there, .. } if there.is_empty() => "ip link, for a list of interfaces".to_owned(),
            Self::Missing { there, .. } => format!("one of {}", there.join(", ")),
            Self::Down(name) => format!("ip link set {name} up"),
            Self::NotEthernet(_) => "an Ethernet interface, or --device tap:gw0".to_owned(),
            Self::MtuSmall { name, .. } => format!("ip link set {name} mtu 1500"),
            Self::MtuLarge { name, max, .. } => format!("ip link set {name} mtu {max}"),
            Self::NoPermission { capabilities, .. } => {
                format!("run as root, or once: setcap {capabilities}+ep <path of greenwave>")
            }
            Self::Unsupported { since, .. } => format!("Linux {since} or newer, or --device packet:NAME"),
            Self::XdpAttached { name, id, .. } => {
                let whose =
                    id.map_or(String::new(), |id| format!("bpftool prog show id {id} shows its owner; "));
                format!("{whose}stop the owner, or detach it: ip link set {name} xdp off")
            }
            Self::NoNativeXdp(name) => format!("--device xdp:{name},mode=skb"),
            Self::NoZeroCopy(name) => format!("--device xdp:{name} (copy mode)"),
            Self::QueueBusy { name, .. } => {
                format!("stop the program that uses it; ss --xdp shows the sockets on {name}")
            }
            Self::Queues { name, asked, there } => {
                format!("queues={there}, or ethtool -L {name} combined {asked}")
            }
            Self::NoHugepages { pages } => format!("sysctl -w vm.nr_hugepages={pages}"),
            Self::NoMemory { .. } => "ulimit -l unlimited, or fewer queues".to_owned(),
            Self::Refused { .. } => return None,
        })
    }
}

impl fmt::Display for InterfaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { name, .. } => write!(f, "there is no network interface {name:?}"),
            Self::Down(name) => write!(f, "{name} is down"),
            Self::NotEthernet(name) => write!(f, "{name} is not an Ethernet interface"),
            Self::MtuSmall { name, mtu, min } => write!(f, "{name}: mtu {mtu} is below {min}"),
            Self::MtuLarge { name, mtu, max } => {
                write!(f, "{name}: mtu {mtu} exceeds the frame buffer's {max}")
            }
            Self::NoPermission { name, what, capabilities } => {
                let all = capabilities.to_uppercase().replace(',', ", ");
                write!(f, "{name}: no permission for {what}: it needs {all}")
            }
            Self::Unsupported { what, since } => write!(f, "this kernel has no {what} (needs Linux {since})"),
            Self::XdpAttached { name, id, program } => {
                write!(f, "{name}: an XDP program is already attached")?;
                if let Some(id) = id {
                    write!(f, ": id {id}")?;
                }
                match program {
                    Some(program) => write!(f, ", {program:?}"),
                    None => Ok(()),
                }
            }
            Self::NoNativeXdp(name) => write!(f, "{name}: the driver has no native XDP"),
            Self::NoZeroCopy(name) => {
                write!(f, "{name}: no zero-copy mode in the driver")
            }
            Self::QueueBusy { name, queue } => write!(f, "{name}: queue {queue} is in use by another socket"),
            Self::Queues { name, asked, there } => {
                let queues = if *there == 1 { "queue" } else { "queues" };
                write!(f, "{name} has {there} {queues}, not {asked}")
            }
            Self::NoHugepages { pages } => write!(f, "fewer than {pages} free huge pages of 2 MiB"),
            Self::NoMemory { bytes } => write!(f, "{} KiB of memory cannot be locked", bytes / 1024),
            Self::Refused { name, what, source } => {
                write!(f, "{name}: the kernel refuses {what}: {source}")
            }
        }
    }
}

impl std::error::Error for InterfaceError {}
