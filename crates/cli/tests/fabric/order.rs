//! Departure order of the egress, compared with the queues of simulated switches.
//!
//! The most urgent level, to which a sender pins packets, blocks the link until packets of several
//! flows are queued at the three levels below; then they leave. The same packets go through the
//! simulator's FISH and PIAS.
//!
//! PIAS's order equals the kernel's, packet by packet. FISH's is compared by level and round: the
//! order within a round differs, because the kernel's queues are served by their number (HTB) or in
//! two lists (fq), and the simulator's in order of the flows' appearance. A quantum is a frame's
//! bytes, or two frames' with HTB: one packet, or two, where packets are full, as they are here, and
//! flows have separate queues, as eight of them have.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};

use queueing::{
    Bytes, Discipline, Entry, FairQueue, Fifo, FlowId, Label, Priority, PushResult, Rng, Strict, Thresholds,
    Time,
};

use super::*;

/// Bytes of a full frame, and the payload of its datagram.
const FRAME: u64 = 1514;
const PAYLOAD: usize = 1472;
/// A flow has two, four and four packets at the first levels.
const THRESHOLDS: [u64; 3] = [3_000, 9_000, 15_000];
const OF_LEVEL: [u8; 3] = [2, 4, 4];
/// Slow enough that all packets are sent long before the blocking ones have left.
const RATE: &str = "4mbit";
const HOLDERS: u8 = 40;
/// Queued packets of each flow.
const WAITING: [u8; 6] = [12, 10, 9, 6, 3, 1];

/// Packet `number` of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Packet {
    flow: u8,
    number: u8,
}

impl Packet {
    fn level(self) -> usize {
        let rule = Thresholds::new(THRESHOLDS.map(Bytes::new).to_vec()).unwrap();
        rule.level(Bytes::new(u64::from(self.number) * FRAME)).index()
    }
}

impl Entry for Packet {
    fn label(&self) -> Label {
        Label::new(Priority::new(self.level() as u8).unwrap())
    }

    fn flow(&self) -> FlowId {
        FlowId(self.flow.into())
    }

    fn bytes(&self) -> Bytes {
        Bytes::new(FRAME)
    }
}

/// Departure order of the simulator's queue.
fn simulated(mut queue: impl Discipline<Packet>, order: &[Packet]) -> Vec<Packet> {
    for &packet in order {
        assert!(matches!(queue.push(Time::ZERO, packet), PushResult::Queued));
    }
    std::iter::from_fn(|| queue.pop(Time::ZERO)).collect()
}

fn send(socket: &UdpSocket, packet: Packet) {
    let mut payload = [0; PAYLOAD];
    payload[..2].copy_from_slice(&[packet.flow, packet.number]);
    assert_eq!(socket.send(&payload).unwrap(), PAYLOAD);
}

/// A link between two hosts that carries datagrams of a full frame.
struct Line<'a> {
    from: &'a Namespace,
    receiver: UdpSocket,
}

impl<'a> Line<'a> {
    fn new([from, to]: &'a [Namespace; 2]) -> Self {
        // Otherwise the kernel's own IPv6 packets form another flow.
        from.sysctl("net.ipv6.conf.all.disable_ipv6", "1").unwrap();
        let receiver = to.enter(|| UdpSocket::bind("10.77.0.2:0").unwrap());
        receiver.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Self { from, receiver }
    }

    /// A sender: a new flow.
    fn flow(&self) -> UdpSocket {
        let target: SocketAddr = self.receiver.local_addr().unwrap();
        self.from.enter(|| {
            let socket = UdpSocket::bind("10.77.0.1:0").unwrap();
            socket.connect(target).unwrap();
            socket
        })
    }

    fn receive(&self) -> std::io::Result<Packet> {
        let mut payload = [0; PAYLOAD];
        assert_eq!(self.receiver.recv(&mut payload)?, PAYLOAD);
        Ok(Packet { flow: payload[0], number: payload[1] })
    }

    /// `count` flows that send `packets` packets each, which arrive. Sent round by round: a socket
    /// cannot buffer all.
    fn begun(&self, count: u8, packets: u8) -> Vec<UdpSocket> {
        let flows: Vec<UdpSocket> = (0..count).map(|_| self.flow()).collect();
        for number in 0..packets {
            flows.iter().zip(0..).for_each(|(socket, flow)| send(socket, Packet { flow, number }));
            flows.iter().for_each(|_| {
                self.receive().unwrap();
            });
        }
        flows
    }

    /// Departure order of `order`; `None` where a packet left before all were queued.
    fn departures(&self, order: &[Packet]) -> Option<Vec<Packet>> {
        const HOLDER: u8 = u8::MAX;
        let flows = self.begun(WAITING.len() as u8, OF_LEVEL[0]);
        let holder = self.flow();
        rustix::net::sockopt::set_ip_tos(&holder, 46 << 2).unwrap();
        (0..HOLDERS).for_each(|number| send(&holder, Packet { flow: HOLDER, number }));
        order.iter().for_each(|&packet| send(&flows[usize::from(packet.flow)], packet));
        self.receiver.set_nonblocking(true).unwrap();
        let early = std::iter::from_fn(|| match self.receive() {
            Err(e) if e.kind() == ErrorKind::WouldBlock => None,
            received => Some(received.unwrap()),
        });
        let mut received: Vec<Packet> = early.collect();
        self.receiver.set_nonblocking(false).unwrap();
        let held = received.iter().all(|packet| packet.flow == HOLDER);
        while received.len() < usize::from(HOLDERS) + order.len() {
            received.push(self.receive().unwrap());
        }
        received.retain(|packet| packet.flow != HOLDER);
        held.then_some(received)
    }
}

/// For each departure its level, and the number of earlier departures of its flow at that level.
fn turns(departures: &[Packet]) -> Vec<(usize, usize)> {
    let turn = |(at, packet): (usize, &Packet)| {
        let before = departures[..at].iter();
        let same = |other: &&Packet| (other.flow, other.level()) == (packet.flow, packet.level());
        (packet.level(), before.filter(same).count())
    };
    departures.iter().enumerate().map(turn).collect()
}

/// Packets of all flows in any order that keeps each flow's own.
fn mixed(seed: u64) -> Vec<Packet> {
    let mut rng = Rng::seeded(seed);
    let mut left: Vec<u8> =
        (0..).zip(WAITING).flat_map(|(flow, n)| std::iter::repeat_n(flow, n.into())).collect();
    let mut next = [OF_LEVEL[0]; WAITING.len()];
    std::iter::from_fn(|| {
        let index = rng.below(left.len().max(1) as u64) as usize;
        let flow = (index < left.len()).then(|| left.swap_remove(index))?;
        next[usize::from(flow)] += 1;
        Some(Packet { flow, number: next[usize::from(flow)] - 1 })
    })
    .collect()
}

//~ egress: packets leave Linux level by level and turn by turn as in the simulator
#[test]
fn what_waits_leaves_level_by_level_and_turn_by_turn_as_in_the_simulator() {
    let test = "what_waits_leaves_level_by_level_and_turn_by_turn_as_in_the_simulator";
    let check = |buckets: u8, compare: fn(&[Packet], &[Packet], Bytes)| {
        let Some(pair) = pair(test) else { return };
        let text = format!(
            "thresholds = {THRESHOLDS:?}\nbuckets = {buckets}\nqueue = 200\nidle = \"600s\"\n[pin]\ndscp = {{ 46 = 0 }}"
        );
        let policy = PolicyFile::new(&format!("order-{buckets}"), &text);
        let attached = done(&pair[0], &["attach", "eth0", "--rate", RATE, "--policy", policy.path()]);
        let quantum = Bytes::new(if attached.contains("by htb") { 2 * FRAME } else { FRAME });
        let line = Line::new(&pair);
        // HTB gives each queue and each level a frame or two beyond their quantum, to keep them
        // from running empty: these are used up first.
        line.begun(buckets.max(8), OF_LEVEL.iter().sum::<u8>() + 2);
        let order = mixed(buckets.into());
        // A busy machine may unblock before all are queued.
        let departures =
            (0..5).find_map(|_| line.departures(&order)).expect("all wait before the first leaves");
        compare(&departures, &order, quantum);
    };
    check(1, |departures, order, _| {
        assert_eq!(departures, simulated(Strict::new(1_000, |_| Fifo::new(1_000)), order));
    });
    check(8, |departures, order, quantum| {
        let fair = || FairQueue::new(1_000).by_bytes(quantum);
        let simulated = simulated(Strict::new(1_000, |_| fair()), order);
        assert_eq!(turns(departures), turns(&simulated), "{departures:?} and {simulated:?}");
        for flow in 0..WAITING.len() as u8 {
            let of =
                |all: &[Packet]| all.iter().filter(|packet| packet.flow == flow).copied().collect::<Vec<_>>();
            assert_eq!(of(departures), of(&simulated), "a flow keeps its order");
        }
    });
}
