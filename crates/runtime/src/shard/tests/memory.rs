//! Responses to peers that read slowly, or not at all.

//~ runtime: memory of responses that peers do not read is bounded by `memory_max` and returned

use super::*;
use crate::app::Body;

/// A body of the repeated alphabet, [`Letters::LEN`] bytes long: number of bytes written so far,
/// and a fault.
pub(super) struct Letters(pub usize, pub u8);

impl Letters {
    pub(super) const LEN: usize = 1_000_000;

    fn text(range: std::ops::Range<usize>) -> Vec<u8> {
        range.map(|at| b'a' + (at % 26) as u8).collect()
    }
}

impl Body for Letters {
    fn len(&self) -> usize {
        Self::LEN
    }

    fn write(&mut self, len: usize, response: &mut Vec<u8>) {
        assert_ne!(self.1, b'p', "the application's own bug");
        let len = len - usize::from(self.1 == b's');
        response.extend(Self::text(self.0..self.0 + len));
        self.0 += len;
    }
}

const MEMORY: usize = 1 << 20;

/// A server with 1 MiB of memory and a client that receives 8 KiB at once.
fn small() -> World {
    let mut world = world(1, |config| {
        config.stack.send_buffer = 16 * 1024;
        config.stack.send_buffer_max = 0;
        config.stack.memory_max = MEMORY;
    });
    let mut client = net::stack::Config::new([2, 0, 0, 0, 0, 2], Ipv4Addr::new(10, 0, 0, 2), 24, [8; 16]);
    (client.recv_buffer, client.recv_buffer_max) = (8 * 1024, 0);
    world.client = Stack::new(client);
    world
}

/// Sends `text` and serves it at once.
fn ask(world: &mut World, id: ConnId, text: &str) {
    world.send(id, text);
    world.serve_all();
}

#[test]
fn responses_to_peers_that_do_not_read_have_bounded_memory_that_is_freed() {
    for request in ["B\n", "G\n"] {
        let mut world = small();
        for _ in 0..60 {
            let id = world.connect();
            world.unread.push(id);
            ask(&mut world, id, request);
            let held = world.shard.stack().buffer_bytes();
            assert!(held <= MEMORY, "{request:?}: {held} bytes of {MEMORY}");
        }
        // A peer that reads gets a response meanwhile.
        let reader = world.connect();
        ask(&mut world, reader, "3 hello\n");
        assert_eq!(world.text(reader), "3 hello\n", "{request:?}");
        for id in world.unread.clone() {
            world.client.abort(world.clock.now(), id);
        }
        world.settle();
        assert_eq!(world.shard.stack().buffer_bytes(), 0, "{request:?}");
        assert_eq!(world.counters().closed, 60, "{request:?}");
    }
}

#[test]
fn full_memory_resets_the_connection_that_has_read_nothing_for_longest() {
    let mut world = small();
    let readers: Vec<ConnId> = (0..3).map(|_| world.connect()).collect();
    let mut asked = Vec::new();
    for n in 0..20 {
        let id = world.connect();
        world.unread.push(id);
        ask(&mut world, id, "B\n");
        asked.push(id);
        if let Some(&reader) = readers.get(n / 4) {
            ask(&mut world, reader, "B\n");
        }
    }
    let reset = world.counters().unread as usize;
    assert!((5..15).contains(&reset), "{reset}");
    assert_eq!(world.closed, asked[..reset], "the oldest first");
    assert_eq!(world.text(readers[0]).len(), 4 * 100_002);
}

#[test]
fn a_generated_body_arrives_whole_after_the_appended_bytes() {
    let mut world = small();
    let id = world.connect();
    ask(&mut world, id, "G\n");
    // The next request waits until the response is sent.
    ask(&mut world, id, "3 next\n");
    let expected = [b"G\n".to_vec(), Letters::text(0..Letters::LEN), b"3 next\n".to_vec()].concat();
    assert!(world.text(id).as_bytes() == expected);
    assert_eq!((world.counters().responses, world.shard.stack().buffer_bytes()), (2, 0));
}

#[test]
fn a_body_that_panics_or_is_too_short_resets_only_its_connection() {
    for request in ["Gp\n", "Gs\n"] {
        let mut world = small();
        let (bad, good) = (world.connect(), world.connect());
        ask(&mut world, bad, request);
        ask(&mut world, good, "fine\n");
        assert_eq!((world.closed.clone(), world.text(good)), (vec![bad], "fine\n".to_owned()));
        assert_eq!((world.counters().panics, world.shard.stack().buffer_bytes()), (1, 0), "{request}");
    }
}
