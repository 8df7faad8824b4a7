//! Which XDP program an interface has already, and of which kind it is, asked
//! by netlink.
//! Source: rtnetlink(7), linux/if_link.h `IFLA_XDP`, `IFLA_LINKINFO`.

use std::io::{Read, Write};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

/// Bytes of `struct nlmsghdr` and of `struct ifinfomsg`, and of an attribute's header.
const MESSAGE: usize = 16;
const LINK: usize = 16;
const ATTRIBUTE: usize = 4;

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const REQUEST: u16 = 1;
const IFLA_XDP: u16 = 43;
/// The program, by number: of the only mode, or native, generic, hardware.
const IFLA_XDP_IDS: [u16; 4] = [4, 6, 5, 7];

const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;

/// The number of the XDP program that is attached to interface `index`.
pub(crate) fn program(index: u32) -> Option<u32> {
    program_in(&asked(index)?)
}

/// Whether interface `index` is one end of a virtual cable.
pub(crate) fn is_veth(index: u32) -> bool {
    asked(index).is_some_and(|answer| kind_in(&answer).is_some_and(|kind| kind == b"veth\0"))
}

/// What the kernel says of interface `index`.
fn asked(index: u32) -> Option<Vec<u8>> {
    // Protocol 0 of netlink is routing.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None).ok()?;
    connect(&socket, &SocketAddrNetlink::new(0, 0)).ok()?;
    let mut request = [0; MESSAGE + LINK];
    request[..4].copy_from_slice(&((MESSAGE + LINK) as u32).to_ne_bytes());
    request[4..6].copy_from_slice(&RTM_GETLINK.to_ne_bytes());
    request[6..8].copy_from_slice(&REQUEST.to_ne_bytes());
    request[MESSAGE + 4..MESSAGE + 8].copy_from_slice(&index.to_ne_bytes());
    let mut socket = std::fs::File::from(socket);
    socket.write_all(&request).ok()?;
    let mut answer = vec![0; 32 * 1024];
    let len = socket.read(&mut answer).ok()?;
    answer.truncate(len);
    Some(answer)
}

fn program_in(answer: &[u8]) -> Option<u32> {
    let xdp = attribute(attributes(answer)?, IFLA_XDP)?;
    let id = IFLA_XDP_IDS.into_iter().find_map(|kind| attribute(xdp, kind))?;
    Some(u32::from_ne_bytes(*id.first_chunk()?)).filter(|&id| id != 0)
}

fn kind_in(answer: &[u8]) -> Option<&[u8]> {
    attribute(attribute(attributes(answer)?, IFLA_LINKINFO)?, IFLA_INFO_KIND)
}

/// What an answer about a link holds.
fn attributes(answer: &[u8]) -> Option<&[u8]> {
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    if kind == RTM_NEWLINK { answer.get(MESSAGE + LINK..) } else { None }
}

/// The value of the first attribute of this kind.
fn attribute(mut bytes: &[u8], kind: u16) -> Option<&[u8]> {
    loop {
        let len = usize::from(u16::from_ne_bytes(*bytes.first_chunk()?));
        let found = u16::from_ne_bytes(*bytes.get(2..)?.first_chunk()?) & 0x3fff;
        let value = bytes.get(ATTRIBUTE..len)?;
        if found == kind {
            return Some(value);
        }
        // Attributes start at multiples of 4.
        bytes = bytes.get(len.next_multiple_of(4)..)?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loopback_has_no_program_and_nonsense_has_none() {
        assert!(program(1).is_none() && !is_veth(1));
        assert_eq!(program_in(&[0; 7]), None);
        let mut endless = [0; 64];
        endless[4..6].copy_from_slice(&RTM_NEWLINK.to_ne_bytes());
        assert_eq!(program_in(&endless), None, "an attribute of length 0 ends the search");
        assert_eq!(kind_in(&endless), None);
    }
}
