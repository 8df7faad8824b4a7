//! Parser of packets in scripts.

use super::ast::{ACK, Body, ECN, FLAGS, Icmp, Ip, Opt, Packet, Quote, SYN, Tcp, icmp_types};
use super::cursor::{Cursor, Parsed, split_top};

/// Packet after `<` or `>`.
pub fn packet(c: &mut Cursor<'_>) -> Parsed<Packet> {
    let (mut ip, mut quote) = (Ip::default(), None);
    while c.eat("[") {
        let inside = c.until_close('[', ']')?;
        let mut inner = Cursor::new(inside);
        if inner.at_digit() {
            let (seq, len) = range(&mut inner)?;
            quote = Some(Quote::Tcp { seq, len });
        } else if inner.eat_word("udp") {
            quote = Some(Quote::Udp { len: parenthesized(&mut inner)? });
        } else {
            prefixes(inside, &mut ip)?;
        }
    }
    let mut ports = None;
    if c.at_digit() {
        let source = c.number("a source port")?;
        c.expect(">")?;
        ports = Some((source, c.number("a target port")?));
    }
    let body = if c.eat_word("udp") {
        Body::Udp { len: parenthesized(c)? }
    } else if c.eat_word("icmp") {
        Body::Icmp(icmp(c, quote)?)
    } else {
        Body::Tcp(tcp(c)?)
    };
    Ok(Packet { ip, ports, body })
}

fn parenthesized(c: &mut Cursor<'_>) -> Parsed<usize> {
    c.expect("(")?;
    let len = c.number("a length")?;
    c.expect(")")?;
    Ok(len)
}

fn prefixes(text: &str, ip: &mut Ip) -> Parsed<()> {
    for part in split_top(text) {
        let mut c = Cursor::new(&part);
        if c.eat_word("dscp") {
            ip.dscp = Some(c.number("a code point, 0 to 63")?);
        } else if c.eat_word("ttl") {
            ip.ttl = Some(c.number("hops, 0 to 255")?);
        } else if c.eat_word("badsum") {
            ip.damaged = true;
        } else if c.eat_word("frag") {
            let from = c.number("the first byte, a multiple of 8")?;
            c.expect(":")?;
            let to = if c.at_digit() { Some(c.number("the end")?) } else { None };
            ip.fragment = Some((from, to, c.eat("+")));
        } else if let Some((_, ecn)) = ECN.iter().find(|(name, _)| *name == part) {
            ip.ecn = Some(*ecn);
        } else {
            return c.invalid("noecn, ect0, ect1, ce, dscp N, ttl N, frag FROM:TO, badsum");
        }
    }
    Ok(())
}

/// Parses `seq:end(len)`.
fn range(c: &mut Cursor<'_>) -> Parsed<(u32, u32)> {
    let seq: u32 = c.number("a sequence number")?;
    c.expect(":")?;
    let end: u32 = c.number("the sequence number after the last byte")?;
    c.expect("(")?;
    let len: u32 = c.number("the length")?;
    c.expect(")")?;
    if end.wrapping_sub(seq) != len {
        return c.invalid(&format!("{seq}:{}({len}): the end is start and length", seq.wrapping_add(len)));
    }
    Ok((seq, len))
}

fn tcp(c: &mut Cursor<'_>) -> Parsed<Tcp> {
    let letters = c.take_while(|c| c == '-' || FLAGS.iter().any(|(letter, _)| *letter == c));
    if letters.is_empty() {
        return c.invalid("flags (of SFRPUEW. or -), udp or icmp");
    }
    let flags = FLAGS.iter().filter(|(l, _)| letters.contains(*l)).map(|(_, bit)| bit).sum();
    let (seq, len) = range(c)?;
    let mut tcp = Tcp { flags, seq, len, ack: None, win: None, urg: None, options: Some(Vec::new()) };
    loop {
        if c.eat_word("ack") {
            tcp.ack = Some(c.number("the acknowledgement")?);
        } else if c.eat_word("win") {
            tcp.win = Some(c.number("a window, 0 to 65535")?);
        } else if c.eat_word("urg") {
            tcp.urg = Some(c.number("the urgent pointer")?);
        } else if c.eat("<...>") {
            tcp.options = None;
        } else if c.eat("<") {
            let list = c.until_close('<', '>')?;
            tcp.options = Some(split_top(list).iter().map(|part| option(part)).collect::<Parsed<_>>()?);
        } else if c.is_done() {
            break;
        } else {
            return c.invalid("ack N, win N, urg N, <options>");
        }
    }
    if tcp.has(ACK) != tcp.ack.is_some() {
        return c.invalid("`ack N` exactly with the flag `.`");
    }
    Ok(tcp)
}

fn option(text: &str) -> Parsed<Opt> {
    let mut c = Cursor::new(text);
    let parsed = match c.word() {
        "nop" => Opt::Nop,
        "eol" => Opt::End,
        "sackOK" => Opt::SackPermitted,
        "mss" => Opt::Mss(c.number("a segment size")?),
        "wscale" => Opt::Scale(c.number("a shift")?),
        "sack" => {
            let mut blocks = Vec::new();
            while c.at_digit() {
                let start = c.number("the start of a block")?;
                c.expect(":")?;
                blocks.push((start, c.number("the end of a block")?));
            }
            Opt::Sack(blocks)
        }
        "TS" => {
            let mut field = |name: &str| {
                if !c.eat_word(name) {
                    return c.invalid("TS val N ecr N");
                }
                if c.eat_word("any") { Ok(None) } else { c.number("a timestamp or `any`").map(Some) }
            };
            Opt::Stamps(field("val")?, field("ecr")?)
        }
        "FO" if c.eat_word("any") => Opt::FastOpen(None),
        "FO" => Opt::FastOpen(Some(bytes(&mut c)?)),
        "opt" => Opt::Other(c.number("an option's kind")?, bytes(&mut c)?),
        _ => {
            return Cursor::new(text).invalid(
                "mss N, wscale N, sackOK, sack A:B …, TS val N ecr N, FO HEX, opt KIND HEX, nop, eol",
            );
        }
    };
    if c.is_done() { Ok(parsed) } else { c.invalid("`,` or `>`") }
}

/// Pairs of hexadecimal digits.
fn bytes(c: &mut Cursor<'_>) -> Parsed<Vec<u8>> {
    let digits = c.take_while(|c| c.is_ascii_hexdigit());
    if !digits.len().is_multiple_of(2) {
        return c.invalid("an even number of hexadecimal digits");
    }
    Ok((0..digits.len())
        .step_by(2)
        .filter_map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok())
        .collect())
}

fn icmp(c: &mut Cursor<'_>, quote: Option<Quote>) -> Parsed<Icmp> {
    let kind = c.word().to_owned();
    let types = icmp_types();
    let codes: Vec<_> = types.keys().filter(|(k, _)| *k == kind).map(|(_, code)| *code).collect();
    if codes.is_empty() {
        let all: Vec<_> = types.keys().map(|(kind, _)| *kind).collect();
        return c.invalid(&all.join(", "));
    }
    let code = if codes == [""] { String::new() } else { c.word().to_owned() };
    if !codes.contains(&code.as_str()) {
        return c.invalid(&codes.join(", "));
    }
    let word = if c.eat_word("mtu") || c.eat_word("word") { Some(c.number("a number")?) } else { None };
    let len = if c.peek("(") { Some(parenthesized(c)?) } else { None };
    Ok(Icmp { quote, kind, code, word, len })
}

/// Stream offset of a segment's first byte; a SYN counts one.
pub fn stream_offset(tcp: &Tcp) -> u32 {
    tcp.seq.wrapping_add(u32::from(tcp.has(SYN))).wrapping_sub(1)
}
