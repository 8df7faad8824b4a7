//! Synthetic protocol: requests that carry their own service time.
//!
//! Big-endian. A request is a header of 32 bytes and a body, normally zeros. A response is a header
//! of 64 bytes with the queueing times, and a body if one was requested. Offsets are public, as
//! parameters for classifiers.
//!
//! | bytes | request | response |
//! |---|---|---|
//! | 0..2 | `GW` | `GW` |
//! | 2 | 1 | 2 |
//! | 3 | kind | kind |
//! | 4 | priority tag, 0..=7 | priority as served |
//! | 5..8 | zero | zero |
//! | 8..12 | total length | total length |
//! | 12..16 | zero | zero |
//! | 16..24 | id | id |
//! | 24..32 | service time, ns | NIC queue, ns |
//! | 32..64 | body to the length | TCP, event queue, service, ns; zero |
//! | 64.. | | body to the length |

use queueing::{Priority, Span};

use super::Decoded;

/// First two bytes of every message.
pub const MAGIC: [u8; 2] = *b"GW";
/// Offset of the message type.
pub const TYPE_AT: usize = 2;
/// Offset of the request's kind.
pub const KIND_AT: usize = 3;
/// Offset of the priority tag.
pub const LEVEL_AT: usize = 4;
/// Offset of the total length (u32).
pub const LENGTH_AT: usize = 8;
/// Offset of the id (u64).
pub const ID_AT: usize = 16;
/// Offset of the service time (u64, ns).
pub const SERVICE_AT: usize = 24;
/// Message type of a request.
pub const TYPE_REQUEST: u8 = 1;
/// Message type of a response.
pub const TYPE_RESPONSE: u8 = 2;
/// Minimum length of a request: its header.
pub const REQUEST_LEN_MIN: usize = 32;
/// Maximum length of a request; longer ones are rejected, not buffered.
pub const REQUEST_LEN_MAX: usize = 64 * 1024;
/// Length of a response's header, and of a response without a body.
pub const RESPONSE_LEN: usize = 64;
/// Maximum length of a response.
pub const RESPONSE_LEN_MAX: usize = RESPONSE_LEN + 64 * 1024;

/// Header of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Id, repeated in the response.
    pub id: u64,
    /// Request type, for the server's policies.
    pub kind: u8,
    /// Priority tag.
    pub priority: Priority,
    /// Total length in bytes, 32..=65536.
    pub length: u32,
    /// Service time.
    pub service: Span,
}

impl RequestHeader {
    /// Encoded header; zeros follow up to `length`.
    #[must_use]
    pub fn header(&self) -> [u8; REQUEST_LEN_MIN] {
        let mut bytes = [0; REQUEST_LEN_MIN];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[TYPE_AT] = TYPE_REQUEST;
        bytes[KIND_AT] = self.kind;
        bytes[LEVEL_AT] = self.priority.level();
        put(&mut bytes, LENGTH_AT, self.length.to_be_bytes());
        put(&mut bytes, ID_AT, self.id.to_be_bytes());
        put(&mut bytes, SERVICE_AT, self.service.as_nanos().to_be_bytes());
        bytes
    }

    /// Appends the request with its padding.
    pub fn encode(&self, into: &mut Vec<u8>) {
        let start = into.len();
        into.extend_from_slice(&self.header());
        into.resize(start + (self.length as usize).max(REQUEST_LEN_MIN), 0);
    }

    /// Decodes the *header* at the start of `bytes`. `len` is the length of the whole request,
    /// which may exceed `bytes`.
    ///
    /// `Invalid` at the first wrong byte, even if the header is incomplete.
    #[must_use]
    pub fn decode_header(bytes: &[u8]) -> Decoded<Self> {
        if !starts(bytes, TYPE_REQUEST) || bytes.get(LEVEL_AT).is_some_and(|&l| l > Priority::LOWEST.level())
        {
            return Decoded::Invalid;
        }
        if let Some(length) = get(bytes, LENGTH_AT).map(u32::from_be_bytes)
            && !(REQUEST_LEN_MIN..=REQUEST_LEN_MAX).contains(&(length as usize))
        {
            return Decoded::Invalid;
        }
        let Some(header) = bytes.first_chunk::<REQUEST_LEN_MIN>() else { return Decoded::Incomplete };
        let length = u32::from_be_bytes(field(header, LENGTH_AT));
        let value = Self {
            id: u64::from_be_bytes(field(header, ID_AT)),
            kind: header[KIND_AT],
            priority: Priority::new(header[LEVEL_AT]).unwrap_or_default(),
            length,
            service: Span::from_nanos(u64::from_be_bytes(field(header, SERVICE_AT))),
        };
        Decoded::Complete { value, len: length as usize }
    }

    /// Decodes the request at the start of `bytes`, complete with its padding.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        match Self::decode_header(bytes) {
            Decoded::Complete { len, .. } if bytes.len() < len => Decoded::Incomplete,
            decoded => decoded,
        }
    }
}

/// Response with the time per stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimedResponse {
    /// Id of the request.
    pub id: u64,
    /// Type of the request.
    pub kind: u8,
    /// Priority in service.
    pub priority: Priority,
    /// Time in the NIC queue.
    pub nic: Span,
    /// Time in TCP.
    pub tcp: Span,
    /// Time in the event queue.
    pub event: Span,
    /// Time in service on a worker.
    pub service: Span,
}

impl TimedResponse {
    /// Encoded response without a body.
    #[must_use]
    pub fn encode(&self) -> [u8; RESPONSE_LEN] {
        self.header(0)
    }

    /// Encoded header of a response with `body` bytes of body, at most 65,536.
    #[must_use]
    pub fn header(&self, body: usize) -> [u8; RESPONSE_LEN] {
        let mut bytes = [0; RESPONSE_LEN];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[TYPE_AT] = TYPE_RESPONSE;
        bytes[KIND_AT] = self.kind;
        bytes[LEVEL_AT] = self.priority.level();
        put(&mut bytes, LENGTH_AT, ((RESPONSE_LEN + body) as u32).to_be_bytes());
        put(&mut bytes, ID_AT, self.id.to_be_bytes());
        for (at, span) in [(24, self.nic), (32, self.tcp), (40, self.event), (48, self.service)] {
            put(&mut bytes, at, span.as_nanos().to_be_bytes());
        }
        bytes
    }

    /// Decodes the response at the start of `bytes`.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Decoded<Self> {
        if !starts(bytes, TYPE_RESPONSE) || bytes.get(LEVEL_AT).is_some_and(|&l| l > Priority::LOWEST.level())
        {
            return Decoded::Invalid;
        }
        let Some(head) = bytes.first_chunk::<RESPONSE_LEN>() else { return Decoded::Incomplete };
        let len = u32::from_be_bytes(field(head, LENGTH_AT)) as usize;
        if !(RESPONSE_LEN..=RESPONSE_LEN_MAX).contains(&len) {
            return Decoded::Invalid;
        }
        if bytes.len() < len {
            return Decoded::Incomplete;
        }
        let span = |at| Span::from_nanos(u64::from_be_bytes(field(head, at)));
        let value = Self {
            id: u64::from_be_bytes(field(head, ID_AT)),
            kind: head[KIND_AT],
            priority: Priority::new(head[LEVEL_AT]).unwrap_or_default(),
            nic: span(24),
            tcp: span(32),
            event: span(40),
            service: span(48),
        };
        Decoded::Complete { value, len }
    }
}

/// Decodes complete responses at the start of `bytes` and calls `answered` for each. Returns
/// their total length, and `false` if other bytes follow or `answered` returned `false`.
pub fn responses(bytes: &[u8], mut answered: impl FnMut(TimedResponse) -> bool) -> (usize, bool) {
    let mut consumed = 0;
    loop {
        match TimedResponse::decode(&bytes[consumed..]) {
            Decoded::Incomplete => return (consumed, true),
            Decoded::Invalid => return (consumed, false),
            Decoded::Complete { value, len } => {
                consumed += len;
                if !answered(value) {
                    return (consumed, false);
                }
            }
        }
    }
}

/// True if `bytes`, as far as they go, start like a message of type `kind`.
fn starts(bytes: &[u8], kind: u8) -> bool {
    [MAGIC[0], MAGIC[1], kind].iter().zip(bytes).all(|(want, have)| want == have)
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}

fn get<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    get(bytes, at).expect("every field lies inside its message")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn requests() -> impl Strategy<Value = RequestHeader> {
        (any::<u64>(), any::<u8>(), 0u8..8, 32u32..5000, any::<u64>()).prop_map(
            |(id, kind, level, length, ns)| RequestHeader {
                id,
                kind,
                priority: Priority::new(level).unwrap(),
                length,
                service: Span::from_nanos(ns),
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        //~ load: synthetic requests carry service time, kind and length
        #[test]
        fn a_request_round_trips(request in requests(), cut in 0.0f64..1.0) {
            let mut bytes = Vec::new();
            request.encode(&mut bytes);
            let len = request.length as usize;
            prop_assert_eq!(bytes.len(), len);
            prop_assert_eq!(RequestHeader::decode(&bytes), Decoded::Complete { value: request, len });
            let cut = (len as f64 * cut) as usize;
            prop_assert_eq!(RequestHeader::decode(&bytes[..cut]), Decoded::Incomplete);
        }

        #[test]
        fn a_response_round_trips(id: u64, kind: u8, level in 0u8..8, ns: [u32; 4], cut in 0usize..64) {
            let [nic, tcp, event, service] = ns.map(|n| Span::from_nanos(n.into()));
            let priority = Priority::new(level).unwrap();
            let response = TimedResponse { id, kind, priority, nic, tcp, event, service };
            let bytes = response.encode();
            prop_assert_eq!(TimedResponse::decode(&bytes), Decoded::Complete { value: response, len: 64 });
            prop_assert_eq!(TimedResponse::decode(&bytes[..cut]), Decoded::Incomplete);
            let mut bytes = response.header(cut).to_vec();
            bytes.resize(64 + cut, 1);
            prop_assert_eq!(TimedResponse::decode(&bytes), Decoded::Complete { value: response, len: 64 + cut });
            bytes.pop();
            prop_assert_eq!(TimedResponse::decode(&bytes), Decoded::Incomplete);
        }

        //~ input: random bytes cause no panic in packet views, policies, HTTP and the synthetic protocol
        #[test]
        fn the_decoders_never_panic(bytes: Vec<u8>, magic: bool, kind in 1u8..3) {
            let mut bytes = bytes;
            if magic {
                bytes.splice(..0, [b'G', b'W', kind]);
            }
            let _ = RequestHeader::decode(&bytes);
            let _ = TimedResponse::decode(&bytes);
        }
    }

    #[test]
    fn responses_are_decoded_one_by_one() {
        let span = Span::from_nanos(1);
        let of = |id| TimedResponse {
            id,
            kind: 0,
            priority: Priority::HIGHEST,
            nic: span,
            tcp: span,
            event: span,
            service: span,
        };
        let mut bytes = [of(1).encode(), of(2).encode(), of(3).encode()].concat();
        let mut ids = Vec::new();
        let mut take = |bytes: &[u8]| {
            responses(bytes, |r| {
                ids.push(r.id);
                r.id != 3
            })
        };
        assert_eq!(take(&bytes[..130]), (128, true));
        assert_eq!(take(&bytes), (192, false), "3 was refused");
        bytes[64] = 0;
        assert_eq!(take(&bytes), (64, false), "not a response");
        assert_eq!(ids, [1, 2, 1, 2, 3, 1]);
    }

    #[test]
    fn an_invalid_byte_is_refused_at_once() {
        let request = RequestHeader {
            id: 1,
            kind: 0,
            priority: Priority::HIGHEST,
            length: 32,
            service: Span::from_nanos(1),
        };
        let refused = |at: usize, byte: u8| {
            let mut bytes = request.header();
            bytes[at] = byte;
            RequestHeader::decode(&bytes[..12]) == Decoded::Invalid
        };
        assert!(refused(0, b'H') && refused(TYPE_AT, TYPE_RESPONSE), "not a request");
        assert!(refused(LEVEL_AT, 8), "no such priority");
        assert!(refused(LENGTH_AT, 1), "too long");
        assert!(refused(LENGTH_AT + 3, 31), "shorter than its header");
    }
}
