//! Fuzz targets of the application-protocol parsers: no stream causes a panic, and segmentation
//! does not change the result.

use std::net::Ipv4Addr;
use std::sync::Arc;

use classify::l7::framing::FrameLength;
use classify::l7::{L7Protocol, MessageLayout, Notes, RequestHead, RequestVisitor, StreamParser};
use classify::rules::Policy;
use classify::{ConnectionState, FlowContext, FlowState, PacketMeta, TransportClassifier, Verdict};
use queueing::{Bytes, Time};
use wire::FourTuple;

/// Parsed verbs, paths or names, and the number of requests that ended.
#[derive(Debug, Default, PartialEq)]
struct Recorder(Vec<Vec<u8>>, usize);

impl RequestVisitor for Recorder {
    fn on_request(&mut self, _: &L7Protocol, request: &RequestHead<'_>) -> u64 {
        self.0.push(match request {
            RequestHead::Http { method, path, .. } => format!("{method} {path}").into_bytes(),
            RequestHead::Command { verb, key } => [verb, &b" "[..], key].concat(),
            RequestHead::ClientHello { name } => name.unwrap_or_default().to_vec(),
            RequestHead::Message { bytes } => bytes.to_vec(),
        });
        0
    }

    fn on_segment(&mut self, _: u64) {}

    fn on_end(&mut self) {
        self.1 += 1;
    }
}

/// The first byte selects the protocol, the second the sizes of the pieces.
pub fn requests(data: &[u8]) {
    let [which, cut, stream @ ..] = data else { return };
    let layout = |extent| L7Protocol::Message(Arc::new(MessageLayout { extent, kind: (1, 2), shown_len: 5 }));
    let protocol = match which % 6 {
        0 => L7Protocol::Http,
        1 => L7Protocol::Resp,
        2 => L7Protocol::Memcached,
        3 => L7Protocol::Tls,
        4 => layout(FrameLength::Length { at: 1, bytes: 2, adds: 3 }),
        _ => layout(FrameLength::Mark((*b"\r\n").into())),
    };
    let read = |fragments: &mut dyn Iterator<Item = &[u8]>| {
        let notes = Arc::new(Notes::default());
        let (mut reader, mut reported) =
            (StreamParser::new(protocol.clone(), Arc::clone(&notes), 0), Recorder::default());
        let mut start = 0;
        for fragment in fragments {
            reader.read(start, fragment, &mut reported);
            // Repeated bytes count once.
            reader.read(start, fragment, &mut reported);
            start += fragment.len() as u64;
            assert!(reported.1 <= reported.0.len(), "more requests ended than began");
        }
        let failed = reader.has_failed();
        drop(reader);
        assert_eq!(notes.held(), 0, "all buffered bytes are released");
        (reported, failed)
    };
    let unsplit = read(&mut [stream].into_iter());
    assert_eq!(read(&mut stream.chunks(usize::from(*cut) + 1)), unsplit);
    // In two pieces, cut near the start, where most is decided.
    for at in 0..stream.len().min(48) {
        assert_eq!(read(&mut <[&[u8]; 2]>::from(stream.split_at(at)).into_iter()), unsplit, "cut at {at}");
    }
    guess(stream);
}

/// Checks protocol detection: more bytes do not change it, and the detected parser accepts the
/// start.
fn guess(stream: &[u8]) {
    let name = |len: usize| L7Protocol::of_first(&stream[..len]).map(|protocol| protocol.name());
    let expected = name(stream.len());
    let before = (0..stream.len().min(32)).filter_map(name);
    before.for_each(|name| assert_eq!(Some(name), expected, "detection is right or none"));
    if stream.starts_with(b"PRI * HTTP/2.0") {
        assert_eq!(expected, None, "HTTP/2 is not parsed");
    }
}

/// Input: a policy, a zero byte, and a client's stream. The most urgent label of the pieces must be
/// the label of the whole stream, at any segmentation; except that a piece without a complete
/// head has the label of the packet alone, which may be more urgent than its request's.
pub fn labels(data: &[u8]) {
    let Some(at) = data.iter().position(|&byte| byte == 0) else { return };
    let (Ok(text), stream) = (std::str::from_utf8(&data[..at]), &data[at + 1..]) else { return };
    let Ok(policy) = Policy::parse(text) else { return };
    let Some(classifier) = policy.transport() else { return };
    let stream = &stream[..stream.len().min(STREAM_MAX)];
    let of_packet = Pieces::default().label_with(&classifier, stream, None);
    let label = |fragments: &mut dyn Iterator<Item = &[u8]>| {
        let mut flow = Pieces::default();
        let labels = fragments
            .filter(|fragment| !fragment.is_empty())
            .filter_map(|fragment| flow.label(&classifier, fragment));
        labels.chain(of_packet).min()
    };
    let unsplit = label(&mut [stream].into_iter());
    let cuts = (0..stream.len()).map(|at| label(&mut <[&[u8]; 2]>::from(stream.split_at(at)).into_iter()));
    let all: Vec<_> = cuts.chain([label(&mut stream.chunks(1))]).collect();
    assert_eq!(policy.observed().notes.held(), 0, "all buffered bytes are released");
    // These conditions depend on a piece, not on the stream.
    if OF_PIECES.iter().any(|word| text.contains(word)) {
        return;
    }
    for (at, label) in all.into_iter().enumerate() {
        assert_eq!(label, unsplit, "cut at {at}, or everywhere");
    }
}

/// Longest stream that is cut at every byte.
const STREAM_MAX: usize = 256;
/// Words of a policy that depend on a segment or on time.
const OF_PIECES: [&str; 10] =
    ["drop", "length", "bytes", "received", "sent", "rtt", "loss", "cwnd", "recover", "learn"];

/// Connection that receives a stream in pieces.
#[derive(Default)]
struct Pieces {
    received: u64,
    memory: Option<Box<dyn ConnectionState>>,
}

impl Pieces {
    /// Level of the next piece.
    fn label(&mut self, classifier: &TransportClassifier, payload: &[u8]) -> Option<u8> {
        self.received += payload.len() as u64;
        let mut memory = self.memory.take();
        let label = self.label_with(classifier, payload, Some(&mut memory));
        self.memory = memory;
        label
    }

    /// Level of a piece of a connection with this memory; without one, of the packet alone.
    fn label_with(
        &self,
        classifier: &TransportClassifier,
        payload: &[u8],
        memory: Option<&mut Option<Box<dyn ConnectionState>>>,
    ) -> Option<u8> {
        let (local, remote) = (Ipv4Addr::new(10, 0, 0, 2).into(), Ipv4Addr::new(10, 0, 0, 1).into());
        let verdict = classifier(&mut FlowContext {
            now: Time::ZERO,
            meta: &PacketMeta::new(Time::ZERO, payload.len() + 66),
            payload,
            tuple: &FourTuple { local, local_port: 80, remote, remote_port: 40_000 },
            flow: FlowState { received: Bytes::new(self.received), ..FlowState::default() },
            private: &mut [0; 64],
            app: None,
            memory,
            successor: None,
        });
        match verdict {
            Verdict::Level(level) => Some(level),
            _ => None,
        }
    }
}
