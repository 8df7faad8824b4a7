//! HTTP/1.1 for load generation: GET requests and response framing.
//!
//! Bodies are counted, not stored, so the state of a connection is a few words. Framing:
//! Content-Length, chunked, and no body for 1xx, 204 and 304. A body that ends with the connection
//! is an error, because no response can follow it. HEAD is not supported.
//! Source: RFC 9112 §6, §7.1.

/// Appends a GET request for `path` on `host`.
pub fn write_get(path: &str, host: &str, into: &mut Vec<u8>) {
    for part in ["GET ", path, " HTTP/1.1\r\nHost: ", host, "\r\nAccept: */*\r\n\r\n"] {
        into.extend_from_slice(part.as_bytes());
    }
}

/// True if `path` is valid in a request line.
#[must_use]
pub fn path_is_valid(path: &str) -> bool {
    path.starts_with('/') && path.bytes().all(|b| b.is_ascii_graphic())
}

/// Framing error of a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResponseParseError {
    /// Malformed head.
    Head,
    /// Head longer than 16 KiB.
    HeadTooLong,
    /// Body without a length, which would end with the connection.
    NoLength,
    /// Malformed chunk size line.
    Chunk,
}

/// Complete response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Response {
    /// Status code, 200..=599.
    pub status: u16,
    /// True if the server closes the connection after it.
    pub last: bool,
}

/// Framer of a stream of responses, however it is segmented.
#[derive(Debug, Default)]
pub struct Framer {
    state: State,
    line: Vec<u8>,
    head: Head,
    head_bytes: usize,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    StatusLine,
    Header,
    Body(u64),
    ChunkSize,
    ChunkData(u64),
    ChunkEnd,
    Trailer,
}

#[derive(Clone, Copy, Debug, Default)]
struct Head {
    status: u16,
    close: bool,
    chunked: bool,
    length: Option<u64>,
}

const HEAD_BYTES_MAX: usize = 16 * 1024;

impl Framer {
    /// Parses `bytes`; calls `done` for each response that ends in them.
    ///
    /// # Errors
    /// [`ResponseParseError`]; the connection is unusable.
    pub fn push(
        &mut self,
        mut bytes: &[u8],
        mut done: impl FnMut(Response),
    ) -> Result<(), ResponseParseError> {
        while !bytes.is_empty() {
            match self.state {
                State::Body(left) | State::ChunkData(left) => {
                    let n = left.min(bytes.len() as u64);
                    bytes = &bytes[n as usize..];
                    match (self.state, left - n) {
                        (State::Body(_), 0) => done(self.end()),
                        (State::Body(_), left) => self.state = State::Body(left),
                        (_, 0) => self.state = State::ChunkEnd,
                        (_, left) => self.state = State::ChunkData(left),
                    }
                }
                _ => {
                    let end = bytes.iter().position(|&b| b == b'\n');
                    let n = end.map_or(bytes.len(), |at| at + 1);
                    self.head_bytes += n;
                    if self.head_bytes > HEAD_BYTES_MAX {
                        return Err(ResponseParseError::HeadTooLong);
                    }
                    self.line.extend_from_slice(&bytes[..n]);
                    bytes = &bytes[n..];
                    if end.is_some() {
                        let line = std::mem::take(&mut self.line);
                        let ended = self.on_line(line.trim_ascii_end())?;
                        self.line = line;
                        self.line.clear();
                        if ended {
                            done(self.end());
                        }
                    }
                }
            }
        }
        Ok(())
    }

    /// True between two responses.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.state == State::StatusLine && self.line.is_empty()
    }

    /// Parses a line without its line end; `true` if it ends the response.
    fn on_line(&mut self, line: &[u8]) -> Result<bool, ResponseParseError> {
        match self.state {
            State::StatusLine => {
                self.head = status_line(line).ok_or(ResponseParseError::Head)?;
                self.state = State::Header;
            }
            State::Header if line.is_empty() => return self.on_head_end(),
            State::Header => header(line, &mut self.head).ok_or(ResponseParseError::Head)?,
            State::ChunkSize => {
                self.head_bytes = 0;
                self.state = match chunk_size(line).ok_or(ResponseParseError::Chunk)? {
                    0 => State::Trailer,
                    size => State::ChunkData(size),
                };
            }
            State::ChunkEnd if line.is_empty() => self.state = State::ChunkSize,
            State::ChunkEnd => return Err(ResponseParseError::Chunk),
            State::Trailer => return Ok(line.is_empty()),
            State::Body(_) | State::ChunkData(_) => unreachable!("bodies are not read by line"),
        }
        Ok(false)
    }

    fn on_head_end(&mut self) -> Result<bool, ResponseParseError> {
        self.head_bytes = 0;
        match self.head {
            Head { status: 100..=199, .. } => self.state = State::StatusLine,
            Head { status: 204 | 304, .. } => return Ok(true),
            Head { chunked: true, .. } => self.state = State::ChunkSize,
            Head { length: Some(0), .. } => return Ok(true),
            Head { length: Some(length), .. } => self.state = State::Body(length),
            _ => return Err(ResponseParseError::NoLength),
        }
        Ok(false)
    }

    fn end(&mut self) -> Response {
        self.state = State::StatusLine;
        self.head_bytes = 0;
        Response { status: self.head.status, last: self.head.close }
    }
}

fn status_line(line: &[u8]) -> Option<Head> {
    let rest = line.strip_prefix(b"HTTP/1.")?;
    let (&minor, rest) = rest.split_first()?;
    let rest = rest.strip_prefix(b" ")?;
    let (digits, rest) = rest.split_at_checked(3)?;
    if !(rest.is_empty() || rest[0] == b' ') {
        return None;
    }
    let status = std::str::from_utf8(digits).ok()?.parse().ok()?;
    (100..=599).contains(&status).then_some(Head { status, close: minor == b'0', ..Head::default() })
}

fn header(line: &[u8], head: &mut Head) -> Option<()> {
    let colon = line.iter().position(|&b| b == b':')?;
    let (name, value) = (&line[..colon], line[colon + 1..].trim_ascii());
    if name.eq_ignore_ascii_case(b"content-length") {
        let length = digits(value, 10)?;
        if head.length.is_some_and(|other| other != length) {
            return None;
        }
        head.length = Some(length);
    } else if name.eq_ignore_ascii_case(b"transfer-encoding") {
        head.chunked = value.to_ascii_lowercase().ends_with(b"chunked");
    } else if name.eq_ignore_ascii_case(b"connection") {
        for token in value.split(|&b| b == b',').map(<[u8]>::trim_ascii) {
            match () {
                () if token.eq_ignore_ascii_case(b"close") => head.close = true,
                () if token.eq_ignore_ascii_case(b"keep-alive") => head.close = false,
                () => {}
            }
        }
    }
    Some(())
}

fn chunk_size(line: &[u8]) -> Option<u64> {
    let size = line.split(|&b| b == b';').next()?;
    digits(size.trim_ascii(), 16)
}

fn digits(text: &[u8], radix: u32) -> Option<u64> {
    if !text.first()?.is_ascii_hexdigit() {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(text).ok()?, radix).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn follow(pieces: &[&[u8]]) -> Result<Vec<(u16, bool)>, ResponseParseError> {
        let (mut framer, mut seen) = (Framer::default(), Vec::new());
        for piece in pieces {
            framer.push(piece, |r| seen.push((r.status, r.last)))?;
        }
        Ok(seen)
    }

    const STREAM: &str = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
        HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\n\r\n\
        HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nabc\r\n1a\r\nabcdefghijklmnopqrstuvwxyz\r\n0\r\nT: 1\r\n\r\n\
        HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\nConnection: close\r\n\r\n";

    //~ runtime: HTTP/1.1 requests and responses end where their framing ends, in server and load generator (RFC 9112)
    #[test]
    fn each_response_ends_as_its_framing_specifies() {
        let seen = follow(&[STREAM.as_bytes()]);
        assert_eq!(seen, Ok(vec![(200, false), (204, false), (200, false), (404, true)]));
    }

    #[test]
    fn http_1_0_closes_by_default() {
        let head = |more: &str| format!("HTTP/1.0 200 OK\r\ncontent-length: 0\r\n{more}\r\n");
        assert_eq!(follow(&[head("").as_bytes()]), Ok(vec![(200, true)]));
        assert_eq!(follow(&[head("Connection: keep-alive\r\n").as_bytes()]), Ok(vec![(200, false)]));
    }

    #[test]
    fn a_response_without_framing_is_an_error() {
        let refused = |text: &str| follow(&[text.as_bytes()]).unwrap_err();
        assert_eq!(refused("SSH-2.0-OpenSSH\r\n"), ResponseParseError::Head);
        assert_eq!(refused("HTTP/1.1 200 OK\r\n\r\n"), ResponseParseError::NoLength);
        assert_eq!(refused("HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"), ResponseParseError::Head);
        assert_eq!(
            refused("HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
            ResponseParseError::Head
        );
        assert_eq!(
            refused("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
            ResponseParseError::Chunk
        );
        assert_eq!(refused(&"x".repeat(HEAD_BYTES_MAX + 1)), ResponseParseError::HeadTooLong);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn segmentation_does_not_change_parsing(cuts in proptest::collection::vec(0..STREAM.len(), 0..12)) {
            let mut cuts = cuts;
            cuts.extend([0, STREAM.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|w| &STREAM.as_bytes()[w[0]..w[1]]).collect();
            prop_assert_eq!(follow(&pieces), follow(&[STREAM.as_bytes()]));
        }

        //~ input: random bytes cause no panic in packet views, policies, HTTP and the synthetic protocol
        #[test]
        fn the_framer_never_panics(bytes: Vec<u8>, head: bool) {
            let head: &[u8] = if head { b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" } else { b"" };
            let _ = follow(&[head, &bytes]);
        }
    }

    #[test]
    fn a_get_is_one_request_line_and_a_host() {
        let mut bytes = Vec::new();
        write_get("/a?b=c", "10.0.0.1:80", &mut bytes);
        assert_eq!(bytes, b"GET /a?b=c HTTP/1.1\r\nHost: 10.0.0.1:80\r\nAccept: */*\r\n\r\n");
        assert!(path_is_valid("/a?b=c") && !path_is_valid("a") && !path_is_valid("/a b\r\n"));
    }
}
