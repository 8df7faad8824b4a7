//! Errors of TAP devices, with remedies.

use std::fmt;
use std::io;
use std::net::IpAddr;

/// Error of creating a TAP device or bringing it up.
#[derive(Debug)]
pub enum TapError {
    /// The name is empty, longer than 15 bytes, or contains `/`, `:` or white space.
    Name(String),
    /// The prefix is longer than an address.
    Prefix {
        /// Length in bits.
        prefix: u8,
        /// Length of the address in bits.
        max: u8,
    },
    /// IPv6 is disabled at the kernel's end.
    NoIpv6(String),
    /// `/dev/net/tun` does not exist.
    NoTun,
    /// The kernel denies permission.
    NoPermission,
    /// A device of this name exists.
    NameInUse(String),
    /// The kernel rejects the address.
    Up {
        /// The device.
        name: String,
        /// The address.
        addr: IpAddr,
        /// Prefix length.
        prefix: u8,
        /// The kernel's error.
        source: io::Error,
    },
    /// Any other error.
    Other(io::Error),
}

impl TapError {
    /// Error of opening `/dev/net/tun`.
    pub(super) fn open(e: io::Error) -> Self {
        match e.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => Self::NoTun,
            Some(libc::EACCES | libc::EPERM) => Self::NoPermission,
            _ => Self::Other(e),
        }
    }

    /// Error of attaching to device `name`.
    pub(super) fn attach(name: &str, e: io::Error) -> Self {
        match e.raw_os_error() {
            Some(libc::EBUSY | libc::EEXIST) => Self::NameInUse(name.to_owned()),
            // A device that is not a TAP has the name.
            Some(libc::EINVAL) => Self::NameInUse(name.to_owned()),
            Some(libc::EACCES | libc::EPERM) => Self::NoPermission,
            _ => Self::Other(e),
        }
    }

    /// A remedy, if one is known.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Name(_) => "a name such as gw0".to_owned(),
            Self::Prefix { max, .. } => format!("a prefix such as /{}", max * 3 / 4),
            Self::NoIpv6(_) => {
                "sysctl -w net.ipv6.conf.all.disable_ipv6=0 net.ipv6.conf.default.disable_ipv6=0".to_owned()
            }
            Self::NoTun => "modprobe tun; in a container, start it with --device /dev/net/tun".to_owned(),
            Self::NoPermission => {
                "run as root, or once: setcap cap_net_admin+ep <path of greenwave>".to_owned()
            }
            Self::NameInUse(name) => format!("another name, or stop the program that uses {name}"),
            Self::Up { addr, .. } => format!("an address other than {addr} for the kernel side"),
            Self::Other(_) => return None,
        })
    }
}

impl fmt::Display for TapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => {
                write!(f, "device name {name:?} is not 1..=15 bytes without '/', ':' and whitespace")
            }
            Self::Prefix { prefix, max } => write!(f, "prefix {prefix} is outside 0..={max}"),
            Self::NoIpv6(name) => write!(f, "{name}: IPv6 is disabled on the kernel side"),
            Self::NoTun => f.write_str("TAP devices are not available: no /dev/net/tun"),
            Self::NoPermission => f.write_str("no permission to create a TAP device"),
            Self::NameInUse(name) => write!(f, "a network device named {name} already exists"),
            Self::Up { name, addr, prefix, source } => {
                write!(f, "the kernel refuses the address {addr}/{prefix} on {name}: {source}")
            }
            Self::Other(source) => write!(f, "no TAP device: {source}"),
        }
    }
}

impl std::error::Error for TapError {}
