//! Another program in the place of the first, for addresses that were found
//! while it ran.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Weak};

use super::program::{Claims, XDP_PASS};
use super::{Steering, refusal};
use crate::bpf;
use crate::interface::InterfaceError;

/// Changes what is ours while the devices work: for addresses that were found
/// through them.
#[derive(Debug)]
pub struct Claimant {
    name: String,
    /// Gone with the last device.
    steering: Weak<Steering>,
}

impl Claimant {
    pub(super) fn new(name: &str, steering: &Arc<Steering>) -> Self {
        Self { name: name.to_owned(), steering: Arc::downgrade(steering) }
    }

    /// From the next frame on what `claims` says is ours, and nothing else.
    ///
    /// # Errors
    /// The kernel's refusal, then all stays as it was; or there is no device
    /// any more.
    ///
    /// # Panics
    /// When `claims` holds more than its program can.
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
