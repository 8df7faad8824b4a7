//! Test frames for the model and the loaded program.

use super::frames::{ACK, SYN, ethernet, ipv4, ipv6, syn, tagged, tcp};
use super::model::Listening;

/// A frame with a description.
pub struct Vector {
    pub what: &'static str,
    pub frame: Vec<u8>,
    /// True if it is parsed as a SYN.
    pub is_syn: bool,
}

/// A listener with free capacity.
pub const LISTENING: Listening = Listening { waiting: 0, room: 128 };

/// Frames. Ports 80 and 81 are guarded and have listeners, of IPv4 only and of both; 82 has a full one;
/// 83 is guarded and has none; 84 has one and is not guarded.
pub fn vectors() -> Vec<Vector> {
    let cut = |mut frame: Vec<u8>, len: usize| {
        frame.truncate(len);
        frame
    };
    let wrong = |mut frame: Vec<u8>, at: usize, byte: u8| {
        frame[at] = byte;
        frame
    };
    let (syn4, syn6) = (|port| syn(port), |port| ipv6(1, 6, &tcp(port, 2)));
    // IPv6 behind extension headers of these kinds, each of 8 bytes plus `more` times 8.
    let behind = |kinds: &[u8], more: u8, last: &[u8]| {
        let next = kinds[1..].iter().copied().chain([6]);
        let extension = |next: u8| [&[next, more, 1, 0][..], &vec![0; 4 + 8 * usize::from(more)]].concat();
        let extensions: Vec<u8> = next.flat_map(extension).collect();
        ipv6(1, kinds[0], &[&extensions, last].concat())
    };
    let flags = |flags| ipv4([10, 0, 0, 1], 0, 0, &tcp(80, flags));
    let syns = [
        ("a syn", syn4(80)),
        ("a syn for another listener", syn4(81)),
        ("a syn for a full listener", syn4(82)),
        ("a syn without a listener", syn4(83)),
        ("a syn for a port that is not guarded", syn4(84)),
        ("a syn from the first class", ipv4([10, 7, 0, 1], 0, 0, &tcp(80, 2))),
        ("a syn from the second class", ipv4([11, 7, 0, 1], 0, 0, &tcp(80, 2))),
        ("a syn from the first class within the second", ipv4([11, 7, 7, 7], 0, 0, &tcp(80, 2))),
        ("a syn for a port of the first class", syn4(81)),
        ("a syn behind options", ipv4([10, 0, 0, 1], 40, 0, &tcp(80, 2))),
        ("a syn that may not be fragmented", ipv4([10, 0, 0, 1], 0, 0x4000, &tcp(80, 2))),
        ("a syn with data, urgent, pushed, with ECN flags", flags(2 | 8 | 32 | 64 | 128)),
        ("a syn with a tag", tagged(0x8100, &syn4(80))),
        ("a syn with two tags", tagged(0x88a8, &tagged(0x8100, &syn4(80)))),
        ("a syn over ipv6 for a listener of ipv4 only", syn6(80)),
        ("a syn over ipv6", syn6(81)),
        ("a syn over ipv6 from a class", ipv6(7, 6, &tcp(81, 2))),
        ("a syn over ipv6 with a tag", tagged(0x8100, &syn6(81))),
        ("a syn over ipv6 for a full listener", syn6(82)),
        ("a syn over ipv6 without a listener", syn6(83)),
        ("a syn with data", ipv4([10, 0, 0, 1], 0, 0, &[tcp(80, 2), vec![7; 33]].concat())),
        (
            "a syn over ipv6 with data and a tag",
            tagged(0x8100, &ipv6(1, 6, &[tcp(81, 2), vec![7; 5]].concat())),
        ),
        ("a syn from a multicast mac address", wrong(syn4(80), 6, 3)),
        ("a syn to the broadcast mac address", wrong(syn4(80), 0, 0xff)),
        ("a syn from a multicast address", ipv4([224, 0, 0, 1], 0, 0, &tcp(80, 2))),
        ("a syn from 0.0.0.0", ipv4([0; 4], 0, 0, &tcp(80, 2))),
        ("a syn over ipv6 from a multicast address", wrong(syn6(81), 22, 0xff)),
        ("a syn with a too small packet length", wrong(syn4(80), 17, 39)),
        ("a syn with a too large packet length", wrong(syn4(80), 16, 5)),
        ("a syn over ipv6 with a too small packet length", wrong(syn6(81), 19, 19)),
        ("a syn with a tcp header too short", wrong(syn4(80), 46, 0x40)),
        ("a syn behind padding", [syn4(80), vec![0; 6]].concat()),
        ("a syn behind hop-by-hop options", behind(&[0], 0, &tcp(81, 2))),
        ("a syn behind destination options, with a tag", tagged(0x8100, &behind(&[60], 3, &tcp(81, 2)))),
        ("a syn behind a routing header without segments left", behind(&[43], 1, &tcp(81, 2))),
        ("a syn behind six extension headers", behind(&[0, 60, 43, 60, 60, 60], 0, &tcp(81, 2))),
    ];
    let others = [
        ("an answer to a syn", flags(SYN | ACK)),
        ("an ack", flags(ACK)),
        ("a reset", flags(4 | 16)),
        ("a syn that resets", flags(2 | 4)),
        ("a syn that ends", flags(2 | 1)),
        ("no flags", flags(0)),
        ("a first fragment", ipv4([10, 0, 0, 1], 0, 0x2000, &tcp(80, 2))),
        ("a later fragment", ipv4([10, 0, 0, 1], 0, 0x00b9, &tcp(80, 2))),
        ("udp", wrong(syn4(80), 23, 17)),
        ("ipv4 of another version", wrong(syn4(80), 14, 0x65)),
        ("ipv4 with a header too short", wrong(syn4(80), 14, 0x44)),
        ("ipv4 with a header longer than the frame", wrong(syn4(80), 14, 0x4f)),
        ("a tcp header cut short", cut(syn4(80), 53)),
        ("three tags", tagged(0x8100, &tagged(0x8100, &tagged(0x8100, &syn4(80))))),
        ("a tag and no more", ethernet(0x8100, &[0, 5])),
        ("a tagged ipv4 header cut short", cut(tagged(0x8100, &syn4(80)), 37)),
        ("seven extension headers", behind(&[0, 60, 43, 60, 60, 60, 60], 0, &tcp(81, 2))),
        ("an extension header cut short", cut(behind(&[60], 0, &tcp(81, 2)), 61)),
        ("a tcp header cut short behind one", cut(behind(&[60], 2, &tcp(81, 2)), 97)),
        ("an extension header longer than the packet", wrong(behind(&[60], 0, &tcp(81, 2)), 55, 255)),
        ("a routing header with a segment left", wrong(behind(&[43], 0, &tcp(81, 2)), 57, 1)),
        ("an ack behind hop-by-hop options", behind(&[0], 0, &tcp(81, 16))),
        ("an authentication header", behind(&[51], 0, &tcp(81, 2))),
        ("an ipv6 fragment", ipv6(1, 44, &[&[6, 0, 0, 1, 0, 0, 0, 1], &tcp(81, 2)[..]].concat())),
        ("ipv6 of another version", wrong(syn6(81), 14, 0x40)),
        ("an ipv6 tcp header cut short", cut(syn6(81), 73)),
        ("arp", ethernet(0x0806, &[0; 28])),
        ("lldp", ethernet(0x88cc, &[0; 60])),
    ];
    let all = |is_syn| move |(what, frame)| Vector { what, frame, is_syn };
    syns.into_iter().map(all(true)).chain(others.into_iter().map(all(false))).collect()
}
