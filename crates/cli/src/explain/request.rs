//! The request to explain, as the frame in which it would arrive.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;

use classify::FlowState;
use queueing::{Bytes, Span};
use wire::ethernet::{self, EtherType};
use wire::ip::{Header, Protocol};
use wire::tcp::{Flags, Options, Segment, Seq};

use crate::Error;

/// A request, and the state of its connection.
#[derive(clap::Args)]
pub struct RequestArgs {
    /// HTTP request: 'GET /pay'.
    #[arg(long, value_name = "REQUEST", group = "asked")]
    http: Option<String>,
    /// HTTP header: 'x-tier: gold'; repeatable.
    #[arg(long, value_name = "HEADER", requires = "http")]
    header: Vec<String>,
    /// Redis command: 'GET key'.
    #[arg(long, value_name = "COMMAND", group = "asked")]
    resp: Option<String>,
    /// memcached command: 'get key'.
    #[arg(long, value_name = "COMMAND", group = "asked")]
    memcached: Option<String>,
    /// TLS connection to this server name.
    #[arg(long, value_name = "NAME", group = "asked")]
    sni: Option<String>,
    /// File with the bytes that the client sends.
    #[arg(long, value_name = "FILE", group = "asked")]
    payload: Option<PathBuf>,
    /// Client: ADDRESS or ADDRESS:PORT.
    #[arg(long, value_name = "ADDRESS", default_value = "192.0.2.1", requires = "asked", value_parser = peer)]
    peer: SocketAddr,
    /// Server port [default: the protocol's port, or 80].
    #[arg(long, value_name = "PORT", requires = "asked", value_parser = clap::value_parser!(u16).range(1..))]
    port: Option<u16>,
    /// DSCP of the packets, 0..=63.
    #[arg(long, value_name = "DSCP", default_value_t = 0, requires = "asked", value_parser = clap::value_parser!(u8).range(..64))]
    dscp: u8,
    /// Bytes received on the connection before.
    #[arg(long, value_name = "BYTES", default_value = "0B", requires = "asked")]
    received: Bytes,
    /// Round-trip time of the connection [default: unknown].
    #[arg(long, value_name = "SPAN", requires = "asked")]
    rtt: Option<Span>,
    /// Packet loss on the connection, 0.0..=1.0.
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, requires = "asked", value_parser = share)]
    loss: f32,
    /// Service time of such requests [default: unknown].
    #[arg(long, value_name = "SPAN", requires = "asked")]
    service: Option<Span>,
}

/// A request as a packet.
pub(super) struct Packet {
    pub(super) peer: SocketAddr,
    pub(super) port: u16,
    pub(super) frame: Vec<u8>,
    pub(super) flow: FlowState,
    pub(super) service: Option<Span>,
}

impl RequestArgs {
    /// The request's packet.
    ///
    /// # Errors
    /// Arguments that do not form a request; nothing is evaluated.
    pub(super) fn packet(&self) -> Result<Packet, Error> {
        let (payload, usual) = if let Some(text) = &self.http {
            (http(text, &self.header)?, 80)
        } else if let Some(text) = &self.resp {
            (resp(text)?, 6379)
        } else if let Some(text) = &self.memcached {
            (memcached(text)?, 11_211)
        } else if let Some(name) = &self.sni {
            (hello(name)?, 443)
        } else if let Some(path) = &self.payload {
            (std::fs::read(path).map_err(|e| Error::file(path, &e))?, 80)
        } else {
            let advice = "--http 'GET /pay', or one of --resp, --memcached, --sni, --payload";
            return Err(Error::new("no request given").advice(advice));
        };
        if payload.is_empty() || payload.len() > PAYLOAD_BYTES_MAX {
            let advice = format!("1 to {PAYLOAD_BYTES_MAX} bytes");
            return Err(Error::new(format!("a payload of {} bytes does not fit a packet", payload.len()))
                .advice(advice));
        }
        let port = self.port.unwrap_or(usual);
        let frame = frame(self.peer, port, self.dscp, &payload);
        let flow = FlowState {
            srtt: self.rtt,
            loss: self.loss,
            received: self.received + Bytes::new(payload.len() as u64),
            ..FlowState::default()
        };
        Ok(Packet { peer: self.peer, port, frame, flow, service: self.service })
    }
}

/// Largest payload that fits an IP packet.
const PAYLOAD_BYTES_MAX: usize = 60_000;
/// Default port of the client.
const PEER_PORT: u16 = 40_000;

fn peer(text: &str) -> Result<SocketAddr, String> {
    let alone = || text.parse().map(|ip: IpAddr| SocketAddr::new(ip, PEER_PORT));
    let bad = |_| format!("{text:?} is not an address such as 10.0.0.9, 10.0.0.9:4000 or [fd00::9]:4000");
    text.parse().or_else(|_| alone()).map_err(bad)
}

fn share(text: &str) -> Result<f32, String> {
    let share = text.parse().ok().filter(|share| (0.0..=1.0).contains(share));
    share.ok_or_else(|| format!("{text:?} is not a share 0.0..=1.0, such as 0.01"))
}

fn http(text: &str, headers: &[String]) -> Result<Vec<u8>, Error> {
    let mut words = text.split(' ');
    let (Some(method), Some(path), None) = (words.next(), words.next(), words.next()) else {
        return Err(Error::new(format!("--http {text:?} is not METHOD PATH")).advice("--http 'GET /pay'"));
    };
    let mut head = format!("{method} {path} HTTP/1.1\r\n");
    for header in headers {
        if !header.contains(':') || header.contains(['\r', '\n']) {
            return Err(Error::new(format!("--header {header:?} is not NAME: VALUE"))
                .advice("--header 'x-tier: gold'"));
        }
        head += &format!("{header}\r\n");
    }
    Ok((head + "\r\n").into_bytes())
}

fn resp(text: &str) -> Result<Vec<u8>, Error> {
    let words: Vec<&str> = text.split_whitespace().collect();
    if words.is_empty() {
        return Err(Error::new("--resp \"\" is not a command").advice("--resp 'GET key'"));
    }
    let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    Ok((format!("*{}\r\n", words.len()) + &words.iter().map(word).collect::<String>()).into_bytes())
}

fn memcached(text: &str) -> Result<Vec<u8>, Error> {
    if text.trim().is_empty() || text.contains(['\r', '\n']) {
        return Err(
            Error::new(format!("--memcached {text:?} is not a command")).advice("--memcached 'get key'")
        );
    }
    Ok(format!("{text}\r\n").into_bytes())
}

/// A minimal ClientHello (RFC 8446 §4.1.2, RFC 6066 §3).
fn hello(name: &str) -> Result<Vec<u8>, Error> {
    if !(1..=255).contains(&name.len()) || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Error::new(format!("--sni {name:?} is not a server name")).advice("--sni shop.example"));
    }
    let long = |bytes: &[u8]| [&(bytes.len() as u16).to_be_bytes()[..], bytes].concat();
    let names = long(&[&[0][..], &long(name.as_bytes())].concat());
    let extensions = long(&[&[0, 0][..], &long(&names)].concat());
    // Version and random, no session, one cipher, no compression.
    let body = [&[3, 3][..], &[0; 32], &[0, 0, 2, 0x13, 1, 1, 0], &extensions].concat();
    let handshake = [&[1, 0][..], &long(&body)].concat();
    Ok([&[22, 3, 1][..], &long(&handshake)].concat())
}

fn frame(peer: SocketAddr, port: u16, dscp: u8, payload: &[u8]) -> Vec<u8> {
    let (kind, target): (_, IpAddr) = match peer.ip() {
        IpAddr::V4(_) => (EtherType::Ipv4, Ipv4Addr::new(192, 0, 2, 2).into()),
        IpAddr::V6(_) => (EtherType::Ipv6, Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 2).into()),
    };
    let segment = Segment {
        source_port: peer.port(),
        target_port: port,
        seq: Seq(1),
        ack: Seq(1),
        flags: Flags::ACK | Flags::PSH,
        window: 1000,
        options: Options::NONE,
        payload,
    };
    let payload_len = segment.header_len() + payload.len();
    let (source, protocol) = (peer.ip(), Protocol::Tcp);
    let header = Header { source, target, protocol, dscp, ecn: 0, hops: protocol.hops(), payload_len };
    let start = ethernet::HEADER_LEN + header.len();
    let mut frame = vec![0; start + payload_len];
    ethernet::emit_header(&mut frame, [2, 0, 0, 0, 0, 2], [2, 0, 0, 0, 0, 1], kind);
    header.emit(&mut frame[ethernet::HEADER_LEN..]);
    segment.emit(source, target, &mut frame[start..]);
    frame
}
