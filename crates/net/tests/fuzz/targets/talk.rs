//! What clients send: no stream makes a reader panic, and where it is cut
//! changes nothing.

use std::sync::Arc;

use net::classify::l7::framing::FrameLength;
use net::classify::l7::{Layout, Notes, Protocol, Request, RequestVisitor, StreamParser};

/// What was read: verbs, paths or names, and how many requests ended.
#[derive(Debug, Default, PartialEq)]
struct Told(Vec<Vec<u8>>, usize);

impl RequestVisitor for Told {
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
        4 => layout(FrameLength::Length { at: 1, bytes: 2, adds: 3 }),
        _ => layout(FrameLength::Mark((*b"\r\n").into())),
    };
    let read = |pieces: &mut dyn Iterator<Item = &[u8]>| {
        let notes = Arc::new(Notes::default());
        let (mut reader, mut told) =
            (StreamParser::new(protocol.clone(), Arc::clone(&notes), 0), Told::default());
        let mut start = 0;
        for piece in pieces {
            reader.read(start, piece, &mut told);
            // What comes twice counts once.
            reader.read(start, piece, &mut told);
            start += piece.len() as u64;
            assert!(told.1 <= told.0.len(), "more requests ended than began");
        }
        let given_up = reader.has_failed();
        drop(reader);
        assert_eq!(notes.held(), 0, "all is given back");
        (told, given_up)
    };
    let whole = read(&mut [stream].into_iter());
    assert_eq!(read(&mut stream.chunks(usize::from(*cut) + 1)), whole);
    // In two, anywhere near the start, where most is decided.
    for at in 0..stream.len().min(48) {
        assert_eq!(read(&mut <[&[u8]; 2]>::from(stream.split_at(at)).into_iter()), whole, "cut at {at}");
    }
    guess(stream);
}

/// Which protocol it is: more bytes change nothing, and it is none that is refused at once.
fn guess(stream: &[u8]) {
    let name = |len: usize| Protocol::of_first(&stream[..len]).map(|protocol| protocol.name());
    let whole = name(stream.len());
    let before = (0..stream.len().min(32)).filter_map(name);
    before.for_each(|name| assert_eq!(Some(name), whole, "a guess is right or none"));
    if stream.starts_with(b"PRI * HTTP/2.0") {
        assert_eq!(whole, None, "HTTP/2 is not read");
    }
}
