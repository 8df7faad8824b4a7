//! Errors of attaching, showing and detaching a guard, with remedies.

use std::fmt;
use std::io;
use std::path::PathBuf;

use host::interface::InterfaceError;

/// Error of attaching, showing or detaching a guard.
#[derive(Debug)]
pub enum GuardError {
    /// The interface does not exist, is unsuitable, or has another program.
    Interface(InterfaceError),
    /// This build lacks the BPF programs.
    NotBuilt,
    /// The kernel has no BTF.
    NoBtf,
    /// The kernel has no tracepoint for transmissions (before Linux 6.3).
    NoAnswers,
    /// The kernel denies permission.
    NoPermission,
    /// A guard is attached already.
    Attached {
        /// The interface.
        device: String,
        /// The attached guard and its process.
        what: String,
    },
    /// No guard is attached.
    NotAttached(String),
    /// A port has no listener.
    NoListener {
        /// The port.
        port: u16,
        /// Ports that have one.
        listening: Vec<u16>,
    },
    /// More items than the XDP program supports.
    TooMany {
        /// Kind of item.
        what: &'static str,
        /// Number of items given.
        given: usize,
        /// Maximum.
        max: usize,
    },
    /// A class or a queue report is of a port that is not guarded.
    Unguarded {
        /// Kind of item.
        what: &'static str,
        /// The port.
        port: u16,
        /// Guarded ports.
        ports: Vec<u16>,
    },
    /// A queue-report file has no report.
    NoReport {
        /// The file.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The kernel rejects an operation.
    Refused {
        /// The operation.
        what: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// The attached metadata is malformed.
    Unreadable(String),
}

impl GuardError {
    /// A remedy, if one is known.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Interface(InterfaceError::NoNativeXdp(name)) => format!("guard attach {name} --mode skb"),
            Self::Interface(InterfaceError::Refused { name, what, .. }) if what.contains("native") => {
                format!("guard attach {name} --mode skb")
            }
            Self::Interface(InterfaceError::NotEthernet(_)) => {
                "ip -brief link, for a list of interfaces".to_owned()
            }
            Self::Interface(e) => return e.advice(),
            Self::NotBuilt => {
                "apt-get install clang libelf-dev zlib1g-dev pkg-config make gcc, then make build".to_owned()
            }
            Self::NoBtf => "a kernel with CONFIG_DEBUG_INFO_BTF, Linux 5.12 or newer".to_owned(),
            Self::NoAnswers => "--measure accept, or Linux 6.3 or newer".to_owned(),
            Self::NoPermission => "run as root".to_owned(),
            Self::Attached { device, .. } => format!("greenwave guard detach {device}"),
            Self::NotAttached(device) => format!("greenwave guard attach {device} --port 80"),
            Self::NoListener { listening, .. } if listening.is_empty() => "start the server first".to_owned(),
            Self::NoListener { listening, .. } => {
                format!("start the server first, or --port {}", listed(listening))
            }
            Self::TooMany { max, .. } => format!("at most {max}"),
            Self::Unguarded { port, .. } => format!("--port {port} as well"),
            Self::NoReport { .. } => {
                "start the service first; it reports with guard::tower's GuardLayer::with_queue_report or an equivalent"
                    .to_owned()
            }
            Self::Unreadable(_) => "detach the guard with the greenwave version that attached it".to_owned(),
            Self::Refused { .. } => return None,
        })
    }
}

/// The first eight of `ports`, as text.
fn listed(ports: &[u16]) -> String {
    ports.iter().take(8).map(u16::to_string).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for GuardError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interface(e) => e.fmt(f),
            Self::NotBuilt => f.write_str(
                "this greenwave was built without BPF programs (no clang or libelf at build time)",
            ),
            Self::NoBtf => f.write_str("this kernel has no BTF: no /sys/kernel/btf/vmlinux"),
            Self::NoAnswers => f.write_str("this kernel has no tracepoint sock_send_length"),
            Self::NoPermission => f.write_str("the guard needs CAP_BPF, CAP_NET_ADMIN and CAP_PERFMON"),
            Self::Attached { device, what } => write!(f, "{device}: a guard is already attached: {what}"),
            Self::NotAttached(device) => write!(f, "{device}: no guard is attached"),
            Self::NoListener { port, .. } => {
                write!(f, "no listener on TCP port {port} in this network namespace")
            }
            Self::TooMany { what, given, max } => write!(f, "{given} {what} exceed the maximum of {max}"),
            Self::Unguarded { what, port, ports } => {
                write!(f, "{what} has port {port}, and only {} is guarded", listed(ports))
            }
            Self::NoReport { path, source } => {
                write!(f, "{}: no service reports its queue in this file: {source}", path.display())
            }
            Self::Refused { what, source } => write!(f, "the kernel refuses {what}: {source}"),
            Self::Unreadable(what) => f.write_str(what),
        }
    }
}

impl std::error::Error for GuardError {}

impl From<InterfaceError> for GuardError {
    fn from(e: InterfaceError) -> Self {
        Self::Interface(e)
    }
}
