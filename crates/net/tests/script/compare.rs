//! Comparison of a packet with the expected one.

use super::ast::{Body, Icmp, Ip, Opt, Packet, Tcp, URG};

/// First field in which `got` differs from `wanted`.
pub fn difference(wanted: &Packet, got: &Packet) -> Option<&'static str> {
    if wanted.ports != got.ports {
        return Some("a port");
    }
    ip(&wanted.ip, &got.ip).or_else(|| match (&wanted.body, &got.body) {
        (Body::Tcp(wanted), Body::Tcp(got)) => tcp(wanted, got),
        (Body::Udp { len: wanted }, Body::Udp { len: got }) => (wanted != got).then_some("the length"),
        (Body::Icmp(wanted), Body::Icmp(got)) => icmp(wanted, got),
        _ => Some("the protocol"),
    })
}

fn ip(wanted: &Ip, got: &Ip) -> Option<&'static str> {
    let differs = |wanted: Option<u8>, got: Option<u8>| wanted.is_some() && wanted != got;
    if differs(wanted.ecn, got.ecn) {
        return Some("the ECN field");
    }
    if differs(wanted.dscp, got.dscp) {
        return Some("the DSCP");
    }
    differs(wanted.ttl, got.ttl).then_some("the hop limit")
}

fn tcp(wanted: &Tcp, got: &Tcp) -> Option<&'static str> {
    let fields = [
        ("flags", wanted.flags == got.flags),
        ("the sequence number", wanted.seq == got.seq),
        ("the length", wanted.len == got.len),
        ("the acknowledgement", wanted.ack == got.ack),
        ("the window", wanted.win.is_none() || wanted.win == got.win),
        ("the urgent pointer", wanted.urg.is_none() || !wanted.has(URG) || wanted.urg == got.urg),
        ("an option", options(wanted.options.as_deref(), got.options.as_deref())),
    ];
    fields.iter().find(|(_, same)| !same).map(|(name, _)| *name)
}

/// True if both have the same options, in any order and with any padding.
fn options(wanted: Option<&[Opt]>, got: Option<&[Opt]>) -> bool {
    let (Some(wanted), Some(got)) = (wanted, got) else { return true };
    let sorted = |options: &[Opt]| {
        let mut kept: Vec<_> =
            options.iter().filter(|option| !matches!(option, Opt::Nop | Opt::End)).cloned().collect();
        kept.sort();
        kept
    };
    let (wanted, got) = (sorted(wanted), sorted(got));
    wanted.len() == got.len() && wanted.iter().zip(&got).all(|(wanted, got)| option(wanted, got))
}

fn option(wanted: &Opt, got: &Opt) -> bool {
    match (wanted, got) {
        (Opt::Stamps(value, echo), Opt::Stamps(got_value, got_echo)) => {
            (value.is_none() || value == got_value) && (echo.is_none() || echo == got_echo)
        }
        (Opt::FastOpen(None), Opt::FastOpen(_)) => true,
        _ => wanted == got,
    }
}

fn icmp(wanted: &Icmp, got: &Icmp) -> Option<&'static str> {
    let fields = [
        ("the ICMP type", wanted.kind == got.kind),
        ("the ICMP code", wanted.code == got.code),
        ("the second word", wanted.word.is_none() || wanted.word == got.word),
        ("the length", wanted.len.is_none() || wanted.len == got.len),
    ];
    fields.iter().find(|(_, same)| !same).map(|(name, _)| *name)
}
