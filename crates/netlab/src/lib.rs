//! Test bed: network namespaces and veth pairs between them.
//!
//! For tests and benchmarks that need the kernel as a peer, so that the machine's own network is left
//! alone. A namespace here has no name that could clash: it is an open file of this process and
//! disappears with it, as do its devices. Only programs that run inside, a [`TestGroup`] or a [`TempDir`]
//! can outlive a crash; they carry a mark by which the next [`NetLab::new`] finds and removes them
//! ([`Child`]).
//!
//! Needs root and the programs `ip` and `ethtool`; [`NetLab::unavailable`] gives the missing one, for a
//! line `skipped: NAME: why`.
//!
//! ```
//! use netlab::{NetLab, Veth};
//!
//! if let Some(why) = NetLab::unavailable() {
//!     return eprintln!("skipped: the lab's example: {why}");
//! }
//! let lab = NetLab::new("example").unwrap();
//! let (ours, kernel) = (lab.namespace("ours").unwrap(), lab.namespace("kernel").unwrap());
//! lab.veth((&ours, "gw0"), (&kernel, "eth0"), &Veth::default()).unwrap();
//! kernel.address("eth0", "10.1.0.1".parse().unwrap(), 24).unwrap();
//! let listener = kernel.enter(|| std::net::TcpListener::bind("10.1.0.1:0")).unwrap();
//! assert!(ours.run("ip", &["-brief", "link"]).unwrap().contains("gw0"));
//! # drop(listener);
//! ```
//! Source: Linux, network_namespaces(7), setns(2), veth(4).

use std::fmt;
use std::process::{Command, Stdio};

mod cgroup;
pub mod client;
mod error;
mod idle_inhibitor;
mod namespace;
mod process;
#[cfg(test)]
#[path = "../../host/src/soon.rs"]
mod soon;
mod temp_dir;

pub use cgroup::TestGroup;
pub use error::LabError;
pub use idle_inhibitor::IdleInhibitor;
pub use namespace::Namespace;
pub use process::Child;
use process::Leftovers;
pub use temp_dir::TempDir;

/// Programs that the test bed runs.
const PROGRAMS: [&str; 2] = ["ip", "ethtool"];

/// A test bed for network experiments.
#[derive(Debug)]
pub struct NetLab {
    name: String,
}

/// Options of a veth pair.
#[derive(Clone, Copy, Debug)]
pub struct Veth {
    /// Receive and transmit queues of each end, 1..=4096.
    pub queues: u16,
    /// MTU of both ends, 68..=65535.
    pub mtu: u16,
    /// True to keep the kernel's offloads. Without them packets leave the kernel as through a plain
    /// network card: with their checksum filled in and no longer than the MTU.
    pub offloads: bool,
}

impl Default for Veth {
    /// One queue, 1500 bytes, no offloads.
    fn default() -> Self {
        Self { queues: 1, mtu: 1500, offloads: false }
    }
}

impl NetLab {
    /// Reason why the test bed is not available, if so.
    #[must_use]
    pub fn unavailable() -> Option<String> {
        if !rustix::process::geteuid().is_root() {
            return Some("making network namespaces needs root".to_owned());
        }
        if let Some(program) = PROGRAMS.into_iter().find(|program| !is_installed(program)) {
            return Some(format!("the program {program} is not there"));
        }
        Namespace::new("try".to_owned()).err().map(|e| e.to_string())
    }

    /// A test bed. Remains of a crashed run of this program are removed first. `name` appears in
    /// error messages.
    ///
    /// # Errors
    /// [`LabError::Program`] if a program is not installed.
    pub fn new(name: &str) -> Result<Self, LabError> {
        if let Some(program) = PROGRAMS.into_iter().find(|program| !is_installed(program)) {
            return Err(LabError::Program { program: program.to_owned(), why: "it is not there".to_owned() });
        }
        process::cleanup_stale();
        cgroup::end_leftovers();
        temp_dir::end_leftovers();
        Ok(Self { name: name.to_owned() })
    }

    /// Ends and removes everything that test beds of this process have created: programs, control
    /// groups, directories.
    ///
    /// For an end of the process without drops: a thread that creates or starts more then blocks until
    /// that end.
    pub fn end_all() {
        // Never released.
        let made = std::mem::ManuallyDrop::new(Leftovers::lock());
        process::end_ours();
        for path in made.iter().rev() {
            match path.starts_with("/sys/fs/cgroup") {
                true => cgroup::end(path),
                false => temp_dir::end(path),
            }
        }
    }

    /// A network namespace with only its loopback device, which is up.
    ///
    /// # Errors
    /// [`LabError::Namespace`] if the kernel refuses.
    pub fn namespace(&self, name: &str) -> Result<Namespace, LabError> {
        Namespace::new(format!("{}/{name}", self.name))
    }

    /// Connects device `a.1` in namespace `a.0` to `b.1` in `b.0` by a veth pair; both ends are up and
    /// have no address.
    ///
    /// # Errors
    /// [`LabError::Failed`] with the stderr of `ip` or `ethtool`.
    pub fn veth(&self, a: (&Namespace, &str), b: (&Namespace, &str), options: &Veth) -> Result<(), LabError> {
        let (queues, mtu) = (options.queues.to_string(), options.mtu.to_string());
        let shape = ["mtu", &mtu, "numrxqueues", &queues, "numtxqueues", &queues];
        let (peer_netns, link_add) = (b.0.path(), ["link", "add", "name", a.1]);
        let peer = ["type", "veth", "peer", "name", b.1];
        a.0.run("ip", &[&link_add[..], &shape, &peer, &shape, &["netns", &peer_netns]].concat())?;
        for (namespace, device) in [a, b] {
            if !options.offloads {
                namespace.disable_offloads(device)?;
            }
            namespace.up(device)?;
        }
        Ok(())
    }
}

impl fmt::Display for NetLab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// True if `program` can be started.
#[must_use]
pub fn is_installed(program: &str) -> bool {
    // Only the start matters, not the result.
    let tried = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status();
    tried.is_ok()
}

#[cfg(test)]
mod tests;
