//! Echo server.

use super::{App, ConnectionFate, Context, Framing};

/// Application that takes all received bytes as one request and returns them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Echo;

impl App for Echo {
    fn frame(&self, received: &[u8]) -> Framing {
        Framing::Complete { len: received.len() }
    }

    fn takes(&self, _payload: &[u8]) -> bool {
        true
    }

    fn serve(&self, request: &[u8], _cx: &mut Context<'_>, response: &mut Vec<u8>) -> ConnectionFate {
        response.extend_from_slice(request);
        ConnectionFate::Keep
    }
}
