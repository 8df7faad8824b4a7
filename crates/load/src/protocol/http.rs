//! HTTP/1.1 for load generation: requests and response framing.
//!
//! Bodies are counted, not stored, so the state of a connection is a few words. Framing:
//! Content-Length, chunked, and no body for 1xx, 204 and 304. A body that ends with the connection
//! is an error, because no response can follow it. HEAD is not supported.
//! Source: RFC 9112 §6, §7.1.

/// A request, the same each time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HttpRequest {
    /// Method, not HEAD or CONNECT, whose responses have other framing.
    pub method: String,
    /// Request path, starting with `/`.
    pub path: String,
    /// Fields besides those of [`OWN_FIELDS`], which [`write`](Self::write) adds; one of `Host` replaces that.
    pub headers: Vec<(String, String)>,
    /// Content; with one, `Content-Length` is added.
    pub body: Vec<u8>,
}

/// Invalid part of a [`HttpRequest`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestError {
    /// Invalid or unsupported method.
    Method(String),
    /// Path without a leading slash, or with a space in it.
    Path(String),
    /// Not a field, or one that the generator sets.
    Header(String),
}

/// Fields that a caller cannot set: they frame the request.
pub const OWN_FIELDS: [&str; 3] = ["content-length", "transfer-encoding", "connection"];

impl std::fmt::Display for RequestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Method(method) => {
                write!(f, "method {method:?} is not a word in capitals other than HEAD and CONNECT")
            }
            Self::Path(path) => write!(f, "path {path:?} does not begin with / or has a space in it"),
            Self::Header(name) => {
                write!(f, "header {name:?} is not NAME: VALUE, or is one of {}", OWN_FIELDS.join(", "))
            }
        }
    }
}

impl std::error::Error for RequestError {}

impl HttpRequest {
    /// A GET of `path`.
    #[must_use]
    pub fn get(path: &str) -> Self {
        Self { method: "GET".to_owned(), path: path.to_owned(), headers: Vec::new(), body: Vec::new() }
    }

    /// Checks every part.
    ///
    /// # Errors
    /// The first invalid part.
    pub fn validate(&self) -> Result<(), RequestError> {
        let is_method = !self.method.is_empty() && self.method.bytes().all(|b| b.is_ascii_uppercase());
        if !is_method || ["HEAD", "CONNECT"].contains(&self.method.as_str()) {
            return Err(RequestError::Method(self.method.clone()));
        }
        if !(self.path.starts_with('/') && self.path.bytes().all(|b| b.is_ascii_graphic())) {
            return Err(RequestError::Path(self.path.clone()));
        }
        let is_field = |(name, value): &&(String, String)| {
            // RFC 9110 §5.6.2, without rare letters.
            let is_token = |b: u8| b.is_ascii_alphanumeric() || b"-_.!#$%&'*+^`|~".contains(&b);
            let is_own = OWN_FIELDS.iter().any(|own| name.eq_ignore_ascii_case(own));
            let is_name = !name.is_empty() && name.bytes().all(is_token) && !is_own;
            is_name && !value.bytes().any(|b| b.is_ascii_control() && b != b'\t')
        };
        match self.headers.iter().find(|field| !is_field(field)) {
            Some((name, _)) => Err(RequestError::Header(name.clone())),
            None => Ok(()),
        }
    }

    /// Appends the request for `host`.
    pub fn write(&self, host: &str, into: &mut Vec<u8>) {
        let has = |field: &str| self.headers.iter().any(|(name, _)| name.eq_ignore_ascii_case(field));
        let mut head = format!("{} {} HTTP/1.1\r\n", self.method, self.path);
        let mut field = |name: &str, value: &str| head += &format!("{name}: {value}\r\n");
        if !has("host") {
            field("Host", host);
        }
        if !has("accept") {
            field("Accept", "*/*");
        }
        self.headers.iter().for_each(|(name, value)| field(name, value));
        if !self.body.is_empty() {
            field("Content-Length", &self.body.len().to_string());
        }
        into.extend_from_slice(head.as_bytes());
        into.extend_from_slice(b"\r\n");
        into.extend_from_slice(&self.body);
    }
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

    fn written(request: &HttpRequest) -> String {
        let mut bytes = Vec::new();
        request.write("10.0.0.1:80", &mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    fn with(headers: &[(&str, &str)], body: &str) -> HttpRequest {
        let headers = headers.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        HttpRequest { method: "POST".to_owned(), headers, body: body.into(), ..HttpRequest::get("/pay") }
    }

    //~ load: requests have the given method, fields and content
    #[test]
    fn a_request_has_its_fields_and_the_length_of_its_content() {
        let get = "GET /a?b=c HTTP/1.1\r\nHost: 10.0.0.1:80\r\nAccept: */*\r\n\r\n";
        assert_eq!(written(&HttpRequest::get("/a?b=c")), get);
        let post = with(&[("host", "shop"), ("X-Tier", "gold")], "ab");
        let text =
            "POST /pay HTTP/1.1\r\nAccept: */*\r\nhost: shop\r\nX-Tier: gold\r\nContent-Length: 2\r\n\r\nab";
        assert_eq!(written(&post), text);
        assert_eq!(post.validate(), Ok(()));
    }

    #[test]
    fn parts_that_would_break_the_framing_are_refused() {
        let header = |name: &str, value: &str| with(&[(name, value)], "").validate().is_err();
        assert!(header("", "x") && header("a b", "x") && header("a", "x\r\nb: c"));
        assert!(header("Content-Length", "9") && header("Transfer-Encoding", "chunked"));
        let method = |method: &str| {
            HttpRequest { method: method.to_owned(), ..HttpRequest::get("/") }.validate().is_err()
        };
        assert!(method("HEAD") && method("") && method("get") && method("GET /") && !method("DELETE"));
        assert!(
            HttpRequest::get("a").validate().is_err() && HttpRequest::get("/a b\r\n").validate().is_err()
        );
    }
}
