//! Tests of the application-protocol parsers: requests are found at any segmentation, and malformed
//! streams are given up with the right reason.

use proptest::prelude::*;

use super::framing::FrameLength;
use super::*;

/// Requests reported to a visitor, one line each.
#[derive(Debug, Default, PartialEq)]
struct Recorder {
    requests: Vec<String>,
    ends: usize,
}

impl RequestVisitor for Recorder {
    fn on_request(&mut self, _: &L7Protocol, request: &RequestHead<'_>) -> u64 {
        self.requests.push(shown(request));
        self.requests.len() as u64
    }

    fn on_segment(&mut self, mark: u64) {
        assert_eq!(mark, self.requests.len() as u64, "mark of the current request");
    }

    fn on_end(&mut self) {
        self.ends += 1;
        assert_eq!(self.ends, self.requests.len(), "each request ends before the next begins");
    }
}

fn shown(request: &RequestHead<'_>) -> String {
    match request {
        RequestHead::Http { method, path, headers } => format!("{method} {path} {}", headers.len()),
        RequestHead::Command { verb, key } => format!("{} {}", verb.escape_ascii(), key.escape_ascii()),
        RequestHead::ClientHello { name } => {
            name.map_or("no name".to_owned(), |name| name.escape_ascii().to_string())
        }
        RequestHead::Message { bytes } => bytes.escape_ascii().to_string(),
    }
}

/// Parses `stream` in pieces of `sizes`, repeated.
fn read(protocol: &L7Protocol, stream: &[u8], sizes: &[usize]) -> (Recorder, Option<Nonsense>) {
    let notes = Arc::new(Notes::default());
    let mut recorder = Recorder::default();
    let mut reader = StreamParser::new(protocol.clone(), Arc::clone(&notes), 0);
    let (mut at, mut sizes) = (0, sizes.iter().cycle());
    while at < stream.len() {
        let size = sizes.next().map_or(stream.len(), |size| *size).clamp(1, stream.len() - at);
        reader.read(at as u64, &stream[at..at + size], &mut recorder);
        at += size;
        assert!(notes.held() <= HEAD_BYTES_MAX);
    }
    assert_eq!(notes.requests(), recorder.requests.len() as u64);
    drop(reader);
    assert_eq!(notes.held(), 0, "all buffered bytes are released");
    let why = Nonsense::ALL.into_iter().find(|why| notes.failed(*why) > 0);
    (recorder, why)
}

/// Checks that `stream` holds the requests `expected`, and that `open` of them do not end.
fn check(protocol: &L7Protocol, stream: &[u8], expected: &[&str], open: usize) {
    for sizes in [&[usize::MAX][..], &[1], &[2, 3], &[7, 1]] {
        let (recorder, why) = read(protocol, stream, sizes);
        assert_eq!(
            (&recorder.requests[..], why),
            (&expected.iter().map(|s| s.to_string()).collect::<Vec<_>>()[..], None),
            "cut {sizes:?}"
        );
        assert_eq!(recorder.ends, expected.len() - open, "cut {sizes:?}");
    }
}

/// Checks that `stream` is given up for `why` after `requests` requests.
fn refused(protocol: &L7Protocol, stream: &[u8], requests: usize, why: Nonsense) {
    for sizes in [&[usize::MAX][..], &[1], &[1448]] {
        let (recorder, failed) = read(protocol, stream, sizes);
        assert_eq!((recorder.requests.len(), failed), (requests, Some(why)), "cut {sizes:?}");
    }
}

#[test]
fn pipelined_http_requests_are_found_with_any_body_framing() {
    let stream = b"GET /a?x=1 HTTP/1.1\r\nhost: a\r\nx-tier: gold\r\n\r\n\
        POST /b HTTP/1.1\r\nContent-Length: 9\r\n\r\nGET / HTT\r\n\
        PUT /c HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n5;ext=1\r\nhello\r\nA\r\n0123456789\r\n0\r\nx: y\r\n\r\n\
        GET /d HTTP/1.0\n\n";
    check(&L7Protocol::Http, stream, &["GET /a?x=1 2", "POST /b 1", "PUT /c 1", "GET /d 0"], 0);
    let tunnel = b"CONNECT a:443 HTTP/1.1\r\n\r\n\x16\x03\x01GET / HTTP/1.1\r\n\r\n";
    check(&L7Protocol::Http, tunnel, &["CONNECT a:443 0"], 1);
    let upgrade = b"GET /ws HTTP/1.1\r\nUpgrade: websocket\r\n\r\n\x81\x05hello";
    check(&L7Protocol::Http, upgrade, &["GET /ws 1"], 1);
}

//~ input: a stream cut anywhere is classified alike, in bounded memory
#[test]
fn ambiguous_http_fails_the_parser() {
    let bad = |head: &str, why| refused(&L7Protocol::Http, head.as_bytes(), 0, why);
    bad("\x16\x03\x01", Nonsense::Foreign);
    bad("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Nonsense::Foreign);
    bad("POST / HTTP/1.1\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\n", Nonsense::Length);
    bad("POST / HTTP/1.1\r\ncontent-length: +5\r\n\r\n", Nonsense::Length);
    bad("POST / HTTP/1.1\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n", Nonsense::Length);
    bad("POST / HTTP/1.1\r\ntransfer-encoding: gzip\r\n\r\n", Nonsense::Length);
    bad(&format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(HEAD_BYTES_MAX)), Nonsense::TooLong);
    bad(&format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(101)), Nonsense::TooMany);
    let chunk = b"PUT / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n";
    refused(&L7Protocol::Http, chunk, 1, Nonsense::Length);
}

#[test]
fn resp_commands_are_arrays_or_lines() {
    let stream = b"*2\r\n$3\r\nGET\r\n$5\r\na\r\nb\0\r\nPING\r\n\r\n*-1\r\n*0\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\n\r\n*1\r\n set k  v \n*1\r\n$4\r\nINFO\r\n";
    check(&L7Protocol::Resp, stream, &["GET a\\r\\nb\\x00", "PING ", "SET k", "set k", "INFO "], 0);
    let long = [
        &b"*2\r\n$300\r\n"[..],
        &[b'V'; 300],
        b"\r\n$1\r\nk\r\n*2\r\n$1\r\nv\r\n$300\r\n",
        &[b'K'; 300],
        b"\r\n",
    ];
    let (verb, key) = ("V".repeat(64) + " ", "v ".to_owned() + &"K".repeat(256));
    check(&L7Protocol::Resp, &long.concat(), &[&verb, &key], 0);
}

#[test]
fn resp_that_redis_would_refuse_fails_the_parser() {
    let bad = |bytes: &[u8], why| refused(&L7Protocol::Resp, bytes, 0, why);
    bad(b"*2\r\n:3\r\n", Nonsense::Foreign);
    bad(b"*two\r\n", Nonsense::Length);
    bad(b"*1048577\r\n", Nonsense::TooMany);
    bad(b"*1\r\n$536870913\r\n", Nonsense::Length);
    bad(b"*1\r\n$-1\r\n", Nonsense::Length);
    bad(b"*99999999999999999999999999999", Nonsense::Length);
    bad(b"\x80\x01", Nonsense::Foreign);
    bad(&[b'x'; HEAD_BYTES_MAX + 1], Nonsense::TooLong);
    refused(&L7Protocol::Resp, b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n+OK\r\n", 1, Nonsense::Foreign);
}

#[test]
fn memcached_commands_are_lines_or_binary() {
    let stream = b"get a b\r\nset k 0 0 5\r\nget x\r\ncas k 0 0 2 77 noreply\r\nhi\r\nms m 3 T0\r\nabc\r\n\r\nversion\r\n";
    check(&L7Protocol::Memcached, stream, &["get a", "set k", "cas k", "ms m", "version "], 0);
    let mut binary = vec![0; 24];
    binary[..12].copy_from_slice(&[0x80, 0x01, 0, 3, 8, 0, 0, 0, 0, 0, 0, 16]);
    binary.extend(b"........keyvalue");
    let stream = [&binary[..], b"get k\r\n", &binary].concat();
    check(&L7Protocol::Memcached, &stream, &["set key", "get k", "set key"], 0);
    refused(&L7Protocol::Memcached, b"set k 0 0 many\r\n", 0, Nonsense::Length);
    refused(&L7Protocol::Memcached, b"\x81\x00", 0, Nonsense::Foreign);
    binary[11] = 5;
    refused(&L7Protocol::Memcached, &binary, 0, Nonsense::Length);
}

/// Records of a ClientHello, with up to `per_record` bytes in each.
fn hello(name: Option<&str>, per_record: usize) -> Vec<u8> {
    let mut body = vec![3, 3];
    body.extend([7; 32]);
    body.extend([4, 1, 2, 3, 4, 0, 2, 0x13, 1, 1, 0]);
    let mut extensions = vec![0, 10, 0, 4, 0, 2, 0, 29];
    if let Some(name) = name {
        let len = name.len() as u16;
        extensions.extend([0, 0]);
        [len + 5, len + 3].iter().for_each(|n| extensions.extend(n.to_be_bytes()));
        extensions.push(0);
        extensions.extend(len.to_be_bytes());
        extensions.extend(name.as_bytes());
    }
    body.extend((extensions.len() as u16).to_be_bytes());
    body.extend(extensions);
    let mut handshake = (body.len() as u32).to_be_bytes().to_vec();
    handshake[0] = 1;
    handshake.extend(body);
    let record = |part: &[u8]| [&[22, 3, 1][..], &(part.len() as u16).to_be_bytes(), part].concat();
    handshake.chunks(per_record).flat_map(record).collect()
}

#[test]
fn a_client_hello_split_over_records_and_segments_yields_the_server_name() {
    for per_record in [1, 5, 60, 1000] {
        let sealed = [hello(Some("shop.example"), per_record), b"\x17\x03\x03\0\x02ab".to_vec()].concat();
        check(&L7Protocol::Tls, &sealed, &["shop.example"], 1);
        check(&L7Protocol::Tls, &hello(None, per_record), &["no name"], 1);
    }
    refused(&L7Protocol::Tls, b"GET / HTTP/1.1\r\n", 0, Nonsense::Foreign);
    refused(&L7Protocol::Tls, &[22, 3, 1, 0, 4, 2, 0, 0, 0], 0, Nonsense::Foreign);
    refused(&L7Protocol::Tls, &[22, 3, 1, 0, 0], 0, Nonsense::Length);
    refused(&L7Protocol::Tls, &[22, 3, 1, 0xff, 0], 0, Nonsense::TooLong);
    refused(&L7Protocol::Tls, &[22, 3, 1, 0, 4, 1, 0, 0xff, 0], 0, Nonsense::TooLong);
    let mut bad = hello(Some("shop.example"), 1000);
    let at = bad.len() - 14;
    bad[at] = 0xff;
    refused(&L7Protocol::Tls, &bad, 0, Nonsense::Length);
}

fn layout(extent: FrameLength) -> L7Protocol {
    L7Protocol::Message(Arc::new(MessageLayout { extent, kind: (2, 1), shown_len: 6 }))
}

#[test]
fn messages_end_at_their_length_or_delimiter() {
    let length = layout(FrameLength::Length { at: 2, bytes: 2, adds: 4 });
    check(&length, b"GW\0\0GW\0\x05helloGW\0\x01x", &["GW\\x00\\x00", "GW\\x00\\x05he", "GW\\x00\\x01x"], 0);
    let small = layout(FrameLength::Length { at: 2, bytes: 2, adds: 0 });
    refused(&small, b"GW\0\x03", 0, Nonsense::Length);
    let wide = layout(FrameLength::Length { at: 0, bytes: 8, adds: 9 });
    refused(&wide, &[0xff; 8], 0, Nonsense::Length);
    let mark = layout(FrameLength::Mark((*b"--\n").into()));
    let stream = b"a--\n--\nabc--\nabcdef--\nabcdefg-\n-----\nabcde---\n";
    check(&mark, stream, &["a", "", "abc", "abcdef", "abcdef", "abcde-"], 0);
}

#[test]
fn gaps_are_detected_and_retransmitted_bytes_are_not_counted_twice() {
    let notes = Arc::new(Notes::default());
    let mut recorder = Recorder::default();
    let mut reader = StreamParser::new(L7Protocol::Resp, Arc::clone(&notes), 100);
    reader.read(100, b"PING\r\nPI", &mut recorder);
    reader.read(104, b"\r\nPING\r\n", &mut recorder);
    assert_eq!((recorder.requests.len(), recorder.ends), (2, 2));
    reader.read(113, b"PING\r\n", &mut recorder);
    assert_eq!((notes.failed(Nonsense::Gap), reader.has_failed()), (1, true));
    reader.read(119, b"PING\r\n", &mut recorder);
    assert_eq!(recorder.requests.len(), 2, "two requests and no more");
}

//~ input: a stream cut anywhere is classified alike, in bounded memory
#[test]
fn bytes_buffered_by_all_parsers_are_bounded() {
    let notes = Arc::new(Notes::default());
    let part = [b'x'; HEAD_BYTES_MAX - 1];
    let mut readers: Vec<_> = (0..=HELD_BYTES_MAX / part.len())
        .map(|_| StreamParser::new(L7Protocol::Http, Arc::clone(&notes), 0))
        .collect();
    for reader in &mut readers {
        reader.read(0, &part, &mut Recorder::default());
    }
    assert_eq!(notes.failed(Nonsense::Crowded), 1);
    assert!(notes.held() <= HELD_BYTES_MAX);
    readers.truncate(1);
    assert_eq!(notes.held(), part.len());
}

#[test]
fn kinds_exclude_the_parts_that_name_single_objects() {
    let of = |path| {
        let kind =
            RequestKind::of(&L7Protocol::Http, &RequestHead::Http { method: "GET", path, headers: &[] });
        format!("{:?}", kind.expect("HTTP has kinds"))
    };
    assert_eq!(of("/api/user/123?x=/y"), "GET /api/user");
    assert_eq!(of("/?q=a/b/c"), "GET /");
    assert_eq!(of("*"), "GET *");
    assert_eq!(of(&"x".repeat(500)).len(), KIND_BYTES_MAX);
    let command = RequestHead::Command { verb: b"get", key: b"k" };
    assert_eq!(RequestKind::of(&L7Protocol::Resp, &command).expect("a kind").as_bytes(), b"GET");
    assert!(RequestKind::of(&L7Protocol::Tls, &RequestHead::ClientHello { name: None }).is_none());
}

/// Command as an array, or as an inline line where possible.
fn command(words: &[Vec<u8>], inline: bool) -> Vec<u8> {
    let plain = words.iter().all(|word| !word.is_empty() && word.iter().all(u8::is_ascii_lowercase));
    if inline && plain {
        return [&words.join(&b' ')[..], b"\r\n"].concat();
    }
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend(format!("${}\r\n", word.len()).into_bytes());
        bytes.extend(word);
        bytes.extend(b"\r\n");
    }
    bytes
}

fn word() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        proptest::collection::vec(b'a'..=b'z', 1..9),
        proptest::collection::vec(prop_oneof![Just(b'\r'), Just(b'\n'), Just(b'*'), any::<u8>()], 0..40),
    ]
}

/// Random bytes similar to the protocols.
fn noise() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec![
        &b"GET / HTTP/1.1\r\n"[..],
        b"\r\n",
        b"content-length: 4\r\n",
        b"transfer-encoding: chunked\r\n",
        b"4\r\nabcd\r\n",
        b"0\r\n",
        b"*2\r\n",
        b"$3\r\n",
        b"abc",
        b"set k 0 0 3\r\n",
        b"\x80\0\0\x01\0\0\0\0\0\0\0\x02",
        b"\x16\x03\x01\0\x06\x01\0\0\x02",
        b"\0\0",
        b"\xff",
        b" ",
        b"--\n",
        b"-",
        b"\n",
    ]);
    proptest::collection::vec(part, 0..14).prop_map(|parts| parts.concat())
}

fn protocols() -> [L7Protocol; 6] {
    [
        L7Protocol::Http,
        L7Protocol::Resp,
        L7Protocol::Memcached,
        L7Protocol::Tls,
        layout(FrameLength::Length { at: 1, bytes: 1, adds: 2 }),
        layout(FrameLength::Mark((*b"--\n").into())),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    //~ classifiers: rules on HTTP, RESP, memcached, TLS SNI and custom messages label every segment of a request
    #[test]
    fn pipelined_commands_are_found_at_any_segmentation(
        commands in proptest::collection::vec((proptest::collection::vec(word(), 1..5), any::<bool>()), 1..12),
        sizes in proptest::collection::vec(1usize..60, 1..12),
    ) {
        let stream: Vec<u8> = commands.iter().flat_map(|(words, inline)| command(words, *inline)).collect();
        let expected: Vec<String> = commands.iter().map(|(words, _)| {
            let key = words.get(1).map_or(&[][..], |key| key);
            shown(&RequestHead::Command { verb: &words[0], key })
        }).collect();
        let (recorder, why) = read(&L7Protocol::Resp, &stream, &sizes);
        prop_assert_eq!((recorder.requests, recorder.ends, why), (expected, commands.len(), None));
    }

    //~ classifiers: rules on HTTP, RESP, memcached, TLS SNI and custom messages label every segment of a request
    #[test]
    fn http_bodies_of_any_bytes_hide_no_request(
        bodies in proptest::collection::vec((noise(), any::<bool>()), 1..8),
        sizes in proptest::collection::vec(1usize..90, 1..12),
    ) {
        let request = |(n, (body, chunked)): (usize, &(Vec<u8>, bool))| {
            let head = format!("POST /{n} HTTP/1.1\r\n");
            match chunked {
                true => {
                    let chunks = body.chunks(5).flat_map(|c| [format!("{:x}\r\n", c.len()).as_bytes(), c, b"\r\n"].concat());
                    [head.as_bytes(), b"transfer-encoding: chunked\r\n\r\n", &chunks.collect::<Vec<u8>>(), b"0\r\n\r\n"].concat()
                }
                false => [head.as_bytes(), format!("content-length: {}\r\n\r\n", body.len()).as_bytes(), body].concat(),
            }
        };
        let stream: Vec<u8> = bodies.iter().enumerate().flat_map(request).collect();
        let (recorder, why) = read(&L7Protocol::Http, &stream, &sizes);
        let expected: Vec<String> = (0..bodies.len()).map(|n| format!("POST /{n} 1")).collect();
        prop_assert_eq!((recorder.requests, recorder.ends, why), (expected, bodies.len(), None));
    }

    //~ input: a stream cut anywhere is classified alike, in bounded memory
    /// The expected result is that of the stream in one piece.
    #[test]
    fn segmentation_of_a_stream_changes_no_result(
        stream in noise(),
        change in proptest::option::of(any::<(prop::sample::Index, u8)>()),
        sizes in proptest::collection::vec(1usize..20, 1..8),
    ) {
        let mut stream = stream;
        if let (Some((at, to)), false) = (change, stream.is_empty()) {
            let at = at.index(stream.len());
            stream[at] = to;
        }
        for protocol in protocols() {
            prop_assert_eq!(read(&protocol, &stream, &sizes), read(&protocol, &stream, &[usize::MAX]), "{}", protocol.name());
        }
    }
}
