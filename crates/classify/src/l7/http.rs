//! HTTP/1.1 requests: heads as parsed by `httparse`, and the ends of bodies.
//!
//! Ambiguous heads are rejected: one with both a content length and a transfer coding, or with two
//! lengths, is no request here (RFC 9112 §6.3, §11.2).

use httparse::{EMPTY_HEADER, Error, Header, Status};

use super::{Nonsense, RequestHead, Step, Then, bounded, digits, line};

/// Maximum number of headers of a request, as in common servers.
const HEADERS_MAX: usize = 100;

pub(super) fn head(bytes: &[u8], visit: &mut dyn FnMut(&RequestHead<'_>)) -> Result<Step, Nonsense> {
    // An empty line before a request is ignored (RFC 9112 §2.2).
    if let Some((b"", used)) = line(&bytes[..bytes.len().min(2)]) {
        return Ok(Step::Go { used, skip: 0, then: Then::Head });
    }
    let mut headers = [EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let used = match request.parse(bytes) {
        Ok(Status::Complete(used)) => bounded(used)?,
        Ok(Status::Partial) => return Ok(Step::More),
        Err(Error::TooManyHeaders) => return Err(Nonsense::TooMany),
        Err(_) => return Err(Nonsense::Foreign),
    };
    let (method, path) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
    let (skip, then) = body(method, request.headers)?;
    visit(&RequestHead::Http { method, path, headers: request.headers });
    Ok(Step::Go { used, skip, then })
}

/// Length of the body in bytes, and the element after it.
fn body(method: &str, headers: &[Header<'_>]) -> Result<(u64, Then), Nonsense> {
    let (mut length, mut chunked, mut tunnel) = (None, false, method == "CONNECT");
    for header in headers {
        let value = header.value.trim_ascii();
        if header.name.eq_ignore_ascii_case("content-length") {
            let declared = digits(value).ok_or(Nonsense::Length)?;
            if length.is_some_and(|before| before != declared) {
                return Err(Nonsense::Length);
            }
            length = Some(declared);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if chunked || !value.eq_ignore_ascii_case(b"chunked") {
                return Err(Nonsense::Length);
            }
            chunked = true;
        } else if header.name.eq_ignore_ascii_case("upgrade") {
            // After an upgrade the stream is not HTTP; if the server refuses, the client sends no
            // more.
            tunnel |= value.eq_ignore_ascii_case(b"websocket");
        }
    }
    match (chunked, length) {
        (true, Some(_)) => Err(Nonsense::Length),
        (true, None) => Ok((0, Then::Chunk)),
        (false, None | Some(0)) if tunnel => Ok((0, Then::Rest)),
        (false, length) => Ok((length.unwrap_or(0), Then::Head)),
    }
}

pub(super) fn chunk(bytes: &[u8]) -> Result<Step, Nonsense> {
    match httparse::parse_chunk_size(bytes) {
        Ok(Status::Complete((used, 0))) => {
            Ok(Step::Go { used: bounded(used)?, skip: 0, then: Then::Trailers })
        }
        Ok(Status::Complete((used, size))) => {
            let used = bounded(used)?;
            // Includes the line end after the chunk.
            let skip = size.checked_add(2).ok_or(Nonsense::Length)?;
            Ok(Step::Go { used, skip, then: Then::Chunk })
        }
        Ok(Status::Partial) => Ok(Step::More),
        Err(_) => Err(Nonsense::Length),
    }
}

pub(super) fn trailer(bytes: &[u8]) -> Result<Step, Nonsense> {
    let Some((line, used)) = line(bytes) else { return Ok(Step::More) };
    let then = if line.is_empty() { Then::Head } else { Then::Trailers };
    Ok(Step::Go { used: bounded(used)?, skip: 0, then })
}
