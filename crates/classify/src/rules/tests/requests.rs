//! Tests of request rules: a rule holds for all bytes of its requests and no others, at any
//! segmentation.

use queueing::Time;
use queueing::priority_field::Trust;

use super::*;
use crate::l7::Nonsense;

fn policy(text: &str) -> (Policy, TransportClassifier) {
    let policy = Policy::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    let transport = policy.transport().expect("transport rules");
    (policy, transport)
}

/// Policy of one transport rule with priority 0, and the default 5.
fn one(condition: &str) -> (Policy, TransportClassifier) {
    policy(&format!("default = 5\n[[rule]]\nlayer = \"transport\"\npriority = 0\n{condition}\n"))
}

/// Verdicts on these segments of one connection.
fn verdicts(classifier: &TransportClassifier, segments: &[&[u8]]) -> Vec<Verdict> {
    let mut flow = TestFlow::new();
    segments.iter().map(|segment| flow.segment(classifier, segment)).collect()
}

#[test]
fn bad_request_conditions_are_refused() {
    let check = |condition: &str, message: &str| {
        check_refused(&format!("layer = \"transport\"\npriority = 0\n{condition}"), 4, message);
    };
    check(
        "http = { header = \"x tier: gold\" }",
        "header \"x tier: gold\" is not a name, or \"name: value\", such as \"x-tier: gold\"",
    );
    check("http = { header = 5 }", "header 5 is not a header in quotes, such as \"x-tier: gold\", or a list");
    check(
        "resp = {}",
        "resp has no condition; add verb = \"get\" or key = \"session:\", or write resp = \"any\"",
    );
    check("resp = \"all\"", "resp \"all\" is not a table, such as resp = { verb = \"get\" }, or \"any\"");
    check("resp = { verbs = \"get\" }", "unknown key `verbs` in resp; valid: verb, key");
    check("memcached = { verb = [] }", "verb [] is not a verb in quotes, such as \"get\", or a list of some");
    check(
        "resp = { verb = \"a b\" }",
        "verb \"a b\" is not 1 to 64 letters without a space, such as \"get\"",
    );
    check("resp = { key = \"\" }", "key \"\" is not 1 to 256 bytes");
    check("tls = {}", "tls has no condition; add sni = \"shop.example\", or write tls = \"any\"");
    check("tls = { sni = \"*\" }", "sni \"*\" is not a name such as \"shop.example\" or \"*.example\"");
    check(
        "message = { equals = \"GW\" }",
        "the framing of messages is missing; add [message] with length_at = 8 or end = \"\\n\"",
    );
    check(
        "service = \"> 1ms\"",
        "`service` needs a request condition in the same rule; add http = \"any\", resp = \"any\", memcached = \"any\" or message = \"any\"",
    );
    check(
        "service = 5\nresp = \"any\"",
        "service 5 is not in a comparison of time (ns, us, ms, s), such as \"> 1ms\"",
    );
}

#[test]
fn a_connection_has_one_protocol() {
    let rule = |name: &str, more: &str| {
        format!("[[rule]]\nname = \"{name}\"\nlayer = \"transport\"\npriority = 0\n{more}\n")
    };
    let two = |one: &str, other: &str| rule("a", one) + &rule("b", other);
    check_text_refused(
        &two("http = \"any\"", "resp = \"any\"\nport = 6379"),
        6,
        "rule \"b\" reads resp where rule \"a\" reads http, and a port has one protocol; \
         give each its own port, such as port = 80",
    );
    check_text_refused(
        &rule("a", "http = \"any\"\nresp = \"any\""),
        6,
        "`http` and `resp` in one rule: a connection has one protocol",
    );
    let (_, transport) = policy(&two("http = \"any\"\nport = 80", "resp = { verb = \"GET\" }\nport = 6379"));
    let mut flow = TestFlow::new();
    flow.tuple.local_port = 6379;
    assert_eq!(flow.segment(&transport, b"SET k v\r\n"), NoVerdict);
    assert_eq!(flow.segment(&transport, b"get k\r\n"), Level(0));
    assert_eq!(verdicts(&transport, &[b"GET / HTTP/1.1\r\n\r\n"]), [Level(0)]);
}

#[test]
fn a_request_condition_hides_the_rules_it_covers() {
    let check = |earlier: &str, later: &str, reachable: bool| {
        let text = format!(
            "[[rule]]\nlayer = \"transport\"\npriority = 0\n{earlier}\n[[rule]]\nlayer = \"transport\"\npriority = 1\n{later}\n"
        );
        assert_eq!(Policy::parse(&text).is_ok(), reachable, "{earlier} before {later}");
    };
    check("resp = \"any\"", "resp = { verb = \"GET\" }", false);
    check("resp = { verb = [\"get\", \"set\"] }", "resp = { verb = \"SET\", key = \"a\" }", false);
    check("resp = { key = \"a\" }", "resp = { key = \"ab\" }", false);
    check("http = { path = \"/a\" }", "http = { path = \"/ab\", header = \"x: y\" }", false);
    check("http = { header = \"x: y*\" }", "http = { header = \"X: yes\" }", false);
    check("tls = { sni = \"*.example\" }", "tls = { sni = \"a.example\" }", false);
    check("resp = { verb = \"GET\" }", "resp = { verb = [\"GET\", \"SET\"] }", true);
    check("resp = { verb = \"GET\" }", "resp = { key = \"a\" }", true);
    check("http = { header = \"x: y\" }", "http = { header = \"x\" }", true);
    check("tls = { sni = \"*.example\" }", "tls = { sni = \"example\" }", true);
    check("resp = \"any\"\nservice = \"> 1ms\"", "resp = \"any\"", true);
}

//~ classifiers: rules on HTTP, RESP, memcached, TLS SNI and custom messages label every segment of a request
#[test]
fn http_rules_match_path_and_header_once_the_head_is_complete() {
    let (policy, transport) =
        one("http = { method = \"POST\", path = \"/pay\", header = [\"X-Tier: gold*\", \"host\"] }");
    let head = b"POST /pay/now HTTP/1.1\r\nHost: a\r\nx-tier:  goldish \r\ncontent-length: 3000\r\n\r\n";
    let body = [b'x'; 1500];
    // Scenario 5: all segments of a long request have its level.
    let segments = [&head[..30], &head[30..], &body, &body, b"GET / HTTP/1.1\r\n\r\n"];
    assert_eq!(verdicts(&transport, &segments), [5, 0, 0, 0, 5].map(Level));
    let other = b"POST /pay HTTP/1.1\r\nhost: a\r\nx-tier: silver\r\n\r\n";
    let both = [&other[..], b"POST /pay HTTP/1.1\r\nhost: a\r\nx-tier: gold\r\n\r\n"].concat();
    assert_eq!(verdicts(&transport, &[other, &both, other]), [5, 0, 5].map(Level), "most urgent decides");
    assert_eq!(verdicts(&transport, &[b"\x16\x03\x01", &head[..]]), [5, 5].map(Level));
    assert_eq!(policy.observed().notes.failed(Nonsense::Foreign), 1);
    assert_eq!(policy.observed().notes.requests(), 6);
}

#[test]
fn the_drivers_verdict_holds_if_no_rule_matches() {
    let (_, transport) = one("resp = { verb = \"GET\" }");
    let mut flow = TestFlow::new();
    flow.driver = Some(2);
    assert_eq!(flow.segment(&transport, b"SET a b\r\n"), Level(2));
    assert_eq!(flow.segment(&transport, b"GE"), NoVerdict);
    assert_eq!(flow.segment(&transport, b"T a\r\n"), Level(0));
}

//~ classifiers: rules on HTTP, RESP, memcached, TLS SNI and custom messages label every segment of a request
#[test]
fn a_tls_rule_matches_the_server_name_of_the_client_hello() {
    let (_, transport) = one("tls = { sni = \"*.Shop.example\" }");
    let hello = |name: &[u8]| {
        let [ext, list, len] = [5, 3, 0].map(|n| n + name.len() as u8);
        let mut body = [&[3, 3][..], &[0; 32], &[0, 0, 2, 0, 0, 1, 0]].concat();
        body.extend([0, ext + 4, 0, 0, 0, ext, 0, list, 0, 0, len]);
        body.extend(name);
        let len = body.len() as u8;
        [&[22, 3, 1, 0, len + 4, 1, 0, 0, len][..], &body].concat()
    };
    let check = |name: &[u8], expected| {
        let hello = hello(name);
        let got = verdicts(&transport, &[&hello[..20], &hello[20..], b"sealed"]);
        assert_eq!(got, [Level(5), expected, expected], "{}", name.escape_ascii());
    };
    check(b"pay.shop.EXAMPLE", Level(0));
    check(b"a.b.shop.example.", Level(0));
    check(b"shop.example", Level(5));
    check(b"bookshop.example", Level(5));
    check(b"x", Level(5));
}

//~ classifiers: rules on HTTP, RESP, memcached, TLS SNI and custom messages label every segment of a request
#[test]
fn message_rules_match_the_configured_bytes() {
    let text = "default = 5\n[[rule]]\nlayer = \"transport\"\npriority = 0\nmessage = { offset = 2, hex = \"07\" }\n";
    let (_, transport) =
        policy(&format!("{text}[message]\nlength_at = 3\nlength_bytes = 1\nlength_adds = 4\n"));
    // The rule holds from the compared byte to the end of the message.
    let segments: [&[u8]; 5] = [b"GW", b"\x07\x05", b"hello", b"GW\x01\x02hi", b"GW\x07\0GW"];
    assert_eq!(verdicts(&transport, &segments), [5, 0, 0, 5, 0].map(Level));
    let (_, transport) = policy(&format!("{text}[message]\nend = \"\\n\"\n"));
    let segments: [&[u8]; 4] = [b"GW\x07, a long story,", b" all of it\n", b"GW\x08\n", b"GW\x07\n"];
    assert_eq!(verdicts(&transport, &segments), [0, 0, 5, 0].map(Level));
}

//~ classifiers: a request dropped by a rule is dropped again when it is retransmitted
#[test]
fn a_dropped_request_is_dropped_again_when_it_is_retransmitted() {
    let (_, transport) =
        policy("[[rule]]\nlayer = \"transport\"\ndrop = true\nresp = { verb = \"FLUSHALL\" }\n");
    let mut flow = TestFlow::new();
    assert_eq!(flow.segment(&transport, b"GET a\r\nFLUSH"), NoVerdict);
    for _ in 0..3 {
        let before = flow.state.received;
        assert_eq!(flow.segment(&transport, b"ALL\r\n"), Drop);
        flow.state.received = before;
    }
    assert_eq!(flow.segment(&transport, b"IT\r\n"), NoVerdict);
}

/// Sends and answers `times` requests, each after `service`; returns the last verdict.
fn exchange(
    flow: &mut TestFlow,
    transport: &TransportClassifier,
    request: &[u8],
    service: Span,
    times: usize,
) -> Verdict {
    let mut verdict = NoVerdict;
    for _ in 0..times {
        flow.now += Span::from_millis(1);
        verdict = flow.segment(transport, request);
        flow.answer(flow.now + service);
    }
    verdict
}

//~ classifiers: service times are learned from responses, by kind
#[test]
fn the_service_time_of_a_kind_is_learned_from_its_responses() {
    let (policy, transport) = policy(
        "default = 0\n[[rule]]\nlayer = \"transport\"\npriority = 7\nresp = \"any\"\nservice = \"> 100us\"\n",
    );
    let (mut flow, mut other) = (TestFlow::new(), TestFlow::new());
    let (short, long) = (Span::from_micros(10), Span::from_millis(2));
    assert_eq!(exchange(&mut flow, &transport, b"EVAL x 0\r\n", long, 8), Level(0), "not known yet");
    assert_eq!(exchange(&mut flow, &transport, b"GET x\r\n", short, 9), Level(0));
    other.now = flow.now;
    assert_eq!(exchange(&mut other, &transport, b"eval y 0\r\n", long, 1), Level(7), "on every connection");
    let known = policy.observed().learned.kinds();
    assert_eq!(known, [("EVAL".to_owned(), long), ("GET".to_owned(), short)]);
    // Two requests that wait together are not observed.
    for _ in 0..20 {
        assert_eq!(flow.segment(&transport, b"PING\r\nPING\r\n"), Level(0));
        flow.answer(flow.now + long);
    }
    // Nor is a request that began before an earlier one was answered.
    for _ in 0..20 {
        flow.segment(&transport, b"PING\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n");
        flow.answer(flow.now + long);
        flow.segment(&transport, b"$1\r\nv\r\n");
        flow.answer(flow.now + long);
    }
    assert_eq!(policy.observed().learned.kinds().len(), 2);
    let later = flow.now + Span::from_secs(61);
    flow.now = later;
    assert_eq!(flow.segment(&transport, b"EVAL x 0\r\n"), Level(0), "forgotten");
    assert!(later > Time::ZERO);
}

#[test]
fn requests_outside_a_connection_match_no_request_rule() {
    let (_, transport) = one("resp = \"any\"");
    let mut flow = TestFlow::new();
    let meta = crate::testing::meta(60, None);
    let verdict = transport(&mut FlowContext {
        now: Time::ZERO,
        meta: &meta,
        payload: b"PING\r\n",
        tuple: &flow.tuple,
        flow: flow.state,
        private: &mut flow.private,
        app: None,
        memory: None,
        successor: None,
    });
    assert_eq!(verdict, Level(5));
}

const EXPLAINED: &str = r#"
default = 5
[[rule]]
layer = "driver"
priority = 7
length = "> 1000"
[[rule]]
layer = "driver"
drop = true
source = "10.3.0.0/16"
[[rule]]
layer = "transport"
priority = 3
port = 80
http = { path = "/api" }
service = "> 1ms"
[[rule]]
layer = "transport"
priority = 0
port = 80
http = { path = "/api" }
[[rule]]
layer = "transport"
priority = 6
rtt = "> 50ms"
"#;

//~ classifiers: an explanation names the rule that a request matches and what each other rule misses
#[test]
fn every_evaluated_rule_reports_its_unmet_conditions() {
    let (policy, _) = policy(EXPLAINED);
    let explain = |payload: &[u8], srtt, expected| {
        let flow = crate::FlowState { srtt, ..Default::default() };
        let mut explained = policy.explain(&TestPacket::new(payload).frame(), flow, expected);
        assert_eq!(explained.len(), 1);
        let Explanation { tried, decided, verdict, .. } = explained.remove(0);
        let attempts = tried.into_iter().map(|RuleTrace { rule, missed }| match missed {
            Some(UnmetCondition { condition, given }) => format!("{rule} {condition}: {given}"),
            None => format!("{rule} matches"),
        });
        (attempts.collect::<Vec<_>>().join(", "), decided, verdict)
    };
    let api = b"GET /api HTTP/1.1\r\n\r\n";
    let driver = "0 length: 87, 1 source: 10.0.0.1";
    let tried = format!("{driver}, 2 service: not known yet, 3 matches");
    assert_eq!(explain(api, None, None), (tried, Decided::Rule(3), Level(0)));
    let tried = format!("{driver}, 2 matches");
    assert_eq!(explain(api, None, Some(Span::from_millis(2))), (tried, Decided::Rule(2), Level(3)));
    let other = b"GET /app HTTP/1.1\r\n\r\n";
    let tried = format!("{driver}, 2 http: GET /app, 3 http: GET /app, 4 rtt: not known yet");
    assert_eq!(explain(other, None, None), (tried, Decided::Default, Level(5)));
    let why = "no request of http: another protocol";
    let tried = format!("0 length: 70, 1 source: 10.0.0.1, 2 http: {why}, 3 http: {why}, 4 matches");
    assert_eq!(
        explain(b"\x16\x03\x01\0", Some(Span::from_secs(1)), None),
        (tried, Decided::Rule(4), Level(6))
    );
    assert_eq!(explain(&[0; 1000], None, None).1, Decided::Rule(0), "the driver's stands");
}

#[test]
fn request_rules_are_bounded_by_the_bits_of_a_mark() {
    let rule =
        |n: usize| format!("[[rule]]\nlayer = \"transport\"\npriority = 0\nresp = {{ key = \"k{n}:\" }}\n");
    let text = |rules: usize| (0..rules).map(rule).collect::<String>();
    let (_, transport) = policy(&text(60));
    assert_eq!(verdicts(&transport, &[b"GET k59:1\r\n", b"GET k60:1\r\n"]), [Level(0), NoVerdict]);
    let error = Policy::parse(&text(61)).expect_err("one too many");
    assert_eq!((error.line, error.message.contains("at most 60")), (241, true), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    //~ classifiers: rules on HTTP, RESP, memcached, TLS SNI and custom messages label every segment of a request
    /// The expected level follows from the bounds of each command and of its head.
    #[test]
    fn a_segment_is_as_urgent_as_its_most_urgent_command(
        commands in proptest::collection::vec((0usize..4, proptest::collection::vec(any::<u8>(), 0..50)), 1..20),
        sizes in proptest::collection::vec(1usize..120, 1..12),
    ) {
        let verbs = ["GET", "SET", "DEL", "XADD"];
        let (_, transport) = policy(
            "default = 6\n[[rule]]\nlayer = \"transport\"\npriority = 0\nresp = { verb = \"get\" }\n\
             [[rule]]\nlayer = \"transport\"\npriority = 3\nresp = { verb = [\"SET\", \"DEL\"], key = \"k\" }\n",
        );
        let (mut stream, mut spans) = (Vec::new(), Vec::new());
        for (verb, value) in &commands {
            let start = stream.len();
            let verb = verbs[*verb];
            stream.extend(format!("*3\r\n${}\r\n{verb}\r\n$1\r\nk", verb.len()).into_bytes());
            let head = stream.len();
            stream.extend(format!("\r\n${}\r\n", value.len()).into_bytes());
            stream.extend(value);
            stream.extend(b"\r\n");
            let level = match verb { "GET" => 0, "SET" | "DEL" => 3, _ => 6 };
            spans.push((start, head, stream.len(), level));
        }
        let (mut flow, mut at, mut sizes) = (TestFlow::new(), 0, sizes.iter().cycle());
        while at < stream.len() {
            let end = (at + sizes.next().expect("a cycle")).min(stream.len());
            let shown = spans.iter().filter(|(start, head, last, _)| *start < end && *last > at && *head <= end);
            let expected = shown.map(|(.., level)| *level).min().unwrap_or(6);
            prop_assert_eq!(flow.segment(&transport, &stream[at..end]), Level(expected), "{}..{}", at, end);
            at = end;
        }
    }

    //~ classifiers: an explanation names the rule that a request matches and what each other rule misses
    #[test]
    fn an_explanation_agrees_with_the_classifiers(packet in TestPacket::any(), srtt in proptest::option::of(0u64..100)) {
        let (policy, transport) = policy(EXPLAINED);
        let driver = policy.driver().expect("driver rules");
        let frame = packet.frame();
        let srtt = srtt.map(Span::from_millis);
        let flow = crate::FlowState { srtt, ..Default::default() };
        let explained = policy.explain(&frame, flow, None);
        let mut expected = match view(&frame, |v| driver(v)) {
            Verdict::Default(level) => Level(level),
            verdict => verdict,
        };
        if let (Level(level), false) = (expected, packet.payload.is_empty()) {
            let mut flow = TestFlow::new();
            (flow.driver, flow.state.srtt, flow.tuple.local_port) = (Some(level), srtt, packet.target_port);
            match flow.segment(&transport, &packet.payload) {
                NoVerdict => {}
                verdict => expected = verdict,
            }
        }
        let most_urgent = explained.iter().map(|e| e.verdict).reduce(crate::combine::more_urgent);
        prop_assert_eq!(most_urgent, Some(expected));
    }
}

//~ classifiers: new rules apply from the next request; requests in progress keep theirs
#[test]
fn replaced_rules_apply_from_the_next_request() {
    let rule = |path: &str| one(&format!("http = {{ method = \"POST\", path = \"{path}\" }}"));
    let ((old, first), (new, second)) = (rule("/pay"), rule("/ask"));
    let mut flow = TestFlow::new();
    let request = |path: &str| format!("POST {path} HTTP/1.1\r\nhost: a\r\ncontent-length: 6\r\n\r\nabcdef");
    let (pay, ask) = (request("/pay"), request("/ask"));
    let (start, rest) = pay.as_bytes().split_at(pay.len() - 3);
    assert_eq!(flow.segment(&first, start), Level(0));
    // The new rules have not seen this request's head.
    assert_eq!(flow.segment(&second, rest), Level(5));
    let (start, rest) = ask.as_bytes().split_at(9);
    assert_eq!(flow.segment(&second, start), Level(5), "head incomplete");
    assert_eq!(flow.segment(&second, rest), Level(0));
    assert_eq!(flow.segment(&second, pay.as_bytes()), Level(5));
    let counts = |policy: &Policy| {
        let notes = policy.observed().notes.clone();
        (notes.requests(), Nonsense::ALL.iter().map(|why| notes.failed(*why)).sum::<u64>())
    };
    assert_eq!((counts(&old), counts(&new)), ((1, 0), (2, 0)));
}

//~ classifiers: new rules apply from the next request; requests in progress keep theirs
#[test]
fn a_split_head_is_classified_by_the_rules_in_force_at_its_end() {
    let ((old, first), (new, second)) =
        (one("http = { path = \"/pay\" }"), one("http = { path = \"/ask\" }"));
    let mut flow = TestFlow::new();
    let (start, rest) = b"GET /ask HTTP/1.1\r\nhost: a\r\n\r\n".split_at(12);
    assert_eq!(flow.segment(&first, start), Level(5));
    assert_eq!(flow.segment(&second, rest), Level(0));
    drop(flow);
    for policy in [old, new] {
        assert_eq!(policy.observed().notes.held(), 0, "a dropped parser holds no bytes");
    }
}

//~ classifiers: new rules apply from the next request; requests in progress keep theirs
#[test]
fn rules_that_missed_bytes_or_changed_protocol_start_over() {
    let (_, http) = one("http = { path = \"/pay\" }");
    let (_, again) = one("http = { path = \"/ask\" }");
    let (_, resp) = one("resp = { verb = \"GET\" }");
    let (_, deaf) = one("length = \"> 0\"");
    let mut flow = TestFlow::new();
    assert_eq!(flow.segment(&http, b"GET /pay HTTP/1.1\r\n\r\n"), Level(0));
    assert_eq!(flow.segment(&deaf, b"GET /pay HTTP/1.1\r\n\r\n"), Level(0));
    assert_eq!(flow.segment(&again, b"GET /ask HTTP/1.1\r\n\r\n"), Level(0));
    assert_eq!(flow.segment(&resp, b"get k\r\n"), Level(0));
    assert_eq!(flow.segment(&http, b"GET /pay HTTP/1.1\r\n\r\n"), Level(0));
}

/// A policy with levels 2 and 5 for HTTP on port 80, and trust in one subnet.
const FIELD: &str = "default = 5\ntrusted = [\"10.9.0.0/16\", \"fd00::/8\"]\n\
    [[rule]]\nlayer = \"transport\"\nport = 80\nhttp = { path = \"/a\" }\npriority = 2\n\
    [[rule]]\nlayer = \"transport\"\nport = 80\nhttp = { path = \"/drop\" }\ndrop = true\n";

//~ classifiers: a client's field Priority can only lower its request; a trusted peer's sets the level
#[test]
fn the_field_priority_lowers_a_request_or_sets_a_trusted_ones_level() {
    let (_, transport) = policy(FIELD);
    for (path, fields, client, peer) in [
        ("/a", "", 2, 2),
        ("/b", "", 5, 5),
        ("/a", "Priority: u=6\r\n", 6, 6),
        ("/b", "priority: u=7, i\r\n", 7, 7),
        ("/a", "PRIORITY: u=0\r\n", 2, 0),
        ("/b", "Priority: u=1\r\n", 5, 1),
        ("/a", "Priority: nonsense!\r\n", 3, 3),
        ("/b", "Priority: nonsense!\r\n", 5, 3),
        ("/a", "Priority: i\r\nHost: a\r\nPriority: u=4\r\n", 4, 4),
        ("/a", "X-Priority: u=7\r\n", 2, 2),
        ("/a", "Priority: u=7, u=1\r\n", 2, 1),
    ] {
        let head = format!("POST {path} HTTP/1.1\r\n{fields}Content-Length: 4\r\n\r\n");
        for (remote, level) in [("10.0.0.9", client), ("10.9.3.1", peer), ("fd12::1", peer)] {
            let mut flow = TestFlow::new();
            flow.tuple.remote = remote.parse().unwrap();
            let (start, end) = head.as_bytes().split_at(head.len() / 2);
            flow.segment(&transport, start);
            for piece in [end, b"fo", b"ur"] {
                assert_eq!(flow.segment(&transport, piece), Level(level), "{remote}: {head}");
            }
            let next = flow.segment(&transport, b"GET /a HTTP/1.1\r\n\r\n");
            assert_eq!(next, Level(2), "{remote}: the next request asks for nothing");
        }
    }
    let dropped = verdicts(&transport, &[b"GET /drop HTTP/1.1\r\nPriority: u=7\r\n\r\n"]);
    assert_eq!(dropped, [Drop]);
}

#[test]
fn without_a_rule_or_a_default_a_trusted_peer_sets_the_level() {
    let rule = "[[rule]]\nlayer = \"transport\"\nport = 80\nhttp = { path = \"/a\" }\npriority = 2\n";
    let (_, transport) = policy(&format!("trusted = \"10.9.0.0/16\"\n{rule}"));
    let asks: &[u8] = b"GET /b HTTP/1.1\r\nPriority: u=1\r\n\r\n";
    assert_eq!(verdicts(&transport, &[asks]), [NoVerdict]);
    let mut flow = TestFlow::new();
    flow.tuple.remote = "10.9.0.1".parse().unwrap();
    assert_eq!(flow.segment(&transport, asks), Level(1));
    // The driver's verdict is a rule like any other.
    flow.driver = Some(6);
    assert_eq!(flow.segment(&transport, b"GET /b HTTP/1.1\r\nPriority: u=7\r\n\r\n"), Level(7));
    flow.tuple.remote = "10.0.0.1".parse().unwrap();
    assert_eq!(flow.segment(&transport, b"GET /b HTTP/1.1\r\nPriority: u=0\r\n\r\n"), Level(6));
}

#[test]
fn an_explanation_has_the_level_that_a_request_asks_for() {
    let (policy, _) = policy(FIELD);
    for (source, fields, asked, level) in [
        ([10, 0, 0, 9], "", None, 2),
        ([10, 0, 0, 9], "Priority: u=0\r\n", Some((0, Trust::Client)), 2),
        ([10, 0, 0, 9], "Priority: u=6\r\n", Some((6, Trust::Client)), 6),
        ([10, 9, 0, 9], "Priority: u=0\r\n", Some((0, Trust::Peer)), 0),
    ] {
        let head = format!("GET /a HTTP/1.1\r\n{fields}\r\n");
        let packet = TestPacket { source: source.into(), ..TestPacket::new(head.as_bytes()) };
        let [explained] = &policy.explain(&packet.frame(), crate::FlowState::default(), None)[..] else {
            panic!()
        };
        let found = explained.asked.map(|(level, trust)| (level.level(), trust));
        assert_eq!((found, explained.verdict), (asked, Level(level)), "{source:?} {fields}");
    }
}

#[test]
fn trust_needs_prefixes_and_a_rule_that_reads_http() {
    let http = "[[rule]]\nlayer = \"transport\"\nhttp = \"any\"\npriority = 0\n";
    check_text_refused(
        &format!("trusted = \"10.0.0.1/8\"\n{http}"),
        1,
        "trusted \"10.0.0.1/8\" has bits set after its prefix; valid: 10.0.0.0/8",
    );
    check_text_refused(
        &format!("trusted = 5\n{http}"),
        1,
        "trusted 5 is not an address in quotes, such as \"10.0.0.0/8\", or a list",
    );
    let message = "`trusted` is about the field Priority of HTTP requests, which no rule reads; \
                   add a rule with layer = \"transport\" and http = \"any\"";
    for rule in ["layer = \"driver\"\nhttp = { path = \"/\" }", "layer = \"transport\"\nresp = \"any\""] {
        let text = format!("default = 3\ntrusted = \"10.0.0.0/8\"\n[[rule]]\n{rule}\npriority = 0\n");
        check_text_refused(&text, 2, message);
    }
}
