//! Cost of classifying a packet: `cargo bench -p net --bench classify`.

use std::hint::black_box;
use std::net::Ipv4Addr;
use std::sync::Arc;

use classify::scenarios::{TagAt, length, tag};
use classify::{DriverClassifier, PacketMeta, PacketView, Policy, Verdict};
use criterion::{Criterion, criterion_group, criterion_main};
use net::driver::{DriverCounters, classify};
use queueing::Time;
use wire::checksum;
use wire::ethernet::{self, EtherType};
use wire::ipv4::{self, Protocol};
use wire::tcp::{Flags, Options, Segment, Seq, Timestamps};

const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const TARGET: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

fn frame(payload: &[u8]) -> Vec<u8> {
    let segment = Segment {
        source_port: 40_000,
        target_port: 80,
        seq: Seq(1),
        ack: Seq(2),
        flags: Flags::ACK | Flags::PSH,
        window: 1_000,
        options: Options { timestamps: Some(Timestamps { value: 1, echo: 2 }), ..Options::NONE },
        payload,
    };
    let segment_len = segment.header_len() + payload.len();
    let mut frame = vec![0; ethernet::HEADER_LEN + ipv4::HEADER_LEN + segment_len];
    ethernet::emit_header(&mut frame, [1; 6], [2; 6], EtherType::Ipv4);
    let header = ipv4::Header {
        source: SOURCE,
        target: TARGET,
        protocol: Protocol::Tcp,
        dscp: 0,
        ecn: 0,
        ttl: ipv4::TTL,
        payload_len: segment_len,
    };
    header.emit(&mut frame[ethernet::HEADER_LEN..]);
    segment.emit(SOURCE, TARGET, &mut frame[ethernet::HEADER_LEN + ipv4::HEADER_LEN..]);
    frame
}

fn policy(text: &str) -> DriverClassifier {
    Policy::parse(text).expect("a policy").driver().expect("driver rules")
}

fn classifiers(c: &mut Criterion) {
    let mut payload = [0; 64];
    payload[..5].copy_from_slice(b"GW\x01\x00\x03");
    let frame = frame(&payload);
    let meta = PacketMeta::new(Time::ZERO, frame.len());
    let mut bench = |name: &str, classifier: DriverClassifier| {
        c.bench_function(name, |b| b.iter(|| classifier(&PacketView::new(black_box(&frame), &meta))));
    };
    bench("driver/length closure", length(1000));
    bench("driver/tag closure", tag(TagAt { magic: (0, b"GW"), level_at: 4 }));
    let by_hand = |v: &PacketView<'_>| match (v.tcp_ports(), v.payload_u16(0), v.payload_byte(4)) {
        (Some((_, 80)), Some(0x4757), Some(level)) => Verdict::Level(level),
        _ => Verdict::NoVerdict,
    };
    bench("driver/header and tag closure", Arc::new(by_hand));
    bench("driver/rule port", policy("[[rule]]\nlayer = \"driver\"\nport = 80\npriority = 0"));
    bench(
        "driver/rule port, source, bytes",
        policy(
            "[[rule]]\nlayer = \"driver\"\nport = 80\nsource = \"10.0.0.0/8\"\n\
             bytes = { offset = 0, equals = \"GW\" }\npriority = 0",
        ),
    );
    let many: String = (0..16)
        .map(|n| format!("[[rule]]\nlayer = \"driver\"\nport = {}\npriority = 0\n", 8000 + n))
        .chain(["[[rule]]\nlayer = \"driver\"\nport = 80\npriority = 1".to_owned()])
        .collect();
    bench("driver/the last of 17 rules", policy(&many));

    let classifier = length(1000);
    let mut counters = DriverCounters::default();
    c.bench_function("driver/stage around a closure", |b| {
        b.iter(|| classify(Some(&classifier), black_box(&frame), Time::ZERO, &mut counters));
    });
}

fn formats(c: &mut Criterion) {
    for len in [64, 1460] {
        let bytes = vec![0x5a; len];
        c.bench_function(&format!("wire/checksum {len} B"), |b| b.iter(|| checksum::of(black_box(&bytes))));
        let frame = frame(&bytes);
        let segment = &frame[ethernet::HEADER_LEN + ipv4::HEADER_LEN..];
        for (verify, name) in [(true, "checked"), (false, "unchecked")] {
            c.bench_function(&format!("wire/tcp parse {len} B {name}"), |b| {
                b.iter(|| Segment::parse(black_box(segment), SOURCE, TARGET, verify));
            });
        }
    }
}

criterion_group!(benches, classifiers, formats);
criterion_main!(benches);
