//! Attaches the classifier to an interface, by netlink.
//!
//! `tc` can do this too, but loads programs from files of a mounted bpffs, and does one thing at a
//! time. Here clsact and the filter are sent in one call, so that our death cannot fall between the
//! two.
//!
//! Source: rtnetlink(7), linux/pkt_cls.h.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with};

/// Preference of our filter where no other requires a lower one; lower runs earlier.
pub(super) const PREFERENCE: u16 = 4011;

const RTM_NEWQDISC: u16 = 36;
const RTM_NEWTFILTER: u16 = 44;
/// NLM_F_REQUEST, NLM_F_ACK, NLM_F_CREATE, NLM_F_EXCL.
const FLAGS: u16 = 0x1 | 0x4 | 0x400 | 0x200;
const NLMSG_ERROR: u16 = 2;
/// Bytes of `struct nlmsghdr`.
const HEADER: usize = 16;

const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
const EGRESS: u32 = 0xffff_fff3;
/// Every protocol (`ETH_P_ALL`), in network order.
const ETH_P_ALL: u16 = 3_u16.to_be();
const TCA_KIND: u16 = 1;
const TCA_OPTIONS: u16 = 2;
const TCA_BPF_FD: u16 = 6;
const TCA_BPF_NAME: u16 = 7;
const TCA_BPF_FLAGS: u16 = 8;
/// `TCA_BPF_FLAG_ACT_DIRECT`: the program's return value is the filter's verdict.
const DIRECT: u32 = 1;

/// Adds a clsact to interface `index`, unless it has one, and `program` as a filter of its egress with
/// `preference`.
///
/// # Errors
/// The kernel's error; `AlreadyExists` if there is a filter with our preference.
pub(super) fn attach(index: u32, program: impl AsFd, name: &str, preference: u16) -> io::Result<()> {
    let clsact = Message::new(RTM_NEWQDISC, index, CLSACT_HANDLE, CLSACT, 0).text(TCA_KIND, "clsact");
    let info = u32::from(preference) << 16 | u32::from(ETH_P_ALL);
    let options = Message::default()
        .word(TCA_BPF_FD, program.as_fd().as_raw_fd() as u32)
        .text(TCA_BPF_NAME, name)
        .word(TCA_BPF_FLAGS, DIRECT);
    let filter = Message::new(RTM_NEWTFILTER, index, 1, EGRESS, info)
        .text(TCA_KIND, "bpf")
        .nested(TCA_OPTIONS, options);
    // Netlink protocol 0 is routing.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    connect(&socket, &SocketAddrNetlink::new(0, 0))?;
    let mut socket = File::from(socket);
    socket.write_all(&[clsact.numbered(1), filter.numbered(2)].concat())?;
    match answer(&mut socket, 1) {
        Err(e) if e.raw_os_error() == Some(libc::EEXIST) => {}
        other => other?,
    }
    answer(&mut socket, 2)
}

/// Result of request `number`.
fn answer(socket: &mut File, number: u32) -> io::Result<()> {
    let mut bytes = vec![0; 8 * 1024];
    loop {
        let len = socket.read(&mut bytes)?;
        if let Some(result) = result_in(&bytes[..len], number) {
            return result;
        }
        if len == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
}

fn result_in(answer: &[u8], number: u32) -> Option<io::Result<()>> {
    let word = |at: usize| Some(u32::from_ne_bytes(*answer.get(at..)?.first_chunk()?));
    let kind = u16::from_ne_bytes(*answer.get(4..)?.first_chunk()?);
    if kind != NLMSG_ERROR || word(8)? != number {
        return None;
    }
    match word(HEADER)?.cast_signed() {
        0 => Some(Ok(())),
        error => Some(Err(io::Error::from_raw_os_error(-error))),
    }
}

/// A request under construction: header, `struct tcmsg`, attributes.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    fn new(kind: u16, index: u32, handle: u32, parent: u32, info: u32) -> Self {
        let mut bytes = vec![0; HEADER];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&FLAGS.to_ne_bytes());
        for word in [0, index, handle, parent, info] {
            bytes.extend(word.to_ne_bytes());
        }
        Self(bytes)
    }

    fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend((4 + value.len() as u16).to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        // Attributes are aligned to 4 bytes.
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    fn word(self, kind: u16, value: u32) -> Self {
        self.attribute(kind, &value.to_ne_bytes())
    }

    fn text(self, kind: u16, value: &str) -> Self {
        self.attribute(kind, &[value.as_bytes(), &[0]].concat())
    }

    fn nested(self, kind: u16, inner: Self) -> Self {
        self.attribute(kind, &inner.0)
    }

    /// The bytes, with length and sequence number filled in.
    fn numbered(mut self, number: u32) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0[8..12].copy_from_slice(&number.to_ne_bytes());
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_to_one_request_and_nonsense_to_none() {
        let mut answer = vec![0; HEADER + 4];
        answer[4..6].copy_from_slice(&NLMSG_ERROR.to_ne_bytes());
        answer[8] = 2;
        assert!(matches!(result_in(&answer, 2), Some(Ok(()))));
        assert!(result_in(&answer, 1).is_none());
        answer[HEADER..].copy_from_slice(&(-libc::EEXIST).to_ne_bytes());
        let error = result_in(&answer, 2).unwrap().unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
        assert!(result_in(&answer[..HEADER], 2).is_none());
        assert!(result_in(&[], 2).is_none());
    }

    #[test]
    fn attributes_are_padded_and_say_their_length_without() {
        let bytes = Message::default().text(TCA_KIND, "bpf").word(TCA_BPF_FLAGS, 1).0;
        let expected = [[8, 0, 1, 0], *b"bpf\0", [8, 0, 8, 0], [1, 0, 0, 0]].concat();
        let padded = Message::default().text(TCA_KIND, "clsact").0;
        if cfg!(target_endian = "little") {
            assert_eq!(bytes, expected);
            assert_eq!((padded[0], padded.len()), (11, 12));
        }
    }
}
