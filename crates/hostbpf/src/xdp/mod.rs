//! XDP program attached to an interface by a link, which detaches it when closed, however its owner
//! ends.
//!
//! Source: bpf(2) `BPF_LINK_CREATE`, linux/if_link.h.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use crate::bpf;
use host::interface::{Interface, InterfaceError};

#[cfg(any(test, fuzzing))]
pub mod fuzz;
mod query;

pub use query::{Attached, Attachment};
pub use query::{is_veth, program as attached};

/// XDP mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// In the driver, before the kernel allocates an skb.
    Native,
    /// After that, with any driver.
    Generic,
}

/// Attaches the program in `mode`, or natively if supported; `refusal` formats other errors of the
/// kernel.
pub fn attach(
    interface: &Interface,
    program: impl AsFd,
    mode: Option<Mode>,
    refusal: impl Fn(&'static str, io::Error) -> InterfaceError,
) -> Result<(OwnedFd, Mode), InterfaceError> {
    let name = || interface.name.clone();
    let native = || bpf::link_xdp(&program, interface.index, XDP_FLAGS_DRV_MODE);
    let generic = || bpf::link_xdp(&program, interface.index, XDP_FLAGS_SKB_MODE);
    let unsupported = |e: &io::Error| e.raw_os_error() == Some(libc::EOPNOTSUPP);
    let attached = match mode {
        Some(Mode::Native) => match native() {
            Err(e) if unsupported(&e) => return Err(InterfaceError::NoNativeXdp(name())),
            done => done.map(|link| (link, Mode::Native)),
        },
        Some(Mode::Generic) => generic().map(|link| (link, Mode::Generic)),
        None => match native() {
            Err(e) if unsupported(&e) => generic().map(|link| (link, Mode::Generic)),
            done => done.map(|link| (link, Mode::Native)),
        },
    };
    attached.map_err(|e| match e.raw_os_error() {
        Some(libc::EBUSY | libc::EEXIST) => {
            let id = query::program(interface.index);
            InterfaceError::XdpAttached { name: name(), id, program: id.and_then(bpf::program_name) }
        }
        Some(libc::EINVAL) if mode != Some(Mode::Generic) => {
            refusal("a native XDP program, as drivers do for a large MTU; mode skb takes any", e)
        }
        _ => refusal("an XDP program", e),
    })
}

const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
