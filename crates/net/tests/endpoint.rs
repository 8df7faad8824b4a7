//! Tests of connections without a stack, as a simulator uses them.

use net::congestion::by_name;
use net::endpoint::{Endpoint, EndpointContext, Transmit};
use net::stack::{Config, Ecn};
use queueing::{Span, Time};

const MSS: u64 = 1448;
const CE: u8 = 3;

/// Client and server at a distance of one round trip.
struct Pair {
    around: EndpointContext,
    now: Time,
    client: Endpoint,
    server: Endpoint,
}

impl Pair {
    /// Pair after the handshake.
    fn open() -> Self {
        let mut config = Config::new([2, 0, 0, 0, 0, 1], [10, 0, 0, 1].into(), 24, [1; 16]);
        (config.congestion, config.ecn) = (Some(by_name("dctcp").unwrap().new), Ecn::Dctcp);
        let (mut around, now) = (EndpointContext::new(config), Time::ZERO);
        let mut client = Endpoint::open(&mut around, now, 1);
        let syn = client.poll_transmit(&mut around, now).expect("a SYN");
        let server = Endpoint::answer(&mut around, now, 2, &syn.segment);
        let mut pair = Self { around, now, client, server };
        pair.exchange(0);
        pair
    }

    /// Exchanges segments, one round trip per iteration, until neither end sends; the first
    /// `marked` ECN-capable segments of the client are marked. Returns the client's window after
    /// each acknowledgement.
    fn exchange(&mut self, mut marked: u64) -> Vec<u64> {
        let mut windows = Vec::new();
        let mut sent = self.client_sends();
        loop {
            let mut answers: Vec<Transmit> = Vec::new();
            for Transmit { segment, ecn, .. } in sent.drain(..) {
                let mark = marked > 0 && ecn != 0;
                marked -= u64::from(mark);
                self.server.on_segment(&mut self.around, self.now, &segment, if mark { CE } else { ecn });
                answers.extend(self.server.poll_transmit(&mut self.around, self.now));
            }
            answers.extend(self.server.poll_transmit(&mut self.around, self.now));
            if answers.is_empty() {
                return windows;
            }
            self.now += Span::from_micros(100);
            for Transmit { segment, ecn, .. } in answers {
                self.client.on_segment(&mut self.around, self.now, &segment, ecn);
                windows.push(self.window());
                sent.extend(self.client_sends());
            }
        }
    }

    fn client_sends(&mut self) -> Vec<Transmit> {
        std::iter::from_fn(|| self.client.poll_transmit(&mut self.around, self.now)).collect()
    }

    /// Sends `segments`, the first `marked` of them marked.
    fn round(&mut self, segments: u64, marked: u64) -> Vec<u64> {
        assert_eq!(self.client.write(&mut self.around, self.now, segments * MSS), segments * MSS);
        self.exchange(marked)
    }

    fn window(&self) -> u64 {
        self.client.flow().cwnd.get()
    }
}

//~ recovery: DCTCP's α follows RFC 8257 §3.3 as worked out by hand
/// RFC 8257 §3.3, computed by hand. α starts at 1. An observation window ends with the first
/// acknowledgement of data sent after its begin.
#[test]
fn alpha_follows_rfc_8257() {
    let mut pair = Pair::open();
    // The first acknowledgement ends the first window: M = 0, α = 15/16.
    pair.round(10, 0);
    // The first one here ends the second window: 9 without a mark and 1 with one, so M = 0.1 and α
    // = 15/16 × 0.9375 + 0.1/16. Slow start adds a segment before the window shrinks.
    let alpha: f64 = 0.9375 * 0.9375 + 0.1 / 16.0;
    let before = pair.window();
    let after = pair.round(10, 10);
    assert!(after[0].abs_diff(cut(before + MSS, alpha)) <= 1, "{before} to {after:?}");
    assert!(after[1..].iter().all(|&window| window >= after[0]), "one reduction per window: {after:?}");
    // The third window has 9 marks of 10; no segment is marked now.
    let alpha = alpha * 0.9375 + 0.9 / 16.0;
    let before = pair.window();
    assert_eq!(pair.round(4, 0), [before; 4], "a window that is not used does not grow");
    // The fourth has 1 mark of 4.
    let alpha = alpha * 0.9375 + 0.25 / 16.0;
    assert!(pair.round(4, 4)[0].abs_diff(cut(before, alpha)) <= 1, "{before}, {alpha}");
}

/// Reduced `window`: (1 − α/2) of it, in whole bytes.
fn cut(window: u64, alpha: f64) -> u64 {
    (window as f64 * (1.0 - alpha / 2.0)) as u64
}

#[test]
fn ten_segments_go_first_and_each_acknowledgement_lets_two_go() {
    let mut pair = Pair::open();
    let windows = pair.round(30, 0);
    assert_eq!(windows[..10], std::array::from_fn::<u64, 10, _>(|n| (11 + n as u64) * MSS));
    assert_eq!(pair.client.acknowledged(), 30 * MSS);
    assert_eq!(pair.server.received(), 30 * MSS);
}

#[test]
fn sent_data_carries_its_stream_offset() {
    let mut pair = Pair::open();
    pair.client.write(&mut pair.around, pair.now, 5 * MSS + 1);
    let mut sent = std::iter::from_fn(|| pair.client.poll_transmit(&mut pair.around, pair.now));
    for n in 0..=5 {
        let Transmit { segment, offset, .. } = sent.next().expect("six segments");
        assert_eq!((offset, segment.payload.len() as u64), (n * MSS, if n < 5 { MSS } else { 1 }));
    }
    assert!(sent.next().is_none());
}
