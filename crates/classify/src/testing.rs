//! Frames and flow contexts for the tests of classifiers.

use std::net::Ipv4Addr;

use proptest::prelude::*;
use queueing::{Bytes, Priority, Time};
use wire::FourTuple;
use wire::ethernet::{self, EtherType};
use wire::ipv4::{self, Protocol};
use wire::{checksum, tcp};

use super::{
    ConnectionState, FlowContext, FlowState, PacketMeta, PacketView, Private, TransportClassifier, Verdict,
};

/// TCP packet to build.
#[derive(Clone, Debug)]
pub struct TestPacket {
    pub vlan: bool,
    pub source: Ipv4Addr,
    pub source_port: u16,
    pub target_port: u16,
    pub dscp: u8,
    /// Bytes, in multiples of 4 up to 40.
    pub ip_options: usize,
    pub tcp_options: usize,
    pub payload: Vec<u8>,
}

impl TestPacket {
    pub fn new(payload: &[u8]) -> Self {
        Self {
            vlan: false,
            source: Ipv4Addr::new(10, 0, 0, 1),
            source_port: 40_000,
            target_port: 80,
            dscp: 0,
            ip_options: 0,
            tcp_options: 12,
            payload: payload.into(),
        }
    }

    /// Random packet, near the values in the tests' rules.
    pub fn any() -> impl Strategy<Value = Self> {
        let payload = prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..40),
            prop::sample::select(vec![
                "GW\u{1}\0\u{3}",
                "GET /api/x HTTP/1.1",
                "PUT /a",
                "GET",
                "GET /",
                "/api"
            ])
            .prop_map(|text| text.as_bytes().to_vec()),
            (0usize..1200).prop_map(|n| vec![0; n]),
        ];
        (
            any::<bool>(),
            0u8..4,
            prop::sample::select(vec![79u16, 80, 443, 8000, 8050]),
            0u8..64,
            0usize..11,
            0usize..11,
            payload,
        )
            .prop_map(|(vlan, host, target_port, dscp, ip, tcp, payload)| Self {
                vlan,
                source: Ipv4Addr::new(10, host, 0, 1),
                target_port,
                dscp,
                ip_options: ip * 4,
                tcp_options: tcp * 4,
                ..Self::new(&payload)
            })
    }

    pub fn frame(&self) -> Vec<u8> {
        let mut bytes = vec![0; ethernet::HEADER_LEN];
        ethernet::emit_header(&mut bytes, [1; 6], [2; 6], EtherType::Ipv4);
        if self.vlan {
            bytes.splice(12..12, [0x81, 0, 0, 7]);
        }
        let start = bytes.len();
        let header_len = ipv4::HEADER_LEN + self.ip_options;
        let segment_len = tcp::HEADER_LEN + self.tcp_options + self.payload.len();
        bytes.resize(start + ipv4::HEADER_LEN, 0);
        let header = ipv4::Header {
            source: self.source,
            target: Ipv4Addr::new(10, 0, 0, 2),
            protocol: Protocol::Tcp,
            dscp: self.dscp,
            ecn: 0,
            ttl: ipv4::TTL,
            payload_len: self.ip_options + segment_len,
        };
        header.emit(&mut bytes[start..]);
        bytes[start] = 0x40 | (header_len / 4) as u8;
        bytes.resize(start + header_len, 1);
        bytes[start + 10..start + 12].fill(0);
        let sum = checksum::of(&bytes[start..]);
        bytes[start + 10..start + 12].copy_from_slice(&sum);

        let mut segment = vec![0; tcp::HEADER_LEN];
        segment[..2].copy_from_slice(&self.source_port.to_be_bytes());
        segment[2..4].copy_from_slice(&self.target_port.to_be_bytes());
        segment[12] = (((tcp::HEADER_LEN + self.tcp_options) / 4) as u8) << 4;
        segment.resize(tcp::HEADER_LEN + self.tcp_options, 1);
        bytes.extend(segment);
        bytes.extend(&self.payload);
        bytes
    }
}

pub fn meta(bytes: usize, priority: Option<u8>) -> PacketMeta {
    PacketMeta { priority: priority.and_then(Priority::new), ..PacketMeta::new(Time::ZERO, bytes) }
}

pub fn view<R>(frame: &[u8], read: impl FnOnce(&PacketView<'_>) -> R) -> R {
    read(&PacketView::new(frame, &meta(frame.len(), None)))
}

/// One connection that passes successive segments to a classifier.
pub struct TestFlow {
    pub state: FlowState,
    pub private: Private,
    pub tuple: FourTuple,
    pub driver: Option<u8>,
    pub now: Time,
    pub memory: Option<Box<dyn ConnectionState>>,
}

impl TestFlow {
    pub fn new() -> Self {
        let tuple = FourTuple {
            local: Ipv4Addr::new(10, 0, 0, 2).into(),
            local_port: 80,
            remote: Ipv4Addr::new(10, 0, 0, 1).into(),
            remote_port: 40_000,
        };
        Self {
            state: FlowState::default(),
            private: [0; 64],
            tuple,
            driver: None,
            now: Time::ZERO,
            memory: None,
        }
    }

    /// Verdict on the next in-order segment.
    pub fn segment(&mut self, classifier: &TransportClassifier, payload: &[u8]) -> Verdict {
        self.state.received += Bytes::new(payload.len() as u64);
        let meta = meta(payload.len() + 66, self.driver);
        classifier(&mut FlowContext {
            now: self.now,
            meta: &meta,
            payload,
            tuple: &self.tuple,
            flow: self.state,
            private: &mut self.private,
            app: None,
            memory: Some(&mut self.memory),
            successor: None,
        })
    }

    /// Application write at `now`.
    pub fn answer(&mut self, now: Time) {
        self.now = now;
        if let Some(memory) = &mut self.memory {
            memory.on_answer(now);
        }
    }
}
