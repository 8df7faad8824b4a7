//! Encoding of requests and answers.
//!
//! A message is a tag and its fields; trailing bytes are an error. Numbers are in network order.

use std::net::{Ipv6Addr, SocketAddr};

use net::stack::HopLimits;

use super::super::datagram_header::mapped;
use super::super::udp_sockopt::DatagramOptions;
use super::super::udp_table::Reuse;
use super::{ANSWER_BYTES, AccessKey, Answer, ErrorUse, REQUEST_BYTES_MAX, Request};

impl Request {
    /// Encoded request, with the key first.
    #[must_use]
    pub fn encode(&self, key: &AccessKey) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(REQUEST_BYTES_MAX);
        bytes.extend_from_slice(key);
        match *self {
            Self::Bind { addr, six, v6_only, reuse_port } => {
                bytes.push(b'B');
                put(&mut bytes, addr);
                bytes.extend([six, v6_only, reuse_port].map(u8::from));
            }
            Self::Connect { to, six, waits, from, send_buffer, low_water, hops } => {
                bytes.push(b'N');
                put(&mut bytes, to);
                bytes.extend([six, waits].map(u8::from));
                bytes.extend_from_slice(&from.to_be_bytes());
                [send_buffer, low_water].iter().for_each(|n| bytes.extend(n.to_be_bytes()));
                bytes.extend([hops.sent, hops.received_min]);
            }
            Self::Datagrams { addr, six, v6_only, reuse, options, to, connects } => {
                bytes.push(b'D');
                put(&mut bytes, addr);
                bytes.extend([six, v6_only, reuse.addr, reuse.port, connects].map(u8::from));
                bytes.extend(options.encode());
                put_perhaps(&mut bytes, to);
            }
            Self::Aim { id, to } => {
                bytes.push(b'A');
                bytes.extend_from_slice(&id.to_be_bytes());
                put_perhaps(&mut bytes, to);
            }
            Self::Ends { id } => {
                bytes.push(b'E');
                bytes.extend_from_slice(&id.to_be_bytes());
            }
            Self::Opening { id } => {
                bytes.push(b'?');
                bytes.extend_from_slice(&id.to_be_bytes());
            }
            Self::Error { id, by } => {
                bytes.push(b'S');
                bytes.extend_from_slice(&id.to_be_bytes());
                bytes.push(by as u8);
            }
            Self::Late { id, len, peek } => {
                bytes.push(b'T');
                bytes.extend_from_slice(&id.to_be_bytes());
                bytes.extend_from_slice(&len.to_be_bytes());
                bytes.push(peek.into());
            }
            Self::Listen { id, backlog } => {
                bytes.push(b'L');
                bytes.extend_from_slice(&id.to_be_bytes());
                bytes.extend_from_slice(&backlog.to_be_bytes());
            }
            Self::Rules { id } => {
                bytes.push(b'R');
                bytes.extend_from_slice(&id.to_be_bytes());
            }
            Self::Cookie { cookie, bound } => {
                bytes.push(b'K');
                bytes.extend_from_slice(&cookie.to_be_bytes());
                bytes.push(bound.into());
            }
            Self::Option { id, level, name, value } => {
                bytes.push(b'O');
                bytes.extend_from_slice(&id.to_be_bytes());
                [level, name, value[0], value[1]].iter().for_each(|n| bytes.extend(n.to_be_bytes()));
            }
            Self::Private { id, bytes: private } => {
                bytes.push(b'W');
                bytes.extend_from_slice(&id.to_be_bytes());
                bytes.extend_from_slice(&private);
            }
            Self::GetOption { id, level, name } => {
                bytes.push(b'G');
                bytes.extend_from_slice(&id.to_be_bytes());
                [level, name].iter().for_each(|n| bytes.extend(n.to_be_bytes()));
            }
            Self::Labels => bytes.push(b'P'),
            Self::Outboxes => bytes.push(b'X'),
            Self::Interface => bytes.push(b'I'),
        }
        assert!(bytes.len() <= REQUEST_BYTES_MAX, "a request has at most REQUEST_BYTES_MAX bytes");
        bytes
    }

    /// Decodes a request; `None` if it is malformed or lacks `key`.
    #[must_use]
    pub fn decode(bytes: &[u8], key: &AccessKey) -> Option<Self> {
        let rest = bytes.strip_prefix(key)?;
        let (&tag, rest) = rest.split_first()?;
        let mut rest = Rest(rest);
        let request = match tag {
            b'B' => {
                let addr = rest.addr()?;
                let [six, v6_only, reuse_port] = rest.take::<3>()?.map(|byte| byte == 1);
                Self::Bind { addr, six, v6_only, reuse_port }
            }
            b'N' => {
                let to = rest.addr()?;
                let [six, waits] = rest.take::<2>()?.map(|byte| byte == 1);
                let from = rest.long()?;
                let [send_buffer, low_water] = [rest.take()?, rest.take()?].map(u32::from_be_bytes);
                let [sent, received_min] = rest.take()?;
                let hops = HopLimits { sent, received_min };
                Self::Connect { to, six, waits, from, send_buffer, low_water, hops }
            }
            b'D' => {
                let addr = rest.addr()?;
                let [six, v6_only, shares, divides, connects] = rest.take::<5>()?.map(|byte| byte == 1);
                let reuse = Reuse { addr: shares, port: divides };
                let (options, to) = (DatagramOptions::decode(rest.take()?), rest.addr_perhaps()?);
                Self::Datagrams { addr, six, v6_only, reuse, options, to, connects }
            }
            b'A' => Self::Aim { id: rest.long()?, to: rest.addr_perhaps()? },
            b'E' => Self::Ends { id: rest.long()? },
            b'?' => Self::Opening { id: rest.long()? },
            b'S' => {
                let (id, [by]) = (rest.long()?, rest.take()?);
                Self::Error { id, by: *ErrorUse::ALL.get(usize::from(by))? }
            }
            b'T' => {
                let (id, len) = (rest.long()?, u32::from_be_bytes(rest.take()?));
                Self::Late { id, len, peek: rest.take::<1>()? == [1] }
            }
            b'L' => Self::Listen { id: rest.long()?, backlog: u32::from_be_bytes(rest.take()?) },
            b'R' => Self::Rules { id: rest.long()? },
            b'K' => Self::Cookie { cookie: rest.long()?, bound: rest.take::<1>()? == [1] },
            b'O' => {
                let (id, level, name) = (rest.long()?, rest.int()?, rest.int()?);
                Self::Option { id, level, name, value: [rest.int()?, rest.int()?] }
            }
            b'W' => Self::Private { id: rest.long()?, bytes: rest.take()? },
            b'P' => Self::Labels,
            b'X' => Self::Outboxes,
            b'I' => Self::Interface,
            b'G' => Self::GetOption { id: rest.long()?, level: rest.int()?, name: rest.int()? },
            _ => return None,
        };
        rest.0.is_empty().then_some(request)
    }
}

impl Answer {
    /// Encoded answer.
    #[must_use]
    pub fn encode(self) -> [u8; ANSWER_BYTES] {
        match self {
            Self::Done => 0,
            Self::NotOurs => -1,
            Self::No(errno) => errno.max(1),
        }
        .to_be_bytes()
    }

    /// Decodes an answer; `None` if it is malformed.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        Some(match i32::from_be_bytes(bytes.try_into().ok()?) {
            0 => Self::Done,
            -1 => Self::NotOurs,
            errno if errno > 0 => Self::No(errno),
            _ => return None,
        })
    }
}

fn put(bytes: &mut Vec<u8>, addr: SocketAddr) {
    bytes.extend_from_slice(&mapped(addr.ip()).octets());
    bytes.extend_from_slice(&addr.port().to_be_bytes());
}

fn put_perhaps(bytes: &mut Vec<u8>, addr: Option<SocketAddr>) {
    bytes.push(u8::from(addr.is_some()));
    addr.into_iter().for_each(|addr| put(bytes, addr));
}

/// Bytes not decoded yet.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, tail) = self.0.split_first_chunk()?;
        self.0 = tail;
        Some(*head)
    }

    fn addr(&mut self) -> Option<SocketAddr> {
        let ip = Ipv6Addr::from(self.take::<16>()?).to_canonical();
        Some(SocketAddr::new(ip, u16::from_be_bytes(self.take()?)))
    }

    fn addr_perhaps(&mut self) -> Option<Option<SocketAddr>> {
        match self.take()? {
            [0] => Some(None),
            [_] => self.addr().map(Some),
        }
    }

    fn int(&mut self) -> Option<i32> {
        self.take().map(i32::from_be_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const KEY: AccessKey = *b"only they know  ";

    fn check(request: Request) {
        let bytes = request.encode(&KEY);
        assert_eq!(Request::decode(&bytes, &KEY), Some(request));
        assert_eq!(Request::decode(&bytes, &[0; 16]), None, "another key");
        for len in 0..bytes.len() {
            assert_eq!(Request::decode(&bytes[..len], &KEY), None, "{len} bytes of {request:?}");
        }
        assert_eq!(Request::decode(&[&bytes[..], &[0]].concat(), &KEY), None, "a byte too many");
    }

    #[test]
    fn requests_read_as_they_are_written() {
        for addr in ["10.0.0.1:80", "[fd00::1]:443", "[::]:0", "0.0.0.0:8080"] {
            let addr = addr.parse().unwrap();
            check(Request::Bind { addr, six: addr.is_ipv6(), v6_only: false, reuse_port: true });
            let (six, waits, from, send_buffer) = (true, addr.is_ipv4(), 1 << 63 | 5, 4096);
            let hops = HopLimits { sent: 255, received_min: 254 };
            check(Request::Connect { to: addr, six, waits, from, send_buffer, low_water: 10, hops });
            let (reuse, v6_only, connects) = (Reuse { addr: six, port: !six }, true, waits);
            let class = [0x2e << 2, 3];
            let options = DatagramOptions {
                info: six,
                told_class: [waits, six],
                told_hops: [six, waits],
                class,
                discover: [2, 5],
                hops: [1, 0],
                hops_min: [255, 7],
                dontfrag: six,
                gro: !six,
                segment: 1200,
            };
            for to in [None, Some(addr)] {
                check(Request::Datagrams { addr, six, v6_only, reuse, options, to, connects });
                check(Request::Aim { id: 1 << 62 | 7, to });
            }
        }
        check(Request::Listen { id: u64::MAX - 3, backlog: 511 });
        check(Request::Option { id: 7, level: 6, name: -1, value: [1, i32::MIN] });
        check(Request::Opening { id: 1 << 40 });
        for bound in [false, true] {
            check(Request::Cookie { cookie: u64::MAX - 9, bound });
            check(Request::Late { id: 1 << 40 | 3, len: 1 << 20, peek: bound });
        }
        check(Request::Private { id: 1 << 40, bytes: std::array::from_fn(|at| at as u8) });
        check(Request::Labels);
        check(Request::Outboxes);
        check(Request::Interface);
        check(Request::Ends { id: 1 << 62 | 7 });
        check(Request::Rules { id: 1 << 63 | 9 });
        check(Request::GetOption { id: 1 << 40 | 3, level: 6, name: 11 });
    }

    #[test]
    fn answers_read_as_they_are_written() {
        for answer in [Answer::Done, Answer::NotOurs, Answer::No(98)] {
            assert_eq!(Answer::decode(&answer.encode()), Some(answer));
        }
        assert_eq!(Answer::decode(&[]), None);
        assert_eq!(Answer::decode(&(-7_i32).to_be_bytes()), None);
    }

    proptest! {
        //~ run: random bytes on the control socket cause no panic
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = Request::decode(&[&KEY[..], &bytes].concat(), &KEY);
        }
    }
}
