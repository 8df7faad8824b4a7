//! CPU cost of the XDP program, from repeated runs on one frame (`BPF_PROG_TEST_RUN`): no device and no
//! traffic.

use std::net::TcpListener;

use guard::Limit;
use queueing::{Clock, Span};

use super::classes::{Classes, Rule};
use super::error::GuardError;
use super::frames::{ACK, SYN, ethernet, ipv4, ipv6, syn, tcp};
use super::map_layout::{LimitEntry, LimitInForce, PortEntry};
use super::maps::refused;
use super::program::load;
use super::settings::Settings;
use super::{Cost, WaitEnd, netns};
use crate::bpf;
use host::Monotonic;

/// Rounds; the fastest counts, since other load slows rounds down.
const ROUNDS: u32 = 9;
/// Runs per round.
const RUNS: u32 = 100_000;

/// Costs of several kinds of frames, in this thread's network namespace and with a listener made for
/// this.
///
/// # Errors
/// [`GuardError`].
pub fn costs() -> Result<Vec<Cost>, GuardError> {
    let loaded = load(WaitEnd::Accept)?;
    let refused = refused("a measurement");
    let listener =
        TcpListener::bind("[::]:0").or_else(|_| TcpListener::bind("0.0.0.0:0")).map_err(&refused)?;
    let port = listener.local_addr().map_err(&refused)?.port();
    let prefixes = (0..=255_u8).map(|n| Rule::From(format!("10.{n}.0.0/16").parse().expect("a prefix")));
    let classes = Classes(vec![prefixes.collect()]);
    loaded.maps.set_port(port, PortEntry { class: 1, ..PortEntry::default() }).map_err(&refused)?;
    for (prefix, class) in classes.of_prefixes() {
        loaded.maps.set_prefix(prefix, class).map_err(&refused)?;
    }
    let state = |prefixes: bool, limit: Limit| {
        let classes = 2;
        let netns = netns()?;
        loaded.maps.set_settings(&Settings {
            netns,
            classes,
            prefixes,
            ports: vec![port],
            ..Settings::default()
        })?;
        // Long enough for the controller never to count as silent.
        let alive = Monotonic::new().now() + Span::from_secs(3600);
        let held = LimitInForce::new(limit, 2);
        loaded.maps.set_limit(0, &LimitEntry { alive, held, ..LimitEntry::default() })
    };
    let time = |frame: &[u8]| {
        let mut rounds = Vec::new();
        for _ in 0..ROUNDS {
            rounds.push(bpf::time_xdp(&loaded.program, frame, RUNS)?);
        }
        Ok(rounds.into_iter().min().unwrap_or_default())
    };
    let (much, little) = (Limit::Rate { per_s: 1e9, burst: 1e7 }, Limit::Rate { per_s: 1.0, burst: 4.0 });
    let syn6 = ipv6(1, 6, &tcp(port, SYN));
    let syns = [
        ("SYN, no limit", false, Limit::Open, syn(port)),
        ("SYN within a rate", false, much, syn(port)),
        ("SYN above a rate, shed", false, little, syn(port)),
        ("SYN above a rate, 256 prefixes, shed", true, little, syn(port)),
        ("SYN over IPv6 above a rate, shed", false, little, syn6),
        ("SYN, all shed", false, Limit::Closed, syn(port)),
    ];
    let mut costs = Vec::new();
    for (what, prefixes, limit, frame) in syns {
        state(prefixes, limit).map_err(&refused)?;
        costs.push(Cost { what, is_syn: true, each: time(&frame).map_err(&refused)? });
    }
    let data = |port| [tcp(port, ACK), vec![0; 1000]].concat();
    let mut udp = ipv4([10, 0, 0, 1], 0, 0, &data(port));
    udp[23] = 17;
    let others = [
        ("data for a guarded port", ipv4([10, 0, 0, 1], 0, 0, &data(port))),
        ("data over IPv6 for a guarded port", ipv6(1, 6, &data(port))),
        ("SYN for another port", syn(if port == 1 { 2 } else { 1 })),
        ("UDP", udp),
        ("ARP", ethernet(0x0806, &[0; 28])),
    ];
    for (what, frame) in others {
        costs.push(Cost { what, is_syn: false, each: time(&frame).map_err(&refused)? });
    }
    Ok(costs)
}
