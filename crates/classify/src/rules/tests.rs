//! Tests of policies: bad ones are rejected with the line and a remedy; compiled rules agree with a
//! direct evaluation.

use proptest::prelude::*;
use queueing::{Bytes, Span};

use super::condition::{Cidr, Conditions, Range, bits, loss_order};
use super::pattern::HttpPattern;
use super::*;
use crate::testing::{TestFlow, TestPacket, view};
use Verdict::{Drop, Level, NoVerdict};

mod requests;

/// Checks the error of a policy of one rule with the body `rule`, which starts at line 2.
fn check_refused(rule: &str, line: usize, message: &str) {
    let text = format!("[[rule]]\n{rule}\n");
    check_text_refused(&text, line, message);
}

fn check_text_refused(text: &str, line: usize, message: &str) {
    let error = Policy::parse(text).expect_err(text);
    assert_eq!((error.line, error.message.as_str()), (line, message), "{text}");
}

const DRIVER: &str = "layer = \"driver\"\npriority = 0\n";

//~ input: invalid values in a policy are refused with line, value and valid values
#[test]
fn bad_values_are_refused_with_the_valid_ones() {
    let check = |condition: &str, message: &str| check_refused(&format!("{DRIVER}{condition}"), 4, message);
    check(
        "prot = 80",
        "unknown key `prot` in a rule; valid: name, layer, port, source, dscp, length, bytes, http, resp, memcached, tls, message, service, received, rtt, loss, priority, drop",
    );
    check("port = 0", "port 0 is not in 1..=65535, such as 80 or \"8000-8099\"");
    check("port = 70000", "port 70000 is not in 1..=65535, such as 80 or \"8000-8099\"");
    check("port = \"9-8\"", "port \"9-8\" is not in 1..=65535, such as 80 or \"8000-8099\"");
    check("port = true", "port true is not in 1..=65535, such as 80 or \"8000-8099\"");
    check("dscp = 64", "dscp 64 is not in 0..=63, such as 46 or \"40-46\"");
    check("length = \"> 65535\"", "length \"> 65535\" is not in 0..=65535 bytes, such as \"> 1000\"");
    check("length = { min = 5, max = 4 }", "length { min = 5, max = 4 } has its min above its max");
    check("length = { min = 5, top = 9 }", "unknown key `top` in length; valid: min, max");
    check("length = { max = -1 }", "length max -1 is not in 0..=65535 bytes, such as \"> 1000\"");
    check("source = \"10.0.0.0/33\"", "source \"10.0.0.0/33\" is not an IP prefix, such as \"10.0.0.0/8\"");
    check("source = \"fd00::/129\"", "source \"fd00::/129\" is not an IP prefix, such as \"10.0.0.0/8\"");
    check("source = \"fd00::1/64\"", "source \"fd00::1/64\" has bits set after its prefix; valid: fd00::/64");
    check("source = \"ten\"", "source \"ten\" is not an IP prefix, such as \"10.0.0.0/8\"");
    check(
        "source = \"10.1.0.0/8\"",
        "source \"10.1.0.0/8\" has bits set after its prefix; valid: 10.0.0.0/8",
    );
    check("source = 10", "source 10 is not an address in quotes, such as \"10.0.0.0/8\"");
    check("bytes = \"GW\"", "bytes \"GW\" is not a table, such as bytes = { offset = 0, equals = \"GW\" }");
    check("bytes = { offset = 0 }", "bytes has nothing to compare; add equals = \"GW\" or hex = \"4757\"");
    check("bytes = { equals = \"GW\", hex = \"47\" }", "bytes has either `equals` or `hex`, not both");
    check("bytes = { hex = \"475\" }", "hex \"475\" is not pairs of hex digits, such as \"4757\"");
    check("bytes = { offset = -1, equals = \"GW\" }", "offset -1 is outside 0..=65535");
    check("http = {}", "http has no condition; add method = \"GET\" or path = \"/api\"");
    check("http = { method = \"get\" }", "method \"get\" is not 1 to 16 capital letters, such as \"GET\"");
    check("http = { path = \"api\" }", "path \"api\" does not start with / or has a space in it");
    check("http = { host = \"a\" }", "unknown key `host` in http; valid: method, path, header");
    check(
        "http = { header = \"x-tier\" }",
        "`header` is not available at layer = \"driver\"; valid: layer = \"transport\"",
    );
    check(
        "resp = { verb = \"GET\" }",
        "`resp` is not available at layer = \"driver\"; valid: layer = \"transport\"",
    );
    check("drop = true", "a rule has either `priority` or `drop`, not both");
    check("rtt = \"> 5ms\"", "`rtt` is not available at layer = \"driver\"; valid: layer = \"transport\"");
    check("loss = \"> 0.1\"", "`loss` is not available at layer = \"driver\"; valid: layer = \"transport\"");
    check(
        "received = \"> 1MB\"",
        "`received` is not available at layer = \"driver\"; valid: layer = \"transport\"",
    );
}

//~ input: invalid values in a policy are refused with line, value and valid values
#[test]
fn bad_transport_conditions_are_refused() {
    let check = |condition: &str, message: &str| {
        check_refused(&format!("layer = \"transport\"\ndrop = true\n{condition}"), 4, message);
    };
    check("dscp = 46", "`dscp` is not available at layer = \"transport\"; valid: layer = \"driver\"");
    check("rtt = \"> 5\"", "rtt \"> 5\" is not in a comparison of time (ns, us, ms, s), such as \"> 50ms\"");
    check("rtt = 5", "rtt 5 is not in a comparison of time (ns, us, ms, s), such as \"> 50ms\"");
    check(
        "loss = \"> 1.5\"",
        "loss \"> 1.5\" is not in a comparison of a share 0.0..=1.0, such as \"> 0.01\"",
    );
    check("loss = \"> -1\"", "loss \"> -1\" is not in a comparison of a share 0.0..=1.0, such as \"> 0.01\"");
    check(
        "received = \"> 1 mile\"",
        "received \"> 1 mile\" is not in a comparison of bytes (B, kB, MB, GB, KiB, MiB, GiB), such as \"> 1MB\"",
    );
}

//~ input: invalid values in a policy are refused with line, value and valid values
#[test]
fn bad_frames_of_rules_are_refused() {
    check_refused(
        "layer = \"nic\"\npriority = 0",
        2,
        "layer \"nic\" is neither \"driver\" nor \"transport\"",
    );
    check_refused("layer = \"driver\"\npriority = 8", 3, "priority 8 is outside 0..=7");
    check_refused(
        "layer = \"driver\"\ndrop = false",
        3,
        "drop false is not true; leave it out to keep packets",
    );
    check_refused("name = 5", 2, "name 5 is not a name in quotes");
    check_refused("priority = 1", 1, "rule 1 has no layer; add layer = \"driver\" or layer = \"transport\"");
    check_refused("layer = \"driver\"", 1, "rule 1 has no verdict; add priority = 0..7 or drop = true");
    check_text_refused("", 1, "the policy has neither a [[rule]] nor a default");
    check_text_refused("# one\ndefault = -1", 2, "default -1 is outside 0..=7");
    check_text_refused(
        "default = 1\nrules = []",
        2,
        "unknown key `rules` in a policy; valid: default, trusted, message, rule",
    );
    check_text_refused("rule = 5", 1, "`rule` is not a list: write [[rule]] before each rule");
    check_text_refused("rule = [5]", 1, "a rule is a table: write [[rule]]");
    let error = Policy::parse("default = 1\ndefault = = 2").expect_err("not TOML");
    assert_eq!(error.line, 2, "{error}");
}

/// Checks if `later` is reachable after `earlier`. Both are conditions of driver rules; the second
/// rule is at line 6.
fn check_reach(earlier: &str, later: &str, reachable: bool) {
    let text = format!(
        "[[rule]]\nname = \"a\"\nlayer = \"driver\"\npriority = 0\n{earlier}\n[[rule]]\nname = \"b\"\nlayer = \"driver\"\ndrop = true\n{later}\n"
    );
    match Policy::parse(&text) {
        Ok(_) => assert!(reachable, "{earlier} hides {later}"),
        Err(error) => {
            assert!(!reachable, "{earlier} does not hide {later}: {error}");
            let message = "rule \"b\" can never be reached: rule \"a\" before it matches everything that it matches; \
                           put it first or narrow the other";
            assert_eq!((error.line, error.message.as_str()), (6, message));
        }
    }
}

//~ input: an unreachable rule is refused
#[test]
fn a_rule_hidden_by_an_earlier_one_is_refused() {
    check_reach("", "port = 80", false);
    check_reach("port = 80", "port = 80", false);
    check_reach("port = \"1-100\"", "port = 80\nlength = 60", false);
    check_reach("source = \"10.0.0.0/8\"", "source = \"10.1.2.3\"", false);
    check_reach("length = \"> 100\"", "length = \">= 200\"", false);
    check_reach("bytes = { offset = 1, equals = \"W\" }", "bytes = { hex = \"475701\" }", false);
    check_reach("http = { method = \"GET\" }", "http = { method = \"GET\", path = \"/api\" }", false);
    check_reach("http = { path = \"/\" }", "http = { method = \"GET\", path = \"/api\" }", false);
    check_reach("bytes = { equals = \"GET \" }", "http = { method = \"GET\" }", false);

    check_reach("port = 80", "", true);
    check_reach("port = \"1-100\"", "port = \"80-101\"", true);
    check_reach("source = \"10.1.0.0/16\"", "source = \"10.0.0.0/8\"", true);
    check_reach("port = 80\nlength = 60", "port = 80", true);
    check_reach("bytes = { equals = \"GW\" }", "bytes = { equals = \"GX\" }", true);
    check_reach("http = { method = \"GET\", path = \"/api\" }", "http = { path = \"/api\" }", true);
}

#[test]
fn a_rule_of_the_other_layer_hides_nothing() {
    let policy = Policy::parse(
        "[[rule]]\nlayer = \"driver\"\npriority = 0\n[[rule]]\nname = \"b\"\nlayer = \"transport\"\ndrop = true",
    )
    .expect("both can be reached");
    let shown: Vec<_> = policy.rules().iter().map(|r| (r.name(), r.layer(), r.verdict())).collect();
    assert_eq!(shown, [("rule 1", Layer::Driver, Level(0)), ("b", Layer::Transport, Drop)]);
}

//~ classifiers: declarative rules on packets and flows mean what they say; the first match decides
#[test]
fn the_first_matching_rule_decides_else_the_default() {
    let policy = Policy::parse(
        r#"
        default = 6
        [[rule]]
        layer = "driver"
        source = "10.3.0.0/16"
        drop = true
        [[rule]]
        layer = "driver"
        port = "80-81"
        http = { method = "GET", path = "/api" }
        priority = 0
        [[rule]]
        layer = "driver"
        length = { min = 1000 }
        priority = 7
        "#,
    )
    .expect("a policy");
    assert!(policy.transport().is_none());
    let driver = policy.driver().expect("driver rules");
    let check = |packet: TestPacket, expected| {
        assert_eq!(view(&packet.frame(), |v| driver(v)), expected, "{packet:?}")
    };
    check(TestPacket::new(b"GET /api/x"), Level(0));
    check(TestPacket { source: [10, 3, 9, 9].into(), ..TestPacket::new(b"GET /api/x") }, Drop);
    check(TestPacket { target_port: 82, ..TestPacket::new(b"GET /api/x") }, Verdict::Default(6));
    check(TestPacket::new(b"GET /ap"), Verdict::Default(6));
    check(TestPacket::new(b""), Verdict::Default(6));
    check(TestPacket::new(&[0; 1200]), Level(7));
    assert_eq!(view(&[0xff; 1200], |v| driver(v)), Level(7));
    assert_eq!(view(&[0xff; 60], |v| driver(v)), Verdict::Default(6));
}

//~ classifiers: declarative rules on packets and flows mean what they say; the first match decides
#[test]
fn transport_rules_read_the_flow_and_keep_the_drivers_verdict() {
    let policy = Policy::parse(
        r#"
        default = 5
        [[rule]]
        layer = "transport"
        rtt = "> 50ms"
        priority = 7
        [[rule]]
        layer = "transport"
        received = "> 1kB"
        loss = ">= 0.5"
        drop = true
        "#,
    )
    .expect("a policy");
    assert!(policy.driver().is_none());
    let transport = policy.transport().expect("transport rules");
    let mut flow = TestFlow::new();
    assert_eq!(flow.segment(&transport, b"x"), Level(5));
    flow.driver = Some(2);
    assert_eq!(flow.segment(&transport, b"x"), NoVerdict);
    flow.state.loss = 0.5;
    assert_eq!(flow.segment(&transport, b"x"), NoVerdict);
    flow.state.received = Bytes::new(1000);
    assert_eq!(flow.segment(&transport, b"x"), Drop);
    flow.state.srtt = Some(Span::from_millis(50));
    assert_eq!(flow.segment(&transport, b"x"), Drop);
    flow.state.srtt = Some(Span::from_millis(51));
    assert_eq!(flow.segment(&transport, b"x"), Level(7));
}

#[test]
fn a_default_alone_is_a_policy_of_the_driver() {
    let policy = Policy::parse("default = 3").expect("a policy");
    assert_eq!((policy.default_level(), policy.transport().is_none()), (Some(3), true));
    let driver = policy.driver().expect("the default");
    assert_eq!(view(&[0; 60], |v| driver(v)), Verdict::Default(3));
}

/// Random rules near the packets of [`TestPacket::any`].
fn rule() -> impl Strategy<Value = (Conditions, Verdict)> {
    let range = |min: u64, more: u64| Range { min, max: min + more };
    let bytes = prop::sample::select(vec!["GW", "G", "W\u{1}", "api"]);
    let http = prop::sample::select(vec![
        (Some("GET"), None),
        (Some("GET"), Some("/api")),
        (None, Some("/")),
        (None, Some("/api")),
        (Some("PUT"), Some("/")),
    ]);
    let wire = (
        proptest::option::of((75u64..8060, 0u64..50).prop_map(move |(min, more)| range(min, more))),
        proptest::option::of(
            (0u8..4, 6u8..18).prop_map(|(host, prefix)| Cidr::new([10, host, 0, 0].into(), prefix)),
        ),
        proptest::option::of((0u64..63, 0u64..40).prop_map(move |(min, more)| range(min, more))),
        proptest::option::of((60u64..1200, 0u64..600).prop_map(move |(min, more)| range(min, more))),
        proptest::option::of((0usize..6, bytes.prop_map(|text| text.as_bytes().to_vec()))),
        proptest::option::of(http.prop_map(|(method, path)| HttpPattern {
            method: method.map(str::to_owned),
            path: path.map(str::to_owned),
        })),
    );
    let flow = (
        proptest::option::of((0u64..2000, 0u64..2000).prop_map(move |(min, more)| range(min, more))),
        proptest::option::of((0u64..100, 0u64..100).prop_map(move |(min, more)| range(min, more))),
        proptest::option::of(
            (0.0f32..0.5, 0.5f32..1.0).prop_map(|(a, b)| Range { min: loss_order(a), max: loss_order(b) }),
        ),
    );
    (wire, flow, prop_oneof![(0u8..8).prop_map(Level), Just(Drop)]).prop_map(
        |((port, source, dscp, length, bytes, http), (received, rtt, loss), verdict)| {
            let wire = Conditions { port, source, dscp, length, bytes, http, ..Conditions::default() };
            (Conditions { received, rtt, loss, ..wire }, verdict)
        },
    )
}

/// Direct evaluation of a rule's payload conditions, which both layers see.
fn holds_of_payload(rule: &Conditions, payload: Option<&[u8]>) -> bool {
    let bytes = rule.bytes.as_ref().is_none_or(|(at, bytes)| {
        payload.is_some_and(|payload| {
            payload.len() >= at + bytes.len() && payload[*at..at + bytes.len()] == bytes[..]
        })
    });
    let http = rule.http.as_ref().is_none_or(|http| {
        let line = payload.map(|payload| payload.split(|&byte| byte == b' '));
        line.is_some_and(|mut words| {
            let (Some(method), Some(rest)) = (words.next(), words.next()) else { return false };
            method.len() <= 16
                && http.method.as_ref().is_none_or(|wanted| wanted.as_bytes() == method)
                && http.path.as_ref().is_none_or(|wanted| rest.starts_with(wanted.as_bytes()))
        })
    });
    bytes && http
}

fn within(range: Option<Range>, value: Option<u64>) -> bool {
    range.is_none_or(|range| value.is_some_and(|value| range.min <= value && value <= range.max))
}

proptest! {
    //~ classifiers: declarative rules on packets and flows mean what they say; the first match decides
    #[test]
    fn a_compiled_driver_policy_agrees_with_its_rules(
        rules in proptest::collection::vec(rule(), 0..6),
        packet in TestPacket::any(),
        change in proptest::option::of(any::<(prop::sample::Index, u8)>()),
    ) {
        let wire_only = |(conditions, verdict): (Conditions, Verdict)| {
            (Conditions { received: None, rtt: None, loss: None, ..conditions }, verdict)
        };
        let rules: Vec<_> = rules.into_iter().map(wire_only).collect();
        let mut frame = packet.frame();
        if let Some((at, to)) = change {
            let at = at.index(frame.len());
            frame[at] = to;
        }
        let matcher = Matcher::new(rules.iter().map(|(c, v)| (c, *v)), &[], NoVerdict);
        view(&frame, |v| {
            let ip = v.ip();
            let data = v.tcp_payload().or(v.udp_payload());
            let port = data.and(v.tcp_ports().or(v.udp_ports())).map(|(_, port)| port.into());
            let naive = rules.iter().find(|(rule, _)| {
                within(rule.port, port)
                    && within(rule.dscp, ip.map(|ip| ip.dscp().into()))
                    && within(rule.length, Some(v.len() as u64))
                    && rule.source.is_none_or(|c| ip.is_some_and(|ip| bits(ip.source()) & c.mask == c.net))
                    && holds_of_payload(rule, data)
            });
            assert_eq!(matcher.verdict(&matcher.facts_of_packet(v)), naive.map(|(_, verdict)| *verdict));
        });
    }

    //~ classifiers: declarative rules on packets and flows mean what they say; the first match decides
    #[test]
    fn a_compiled_transport_policy_agrees_with_its_rules(
        rules in proptest::collection::vec(rule(), 0..6),
        packet in TestPacket::any(),
        srtt in proptest::option::of(0u64..200),
        loss in 0.0f32..1.0,
        received in 0u64..4000,
    ) {
        let rules: Vec<_> = rules.into_iter().map(|(c, v)| (Conditions { dscp: None, ..c }, v)).collect();
        let matcher = Matcher::new(rules.iter().map(|(c, v)| (c, *v)), &[], NoVerdict);
        let mut flow = TestFlow::new();
        flow.state = crate::FlowState { srtt: srtt.map(Span::from_nanos), loss, received: Bytes::new(received), ..flow.state };
        flow.tuple.local_port = packet.target_port;
        flow.tuple.remote = packet.source.into();
        let length = packet.payload.len() as u64 + 66;
        let received = received + packet.payload.len() as u64;
        let naive = rules.iter().find(|(rule, _)| {
            within(rule.port, Some(packet.target_port.into()))
                && within(rule.length, Some(length))
                && within(rule.received, Some(received))
                && within(rule.rtt, srtt)
                && rule.loss.is_none_or(|r| r.min <= loss_order(loss) && loss_order(loss) <= r.max)
                && rule.source.is_none_or(|c| bits(packet.source.into()) & c.mask == c.net)
                && holds_of_payload(rule, Some(&packet.payload))
        });
        let naive = naive.map_or(NoVerdict, |(_, verdict)| *verdict);
        let classifier: TransportClassifier =
            Arc::new(move |cx: &mut FlowContext<'_>| matcher.verdict(&PacketAttrs::of_flow(cx)).unwrap_or(NoVerdict));
        prop_assert_eq!(flow.segment(&classifier, &packet.payload), naive);
    }

    //~ input: an unreachable rule is refused
    #[test]
    fn a_covered_rule_never_matches_alone(first in rule(), second in rule(), packet in TestPacket::any()) {
        let (first, second) = (first.0, second.0);
        if first.cover(&second) {
            let one = Matcher::new([(&first, Level(0))].into_iter(), &[], NoVerdict);
            let other = Matcher::new([(&second, Level(0))].into_iter(), &[], NoVerdict);
            view(&packet.frame(), |v| {
                let matches = |m: &Matcher| m.verdict(&m.facts_of_packet(v)).is_some();
                assert!(matches(&one) || !matches(&other));
            });
        }
    }

    //~ input: random bytes cause no panic in packet views, policies, HTTP and the synthetic protocol
    #[test]
    fn no_text_makes_the_parser_panic(text in "(\\[\\[rule\\]\\]\n|layer = \"driver\"\n|default = [0-9]\n|port = \"?[0-9-]{0,3}\"?\n|[a-z]{1,4} = [{}\"a-z0-9µ ]{0,6}\n){0,6}") {
        let _ = Policy::parse(&text);
    }
}
