//! XDP program that selects our frames of an interface.
//!
//! It runs in the kernel for every frame and redirects those for our addresses to the AF_XDP socket of
//! their queue. All others go to the kernel unchanged, so the host stays reachable. [`Claims::hold`] is
//! the same decision in Rust; shared test vectors compare the two.
//!
//! The addresses are constants in the program, which is assembled for each start. Its only map is that
//! of sockets.

use std::net::{IpAddr, Ipv6Addr};
use std::ops::RangeInclusive;

mod model;
#[cfg(test)]
mod tests;

use hostbpf::bpf::asm::{Assembler, Condition, Label, Op, REDIRECT_MAP, Reg, Width};

/// Claimed traffic of an interface.
///
/// TCP, UDP and ICMP to our addresses, whole or in fragments; ARP requests and replies for our IPv4
/// address; neighbour solicitations for our IPv6 address, and advertisements that another host has it
/// (sent to all nodes). Not claimed: frames with a VLAN tag, and traffic that concerns the kernel as
/// well: router advertisements, DHCP broadcasts. The program can give a frame to one side only;
/// [`packet::open_copy`] gets a copy.
///
/// [`packet::open_copy`]: crate::packet::open_copy
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Claims {
    /// Our addresses, at most [`Claims::ADDRESSES_MAX`]; empty: claims nothing.
    pub addresses: Vec<IpAddr>,
    /// Our TCP and UDP ports on these addresses, at most [`Claims::PORTS_MAX`] ranges; empty: all
    /// ports.
    pub ports: Vec<RangeInclusive<u16>>,
}

const ARP: u32 = 0x0806;
const IPV4: u32 = 0x0800;
const IPV6: u32 = 0x86dd;
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;
/// Extension headers that are skipped: hop-by-hop options, routing, fragment, destination options (RFC
/// 8200 §4).
const EXTENSIONS: [u8; 4] = [0, 43, 44, 60];
const NEIGHBOR_SOLICITATION: u8 = 135;
const NEIGHBOR_ADVERTISEMENT: u8 = 136;
/// Multicast group of neighbour advertisements (RFC 4862 §5.4.4).
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
/// Bits of an IPv4 header that mark a fragment: the offset, and "more fragments".
const FRAGMENT_BITS: u16 = 0x3fff;

/// XDP action for frames that are not ours: pass to the kernel.
pub(super) const XDP_PASS: i32 = 2;

/// Registers of the program.
const CONTEXT: Reg = Reg::R6;
const DATA: Reg = Reg::R2;
const END: Reg = Reg::R3;
const SCRATCH: Reg = Reg::R4;
const VALUE: Reg = Reg::R5;

impl Claims {
    /// Maximum of addresses, which bounds the program's length: those of a stack, 16 of IPv6 and one of
    /// IPv4.
    pub const ADDRESSES_MAX: usize = 17;
    /// Maximum of port ranges, which bounds the program's length.
    pub const PORTS_MAX: usize = 16;

    /// The program that redirects our frames to the sockets in map `sockets`, an open descriptor.
    /// `without_socket` is the XDP action for a queue without a socket.
    ///
    /// # Panics
    /// Too many addresses or ranges.
    pub(super) fn assemble(&self, sockets: i32, without_socket: i32) -> Vec<u64> {
        assert!(self.addresses.len() <= Self::ADDRESSES_MAX, "too many addresses: {:?}", self.addresses);
        assert!(self.ports.len() <= Self::PORTS_MAX, "too many ports for the program");
        let mut a = Assembler::default();
        // The verifier rejects unreachable code.
        if self.addresses.is_empty() {
            a.set(Reg::R0, XDP_PASS);
            a.exit();
            return a.finish();
        }
        let [arp, ipv4, ipv6, pass, ours] = std::array::from_fn(|_| a.label());
        a.mov(CONTEXT, Reg::R1);
        a.load(Width::Word, DATA, CONTEXT, 0);
        a.load(Width::Word, END, CONTEXT, 4);
        need(&mut a, 14, pass);
        a.load(Width::Half, VALUE, DATA, 12);
        let has_ipv4 = self.addresses.iter().any(IpAddr::is_ipv4);
        let has_ipv6 = self.addresses.iter().any(IpAddr::is_ipv6);
        let kinds = [(has_ipv4, IPV4, ipv4), (has_ipv4, ARP, arp), (has_ipv6, IPV6, ipv6)];
        for (_, kind, label) in kinds.into_iter().filter(|(has, ..)| *has) {
            a.jump_if(Condition::Equal, VALUE, half(kind as u16), label);
        }
        a.jump(pass);
        if has_ipv4 {
            a.bind(ipv4);
            self.ipv4(&mut a, pass, ours);
            a.bind(arp);
            self.arp(&mut a, pass, ours);
        }
        if has_ipv6 {
            a.bind(ipv6);
            self.ipv6(&mut a, pass, ours);
        }
        a.bind(pass);
        a.set(Reg::R0, XDP_PASS);
        a.exit();
        a.bind(ours);
        a.load(Width::Word, Reg::R2, CONTEXT, 16);
        a.map(Reg::R1, sockets);
        a.set(Reg::R3, without_socket);
        a.call(REDIRECT_MAP);
        a.exit();
        a.finish()
    }

    fn arp(&self, a: &mut Assembler, pass: Label, ours: Label) {
        need(a, 42, pass);
        a.load(Width::Word, VALUE, DATA, 38);
        self.any_ipv4(a, ours);
        a.jump(pass);
    }

    /// Jumps to `label` if the word in `VALUE` is one of our IPv4 addresses.
    fn any_ipv4(&self, a: &mut Assembler, label: Label) {
        for addr in &self.addresses {
            if let IpAddr::V4(addr) = addr {
                a.jump_if(Condition::Equal, VALUE, u32::from_ne_bytes(addr.octets()), label);
            }
        }
    }

    fn ipv4(&self, a: &mut Assembler, pass: Label, ours: Label) {
        let [to_us, transport] = std::array::from_fn(|_| a.label());
        need(a, 34, pass);
        a.load(Width::Word, VALUE, DATA, 30);
        self.any_ipv4(a, to_us);
        a.jump(pass);
        a.bind(to_us);
        a.load(Width::Byte, VALUE, DATA, 23);
        a.jump_if(Condition::Equal, VALUE, ICMP.into(), ours);
        a.jump_if(Condition::Equal, VALUE, TCP.into(), transport);
        a.jump_if(Condition::Equal, VALUE, UDP.into(), transport);
        a.jump(pass);
        a.bind(transport);
        if self.ports.is_empty() {
            a.jump(ours);
            return;
        }
        a.load(Width::Half, VALUE, DATA, 20);
        a.alu_value(Op::And, VALUE, half(FRAGMENT_BITS) as i32);
        a.jump_if(Condition::NotEqual, VALUE, 0, ours);
        // Header length in words, times 4, after the Ethernet header.
        a.load(Width::Byte, VALUE, DATA, 14);
        a.alu_value(Op::And, VALUE, 15);
        a.alu_value(Op::ShiftLeft, VALUE, 2);
        a.alu(Op::Add, DATA, VALUE);
        a.alu_value(Op::Add, DATA, 14);
        self.port(a, 0, pass, ours);
    }

    fn ipv6(&self, a: &mut Assembler, pass: Label, ours: Label) {
        let [to_us, transport] = std::array::from_fn(|_| a.label());
        need(a, 54, pass);
        let addresses: Vec<Ipv6Addr> = self
            .addresses
            .iter()
            .filter_map(|addr| match addr {
                IpAddr::V6(addr) => Some(*addr),
                IpAddr::V4(_) => None,
            })
            .collect();
        for &addr in &addresses {
            let next = a.label();
            differs(a, 38, addr, next);
            a.jump(to_us);
            a.bind(next);
        }
        a.load(Width::Byte, VALUE, DATA, 20);
        a.jump_if(Condition::NotEqual, VALUE, ICMPV6.into(), pass);
        need(a, 78, pass);
        let asked = a.label();
        a.load(Width::Byte, VALUE, DATA, 54);
        a.jump_if(Condition::Equal, VALUE, NEIGHBOR_SOLICITATION.into(), asked);
        a.jump_if(Condition::NotEqual, VALUE, NEIGHBOR_ADVERTISEMENT.into(), pass);
        differs(a, 38, ALL_NODES, pass);
        for &addr in &addresses {
            let next = a.label();
            differs(a, 62, addr, next);
            a.jump(ours);
            a.bind(next);
        }
        a.jump(pass);
        a.bind(asked);
        for &addr in &addresses {
            let next = a.label();
            differs(a, 38, solicited_node(addr), next);
            differs(a, 62, addr, next);
            a.jump(ours);
            a.bind(next);
        }
        a.jump(pass);
        a.bind(to_us);
        a.load(Width::Byte, VALUE, DATA, 20);
        for protocol in [ICMPV6].into_iter().chain(EXTENSIONS) {
            a.jump_if(Condition::Equal, VALUE, protocol.into(), ours);
        }
        a.jump_if(Condition::Equal, VALUE, TCP.into(), transport);
        a.jump_if(Condition::Equal, VALUE, UDP.into(), transport);
        a.jump(pass);
        a.bind(transport);
        match self.ports.is_empty() {
            true => a.jump(ours),
            false => self.port(a, 54, pass, ours),
        }
    }

    /// Jumps to `ours` if the destination port of the transport header at `DATA + start` is ours, to
    /// `pass` otherwise.
    fn port(&self, a: &mut Assembler, start: i16, pass: Label, ours: Label) {
        need(a, start + 4, pass);
        a.load(Width::Half, VALUE, DATA, start + 2);
        a.half_from_network(VALUE);
        for range in &self.ports {
            let next = a.label();
            a.jump_if(Condition::Less, VALUE, u32::from(*range.start()), next);
            a.jump_if(Condition::Greater, VALUE, u32::from(*range.end()), next);
            a.jump(ours);
            a.bind(next);
        }
        a.jump(pass);
    }
}

/// Jumps to `pass` unless the frame has `len` bytes after `DATA`.
fn need(a: &mut Assembler, len: i16, pass: Label) {
    a.mov(SCRATCH, DATA);
    a.alu_value(Op::Add, SCRATCH, len.into());
    a.jump_reg(Condition::Greater, SCRATCH, END, pass);
}

/// Jumps to `other` unless `addr` is at byte `at`.
fn differs(a: &mut Assembler, at: i16, addr: Ipv6Addr, other: Label) {
    let octets = addr.octets();
    let (words, _) = octets.as_chunks::<4>();
    for (offset, word) in (at..).step_by(4).zip(words) {
        a.load(Width::Word, VALUE, DATA, offset);
        a.jump_if(Condition::NotEqual, VALUE, u32::from_ne_bytes(*word), other);
    }
}

/// 16 bits in network order, as a load returns them.
fn half(value: u16) -> u32 {
    u16::from_ne_bytes(value.to_be_bytes()).into()
}

/// Solicited-node multicast address of `addr`, RFC 4291 §2.7.1.
fn solicited_node(addr: Ipv6Addr) -> Ipv6Addr {
    let [.., a, b, c] = addr.octets();
    let [high, low] = [0xff00 | u16::from(a), u16::from_be_bytes([b, c])];
    Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, high, low)
}
