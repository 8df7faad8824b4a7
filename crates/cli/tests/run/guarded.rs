//! A guarded program: connections that it cannot serve do not delay others.

//~ guard: programs run behind admission control

use std::io::ErrorKind;

use guard::app_queue::QueueReport;
use queueing::Span;

use super::servers::lighttpd;
use super::*;

//~ guard: `run --queue-report` sheds new clients by a program's own queue and keeps connected ones
#[test]
fn new_clients_are_shed_while_a_program_leaves_others_unread() {
    let test = "new_clients_are_shed_while_a_program_leaves_others_unread";
    let Some(world) = World::new(test, "python3") else { return };
    let script = world.write("serial.py", &SERIAL.replace("ADDRESS", OURS));
    let missing_report = format!("{}/queue", world.folder());
    let options = [&GUARD[..], &["--queue-report", &missing_report]].concat();
    let server = world.start("packet:gw0", 80, &options, &["python3", &script]);
    let connect = || world.clients.enter(|| TcpStream::connect_timeout(&server.to, LIMIT));
    world.until("it takes connections", || connect().is_ok());
    // Connections come faster than it serves them.
    let mut kept = Vec::new();
    world.until("a connection is shed", || match connect() {
        Ok(mut stream) => {
            write!(stream, "GET /small HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            kept.push(stream);
            false
        }
        Err(e) => e.kind() == ErrorKind::ConnectionRefused,
    });
    assert!(!kept.is_empty(), "no connection is shed with an empty queue");
    // Admitted connections are served, and new ones are admitted.
    for stream in &mut kept {
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut answer = [0; 12];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"HTTP/1.1 200");
    }
    world.until("others come in again", || connect().is_ok());
    let output = server.stop();
    // Without a policy there is one class: seen, shed by rate, admitted.
    let words = |line: &str| line.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    let row = output.lines().map(words).find(|row| row.len() == 6 && row[0] == "0");
    let row = row.unwrap_or_else(|| panic!("{output}"));
    assert!(row[2].parse::<u64>().unwrap() > 0, "{output}");
    assert!(output.contains(&format!("no service reported its queue in {missing_report}")), "{output}");
}

//~ guard: `run --queue-report` sheds new clients by a program's own queue and keeps connected ones
#[test]
fn new_clients_are_shed_while_a_program_tells_of_a_long_queue() {
    let test = "new_clients_are_shed_while_a_program_tells_of_a_long_queue";
    let Some(world) = World::new(test, "lighttpd") else { return };
    let (mut config, queue) = (String::new(), format!("{}/queue", world.folder()));
    let options = [&GUARD[..], &["--queue-report", &queue]].concat();
    let server = world.start("packet:gw0", 80, &options, &lighttpd(&world, &mut config));
    let connect = || world.clients.enter(|| TcpStream::connect_timeout(&server.to, LIMIT));
    world.until("it takes connections", || connect().is_ok());
    let mut open = world.connect(&server);
    // One of four requests is served, and the service's own queue has waited far too long.
    let mut report = QueueReport { waiting: 900, delay: Span::from_millis(300), ..QueueReport::default() };
    world.until("a connection is shed", || {
        report = QueueReport {
            sequence: report.sequence + 1,
            arrived: report.arrived + 4,
            served: report.served + 1,
            ..report
        };
        std::fs::write(&queue, report.line()).unwrap();
        match connect() {
            Ok(mut stream) => {
                assert!(ask(&mut stream, "/small").ends_with("hello\n"));
                false
            }
            Err(e) => e.kind() == ErrorKind::ConnectionRefused,
        }
    });
    assert!(ask(&mut open, "/small").ends_with("hello\n"), "open connections are never touched");
    // It reports nothing new.
    world.until("others come in again", || (0..20).all(|_| connect().is_ok()));
    let output = server.stop();
    assert!(!output.contains("no service reported"), "{output}");
}

/// Server of one connection after another, 10 ms for each.
const SERIAL: &str = r#"
import socketserver, time
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while self.rfile.readline().strip():
            pass
        time.sleep(0.01)
        self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
class Server(socketserver.TCPServer):
    allow_reuse_address = True
    request_queue_size = 4096
Server(("ADDRESS", 80), Handler).serve_forever()
"#;

/// Threads that accept every connection at once. While the file is missing, they answer one after
/// another, 10 ms for each.
const THREADS: &str = r#"
import os, socketserver, threading, time
one = threading.Lock()
class Handler(socketserver.StreamRequestHandler):
    def handle(self):
        while self.rfile.readline().strip():
            pass
        with one:
            if not os.path.exists("GO"):
                time.sleep(0.01)
        self.wfile.write(b"HTTP/1.0 200 OK\r\n\r\nhello\n")
class Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128
Server(("ADDRESS", 80), Handler).serve_forever()
"#;

//~ guard: `run --measure first-byte` sheds by the time to the first response byte
#[test]
fn new_clients_are_shed_while_threads_answer_too_few() {
    let test = "new_clients_are_shed_while_threads_answer_too_few";
    let Some(world) = World::new(test, "python3") else { return };
    let go = format!("{}/go", world.folder());
    let script = THREADS.replace("GO", &go).replace("ADDRESS", OURS);
    let script = world.write("threads.py", &script);
    let options = [&GUARD[..], &["--measure", "first-byte"]].concat();
    let server = world.start("packet:gw0", 80, &options, &["python3", &script]);
    let ask = || {
        let mut stream = world.clients.enter(|| TcpStream::connect_timeout(&server.to, LIMIT))?;
        write!(stream, "GET / HTTP/1.0\r\n\r\n").map(|()| stream)
    };
    std::fs::write(&go, "").unwrap();
    world.until("it answers", || {
        let mut answer = String::new();
        ask().is_ok_and(|mut stream| stream.read_to_string(&mut answer).is_ok())
            && answer.ends_with("hello\n")
    });
    std::fs::remove_file(&go).unwrap();
    let mut kept = Vec::new();
    world.until("a connection is shed", || match ask() {
        Ok(stream) => {
            kept.push(stream);
            false
        }
        Err(e) => e.kind() == ErrorKind::ConnectionRefused,
    });
    std::fs::write(&go, "").unwrap();
    for stream in &mut kept {
        let mut answer = String::new();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.ends_with("hello\n"), "{answer}");
    }
    world.until("others come in again", || ask().is_ok());
    server.stop();
}

/// A wait of more than 5 ms sheds new connections.
const GUARD: [&str; 6] = ["--guard", "queue-delay", "--target-delay", "5ms", "--guard-reject", "reset"];
