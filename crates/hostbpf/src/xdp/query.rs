//! Query of the XDP program attached to an interface, and of the interface's kind, by netlink.
//!
//! Source: rtnetlink(7), linux/if_link.h `IFLA_XDP`, `IFLA_LINKINFO`.

use std::fs::File;
use std::io::{self, Read, Write};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

/// Bytes of `struct nlmsghdr` and of `struct ifinfomsg`, and of an attribute's header.
const MESSAGE: usize = 16;
const LINK: usize = 16;
const ATTRIBUTE: usize = 4;

const NLMSG_ERROR: u16 = 2;
const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const REQUEST: u16 = 1;
const IFLA_XDP: u16 = 43;
/// Attributes with the program's ID: of the only mode, or native, generic, hardware.
const IFLA_XDP_IDS: [u16; 4] = [4, 6, 5, 7];

const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;

/// ID of the XDP program attached to interface `index`.
pub fn program(index: u32) -> Option<u32> {
    program_in(&asked(index)?)
}

/// State of a program on an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attached {
    /// The program is still attached.
    Here,
    /// The interface has no program, or another one.
    Off,
    /// The interface is not in this network namespace: it was removed or moved.
    NoInterface,
}

/// Check that a program is still attached, through a socket kept open: a process that may open no other
/// can continue.
#[derive(Debug)]
pub struct Attachment {
    socket: File,
    index: u32,
    program: u32,
}

impl Attachment {
    /// The program now on interface `index`; `None` if there is none or the kernel does not report it.
    #[must_use]
    pub fn of(index: u32) -> Option<Self> {
        let mut socket = socket()?;
        let program = program_in(&ask(&mut socket, index).ok()?)?;
        Some(Self { socket, index, program })
    }

    /// ID of the program.
    #[must_use]
    pub fn program(&self) -> u32 {
        self.program
    }

    /// Adopts the program that is attached now: this process has replaced it.
    pub fn renew(&mut self) {
        if let Some(program) = ask(&mut self.socket, self.index).ok().and_then(|answer| program_in(&answer)) {
            self.program = program;
        }
    }

    /// State of the program; attached if the kernel does not report it.
    pub fn query(&mut self) -> Attached {
        let Ok(answer) = ask(&mut self.socket, self.index) else { return Attached::Here };
        match error_in(&answer) {
            Some(libc::ENODEV) => Attached::NoInterface,
            Some(_) => Attached::Here,
            None if program_in(&answer) == Some(self.program) => Attached::Here,
            None => Attached::Off,
        }
    }
}

/// True if interface `index` is one end of a veth pair.
pub fn is_veth(index: u32) -> bool {
    asked(index).is_some_and(|answer| kind_in(&answer).is_some_and(|kind| kind == b"veth\0"))
}

/// The kernel's reply about interface `index`.
fn asked(index: u32) -> Option<Vec<u8>> {
    ask(&mut socket()?, index).ok()
}

/// A socket for queries about interfaces.
fn socket() -> Option<File> {
    // Netlink protocol 0 is routing.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None).ok()?;
    connect(&socket, &SocketAddrNetlink::new(0, 0)).ok()?;
    Some(File::from(socket))
}

fn ask(socket: &mut File, index: u32) -> io::Result<Vec<u8>> {
    let mut request = [0; MESSAGE + LINK];
    request[..4].copy_from_slice(&((MESSAGE + LINK) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
    request[MESSAGE + 4..MESSAGE + 8].copy_from_slice(&index.to_ne_bytes());
    socket.write_all(&request)?;
    let mut answer = vec![0; 32 * 1024];
    let len = socket.read(&mut answer)?;
    answer.truncate(len);
    Ok(answer)
}

/// Error in the kernel's reply, if it is one.
fn error_in(answer: &[u8]) -> Option<i32> {
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    let code = i32::from_ne_bytes(*answer.get(MESSAGE..)?.first_chunk()?);
    (kind == NLMSG_ERROR).then_some(-code)
}

pub(super) fn program_in(answer: &[u8]) -> Option<u32> {
    let xdp = attribute(attributes(answer)?, IFLA_XDP)?;
    let id = IFLA_XDP_IDS.into_iter().find_map(|kind| attribute(xdp, kind))?;
    Some(u32::from_ne_bytes(*id.first_chunk()?)).filter(|&id| id != 0)
}

pub(super) fn kind_in(answer: &[u8]) -> Option<&[u8]> {
    attribute(attribute(attributes(answer)?, IFLA_LINKINFO)?, IFLA_INFO_KIND)
}

/// Attributes of a reply about a link.
fn attributes(answer: &[u8]) -> Option<&[u8]> {
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    if kind == RTM_NEWLINK { answer.get(MESSAGE + LINK..) } else { None }
}

/// Value of the first attribute of this kind.
fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let len = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let found = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & 0x3fff;
        let value = bytes.get(ATTRIBUTE..len)?;
        if found == kind {
            return Some(value);
        }
        // Attributes are aligned to 4 bytes.
        bytes = bytes.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_removed_interface_is_distinguished_from_a_detached_program() {
        let query = |index, program| Attachment { socket: socket().unwrap(), index, program }.query();
        assert_eq!(query(1, 7), Attached::Off);
        assert_eq!(query(i32::MAX as u32, 7), Attached::NoInterface);
        let closed = File::open("/dev/null").unwrap();
        assert_eq!(Attachment { socket: closed, index: 1, program: 7 }.query(), Attached::Here, "no report");
    }

    //~ cli: a guard or device removed by another program is a failure, one's own detach is not
    #[test]
    fn the_loopback_has_no_program_and_nonsense_has_none() {
        assert!(program(1).is_none() && !is_veth(1));
        assert!(Attachment::of(1).is_none());
        assert_eq!(program_in(&[0; 7]), None);
        let mut endless = [0; 64];
        endless[4..6].copy_from_slice(&RTM_NEWLINK.to_ne_bytes());
        assert_eq!(program_in(&endless), None, "an attribute of length 0 ends the search");
        assert_eq!(kind_in(&endless), None);
    }
}
