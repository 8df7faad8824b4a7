//! Replacement of a running XDP program, for addresses found while the devices run.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Weak};

use super::program::{Claims, XDP_PASS};
use super::{Steering, refusal};
use host::interface::InterfaceError;
use hostbpf::bpf;

/// Handle that changes the claims of running devices, for addresses learned through them.
#[derive(Debug)]
pub struct Claimant {
    name: String,
    /// Dangling once the last device is closed.
    steering: Weak<Steering>,
}

impl Claimant {
    pub(super) fn new(name: &str, steering: &Arc<Steering>) -> Self {
        Self { name: name.to_owned(), steering: Arc::downgrade(steering) }
    }

    /// Replaces the claims by `claims`, from the next frame on.
    ///
    /// # Errors
    /// The kernel's error, and everything stays as it was; or all devices are closed.
    ///
    /// # Panics
    /// `claims` holds more than its program supports.
    pub fn claim(&self, claims: &Claims) -> Result<(), InterfaceError> {
        let refused = |e: io::Error| refusal(&self.name, "another XDP program", e);
        let steering = self.steering.upgrade().ok_or_else(|| refused(io::ErrorKind::NotConnected.into()))?;
        let program = load(claims, &steering.sockets).map_err(refused)?;
        bpf::replace(&steering.link, &program).map_err(refused)
    }
}

/// Has the kernel verify the program for `claims`.
pub(super) fn load(claims: &Claims, sockets: &OwnedFd) -> io::Result<OwnedFd> {
    let code = claims.assemble(sockets.as_raw_fd(), XDP_PASS);
    bpf::load(bpf::Kind::Xdp, "greenwave", &code)
}
