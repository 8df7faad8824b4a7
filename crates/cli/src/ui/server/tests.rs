//! Answered requests and their answers; over a real socket where that matters.

use std::io::{Read, Write};

use super::super::fixture::{at, serve};
use super::*;
use crate::ui::snapshot::Snapshot;

fn site(any_name: bool) -> Site {
    let clock = Monotonic::new();
    Site { live: Arc::new(Mutex::new(serve(5))), clock, any_name }
}

fn asked(site: &Site, method: Method, path: &str, host: &str) -> (u16, String) {
    let mut headers = HeaderMap::new();
    headers.insert(HOST, HeaderValue::from_str(host).expect("a header"));
    let answer = site.answer(&method, &path.parse().expect("a path"), &headers);
    (answer.status().as_u16(), answer.into_body())
}

#[test]
fn pages_are_served_and_invalid_requests_are_refused_with_a_reason() {
    let site = site(false);
    let get = |path: &str| asked(&site, Method::GET, path, "127.0.0.1:9900");
    assert!(get("/").1.starts_with("<!DOCTYPE html>"));
    assert!(get("/metrics").1.contains("\ngreenwave_responses_total{shard=\"0\"} 5000\n"));
    let seen: Snapshot = serde_json::from_str(&get("/snapshot.json?window=1").1).expect("a snapshot");
    assert_eq!((seen.command.as_str(), seen.window_s), ("serve", 1.0));
    assert_eq!(get("/favicon.ico").0, 404);
    for window in ["0", "61", "-1", "x", ""] {
        let (status, why) = get(&format!("/?window={window}"));
        assert_eq!((status, why.as_str()), (400, "window is not a number of seconds in 1..=60\n"));
    }
    assert_eq!(asked(&site, Method::POST, "/", "localhost").0, 405);
}

#[test]
fn another_host_name_is_refused_on_loopback() {
    for host in ["127.0.0.1", "127.0.0.1:9900", "[::1]:9900", "[::1]", "localhost", "LOCALHOST:1"] {
        assert_eq!(asked(&site(false), Method::GET, "/", host).0, 200, "{host}");
    }
    for host in
        ["evil.example", "evil.example:9900", "localhost.evil.example", "127.0.0.1.evil.example", ":1"]
    {
        assert_eq!(asked(&site(false), Method::GET, "/", host).0, 421, "{host}");
        assert_eq!(asked(&site(true), Method::GET, "/", host).0, 200, "{host}");
    }
}

/// All bytes until the connection ends.
fn answer_to(addr: SocketAddr, question: &[u8]) -> String {
    let mut stream = std::net::TcpStream::connect(addr).expect("a listener");
    stream.set_read_timeout(Some(CONNECTION_MAX * 4)).expect("a timeout");
    let _ = stream.write_all(question);
    let mut text = Vec::new();
    // A reset ends it, too.
    let _ = stream.read_to_end(&mut text);
    String::from_utf8_lossy(&text).into_owned()
}

#[test]
fn a_server_answers_on_a_socket_and_is_gone_when_dropped() {
    let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
    let server = UiServer::start(loopback, site(false)).expect("a free port");
    let addr = server.addr();
    assert_eq!(UiServer::start(addr, site(false)).err().map(|e| e.kind()), Some(io::ErrorKind::AddrInUse));
    let head = answer_to(addr, b"HEAD / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    assert!(answer_to(addr, b"\x16\x03\x01 no HTTP\r\n\r\n").starts_with("HTTP/1.1 400"));
    let mut long = b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: ".to_vec();
    long.resize(BUFFER, b'x');
    assert!(answer_to(addr, &long).starts_with("HTTP/1.1 431"));
    // More silent clients than slots: the request waits for a slot, and is answered.
    let silent: Vec<_> = (0..CONNECTIONS_MAX + 4).map(|_| std::net::TcpStream::connect(addr)).collect();
    let metrics = answer_to(addr, b"GET /metrics HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    drop(silent);
    drop(server);
    assert!(std::net::TcpStream::connect(addr).is_err(), "no listener any more");
    assert!(TcpListener::bind(addr).is_ok());
}

#[test]
fn the_view_survives_a_panic_of_another_thread() {
    let site = site(false);
    let live = site.live.clone();
    let _ = std::thread::spawn(move || {
        let _held = live.lock();
        panic!("on purpose");
    })
    .join();
    assert_eq!(asked(&site, Method::GET, "/metrics", "localhost").0, 200);
    assert!(site.live().snapshot(at(5.0), 1).figures.len() > 3);
}
