//! Small HTTP/1.1 server, for `curl`, `wrk` and measurements.
//!
//! `GET /` is a line of text, `GET /bytes/N` is N bytes, `POST` returns its body. Supports
//! keep-alive and pipelining. Not a web server: no chunked bodies, no files, no `Date` (it has no
//! wall clock). A bad request is answered and its connection closed, because the start of the next
//! request is unknown. Head and body are bounded, so a client cannot make the server buffer without
//! limit.
//! Source: RFC 9110, RFC 9112.

use std::io::Write;

use deadline::{BudgetHeader, ReceivedBudget};
use queueing::Span;
use sched::dispatch::RequestType;

use super::trace_attributes::path;
use super::{App, Body, ConnectionFate, Context, Framing, RequestAttributes};

/// HTTP application; see the module.
#[derive(Clone, Copy, Debug, Default)]
pub struct Http;

/// Maximum length of a request's head in bytes; a longer one gets 431.
pub(super) const HEAD_BYTES_MAX: usize = 16 * 1024;
/// Maximum length of a request's body in bytes; a longer one gets 413.
pub(super) const BODY_BYTES_MAX: usize = 128 * 1024;
/// Maximum length of `/bytes/N` in bytes.
pub(super) const RESPONSE_BYTES_MAX: usize = 16 * 1024 * 1024;
const HEADERS_MAX: usize = 64;
/// Length in bytes above which a body is generated while it is sent.
const WHOLE_BYTES_MAX: usize = 16 * 1024;

impl App for Http {
    /// Framing of a request; a refused request extends over all received bytes.
    fn frame(&self, received: &[u8]) -> Framing {
        match parse(received) {
            Ok(Some(request)) if request.len() > received.len() => Framing::Incomplete,
            Ok(Some(request)) => Framing::Complete { len: request.len() },
            Ok(None) => Framing::Incomplete,
            Err(_) => Framing::Complete { len: received.len() },
        }
    }

    /// Request type by method: HEAD 0, GET 1, POST 2.
    fn kind(&self, segment: &[u8]) -> Option<RequestType> {
        let methods: [&[u8]; 3] = [b"HEAD ", b"GET ", b"POST "];
        let found = methods.iter().position(|method| segment.starts_with(method))?;
        Some(RequestType(found as u16))
    }

    /// Remaining time by the fields of crate `deadline`, which validates them.
    fn budget(&self, request: &[u8]) -> Option<Span> {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Request::new(&mut headers);
        head.parse(request).ok()?;
        let lines = |header: BudgetHeader| {
            let named = head.headers.iter().filter(move |line| line.name.eq_ignore_ascii_case(header.name()));
            named.map(|line| line.value)
        };
        ReceivedBudget::read(lines).time_left()
    }

    /// Method, path, and the parent from a single field `traceparent`.
    fn attributes(&self, request: &[u8]) -> RequestAttributes {
        let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
        let mut head = httparse::Request::new(&mut headers);
        if head.parse(request).is_err() {
            return RequestAttributes::default();
        }
        RequestAttributes::of_http(
            head.method.unwrap_or_default(),
            head.path.unwrap_or_default(),
            head.headers,
        )
    }

    fn serve(&self, request: &[u8], cx: &mut Context<'_>, response: &mut Vec<u8>) -> ConnectionFate {
        let head = match parse(request) {
            Ok(Some(head)) => head,
            Ok(None) => return refuse(&Refusal::new(400, "the request is not complete"), response),
            Err(refusal) => return refuse(&refusal, response),
        };
        let body = request.get(head.bytes..head.len()).unwrap_or_default();
        let (status, content) = answer(&head, body);
        write_head(response, status, content.len(), head.keep);
        match content {
            _ if head.method == Method::Head => {}
            Content::Filler(n) if n > WHOLE_BYTES_MAX => *cx.body = Some(Box::new(Filler(n))),
            content => content.write(response),
        }
        if head.keep { ConnectionFate::Keep } else { ConnectionFate::Close }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Method {
    Get,
    Head,
    Post,
}

/// Parsed head of a request.
struct Head<'a> {
    method: Method,
    target: &'a str,
    /// True if the connection stays open.
    keep: bool,
    /// Length of the head.
    bytes: usize,
    /// Length of the body.
    body: usize,
}

impl Head<'_> {
    fn len(&self) -> usize {
        self.bytes + self.body
    }
}

/// Reason for a refusal.
struct Refusal {
    status: u16,
    why: String,
}

impl Refusal {
    fn new(status: u16, why: impl Into<String>) -> Self {
        Self { status, why: why.into() }
    }
}

/// Head at the start of `received`, once complete.
fn parse(received: &[u8]) -> Result<Option<Head<'_>>, Refusal> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let bytes = match request.parse(received) {
        Ok(httparse::Status::Complete(bytes)) if bytes <= HEAD_BYTES_MAX => bytes,
        Ok(httparse::Status::Partial) if received.len() <= HEAD_BYTES_MAX => return Ok(None),
        Ok(_) => return Err(Refusal::new(431, format!("the head is longer than {HEAD_BYTES_MAX} bytes"))),
        Err(httparse::Error::TooManyHeaders) => {
            return Err(Refusal::new(431, format!("there are more than {HEADERS_MAX} headers")));
        }
        Err(httparse::Error::Version) => return Err(Refusal::new(505, "only HTTP/1.0 and HTTP/1.1")),
        Err(error) => return Err(Refusal::new(400, error.to_string())),
    };
    let method = match request.method.unwrap_or_default() {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        "POST" => Method::Post,
        "PUT" | "DELETE" | "PATCH" | "OPTIONS" | "TRACE" | "CONNECT" => {
            return Err(Refusal::new(405, "only GET, HEAD and POST"));
        }
        other => return Err(Refusal::new(501, format!("method {other} is not known"))),
    };
    let recent = request.version == Some(1);
    let target = request.path.unwrap_or_default();
    let fields = fields(request.headers, recent)?;
    Ok(Some(Head { method, target, keep: fields.keep.unwrap_or(recent), bytes, body: fields.body }))
}

/// Header fields that affect framing.
struct Fields {
    keep: Option<bool>,
    body: usize,
}

fn fields(headers: &[httparse::Header<'_>], recent: bool) -> Result<Fields, Refusal> {
    let (mut keep, mut body, mut host) = (None, None, false);
    for header in headers.iter() {
        let value = std::str::from_utf8(header.value).unwrap_or_default().trim();
        if header.name.eq_ignore_ascii_case("content-length") {
            let digits = !value.is_empty() && value.bytes().all(|b| b.is_ascii_digit());
            if !digits || body.is_some_and(|before: &str| before != value) {
                return Err(Refusal::new(400, format!("content-length {value:?} is not one number")));
            }
            body = Some(value);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Refusal::new(501, "transfer codings are not supported: send a content-length"));
        } else if header.name.eq_ignore_ascii_case("connection") {
            for option in value.split(',').map(str::trim) {
                if option.eq_ignore_ascii_case("close") {
                    keep = Some(false);
                } else if option.eq_ignore_ascii_case("keep-alive") && keep.is_none() {
                    keep = Some(true);
                }
            }
        } else if header.name.eq_ignore_ascii_case("host") {
            if host {
                return Err(Refusal::new(400, "more than one host header"));
            }
            host = true;
        }
    }
    if recent && !host {
        return Err(Refusal::new(400, "HTTP/1.1 needs a host header"));
    }
    let body = body.map_or(Some(0), |text| text.parse().ok()).filter(|&n: &usize| n <= BODY_BYTES_MAX);
    let Some(body) = body else {
        return Err(Refusal::new(413, format!("the body is longer than {BODY_BYTES_MAX} bytes")));
    };
    Ok(Fields { keep, body })
}

/// Content of a response.
enum Content<'a> {
    Text(String),
    Bytes(&'a [u8]),
    /// This many `x`.
    Filler(usize),
}

impl Content<'_> {
    fn len(&self) -> usize {
        match self {
            Self::Text(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Filler(n) => *n,
        }
    }

    fn write(&self, response: &mut Vec<u8>) {
        match self {
            Self::Text(text) => response.extend_from_slice(text.as_bytes()),
            Self::Bytes(bytes) => response.extend_from_slice(bytes),
            Self::Filler(n) => response.resize(response.len() + n, b'x'),
        }
    }
}

/// A body of `x`.
struct Filler(usize);

impl Body for Filler {
    fn len(&self) -> usize {
        self.0
    }

    fn write(&mut self, len: usize, response: &mut Vec<u8>) {
        response.resize(response.len() + len, b'x');
    }
}

fn answer<'a>(head: &Head<'_>, body: &'a [u8]) -> (u16, Content<'a>) {
    if head.method == Method::Post {
        return (200, Content::Bytes(body));
    }
    let path = path(head.target);
    if path == "/" {
        return (200, Content::Text("greenwave: urgent first\n".to_owned()));
    }
    match path.strip_prefix("/bytes/").map(str::parse::<usize>) {
        Some(Ok(n)) if n <= RESPONSE_BYTES_MAX => (200, Content::Filler(n)),
        Some(_) => {
            (400, Content::Text(format!("{path} is outside /bytes/0 to /bytes/{RESPONSE_BYTES_MAX}\n")))
        }
        None => (404, Content::Text(format!("{path} is not / or /bytes/N\n"))),
    }
}

fn refuse(refusal: &Refusal, response: &mut Vec<u8>) -> ConnectionFate {
    let text = Content::Text(format!("{}\n", refusal.why));
    write_head(response, refusal.status, text.len(), false);
    text.write(response);
    ConnectionFate::Close
}

fn write_head(response: &mut Vec<u8>, status: u16, len: usize, keep: bool) {
    let reason = match status {
        200 => "OK",
        400 => "Bad Request",
        404 => "Not Found",
        405 => "Method Not Allowed\r\nAllow: GET, HEAD, POST",
        413 => "Content Too Large",
        431 => "Request Header Fields Too Large",
        501 => "Not Implemented",
        _ => "HTTP Version Not Supported",
    };
    let connection = if keep { "keep-alive" } else { "close" };
    let written = write!(
        response,
        "HTTP/1.1 {status} {reason}\r\nContent-Length: {len}\r\nContent-Type: text/plain\r\nConnection: {connection}\r\n\r\n"
    );
    written.expect("a Vec takes every byte");
}

#[cfg(test)]
mod tests;
