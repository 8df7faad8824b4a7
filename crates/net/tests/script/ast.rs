//! Syntax tree of a script, produced by the parser and executed by the runner.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use queueing::Span;

/// Script.
pub struct Script {
    /// Path from the crate's root.
    pub path: String,
    /// Lines of the text, for reports.
    pub lines: Vec<String>,
    /// Options `--name=value`, with their lines.
    pub options: Vec<(usize, String, String)>,
    pub events: Vec<Event>,
}

/// One line of a script: time and event.
pub struct Event {
    pub line: usize,
    pub when: When,
    pub what: What,
}

/// Time of an event, exact or allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// This long after the script's start.
    At(Span),
    /// This long after the previous event.
    After(Span),
    /// Any time.
    Any,
    /// Interval after the start, or after the previous event.
    Between { from: Span, to: Span, relative: bool },
}

pub enum What {
    /// The peer sends this packet.
    In(Packet),
    /// The stack sends this packet.
    Out(Packet),
    /// Socket call of the application.
    Call(Call),
    /// Assertions that must hold.
    Assert(Vec<Assertion>),
}

/// Socket call `name(args) = result errno`.
pub struct Call {
    pub name: String,
    pub args: Vec<String>,
    /// `None` for `...`: any result.
    pub result: Option<i64>,
    pub errno: Option<String>,
}

/// Assertion `name(fd) op value`.
pub struct Assertion {
    pub name: String,
    pub fd: Option<i64>,
    pub op: String,
    pub value: String,
}

/// Packet in a script. A `None` field is not compared in an expected packet, and has its default in
/// an injected one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Packet {
    pub ip: Ip,
    /// Source and destination port.
    pub ports: Option<(u16, u16)>,
    pub body: Body,
}

/// IP header fields that a script may set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ip {
    pub ecn: Option<u8>,
    pub dscp: Option<u8>,
    pub ttl: Option<u8>,
    /// Fragment: only bytes `.0` to `.1` of the IP payload, and the more-fragments flag.
    pub fragment: Option<(usize, Option<usize>, bool)>,
    /// True if the transport checksum is wrong.
    pub damaged: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Tcp(Tcp),
    /// `udp (len)`.
    Udp {
        len: usize,
    },
    Icmp(Icmp),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tcp {
    pub flags: u8,
    pub seq: u32,
    pub len: u32,
    pub ack: Option<u32>,
    pub win: Option<u16>,
    pub urg: Option<u16>,
    /// `None` for `<...>`: any options.
    pub options: Option<Vec<Opt>>,
}

/// ICMP message, by the names of both versions' types and codes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Icmp {
    /// Quoted packet: sequence number and length of a TCP segment, or length of a datagram.
    pub quote: Option<Quote>,
    pub kind: String,
    pub code: String,
    /// Second word of the header: MTU, pointer or other.
    pub word: Option<u32>,
    /// Bytes after the header of an echo.
    pub len: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quote {
    Tcp { seq: u32, len: u32 },
    Udp { len: usize },
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Opt {
    End,
    Nop,
    Mss(u16),
    Scale(u8),
    SackPermitted,
    Sack(Vec<(u32, u32)>),
    /// Timestamp value and echo; `None` for any.
    Stamps(Option<u32>, Option<u32>),
    /// Fast Open cookie, empty for a request; `None` for any.
    FastOpen(Option<Vec<u8>>),
    /// Any other option: kind and bytes.
    Other(u8, Vec<u8>),
}

pub const FIN: u8 = 0x01;
pub const SYN: u8 = 0x02;
pub const RST: u8 = 0x04;
pub const ACK: u8 = 0x10;
pub const URG: u8 = 0x20;

/// Letters of the flags, in the order of the dialect.
pub const FLAGS: [(char, u8); 8] =
    [('S', SYN), ('F', FIN), ('R', RST), ('P', 0x08), ('U', URG), ('E', 0x40), ('W', 0x80), ('.', ACK)];

/// Names of the ECN code points.
pub const ECN: [(&str, u8); 4] = [("noecn", 0), ("ect1", 1), ("ect0", 2), ("ce", 3)];

impl Tcp {
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

impl Packet {
    /// Fast Open cookie of the segment.
    pub fn cookie(&self) -> Option<&[u8]> {
        let Body::Tcp(Tcp { options: Some(options), .. }) = &self.body else { return None };
        options.iter().find_map(|option| match option {
            Opt::FastOpen(cookie) => cookie.as_deref(),
            _ => None,
        })
    }

    /// Replaces a cookie `any` by `cookie`.
    pub fn show_cookie(&mut self, cookie: &[u8]) {
        let Body::Tcp(Tcp { options: Some(options), .. }) = &mut self.body else { return };
        for option in options {
            if let Opt::FastOpen(unknown @ None) = option {
                *unknown = Some(cookie.to_vec());
            }
        }
    }
}

impl fmt::Display for Packet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        let ecn = self.ip.ecn.filter(|ecn| *ecn != 0).map(|ecn| ECN[usize::from(ecn)].0.to_owned());
        words.extend(ecn);
        words.extend(self.ip.dscp.filter(|dscp| *dscp != 0).map(|dscp| format!("dscp {dscp}")));
        if let Some((from, to, more)) = self.ip.fragment {
            let to = to.map_or(String::new(), |to| to.to_string());
            words.push(format!("frag {from}:{to}{}", if more { "+" } else { "" }));
        }
        if !words.is_empty() {
            write!(f, "[{}] ", words.join(","))?;
        }
        if let Some((source, target)) = self.ports {
            write!(f, "{source} > {target} ")?;
        }
        match &self.body {
            Body::Tcp(tcp) => tcp.fmt(f),
            Body::Udp { len } => write!(f, "udp ({len})"),
            Body::Icmp(icmp) => icmp.fmt(f),
        }
    }
}

impl fmt::Display for Tcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&letters(self.flags))?;
        write!(f, " {}:{}({})", self.seq, self.seq.wrapping_add(self.len), self.len)?;
        if let Some(ack) = self.ack {
            write!(f, " ack {ack}")?;
        }
        if let Some(win) = self.win {
            write!(f, " win {win}")?;
        }
        if let Some(urg) = self.urg.filter(|_| self.has(URG)) {
            write!(f, " urg {urg}")?;
        }
        match &self.options {
            None => f.write_str(" <...>"),
            Some(options) if options.is_empty() => Ok(()),
            Some(options) => {
                let words: Vec<_> = options.iter().map(ToString::to_string).collect();
                write!(f, " <{}>", words.join(","))
            }
        }
    }
}

/// Flags as letters.
pub fn letters(flags: u8) -> String {
    let set: String = FLAGS.iter().filter(|(_, bit)| flags & bit != 0).map(|(letter, _)| letter).collect();
    if set.is_empty() { "-".to_owned() } else { set }
}

impl fmt::Display for Icmp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.quote {
            Some(Quote::Tcp { seq, len }) => write!(f, "[{seq}:{}({len})] ", seq.wrapping_add(len))?,
            Some(Quote::Udp { len }) => write!(f, "[udp ({len})] ")?,
            None => {}
        }
        write!(f, "icmp {}", self.kind)?;
        if !self.code.is_empty() {
            write!(f, " {}", self.code)?;
        }
        if let Some(word) = self.word {
            write!(f, " mtu {word}")?;
        }
        self.len.map_or(Ok(()), |len| write!(f, " ({len})"))
    }
}

impl fmt::Display for Opt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = |n: &Option<u32>| n.map_or("any".to_owned(), |n| n.to_string());
        match self {
            Self::End => f.write_str("eol"),
            Self::Nop => f.write_str("nop"),
            Self::Mss(mss) => write!(f, "mss {mss}"),
            Self::Scale(shift) => write!(f, "wscale {shift}"),
            Self::SackPermitted => f.write_str("sackOK"),
            Self::Sack(blocks) => {
                f.write_str("sack")?;
                blocks.iter().try_for_each(|(start, end)| write!(f, " {start}:{end}"))
            }
            Self::Stamps(value, echo) => write!(f, "TS val {} ecr {}", number(value), number(echo)),
            Self::FastOpen(None) => f.write_str("FO any"),
            Self::FastOpen(Some(cookie)) => write!(f, "FO {}", hex(cookie)),
            Self::Other(kind, bytes) => write!(f, "opt {kind} {}", hex(bytes)),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// ICMP types and codes by name: numbers of version 4 and 6.
pub fn icmp_types() -> BTreeMap<(&'static str, &'static str), [(u8, u8); 2]> {
    const NONE: (u8, u8) = (255, 255);
    BTreeMap::from([
        (("unreachable", "net_unreachable"), [(3, 0), (1, 0)]),
        (("unreachable", "host_unreachable"), [(3, 1), (1, 3)]),
        (("unreachable", "protocol_unreachable"), [(3, 2), NONE]),
        (("unreachable", "port_unreachable"), [(3, 3), (1, 4)]),
        (("unreachable", "frag_needed"), [(3, 4), NONE]),
        (("unreachable", "admin_prohibited"), [(3, 13), (1, 1)]),
        (("packet_too_big", ""), [NONE, (2, 0)]),
        (("time_exceeded", "ttl"), [(11, 0), (3, 0)]),
        (("time_exceeded", "reassembly"), [(11, 1), (3, 1)]),
        (("parameter_problem", ""), [(12, 0), (4, 0)]),
        (("source_quench", ""), [(4, 0), NONE]),
        (("echo_request", ""), [(8, 0), (128, 0)]),
        (("echo_reply", ""), [(0, 0), (129, 0)]),
    ])
}
