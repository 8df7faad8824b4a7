//! Errors of attaching, showing and detaching an egress.

use std::fmt;
use std::io;

use super::policy::BadPolicy;
use host::interface::InterfaceError;

/// Error of attaching, showing or detaching an egress.
#[derive(Debug)]
pub enum FabricError {
    /// The interface does not exist or is unsuitable.
    Interface(InterfaceError),
    /// The policy is invalid.
    Policy(BadPolicy),
    /// The program `tc` could not be started.
    NoTc(String),
    /// `tc` failed.
    Tc {
        /// Arguments, or its batch line.
        command: String,
        /// Stderr, in one line.
        message: String,
    },
    /// The kernel denies permission.
    NoPermission(String),
    /// The kernel lacks a required qdisc.
    Lacks(&'static str),
    /// An egress is attached already, completely or by an attach that was interrupted.
    Attached {
        /// The interface.
        device: String,
        /// The attached policy and rate.
        what: String,
    },
    /// No greenwave policy is attached.
    NotAttached(String),
    /// The present root qdisc could not be restored later.
    Unrestorable {
        /// The interface.
        device: String,
        /// Root qdisc.
        root: String,
        /// The reason.
        why: String,
    },
    /// An `ingress` qdisc occupies the place of clsact.
    Ingress(String),
    /// Another program runs before our filter could, and may pass packets on unseen.
    NotFirst {
        /// The interface.
        device: String,
        /// Name of the other program.
        what: String,
    },
    /// The kernel rejects a program, a map or a filter.
    Bpf {
        /// The operation.
        what: &'static str,
        /// The kernel's error.
        source: io::Error,
    },
    /// The output of `tc` or our metadata is malformed.
    Unreadable(String),
}

impl FabricError {
    /// A remedy, if one is known.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Interface(InterfaceError::NotEthernet(_)) => {
                "ip -brief link, for a list of interfaces".to_owned()
            }
            Self::Interface(e) => return e.advice(),
            Self::Policy(BadPolicy::Outside { what: "rate", .. }) => "--rate 9.5gbit".to_owned(),
            Self::Policy(_) => "greenwave egress policy fish, for a valid one".to_owned(),
            Self::NoTc(_) => "apt-get install iproute2".to_owned(),
            Self::NoPermission(_) => "run as root".to_owned(),
            Self::Lacks(kind) => {
                format!("modprobe sch_{kind}, or a kernel with CONFIG_NET_SCH_{}", kind.to_uppercase())
            }
            Self::Attached { device, .. } => format!("greenwave egress detach {device}"),
            Self::NotAttached(device) => {
                format!("greenwave egress attach {device} --rate 9.5gbit --policy fish")
            }
            Self::Unrestorable { device, .. } => {
                format!("tc qdisc del dev {device} root, and attach again")
            }
            Self::Ingress(device) => {
                format!("tc qdisc del dev {device} ingress, then tc qdisc add dev {device} clsact")
            }
            Self::NotFirst { device, .. } => {
                format!(
                    "detach it, or move it to preference 2 or above: tc filter show dev {device} egress; bpftool net show dev {device}"
                )
            }
            Self::Tc { .. } | Self::Bpf { .. } | Self::Unreadable(_) => return None,
        })
    }
}

impl fmt::Display for FabricError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(e) => e.fmt(f),
            Self::Policy(e) => e.fmt(f),
            Self::NoTc(why) => write!(f, "tc: {why}"),
            Self::Tc { command, message } => write!(f, "tc {command}: {message}"),
            Self::NoPermission(why) => write!(f, "changing an egress needs root: {why}"),
            Self::Lacks(kind) => write!(f, "this kernel has no qdisc {kind} and no substitute for it"),
            Self::Attached { device, what } => write!(f, "{device}: already attached: {what}"),
            Self::NotAttached(device) => write!(f, "{device}: no greenwave policy is attached"),
            Self::Unrestorable { device, root, why } => {
                write!(f, "{device}: detach could not restore the root qdisc {root}: {why}")
            }
            Self::Ingress(device) => write!(f, "{device}: qdisc ingress occupies the place of clsact"),
            Self::NotFirst { device, what } => {
                write!(
                    f,
                    "{device}: {what} runs first at the egress: packets that it passes on would have no level"
                )
            }
            Self::Bpf { what, source } => write!(f, "the kernel refuses {what}: {source}"),
            Self::Unreadable(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for FabricError {}

impl From<InterfaceError> for FabricError {
    fn from(e: InterfaceError) -> Self {
        Self::Interface(e)
    }
}

impl From<BadPolicy> for FabricError {
    fn from(e: BadPolicy) -> Self {
        Self::Policy(e)
    }
}
