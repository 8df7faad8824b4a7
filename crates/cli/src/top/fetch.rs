//! Fetch of a snapshot over HTTP/1.0, one connection per request.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::error::plain;

/// Time limit for a connection, and between two bytes.
const TIMEOUT: Duration = Duration::from_secs(2);
/// Largest snapshot in bytes.
const BYTES_MAX: u64 = 8 * 1024 * 1024;

/// The snapshot over `window_s` seconds of the command at `address`, as text.
///
/// # Errors
/// The reason there is none, in a sentence.
pub fn snapshot(address: SocketAddr, window_s: u64) -> Result<String, String> {
    let failed = |e: std::io::Error| match e.kind() {
        std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut => {
            format!("no answer within {} s", TIMEOUT.as_secs())
        }
        _ => plain(&e.to_string()).to_owned(),
    };
    let mut stream = TcpStream::connect_timeout(&address, TIMEOUT).map_err(failed)?;
    stream.set_read_timeout(Some(TIMEOUT)).map_err(failed)?;
    stream.set_write_timeout(Some(TIMEOUT)).map_err(failed)?;
    let question = format!("GET /snapshot.json?window={window_s} HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(question.as_bytes()).map_err(failed)?;
    let mut bytes = Vec::new();
    stream.take(BYTES_MAX).read_to_end(&mut bytes).map_err(failed)?;
    body(&bytes)
}

/// The body of a successful response.
fn body(bytes: &[u8]) -> Result<String, String> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut head = httparse::Response::new(&mut headers);
    let no_http = |_| "not an HTTP server".to_owned();
    let httparse::Status::Complete(begin) = head.parse(bytes).map_err(no_http)? else {
        return Err("incomplete answer".to_owned());
    };
    match head.code {
        Some(200) => {}
        code => return Err(format!("the server has no snapshot (HTTP {})", code.unwrap_or(0))),
    }
    let length = head.headers.iter().find(|header| header.name.eq_ignore_ascii_case("content-length"));
    let length = length.and_then(|header| std::str::from_utf8(header.value).ok()?.parse::<usize>().ok());
    let body = &bytes[begin..];
    if length.is_some_and(|length| length != body.len()) {
        return Err("incomplete answer".to_owned());
    }
    String::from_utf8(body.to_vec()).map_err(|_| "the answer is not UTF-8".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_good_answer_is_its_body_and_others_say_what_is_wrong() {
        let check = |bytes: &str, expected: Result<&str, &str>| {
            assert_eq!(
                body(bytes.as_bytes()),
                expected.map(str::to_owned).map_err(str::to_owned),
                "{bytes:?}"
            );
        };
        check("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}", Ok("{}"));
        check("HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\n{}", Err("incomplete answer"));
        check("HTTP/1.0 200 OK\r\nContent-Le", Err("incomplete answer"));
        check("HTTP/1.0 404 Not Found\r\n\r\n", Err("the server has no snapshot (HTTP 404)"));
        check("SSH-2.0-OpenSSH\r\n\r\n", Err("not an HTTP server"));
    }
}
