//! Order of transmit opportunities, and bounds of starvation.

use std::net::Ipv4Addr;

use wire::FourTuple;
use wire::tcp::Seq;

use super::*;
use crate::stack::Config;
use crate::tcp::{Pool, State};

/// Connections that always have more to send or to acknowledge.
struct World {
    now: Time,
    ready: TxScheduler,
    connections: Vec<Connection>,
}

const TURN_TIME: Span = Span::from_micros(100);

impl World {
    fn new(order: TransmitOrder, levels: &[u8]) -> Self {
        let local = Ipv4Addr::LOCALHOST;
        let config = Config::new([2; 6], local, 8, [7; 16]);
        let at = std::net::IpAddr::V4(local);
        let tuple = FourTuple { local: at, local_port: 80, remote: at, remote_port: 1 };
        let ready = TxScheduler::new(order, levels.len(), 1514);
        let mut world = Self { now: Time::ZERO, ready, connections: Vec::new() };
        for (index, &level) in levels.iter().enumerate() {
            let mut connection = Connection::open(tuple, Seq(0), 0, Time::ZERO, &config);
            connection.transmit.level = Priority::new(level).unwrap();
            world.connections.push(connection);
            world.enqueue(index);
        }
        world
    }

    fn enqueue(&mut self, index: usize) {
        self.ready.enqueue(self.now, &mut self.connections[index], index as u32);
    }

    /// Makes `index` only acknowledge from now on.
    fn only_acknowledges(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        (connection.state, connection.acks_due) = (State::Established, 1);
        self.enqueue(index);
    }

    /// Takes the next transmit opportunity and queues the connection again.
    fn turn(&mut self) -> Option<usize> {
        let connections = &mut self.connections;
        let turn = self.ready.next(self.now, |index| Some(&mut connections[index as usize].tx_links))?;
        self.now += TURN_TIME;
        self.enqueue(turn.index as usize);
        Some(turn.index as usize)
    }

    fn turns(&mut self, n: usize) -> Vec<usize> {
        (0..n).map_while(|_| self.turn()).collect()
    }
}

#[test]
fn the_most_urgent_connections_alternate() {
    let mut world = World::new(TransmitOrder::Strict { age_max: Span::MAX }, &[7, 2, 5, 2]);
    assert_eq!(world.turns(6), [1, 3, 1, 3, 1, 3]);
    let mut world = World::new(TransmitOrder::Fifo, &[7, 2, 5]);
    assert_eq!(world.turns(6), [0, 1, 2, 0, 1, 2]);
}

#[test]
fn no_connection_waits_longer_than_the_age_and_nine_turns_for_each_older_one() {
    let age_max = TURN_TIME * 20;
    let levels = [0, 0, 0, 0, 0, 0, 0, 0, 3, 3, 7, 7];
    let mut world = World::new(TransmitOrder::Strict { age_max }, &levels);
    let turns = world.turns(5_000);
    let bound = 20 + 9 * levels.len();
    for index in 0..levels.len() {
        let at: Vec<_> = (0..turns.len()).filter(|&t| turns[t] == index).collect();
        let gap = at.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
        assert!(gap <= bound, "connection {index} waited {gap} turns, more than {bound}");
    }
    let urgent = turns.iter().filter(|&&index| levels[index] == 0).count();
    assert!(urgent >= 3_500, "only aging serves the others, not half of all: {urgent}");
}

#[test]
fn weights_share_the_bytes() {
    let mut weights = [1; Priority::LEVELS];
    weights[0] = 3;
    let order = TransmitOrder::Weighted { weights, age_max: Span::MAX };
    let mut world = World::new(order, &[0, 7]);
    for connection in &mut world.connections {
        connection.state = State::Established;
        connection.send.push(&[0; 60_000], &mut Pool::default());
    }
    // The first transmit opportunities were queued before there was data.
    world.turns(400);
    let turns = world.turns(4_000);
    let urgent = turns.iter().filter(|&&index| index == 0).count();
    assert!((2_950..=3_050).contains(&urgent), "{urgent} of 4000 turns are three quarters");
}

//~ stack: acknowledgements are sent while bulk data fills the device
#[test]
fn acknowledgements_go_first_and_let_data_through() {
    let levels = vec![0; 201];
    let mut world = World::new(TransmitOrder::STRICT, &levels);
    world.turns(201);
    // All connections are still queued for data; all but one only acknowledge now.
    let mut world = World { ready: TxScheduler::new(TransmitOrder::STRICT, 201, 1514), ..world };
    for index in 0..201 {
        world.connections[index].tx_links = TxLinks::default();
        if index > 0 { world.only_acknowledges(index) } else { world.enqueue(0) }
    }
    let turns = world.turns(1_000);
    let first = turns.iter().position(|&index| index == 0).unwrap();
    assert_eq!(first, usize::from(ACKS_IN_ROW_MAX), "acknowledgements go first, a bounded number");
    let acks = turns.iter().filter(|&&index| index != 0).count();
    assert!(acks > 980, "most turns acknowledge: {acks}");
}

#[test]
fn a_raised_connection_is_queued_once_on_each_level() {
    let mut world = World::new(TransmitOrder::Strict { age_max: Span::MAX }, &[7, 6]);
    for _ in 0..3 {
        for level in 0..8 {
            world.connections[0].transmit.level = Priority::new(level).unwrap();
            world.enqueue(0);
        }
    }
    let turns = std::iter::from_fn(|| {
        let connections = &mut world.connections;
        world.ready.next(world.now, |index| Some(&mut connections[index as usize].tx_links))
    });
    assert_eq!(turns.map(|turn| turn.index).collect::<Vec<_>>(), [0, 0, 0, 0, 0, 0, 1, 0, 0]);
}

#[test]
fn a_turn_that_the_full_device_interrupted_continues_first() {
    let mut world = World::new(TransmitOrder::STRICT, &[7, 7]);
    let turn = world.ready.next(world.now, |_| None).unwrap();
    world.ready.suspend(TxTurn { left: 5, ..turn });
    world.connections[1].transmit.level = Priority::HIGHEST;
    world.enqueue(1);
    let resumed = world.ready.next(world.now, |_| None).unwrap();
    assert_eq!((resumed.index, resumed.left), (turn.index, 5));
    assert_eq!(world.ready.next(world.now, |_| None).unwrap().index, 1);
}
