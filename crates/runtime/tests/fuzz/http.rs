//! HTTP requests of random bytes: the answer does not depend on segmentation.

use queueing::{Clock, Label, Span, Time};
use runtime::App;
use runtime::app::{ConnectionFate, Context, Framing, Http, Registration, Stages};

struct Still;

impl Clock for Still {
    fn now(&self) -> Time {
        Time::ZERO
    }
    fn compute(&self, _span: Span) {}
}

/// Checks that `data` gets the same answers whole and in pieces.
pub fn http(data: &[u8]) {
    let unsplit = answers(data, usize::MAX);
    let piece = 1 + data.first().map_or(0, |byte| usize::from(*byte) % 40);
    assert_eq!(unsplit, answers(data, piece), "in pieces of {piece} bytes");
}

/// Answers to `data` in pieces of `piece` bytes.
fn answers(data: &[u8], piece: usize) -> Vec<u8> {
    let (mut response, mut unread) = (Vec::new(), Vec::new());
    for bytes in data.chunks(piece.max(1)) {
        unread.extend_from_slice(bytes);
        loop {
            if unread.is_empty() {
                break;
            }
            match Http.frame(&unread) {
                Framing::Incomplete => break,
                Framing::Invalid => {
                    response.extend(b"<closed>");
                    return response;
                }
                Framing::Complete { len } => {
                    assert!((1..=unread.len()).contains(&len), "a request of {len} bytes");
                    let request: Vec<u8> = unread.drain(..len).collect();
                    let mut body = None;
                    let mut cx = Context {
                        label: Label::default(),
                        stages: Stages::default(),
                        private: &mut [0; 64],
                        registration: &mut Registration::default(),
                        body: &mut body,
                        clock: &Still,
                    };
                    let outcome = Http.serve(&request, &mut cx, &mut response);
                    if let Some(mut body) = body {
                        body.write(body.len(), &mut response);
                    }
                    if outcome == ConnectionFate::Close {
                        return response;
                    }
                }
            }
        }
    }
    response
}
