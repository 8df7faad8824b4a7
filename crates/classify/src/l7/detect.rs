//! Protocol detection from the first bytes of a client, where no rule names the protocol.
//!
//! Ambiguous or truncated bytes are not detected.

use super::L7Protocol;

/// HTTP methods in use (RFC 9110 §9.1, RFC 5789).
const METHODS: [&[u8]; 9] =
    [b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"TRACE ", b"CONNECT "];
/// Commands of memcached's text protocol with which clients begin.
const COMMANDS: [&[u8]; 19] = [
    b"get ",
    b"gets ",
    b"gat ",
    b"gats ",
    b"set ",
    b"add ",
    b"replace ",
    b"append ",
    b"prepend ",
    b"cas ",
    b"delete ",
    b"incr ",
    b"decr ",
    b"touch ",
    b"mg ",
    b"ms ",
    b"md ",
    b"version\r",
    b"stats\r",
];
/// First byte of a request in memcached's binary protocol.
const BINARY: u8 = 0x80;

impl L7Protocol {
    /// Protocol of a connection whose client begins with `first`: HTTP/1, RESP or memcached. `None`
    /// for other protocols and for too few bytes.
    #[must_use]
    pub fn of_first(first: &[u8]) -> Option<Self> {
        let begins = |words: &[&[u8]]| words.iter().any(|word| first.starts_with(word));
        match first {
            [b'*', digit, ..] if digit.is_ascii_digit() => Some(Self::Resp),
            [BINARY, ..] => Some(Self::Memcached),
            _ if begins(&METHODS) => Some(Self::Http),
            _ if begins(&COMMANDS) => Some(Self::Memcached),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_identify_the_protocol_or_none() {
        for (first, expected) in [
            (&b"GET / HTTP/1.1\r\n"[..], Some("http")),
            (b"OPTIONS * HTTP/1.1\r\n", Some("http")),
            (b"*2\r\n$3\r\nGET\r\n", Some("resp")),
            (b"get key\r\n", Some("memcached")),
            (b"\x80\x01", Some("memcached")),
            // HTTP/2, TLS, inline commands of Redis, truncated bytes, no bytes.
            (b"PRI * HTTP/2.0\r\n", None),
            (b"\x16\x03\x01\x02\x00", None),
            (b"PING\r\n", None),
            (b"GE", None),
            (b"*", None),
            (b"", None),
        ] {
            assert_eq!(L7Protocol::of_first(first).as_ref().map(L7Protocol::name), expected, "{first:?}");
        }
    }
}
