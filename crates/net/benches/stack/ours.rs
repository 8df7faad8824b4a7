//! Exchange through greenwave's stack, with the loop of `runtime` and without classifiers.

use std::hint::black_box;

use net::device::memory::{self, MemoryDevice};
use net::stack::{Config, ListenOptions};
use net::{ConnId, EventKind, Stack};
use queueing::{Span, Time};

struct Host {
    stack: Stack,
    end: MemoryDevice,
}

impl Host {
    fn new(host: u8, end: MemoryDevice) -> Self {
        let stack = Stack::new(Config::new([2, 0, 0, 0, 0, host], [10, 0, 0, host].into(), 16, [host; 16]));
        Self { stack, end }
    }

    fn receive(&mut self, now: Time) {
        while self.stack.ingress_from(now, &mut self.end) {}
        self.stack.handle_timeout(now);
    }

    /// Reads the received data and answers if `answer`; the caller decides when to send.
    fn serve(&mut self, now: Time, answer: bool) -> usize {
        let mut received = 0;
        while let Some(event) = self.stack.poll_event() {
            received += 1;
            if let EventKind::Readable { .. } = event.kind {
                let n = black_box(self.stack.received(event.conn)).len();
                self.stack.consume(now, event.conn, n);
                if answer {
                    let _ = self.stack.send(now, event.conn, &[1; super::MESSAGE]);
                }
            }
        }
        received
    }

    fn transmit(&mut self, now: Time) {
        self.stack.egress(now, &mut self.end);
    }
}

/// Server and client with `n` connections.
pub struct Pair {
    server: Host,
    client: Host,
    conns: Vec<ConnId>,
    now: Time,
    next: usize,
}

impl Pair {
    pub fn new(n: usize) -> Self {
        let (a, b) = memory::pair(64, 1514);
        let (mut server, mut client) = (Host::new(1, a), Host::new(2, b));
        for port in [80, 81] {
            server.stack.listen(port, ListenOptions::default()).expect("a free port");
        }
        let mut now = Time::from_nanos(1);
        let conns = (0..n)
            .map(|i| {
                let remote = ["10.0.0.1:80", "10.0.0.1:81"][i / 60_000].parse().expect("an address");
                let port = 1024 + (i % 60_000) as u16;
                let conn = client.stack.connect(now, remote, Some(port)).expect("a free port");
                while client.serve(now, false) == 0 {
                    client.transmit(now);
                    server.receive(now);
                    server.transmit(now);
                    client.receive(now);
                    now += Span::from_micros(1);
                }
                client.transmit(now);
                server.receive(now);
                server.serve(now, true);
                conn
            })
            .collect();
        Self { server, client, conns, now, next: 0 }
    }

    #[allow(dead_code)] // Used by the test of memory per connection.
    pub fn server(&self) -> &Stack {
        &self.server.stack
    }

    /// One request and one response on the next connection.
    pub fn exchange(&mut self) {
        let Self { server, client, conns, now, next } = self;
        *now += Span::from_micros(1);
        let now = *now;
        let conn = conns[*next];
        *next = (*next + 1) % conns.len();
        let _ = client.stack.send(now, conn, &[2; super::MESSAGE]);
        client.transmit(now);
        server.receive(now);
        server.serve(now, true);
        server.transmit(now);
        client.receive(now);
        // Its acknowledgement leaves with the next request, as with smoltcp.
        assert_eq!(client.serve(now, false), 1, "one response");
    }
}
