//! Once warm, a request and its response allocate nothing; and an idle
//! connection takes up no more than 640 bytes.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicU64, Ordering};

use net::device::memory::{self, MemoryDevice};
use net::stack::{Config, ListenOptions};
use net::{ConnId, EventKind, Stack};
use queueing::{Span, Time};

/// The system's allocator, counting.
struct Counting;

static ALLOCATIONS: AtomicU64 = AtomicU64::new(0);

// SAFETY: every call goes to the system's allocator with the caller's own
// arguments, which the caller promises to be valid; counting touches no memory
// but the counter.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(ptr, layout) }
    }

    unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.realloc(ptr, layout, size) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

/// A stack at one end of the wire.
struct Host {
    stack: Stack,
    end: MemoryDevice,
}

impl Host {
    fn new(host: u8, end: MemoryDevice) -> Self {
        let stack = Stack::new(Config::new([2, 0, 0, 0, 0, host], [10, 0, 0, host].into(), 24, [host; 16]));
        Self { stack, end }
    }

    fn receive(&mut self, now: Time) {
        while self.stack.ingress_from(now, &mut self.end) {}
        self.stack.handle_timeout(now);
    }

    /// Reads whatever comes; answers if told so.
    fn serve(&mut self, now: Time, answer: bool) -> Option<ConnId> {
        let mut accepted = None;
        while let Some(event) = self.stack.poll_event() {
            match event.kind {
                EventKind::Readable { .. } => {
                    let n = self.stack.received(event.conn).len();
                    self.stack.consume(now, event.conn, n);
                    if answer {
                        self.stack.send(now, event.conn, &[1; 64]).expect("the connection is open");
                    }
                }
                EventKind::Accepted(_) | EventKind::Connected => accepted = Some(event.conn),
                other => panic!("{other:?} was not expected"),
            }
        }
        self.stack.egress(now, &mut self.end);
        accepted
    }
}

/// A server and a client with `n` connections.
fn hosts(n: usize) -> (Host, Host, Vec<ConnId>, Time) {
    let (a, b) = memory::pair(256, 1514);
    let (mut server, mut client) = (Host::new(1, a), Host::new(2, b));
    server.stack.listen(80, ListenOptions::default()).unwrap();
    let mut now = Time::from_nanos(1);
    let conns = (0..n)
        .map(|i| {
            let port = 1024 + (i % 60_000) as u16;
            let conn = client.stack.connect(now, "10.0.0.1:80".parse().unwrap(), Some(port)).unwrap();
            while client.serve(now, false).is_none() {
                server.receive(now);
                server.serve(now, true);
                client.receive(now);
                now += Span::from_micros(1);
            }
            conn
        })
        .collect();
    (server, client, conns, now)
}

fn exchange(server: &mut Host, client: &mut Host, conn: ConnId, now: Time) {
    client.stack.send(now, conn, &[2; 64]).expect("the connection is open");
    client.stack.egress(now, &mut client.end);
    server.receive(now);
    server.serve(now, true);
    client.receive(now);
    client.serve(now, false);
}

// One test: the counter belongs to the whole process.
#[test]
fn warm_stack_allocates_nothing_and_idle_connections_are_small() {
    let (mut server, mut client, conns, mut now) = hosts(3000);
    let mut round = |times: usize| {
        for conn in conns.iter().cycle().take(times) {
            now += Span::from_micros(3);
            exchange(&mut server, &mut client, *conn, now);
        }
    };
    round(10_000);
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    round(20_000);
    assert_eq!(ALLOCATIONS.load(Ordering::Relaxed) - before, 0, "allocations in 20,000 exchanges");

    let each = server.stack.connection_bytes() / conns.len();
    assert!(each <= 640, "{each} bytes for each idle connection");
    println!("{each} bytes for each idle connection");
}
