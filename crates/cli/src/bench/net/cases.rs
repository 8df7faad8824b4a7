//! Cases: the requests sent to every server.

use load::closed_loop::{Exchange, ExpectedResponse, LoadModel, RequestStream};
use queueing::Span;

use crate::bench::baselines::{CHUNK, REQUEST, Serves};

/// One measured case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Name such as `echo-64 100`.
    pub name: String,
    pub serves: Serves,
    pub connections: u32,
    pub pace: LoadModel,
    request: Vec<u8>,
    answer: ExpectedResponse,
}

/// Request rates of the open loop, per second. All servers here sustain the first. The second
/// exceeds the closed-loop rate of the kernel's TCP on veth and of gVisor, whose latency is then
/// queueing.
const RATES: [f64; 2] = [20_000.0, 80_000.0];

impl Case {
    fn new(serves: Serves, length: usize, connections: u32, pace: LoadModel) -> Self {
        let noise = |length: usize| (0..length as u64).map(|i| ((i * 0x9e37) >> 5) as u8).collect();
        let (word, request, answer) = match serves {
            Serves::Echo => (format!("echo-{length}"), noise(length), ExpectedResponse::Echo),
            Serves::Http => ("http".to_owned(), REQUEST.to_vec(), ExpectedResponse::Http),
            Serves::Sink => ("stream-in".to_owned(), vec![0; CHUNK], ExpectedResponse::Nothing),
            Serves::Source => ("stream-out".to_owned(), vec![0], ExpectedResponse::Bytes(CHUNK as u64)),
        };
        let name = match pace {
            LoadModel::Closed { .. } if matches!(serves, Serves::Sink | Serves::Source) => word,
            LoadModel::Closed { .. } => format!("{word} {connections}"),
            LoadModel::Open { arrivals, .. } => {
                format!("{word} {connections} at {:.0}k/s", arrivals.rate_per_s() / 1e3)
            }
        };
        Self { name, serves, connections, pace, request, answer }
    }

    /// Closed loop with one request on each connection.
    fn closed(serves: Serves, length: usize, connections: u32) -> Self {
        Self::new(serves, length, connections, LoadModel::Closed { outstanding: 1 })
    }

    fn open(serves: Serves, length: usize, connections: u32, rate_per_s: f64) -> Self {
        Self::new(serves, length, connections, LoadModel::poisson(rate_per_s, 0))
    }

    /// Client workload for `time`.
    pub fn exchange(&self, time: Span, seed: u64) -> Exchange {
        let pace = match self.pace {
            LoadModel::Open { arrivals, .. } => LoadModel::Open { arrivals, seed },
            closed => closed,
        };
        let (connections, request) = (self.connections, self.request.clone());
        Exchange {
            kinds: vec![RequestStream { connections, request, answer: self.answer, pace }],
            // Long enough for TCP's windows to open, and for the initial burst of all connections
            // to be answered.
            warmup: time / 2,
            duration: time,
        }
    }

    /// True if the measured value of the case is a throughput in bytes.
    pub fn is_stream(&self) -> bool {
        matches!(self.serves, Serves::Sink | Serves::Source)
    }
}

/// Number of outstanding requests of a stream: 1 MiB together.
const STREAM_OUTSTANDING: u32 = 16;

fn streams() -> [Case; 2] {
    [Serves::Sink, Serves::Source]
        .map(|serves| Case::new(serves, 0, 1, LoadModel::Closed { outstanding: STREAM_OUTSTANDING }))
}

/// All cases.
pub fn full() -> Vec<Case> {
    let mut cases = Vec::new();
    for (serves, length) in [(Serves::Echo, 64), (Serves::Http, 0), (Serves::Echo, 16 * 1024)] {
        cases.extend([1, 100, 1000].map(|connections| Case::closed(serves, length, connections)));
    }
    cases.extend(RATES.map(|rate| Case::open(Serves::Echo, 64, 100, rate)));
    cases.extend(streams());
    cases
}

/// One small case of each kind.
pub fn smoke() -> Vec<Case> {
    let mut cases = vec![
        Case::closed(Serves::Echo, 64, 10),
        Case::closed(Serves::Http, 0, 10),
        Case::closed(Serves::Echo, 16 * 1024, 2),
        Case::open(Serves::Echo, 64, 10, 1000.0),
    ];
    cases.extend(streams());
    cases
}
