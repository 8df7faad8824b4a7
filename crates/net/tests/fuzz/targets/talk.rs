//! What clients send: no stream makes a reader panic, and where it is cut
//! changes nothing.

use std::sync::Arc;

use net::classify::talk::message::Extent;
use net::classify::talk::{Layout, Notes, Protocol, Reader, Request, Visit};

/// What was read: verbs, paths or names, and how many requests ended.
#[derive(Debug, Default, PartialEq)]
struct Told(Vec<Vec<u8>>, usize);

impl Visit for Told {
    fn begun(&mut self, _: &Protocol, request: &Request<'_>) -> u64 {
        self.0.push(match request {
            Request::Http { method, path, .. } => format!("{method} {path}").into_bytes(),
            Request::Command { verb, key } => [verb, &b" "[..], key].concat(),
            Request::Tls { name } => name.unwrap_or_default().to_vec(),
            Request::Message { bytes } => bytes.to_vec(),
        });
        0
    }

    fn touched(&mut self, _: u64) {}

    fn ended(&mut self) {
        self.1 += 1;
    }
}

/// The first byte chooses the protocol, the second where the rest is cut.
pub fn talk(data: &[u8]) {
    let [which, cut, stream @ ..] = data else { return };
    let layout = |extent| Protocol::Message(Arc::new(Layout { extent, kind: (1, 2), look: 5 }));
    let protocol = match which % 6 {
        0 => Protocol::Http,
        1 => Protocol::Resp,
        2 => Protocol::Memcached,
        3 => Protocol::Tls,
        4 => layout(Extent::Length { at: 1, bytes: 2, adds: 3 }),
        _ => layout(Extent::Mark((*b"\r\n").into())),
    };
    let read = |size: usize| {
        let notes = Arc::new(Notes::default());
        let (mut reader, mut told) = (Reader::new(protocol.clone(), Arc::clone(&notes), 0), Told::default());
        for (n, piece) in stream.chunks(size).enumerate() {
            reader.read((n * size) as u64, piece, &mut told);
        }
        let given_up = reader.is_given_up();
        drop(reader);
        assert_eq!(notes.held(), 0, "all is given back");
        (told, given_up)
    };
    assert_eq!(read(usize::from(*cut) + 1), read(stream.len().max(1)));
}
