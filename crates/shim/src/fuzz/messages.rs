//! Fuzz target: single messages, in both directions.
//!
//! Properties: no panic; a decoded message encodes and decodes to the same; fewer or more bytes do
//! not decode.

use super::super::preload::elf_check;
use super::super::{
    AccessKey, Answer, Cmsg, DatagramHeader, DatagramOptions, KernelSocketInfo, Name, REQUEST_BYTES_MAX,
    Request, ShimClient, StackInterface, TcpSockopt, datagram_header,
};

const KEY: AccessKey = *b"only they know  ";

/// The first byte selects the kind of message.
pub(crate) fn messages(data: &[u8]) {
    let Some((which, bytes)) = data.split_first() else { return };
    match which % 8 {
        0 => request(bytes),
        1 => {
            if let Some(answer) = Answer::decode(bytes) {
                assert_eq!(answer.encode()[..], *bytes);
            }
            if let Some(half) = KernelSocketInfo::decode(bytes) {
                assert_eq!(half.encode()[..], *bytes);
            }
        }
        2 => datagram(bytes),
        3 => {
            if let Some(name) = Name::decode(bytes) {
                assert_eq!(Name::decode(&name.encode()), Some(name));
                assert!(name.encode().eq_ignore_ascii_case(bytes), "{name:?}");
            }
        }
        4 => {
            if let Some(interface) = StackInterface::decode(bytes) {
                assert_eq!(StackInterface::decode(&interface.encode()), Some(interface));
            }
        }
        5 => {
            let mut value = [0; DatagramOptions::LEN];
            value.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
            let options = DatagramOptions::decode(value);
            assert_eq!(DatagramOptions::decode(options.encode()), options);
        }
        6 => {
            let words: Vec<i32> =
                bytes.as_chunks().0.iter().take(4).map(|word| i32::from_be_bytes(*word)).collect();
            if let [level, name, value, more] = words[..]
                && let Some(setting) = TcpSockopt::of(level, name, [value, more])
            {
                assert!(!matches!(setting, TcpSockopt::Dscp(64..)), "{setting:?}");
            }
        }
        _ => {
            let _ = std::str::from_utf8(bytes).map(ShimClient::parse);
            elf_check::fuzz(bytes);
        }
    }
}

fn request(bytes: &[u8]) {
    assert_eq!(Request::decode(bytes, &KEY).is_some(), bytes.starts_with(&KEY) && is_request(&bytes[16..]));
    is_request(bytes);
}

/// True if `bytes` are a request without its key.
fn is_request(bytes: &[u8]) -> bool {
    let with_key = [&KEY[..], bytes].concat();
    let Some(request) = Request::decode(&with_key, &KEY) else { return false };
    assert!(with_key.len() <= REQUEST_BYTES_MAX, "{request:?} is too long");
    let again = request.encode(&KEY);
    assert_eq!((again.len(), Request::decode(&again, &KEY)), (with_key.len(), Some(request)));
    assert_eq!(Request::decode(&with_key[..with_key.len() - 1], &KEY), None, "a byte too few");
    assert_eq!(Request::decode(&[&with_key[..], &[0]].concat(), &KEY), None, "a byte too many");
    true
}

fn datagram(bytes: &[u8]) {
    let Some(envelope) = DatagramHeader::decode(bytes) else { return };
    let head = bytes.first_chunk::<{ datagram_header::LEN }>().expect("a decoded header has its full length");
    let cmsg = Cmsg::decode(head);
    let again = envelope.encode_with(cmsg);
    assert_eq!((DatagramHeader::decode(&again), Cmsg::decode(&again)), (Some(envelope), cmsg));
}
