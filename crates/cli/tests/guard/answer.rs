//! A server that accepts at once, as threads do, guarded by its unanswered connections.

//~ xdp-guard: `--measure first-byte` protects a server whose threads accept at once

use std::io::Write;
use std::net::TcpStream;

use rustix::process::Signal;

use super::{Rig, ended, number, signal};

impl Rig {
    /// A connection with a request, and the server's accepted end; if admitted.
    fn ask(&self) -> Option<(TcpStream, TcpStream)> {
        let mut client = self.connect()?;
        client.write_all(b"?").unwrap();
        let (server, _) = self.listener.accept().unwrap();
        Some((client, server))
    }
}

/// Connections with a request and without a response; more than the 64 services that are overload.
const LONG_POLLS: usize = 200;

//~ xdp-guard: `--measure first-byte` sheds no connection for 200 long polls
#[test]
fn accepted_unanswered_connections_keep_others_out() {
    let Some(rig) = Rig::new("accepted_unanswered_connections_keep_others_out") else { return };
    let controller = rig.attach(&["--measure", "first-byte"]);
    let mut answered = rig.ask().expect("no unanswered connection");
    answered.1.write_all(b"!").unwrap();
    let idle = (rig.connect().expect("no unanswered connection"), rig.listener.accept().unwrap());
    let status = rig.until("both are accepted", |status| number(&status["served"]) == 2);
    assert_eq!((&status["until"], number(&status["unanswered"])), (&"answer".into(), 0), "{status}");
    // Slow requests, such as long polls, are no overload beside those that are answered at once.
    let mut waiting: Vec<_> = (0..LONG_POLLS).map(|_| rig.ask().expect("no overload")).collect();
    let status = rig.until("they wait for long", |status| {
        let (_client, mut server) = rig.ask().expect("no overload");
        server.write_all(b"!").unwrap();
        number(&status["unanswered_delay_ns"]) > 4_000_000_000
    });
    assert_eq!((&status["limit"]["kind"], &status["shed"]), (&"open".into(), &0.into()), "{status}");
    let overload = rig.overload_of_threads();
    let status = rig.status();
    assert!(number(&status["unanswered"]) as usize >= waiting.len(), "{status}");
    let text = String::from_utf8(rig.guard(&["status", "eth0"]).stdout).unwrap();
    assert!(
        text.contains("\nwithout a first response byte: ") && text.contains(" connections, oldest "),
        "{text}"
    );
    let metrics = String::from_utf8(rig.guard(&["status", "eth0", "--metrics"]).stdout).unwrap();
    assert!(metrics.contains("greenwave_guard_pending_response{device=\"eth0\"} "), "{metrics}");
    drop(overload);
    for (_, server) in &mut waiting {
        server.write_all(b"!").unwrap();
    }
    rig.until("all are answered", |status| {
        status["limit"]["kind"] == "open" && number(&status["unanswered"]) == 0
    });
    signal(&controller, Signal::INT);
    ended(controller);
    drop((answered, idle));
}
