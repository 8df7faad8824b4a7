//! Framing, answers and refusals of requests.

//~ runtime: HTTP/1.1 requests and responses end where their framing ends, in server and load generator (RFC 9112)

use queueing::{Clock, Label, Span, Time};

use super::*;
use crate::app::PATH_MAX;
use crate::app::{Registration, Stages};

struct Still;

impl Clock for Still {
    fn now(&self) -> Time {
        Time::ZERO
    }
    fn compute(&self, _span: Span) {}
}

/// Serves everything in `received`; checks status codes, bodies, and whether the connection stays
/// open.
fn check(received: &str, expected: &[(u16, &str)], outcome: ConnectionFate) {
    let mut rest = received.as_bytes();
    let mut last = ConnectionFate::Keep;
    for (status, body) in expected {
        let Framing::Complete { len } = Http.frame(rest) else { panic!("not complete") };
        let (mut response, mut generated) = (Vec::new(), None);
        let mut cx = Context {
            label: Label::default(),
            stages: Stages::default(),
            private: &mut [0; 64],
            registration: &mut Registration::default(),
            body: &mut generated,
            clock: &Still,
        };
        last = Http.serve(&rest[..len], &mut cx, &mut response);
        if let Some(mut body) = generated {
            body.write(body.len(), &mut response);
        }
        let response = String::from_utf8(response).unwrap();
        let (head, got) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with(&format!("HTTP/1.1 {status} ")), "{head}");
        assert_eq!(got, *body);
        rest = &rest[len..];
    }
    assert_eq!((last, rest), (outcome, &b""[..]));
}

#[test]
fn requests_are_answered_one_after_another() {
    let get = "GET /bytes/3 HTTP/1.1\r\nHost: a\r\n\r\n";
    let head = "HEAD /bytes/3 HTTP/1.1\r\nHost: a\r\n\r\n";
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    check(&[get, head, post].concat(), &[(200, "xxx"), (200, ""), (200, "hi")], ConnectionFate::Keep);
}

#[test]
fn http_1_0_closes_without_keep_alive() {
    check("GET / HTTP/1.0\r\n\r\n", &[(200, "greenwave: urgent first\n")], ConnectionFate::Close);
    let keep = "GET /bytes/0 HTTP/1.0\r\nConnection: keep-alive\r\n\r\n";
    check(keep, &[(200, "")], ConnectionFate::Keep);
    let close = "GET /bytes/0 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    check(close, &[(200, "")], ConnectionFate::Close);
}

#[test]
fn malformed_requests_get_an_error_response_and_close_the_connection() {
    let big = format!("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: {}\r\n\r\n", BODY_BYTES_MAX + 1);
    check(&big, &[(413, "the body is longer than 131072 bytes\n")], ConnectionFate::Close);
    let chunked = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
    check(
        chunked,
        &[(501, "transfer codings are not supported: send a content-length\n")],
        ConnectionFate::Close,
    );
    check("GET / HTTP/1.1\r\n\r\n", &[(400, "HTTP/1.1 needs a host header\n")], ConnectionFate::Close);
    check("PUT / HTTP/1.1\r\nHost: a\r\n\r\n", &[(405, "only GET, HEAD and POST\n")], ConnectionFate::Close);
    let two = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab";
    check(two, &[(400, "content-length \"2\" is not one number\n")], ConnectionFate::Close);
    let endless = format!("GET / HTTP/1.1\r\nX: {}", "x".repeat(HEAD_BYTES_MAX));
    check(&endless, &[(431, "the head is longer than 16384 bytes\n")], ConnectionFate::Close);
}

#[test]
fn a_request_is_incomplete_until_its_body_is_there() {
    let post = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nhi";
    for cut in 1..post.len() {
        assert_eq!(Http.frame(&post.as_bytes()[..cut]), Framing::Incomplete, "{cut} bytes");
    }
    assert_eq!(Http.frame(post.as_bytes()), Framing::Complete { len: post.len() });
}

proptest::proptest! {
    //~ input: random bytes cause no panic in packet views, policies, HTTP and the synthetic protocol
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(proptest::prelude::any::<u8>(), 1..200)) {
        if let Framing::Complete { len } = Http.frame(&bytes) {
            proptest::prop_assert!((1..=bytes.len()).contains(&len));
        }
    }
}

#[test]
fn a_requests_budget_is_parsed_from_its_headers() {
    let spare = |field: &str| Http.budget(format!("GET / HTTP/1.1\r\n{field}Host: a\r\n\r\n").as_bytes());
    let written = deadline::codec::field::write(&deadline::Budget::new(Span::from_millis(70)));
    assert_eq!(spare(&format!("Greenwave-Budget: {written}\r\n")), Some(Span::from_millis(70)));
    assert_eq!(spare("grpc-timeout: 20m\r\n"), Some(Span::from_millis(20)));
    let both = format!("grpc-timeout: 20m\r\ngreenwave-budget: {written}\r\n");
    assert_eq!(spare(&both), Some(Span::from_millis(20)), "the shortest applies");
    assert_eq!(Http.budget(b"GET / HTTP/1.1\r\ngrpc-timeout: 20m\r\nHo"), Some(Span::from_millis(20)));
    assert_eq!((spare(""), spare("greenwave-budget: soon\r\n"), Http.budget(b"\xff")), (None, None, None));
}

#[test]
fn trace_attributes_are_method_path_and_parent() {
    let field = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n";
    let attributes = |fields: &str| {
        let request = format!("GET /pay/7?card=secret HTTP/1.1\r\nHost: a\r\n{fields}\r\n");
        Http.attributes(request.as_bytes())
    };
    let one = attributes(field);
    assert_eq!((&*one.method, &*one.path), ("GET", "/pay/7"), "a query may be secret");
    assert_eq!(one.parent.map(|parent| parent.span[0]), Some(0xb7));
    assert_eq!(attributes(&[field, field].concat()).parent, None, "two parents are invalid");
    assert_eq!(attributes("traceparent: 00-1-2-3\r\n").parent, None);
    let long = format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(1_000));
    assert_eq!(Http.attributes(long.as_bytes()).path.len(), PATH_MAX);
    assert_eq!(Http.attributes(b"\0\0\0"), RequestAttributes::default());
}
