//! All frames of a flow reach its shard, and shards have equal load.

//~ shards: every frame reaches the shard that owns its flow

use proptest::prelude::*;

use super::*;

/// Toeplitz hash by its definition: for each bit set in the input, 32 bits of the key from that
/// position.
fn by_definition(key: &[u8], input: &[u8]) -> u32 {
    let bit = |bytes: &[u8], at: usize| u32::from(bytes[at / 8 % bytes.len()] >> (7 - at % 8) & 1);
    let window = |from: usize| (from..from + 32).fold(0, |window, at| window << 1 | bit(key, at));
    (0..input.len() * 8).filter(|&at| bit(input, at) == 1).fold(0, |hash, at| hash ^ window(at))
}

//~ shards: the receive-side-scaling hash equals the published vectors
#[test]
fn the_definition_yields_the_published_hash() {
    let key = b"\x6d\x5a\x56\xda\x25\x5b\x0e\xc2\x41\x67\x25\x3d\x43\xa3\x8f\xb0\xd0\xca\x2b\xcb\
        \xae\x7b\x30\xb4\x77\xcb\x2d\xa3\x80\x30\xf2\x0c\x6a\x42\xb7\x3b\xbe\xac\x01\xfa";
    let input = [66, 9, 149, 187, 161, 142, 100, 80, 0x0a, 0xea, 0x06, 0xe6];
    assert_eq!(by_definition(key, &input), 0x51cc_c178);
}

fn frame(kind: [u8; 2], packet: &[u8]) -> Vec<u8> {
    [&[2; 12][..], &kind, packet].concat()
}

/// An IPv4 header with `flags` and offset, and its payload.
fn ipv4(source: Ipv4Addr, target: Ipv4Addr, protocol: u8, flags: u16, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 20];
    packet[0] = 0x45;
    packet[6..8].copy_from_slice(&flags.to_be_bytes());
    packet[9] = protocol;
    packet[12..16].copy_from_slice(&source.octets());
    packet[16..20].copy_from_slice(&target.octets());
    packet.extend_from_slice(payload);
    packet
}

fn ipv6(source: Ipv6Addr, target: Ipv6Addr, next: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; 40];
    (packet[0], packet[6]) = (0x60, next);
    packet[8..24].copy_from_slice(&source.octets());
    packet[24..40].copy_from_slice(&target.octets());
    packet.extend_from_slice(payload);
    packet
}

fn ports(source: u16, target: u16) -> Vec<u8> {
    [source.to_be_bytes(), target.to_be_bytes(), [0; 2], [0; 2]].concat()
}

const KINDS: [FlowHash; 2] = [FlowHash::Toeplitz, FlowHash::Keyed([7; 16])];
const IPV4: [u8; 2] = [8, 0];
const IPV6: [u8; 2] = [0x86, 0xdd];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn the_fold_equals_the_definition(local in any::<u32>(), remote in any::<u32>(), local_port in any::<u16>(), remote_port in any::<u16>()) {
        let input = [&remote.to_be_bytes()[..], &local.to_be_bytes(), &remote_port.to_be_bytes(), &local_port.to_be_bytes()].concat();
        let (a, b) = (IpAddr::from(local.to_be_bytes()), IpAddr::from(remote.to_be_bytes()));
        prop_assert_eq!(toeplitz(fold(a) ^ fold(b) ^ local_port ^ remote_port), by_definition(&[0x6d, 0x5a], &input));
    }

    #[test]
    fn all_frames_of_a_flow_map_to_one_shard(
        local in any::<[u8; 4]>(), remote in any::<[u8; 4]>(),
        local6 in any::<[u8; 16]>(), remote6 in any::<[u8; 16]>(),
        local_port in any::<u16>(), remote_port in any::<u16>(), shards in 1u16..=128,
    ) {
        for hash in KINDS {
            let steering = FlowSteering::new(shards, hash);
            let (us, peer, router) = (local.into(), remote.into(), Ipv4Addr::new(10, 9, 8, 7));
            let tuple = FourTuple { local: IpAddr::V4(us), local_port, remote: IpAddr::V4(peer), remote_port };
            let owner = FrameOwner::One(steering.of_flow(&tuple));
            let segment = ipv4(peer, us, 6, 0x4000, &ports(remote_port, local_port));
            prop_assert_eq!(steering.owner(&frame(IPV4, &segment)), owner);
            // An error about a segment of this host, from a router on the path.
            let sent = ipv4(us, peer, 6, 0, &ports(local_port, remote_port));
            let error = ipv4(router, us, 1, 0, &[&[3, 4, 0, 0, 0, 0, 0, 0][..], &sent].concat());
            prop_assert_eq!(steering.owner(&frame(IPV4, &error)), owner);

            let (us, peer, router): (_, _, Ipv6Addr) = (local6.into(), remote6.into(), Ipv6Addr::LOCALHOST);
            let tuple = FourTuple { local: IpAddr::V6(us), local_port, remote: IpAddr::V6(peer), remote_port };
            let owner = FrameOwner::One(steering.of_flow(&tuple));
            let segment = ports(remote_port, local_port);
            prop_assert_eq!(steering.owner(&frame(IPV6, &ipv6(peer, us, 6, &segment))), owner);
            let behind_options = [&[6, 1][..], &[0; 14], &segment].concat();
            prop_assert_eq!(steering.owner(&frame(IPV6, &ipv6(peer, us, 60, &behind_options))), owner);
            let sent = ipv6(us, peer, 6, &ports(local_port, remote_port));
            let error = ipv6(router, us, 58, &[&[2, 0, 0, 0, 0, 0, 5, 0][..], &sent].concat());
            prop_assert_eq!(steering.owner(&frame(IPV6, &error)), owner);
        }
    }

    #[test]
    fn any_bytes_map_to_a_shard(bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0usize..3) {
        let kind = [IPV4, IPV6, [8, 6]][kind];
        for frame in [bytes.clone(), frame(kind, &bytes)] {
            match FlowSteering::new(4, FlowHash::Toeplitz).owner(&frame) {
                FrameOwner::One(shard) => prop_assert!(shard < 4),
                FrameOwner::All => prop_assert!(frame.len() >= 14),
            }
        }
    }
}

#[test]
fn fragments_of_a_packet_map_to_one_shard() {
    let steering = FlowSteering::new(16, FlowHash::Keyed([3; 16]));
    let (us, peer) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    let first = steering.owner(&frame(IPV4, &ipv4(peer, us, 17, 0x2000, &ports(7, 9))));
    let last = steering.owner(&frame(IPV4, &ipv4(peer, us, 17, 0x00b9, b"whatever bytes")));
    let other_flow = steering.owner(&frame(IPV4, &ipv4(peer, us, 17, 0x2000, &ports(8, 9))));
    assert_eq!((first, first), (last, other_flow));
    let (us, peer) = (Ipv6Addr::LOCALHOST, Ipv6Addr::from_bits(77));
    let piece = |offset: u8, payload: &[u8]| {
        let header = [17, 0, 0, offset, 0, 0, 0, 1];
        steering.owner(&frame(IPV6, &ipv6(peer, us, 44, &[&header, payload].concat())))
    };
    assert_eq!(piece(1, &ports(7, 9)), piece(8, b"whatever bytes"));
}

#[test]
fn address_resolution_goes_to_all_shards() {
    let steering = FlowSteering::new(2, FlowHash::Toeplitz);
    assert_eq!(steering.owner(&frame([8, 6], &[0; 28])), FrameOwner::All);
    let (us, peer) = (Ipv6Addr::LOCALHOST, Ipv6Addr::from_bits(77));
    for kind in [133, 134, 135, 136, 137] {
        assert_eq!(steering.owner(&frame(IPV6, &ipv6(peer, us, 58, &[kind; 24]))), FrameOwner::All);
    }
    let (us4, server) = (Ipv4Addr::BROADCAST, Ipv4Addr::new(10, 0, 0, 9));
    assert_eq!(steering.owner(&frame(IPV4, &ipv4(server, us4, 17, 0, &ports(67, 68)))), FrameOwner::All);
    let ping = |ident: u8| steering.owner(&frame(IPV6, &ipv6(peer, us, 58, &[128, 0, 0, 0, 0, ident, 0, 1])));
    assert_eq!(ping(1), ping(2), "echo goes by address");
}

/// Flows of a few clients with consecutive ports over `shards`: χ² of the load is within random
/// variation.
#[test]
fn shards_get_equal_shares_of_flows() {
    for (hash, shards) in KINDS.into_iter().flat_map(|hash| [2, 3, 4, 8].map(|shards| (hash, shards))) {
        let steering = FlowSteering::new(shards, hash);
        let mut flows = vec![0u32; usize::from(shards)];
        for client in 0..4u8 {
            for port in 0..4096 {
                let local = IpAddr::from([10, 0, 0, 1]);
                let remote = IpAddr::from([10, 0, 1, client]);
                let tuple = FourTuple { local, local_port: 80, remote, remote_port: 32_768 + port };
                flows[usize::from(steering.of_flow(&tuple))] += 1;
            }
        }
        let mean = 16_384.0 / f64::from(shards);
        // A table of 128 entries divided by 3 is not quite even.
        let uneven = if 128 % shards == 0 { 0.0 } else { 16_384.0 * 1e-3 };
        let chi_square: f64 = flows.iter().map(|&n| (f64::from(n) - mean).powi(2) / mean).sum();
        assert!(chi_square < 30.0 + uneven, "{hash:?} over {shards}: {flows:?}, χ² {chi_square}");
    }
}

#[test]
fn multicast_listener_queries_go_to_all_shards_and_a_vlan_tag_is_skipped() {
    let steering = FlowSteering::new(16, FlowHash::Keyed([3; 16]));
    let (us, router) =
        (Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1), Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 7));
    // A query follows a router alert option (RFC 3810 §5.1).
    let alert = [58, 0, 5, 2, 0, 0, 1, 0];
    let query = ipv6(router, us, 0, &[&alert[..], &[130, 0, 0, 0], &[0; 20]].concat());
    assert_eq!(steering.owner(&frame(IPV6, &query)), FrameOwner::All);
    let (us, peer) = (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2));
    for port in 1..50 {
        let segment = ipv4(peer, us, 6, 0x4000, &ports(port, 80));
        let tagged = frame([0x81, 0], &[&[0x20, 5, 8, 0][..], &segment].concat());
        assert_eq!(steering.owner(&tagged), steering.owner(&frame(IPV4, &segment)));
    }
    let arp = [&[0x20, 5, 8, 6][..], &[0; 28]].concat();
    assert_eq!(steering.owner(&frame([0x81, 0], &arp)), FrameOwner::All);
}
