//! Packet codec, independent of the stack's parsers so that errors in those show. Numbers are those
//! on the wire.

use super::ast::{ACK, Body, Icmp, Ip, Opt, Packet, Quote, Tcp, URG, icmp_types};

pub const STACK_MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub const PEER_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub const STACK_V4: [u8; 4] = [10, 0, 0, 1];
pub const PEER_V4: [u8; 4] = [10, 0, 0, 2];
pub const STACK_V6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
pub const PEER_V6: [u8; 16] = [0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2];

const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;
const FRAGMENT: u8 = 44;

/// Sender of a packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum From {
    Peer,
    Stack,
}

fn addresses(v6: bool, from: From) -> (Vec<u8>, Vec<u8>) {
    let (peer, stack) =
        if v6 { (PEER_V6.to_vec(), STACK_V6.to_vec()) } else { (PEER_V4.to_vec(), STACK_V4.to_vec()) };
    if from == From::Peer { (peer, stack) } else { (stack, peer) }
}

/// Frame with `packet` from the peer to the stack.
pub fn frame(v6: bool, packet: &Packet, payload: &[u8]) -> Vec<u8> {
    let mut frame = [&STACK_MAC[..], &PEER_MAC[..], if v6 { &[0x86, 0xdd] } else { &[8, 0] }].concat();
    frame.extend(ip_packet(v6, From::Peer, packet, payload));
    frame
}

fn ip_packet(v6: bool, from: From, packet: &Packet, payload: &[u8]) -> Vec<u8> {
    let (source, target) = addresses(v6, from);
    let (protocol, mut body) = body(v6, packet, payload, from);
    let at = match protocol {
        TCP => Some(16),
        UDP => Some(6),
        _ => Some(2),
    };
    if let Some(at) = at {
        let sum = if protocol == ICMP {
            checksum(&body)
        } else {
            let len = (body.len() as u32).to_be_bytes();
            checksum(&[&source[..], &target, &len, &[0, 0, 0, protocol], &body].concat())
        };
        let sum = if packet.ip.damaged { sum ^ 0x5555 } else { sum };
        body[at..at + 2].copy_from_slice(&sum.to_be_bytes());
    }
    let ident =
        body.iter().take(8).fold(7u16, |sum, byte| sum.wrapping_mul(31).wrapping_add(u16::from(*byte)));
    let total = body.len();
    let (start, fragment, more) = match packet.ip.fragment {
        Some((start, end, more)) => (start, &body[start..end.unwrap_or(total)], more),
        None => (0, &body[..], false),
    };
    let is_fragment = packet.ip.fragment.is_some();
    ip_header(
        v6,
        &packet.ip,
        protocol,
        is_fragment.then_some((start, more, ident)),
        &source,
        &target,
        fragment,
    )
}

fn ip_header(
    v6: bool,
    ip: &Ip,
    protocol: u8,
    fragment: Option<(usize, bool, u16)>,
    source: &[u8],
    target: &[u8],
    body: &[u8],
) -> Vec<u8> {
    let class = ip.dscp.unwrap_or(0) << 2 | ip.ecn.unwrap_or(0);
    let hops = ip.ttl.unwrap_or(64);
    let fragment_field = fragment.map(|(start, more, ident)| ((start as u16) | u16::from(more), ident));
    if v6 {
        let mut rest = Vec::new();
        if let Some((field, ident)) = fragment_field {
            rest.extend([protocol, 0]);
            rest.extend(field.to_be_bytes());
            rest.extend(u32::from(ident).to_be_bytes());
        }
        rest.extend(body);
        let next = if fragment_field.is_some() { FRAGMENT } else { protocol };
        let [high, low] = (rest.len() as u16).to_be_bytes();
        return [&[0x60 | class >> 4, class << 4, 0, 0, high, low, next, hops][..], source, target, &rest]
            .concat();
    }
    let (fragment_offset, ident) =
        fragment_field.map_or((0x4000, 0), |(encoded, ident)| ((encoded >> 3) | (encoded & 1) << 13, ident));
    let mut header = vec![0x45, class];
    header.extend((20 + body.len() as u16).to_be_bytes());
    header.extend(ident.to_be_bytes());
    header.extend(fragment_offset.to_be_bytes());
    header.extend([hops, protocol, 0, 0]);
    header.extend(source);
    header.extend(target);
    let sum = checksum(&header);
    header[10..12].copy_from_slice(&sum.to_be_bytes());
    header.extend(body);
    header
}

/// Protocol and bytes, with checksum 0.
fn body(v6: bool, packet: &Packet, payload: &[u8], from: From) -> (u8, Vec<u8>) {
    let (source, target) = packet.ports.unwrap_or_default();
    let mut bytes = [source.to_be_bytes(), target.to_be_bytes()].concat();
    match &packet.body {
        Body::Tcp(tcp) => {
            tcp_header(tcp, &mut bytes);
            bytes.extend(payload);
            (TCP, bytes)
        }
        Body::Udp { len } => {
            bytes.extend((8 + *len as u16).to_be_bytes());
            bytes.extend([0, 0]);
            bytes.extend(payload);
            (UDP, bytes)
        }
        Body::Icmp(icmp) => icmp_message(v6, icmp, packet, payload, from),
    }
}

fn tcp_header(tcp: &Tcp, bytes: &mut Vec<u8>) {
    let mut options = Vec::new();
    tcp.options.iter().flatten().for_each(|option| option_bytes(option, &mut options));
    options.resize(options.len().next_multiple_of(4), 0);
    bytes.extend(tcp.seq.to_be_bytes());
    bytes.extend(tcp.ack.unwrap_or(0).to_be_bytes());
    bytes.extend([((20 + options.len()) as u8) << 2, tcp.flags]);
    bytes.extend(tcp.win.unwrap_or(0).to_be_bytes());
    bytes.extend([0, 0]);
    bytes.extend(tcp.urg.unwrap_or(0).to_be_bytes());
    bytes.extend(options);
}

fn option_bytes(option: &Opt, bytes: &mut Vec<u8>) {
    match option {
        Opt::End => bytes.push(0),
        Opt::Nop => bytes.push(1),
        Opt::Mss(mss) => bytes.extend([2, 4, (mss >> 8) as u8, *mss as u8]),
        Opt::Scale(shift) => bytes.extend([3, 3, *shift]),
        Opt::SackPermitted => bytes.extend([4, 2]),
        Opt::Sack(blocks) => {
            bytes.extend([5, 2 + 8 * blocks.len() as u8]);
            for (start, end) in blocks {
                bytes.extend([start.to_be_bytes(), end.to_be_bytes()].concat());
            }
        }
        Opt::Stamps(value, echo) => {
            bytes.extend([8, 10]);
            bytes.extend([value.unwrap_or(0).to_be_bytes(), echo.unwrap_or(0).to_be_bytes()].concat());
        }
        Opt::FastOpen(cookie) => {
            let cookie = cookie.as_deref().unwrap_or_default();
            bytes.extend([34, 2 + cookie.len() as u8]);
            bytes.extend(cookie);
        }
        Opt::Other(kind, data) => {
            bytes.extend([*kind, 2 + data.len() as u8]);
            bytes.extend(data);
        }
    }
}

fn icmp_message(v6: bool, icmp: &Icmp, packet: &Packet, payload: &[u8], from: From) -> (u8, Vec<u8>) {
    let types = icmp_types();
    let (kind, code) = types[&(icmp.kind.as_str(), icmp.code.as_str())][usize::from(v6)];
    let mut bytes = vec![kind, code, 0, 0];
    bytes.extend(icmp.word.unwrap_or(0).to_be_bytes());
    if let Some(quote) = icmp.quote {
        // The quoted packet went in the opposite direction.
        let ports = packet.ports.map(|(source, target)| (target, source));
        let (body, len) = match quote {
            Quote::Tcp { seq, len } => {
                let tcp =
                    Tcp { flags: ACK, seq, len, ack: Some(0), win: None, urg: None, options: Some(vec![]) };
                (Body::Tcp(tcp), len as usize)
            }
            Quote::Udp { len } => (Body::Udp { len }, len),
        };
        let other = if from == From::Peer { From::Stack } else { From::Peer };
        let quoted = Packet { ip: Ip::default(), ports, body };
        let mut original = ip_packet(v6, other, &quoted, &vec![0; len]);
        original.truncate(if v6 { 1232 } else { 28 });
        bytes.extend(original);
    } else {
        bytes.extend(payload);
    }
    (if v6 { ICMPV6 } else { ICMP }, bytes)
}

/// Packet and payload of a frame of the stack. `None` for protocols outside scripts (ARP, neighbour
/// discovery).
pub fn decode(frame: &[u8]) -> Option<Result<(Packet, Vec<u8>), String>> {
    let ip = &frame[14..];
    match frame[12..14] {
        [8, 0] => Some(decode_v4(ip)),
        [0x86, 0xdd] if ip[6] == ICMPV6 && (130..=143).contains(&ip[40]) => None,
        [0x86, 0xdd] if ip[6] == 0 => None,
        [0x86, 0xdd] => Some(decode_v6(ip)),
        _ => None,
    }
}

fn decode_v4(ip: &[u8]) -> Result<(Packet, Vec<u8>), String> {
    let header_len = usize::from(ip[0] & 15) * 4;
    if checksum(&ip[..header_len]) != 0 {
        return Err("an IPv4 header with a wrong checksum".to_owned());
    }
    let body = &ip[header_len..usize::from(be16(ip, 2))];
    let pseudo = [&ip[12..20], &(body.len() as u32).to_be_bytes(), &[0, 0, 0, ip[9]]].concat();
    let head = Ip { ecn: Some(ip[1] & 3), dscp: Some(ip[1] >> 2), ttl: Some(ip[8]), ..Ip::default() };
    decode_body(head, ip[9], &pseudo, body, 0)
}

fn decode_v6(ip: &[u8]) -> Result<(Packet, Vec<u8>), String> {
    let class = ip[0] << 4 | ip[1] >> 4;
    let body = &ip[40..40 + usize::from(be16(ip, 4))];
    let pseudo = [&ip[8..40], &(body.len() as u32).to_be_bytes(), &[0, 0, 0, ip[6]]].concat();
    let head = Ip { ecn: Some(class & 3), dscp: Some(class >> 2), ttl: Some(ip[7]), ..Ip::default() };
    decode_body(head, ip[6], &pseudo, body, 1)
}

fn decode_body(
    ip: Ip,
    protocol: u8,
    pseudo: &[u8],
    body: &[u8],
    version: usize,
) -> Result<(Packet, Vec<u8>), String> {
    let summed = if protocol == ICMP { body.to_vec() } else { [pseudo, body].concat() };
    if checksum(&summed) != 0 {
        return Err(format!("a wrong checksum in protocol {protocol}"));
    }
    let ports = Some((be16(body, 0), be16(body, 2)));
    match protocol {
        TCP => {
            let header_len = usize::from(body[12] >> 4) * 4;
            let (flags, payload) = (body[13], body[header_len..].to_vec());
            let tcp = Tcp {
                flags,
                seq: be32(body, 4),
                len: payload.len() as u32,
                ack: (flags & ACK != 0).then(|| be32(body, 8)),
                win: Some(be16(body, 14)),
                urg: (flags & URG != 0).then(|| be16(body, 18)),
                options: Some(decode_options(&body[20..header_len])?),
            };
            Ok((Packet { ip, ports, body: Body::Tcp(tcp) }, payload))
        }
        UDP => Ok((Packet { ip, ports, body: Body::Udp { len: body.len() - 8 } }, body[8..].to_vec())),
        ICMP | ICMPV6 => {
            let named = (body[0], body[1]);
            let types = icmp_types();
            let Some(((kind, code), _)) = types.iter().find(|(_, numbers)| numbers[version] == named) else {
                return Err(format!("ICMP type {} code {}", body[0], body[1]));
            };
            let word = (*kind == "packet_too_big" || *code == "frag_needed").then(|| be32(body, 4));
            let len = kind.starts_with("echo").then_some(body.len() - 8);
            let icmp = Icmp { quote: None, kind: (*kind).into(), code: (*code).into(), word, len };
            Ok((Packet { ip, ports: None, body: Body::Icmp(icmp) }, body[8..].to_vec()))
        }
        other => Err(format!("protocol {other}")),
    }
}

fn decode_options(mut bytes: &[u8]) -> Result<Vec<Opt>, String> {
    let mut options = Vec::new();
    while let [kind, rest @ ..] = bytes {
        if *kind < 2 {
            options.push(if *kind == 0 { Opt::End } else { Opt::Nop });
            bytes = if *kind == 0 { &[] } else { rest };
            continue;
        }
        let len = rest.first().map_or(0, |len| usize::from(*len));
        if len < 2 || len > bytes.len() {
            return Err(format!("option {kind} of length {len}"));
        }
        let (option, after) = bytes.split_at(len);
        let data = &option[2..];
        options.push(match (*kind, len) {
            (2, 4) => Opt::Mss(be16(data, 0)),
            (3, 3) => Opt::Scale(data[0]),
            (4, 2) => Opt::SackPermitted,
            (5, _) if data.len() % 8 == 0 => {
                Opt::Sack(data.chunks_exact(8).map(|block| (be32(block, 0), be32(block, 4))).collect())
            }
            (8, 10) => Opt::Stamps(Some(be32(data, 0)), Some(be32(data, 4))),
            (34, _) => Opt::FastOpen(Some(data.to_vec())),
            _ => Opt::Other(*kind, data.to_vec()),
        });
        bytes = after;
    }
    Ok(options)
}

/// Reply to a request for the peer's hardware address in `frame`; it keeps the stack's neighbour
/// cache filled.
pub fn answer(frame: &[u8]) -> Option<Vec<u8>> {
    let ip = &frame[14..];
    match frame[12..14] {
        [8, 6] if ip[7] == 1 && ip[24..28] == PEER_V4 => Some(arp(2, &STACK_MAC)),
        [0x86, 0xdd] if ip[6] == ICMPV6 && ip[40] == 135 && ip[48..64] == PEER_V6 => Some(advertisement()),
        _ => None,
    }
}

/// ARP packet of the peer: operation 1 requests the stack's address, 2 replies to it.
pub fn arp(operation: u8, target_mac: &[u8; 6]) -> Vec<u8> {
    let to = if operation == 1 { [0xff; 6] } else { STACK_MAC };
    let head = [&to[..], &PEER_MAC, &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation]].concat();
    [&head[..], &PEER_MAC, &PEER_V4, target_mac, &STACK_V4, &[0; 18]].concat()
}

/// Neighbour advertisement of the peer: solicited, override.
fn advertisement() -> Vec<u8> {
    neighbor(136, 0x6000_0000, &PEER_V6, 2)
}

/// Neighbour solicitation of the peer for the stack.
pub fn solicitation() -> Vec<u8> {
    neighbor(135, 0, &STACK_V6, 1)
}

fn neighbor(kind: u8, flags: u32, about: &[u8; 16], option: u8) -> Vec<u8> {
    let mut body = vec![kind, 0, 0, 0];
    body.extend(flags.to_be_bytes());
    body.extend(about);
    body.extend([option, 1]);
    body.extend(PEER_MAC);
    let len = (body.len() as u32).to_be_bytes();
    let sum = checksum(&[&PEER_V6[..], &STACK_V6, &len, &[0, 0, 0, ICMPV6], &body].concat());
    body[2..4].copy_from_slice(&sum.to_be_bytes());
    let ip = Ip { ttl: Some(255), ..Ip::default() };
    let packet = ip_header(true, &ip, ICMPV6, None, &PEER_V6, &STACK_V6, &body);
    [&STACK_MAC[..], &PEER_MAC, &[0x86, 0xdd], &packet].concat()
}

/// Internet checksum; 0 over bytes with a correct checksum.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0)));
    let mut sum: u32 = words.sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}
