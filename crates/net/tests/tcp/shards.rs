//! Tests of one host with several stacks: ownership of ports, and of ARP.

//~ shards: shards accept their own connections, and connect from ports that lead back to them

use net::Stack;
use net::stack::{Config, ConnectError};
use net::steer::{FlowHash, FlowSteering, ShardIndex};
use queueing::Time;
use wire::{arp, ethernet};

use crate::world::{config, meta, sent};

const SHARDS: u16 = 4;

fn shard(shard: u16) -> Stack {
    let steering = FlowSteering::new(SHARDS, FlowHash::Keyed([9; 16]));
    Stack::new(Config { shard_index: Some(ShardIndex { steering, shard }), ..config(1) })
}

#[test]
fn a_shard_connects_from_ports_that_lead_back_to_it() {
    let remote = "10.0.0.2:80".parse().unwrap();
    for number in 0..SHARDS {
        let mut stack = shard(number);
        for _ in 0..100 {
            let id = stack.connect(Time::ZERO, remote, None).unwrap();
            let tuple = stack.tuple(id).unwrap();
            assert!(stack.config().shard_index.unwrap().owns(&tuple), "{tuple:?} is not shard {number}'s");
        }
        let accepted = (1..200).filter(|port| stack.connect(Time::ZERO, remote, Some(*port)).is_ok()).count();
        assert!((20..=80).contains(&accepted), "{accepted} of 199 ports are a quarter");
        let refused = (1..200).find_map(|port| stack.connect(Time::ZERO, remote, Some(port)).err());
        assert_eq!(refused, Some(ConnectError::NoPort));
    }
}

#[test]
fn all_shards_receive_an_arp_request_and_the_first_replies() {
    let question = arp::Packet {
        operation: arp::Operation::Request,
        sender_mac: [2, 0, 0, 0, 0, 2],
        sender: [10, 0, 0, 2].into(),
        target_mac: [0; 6],
        target: [10, 0, 0, 1].into(),
    };
    let mut frame = vec![0; 60];
    ethernet::emit_header(&mut frame, ethernet::BROADCAST, [2, 0, 0, 0, 0, 2], ethernet::EtherType::Arp);
    question.emit(&mut frame[ethernet::HEADER_LEN..]);
    for number in 0..SHARDS {
        let mut stack = shard(number);
        stack.ingress(Time::ZERO, &frame, &meta(Time::ZERO, &frame));
        assert_eq!(sent(&mut stack, Time::ZERO).len(), usize::from(number == 0), "shard {number}");
        stack.connect(Time::ZERO, "10.0.0.2:80".parse().unwrap(), None).unwrap();
        let frames = sent(&mut stack, Time::ZERO);
        assert_eq!(frames[0][12..14], [8, 0], "shard {number} knows the peer and sends its SYN");
    }
}
