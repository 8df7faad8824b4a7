//! Flow control: a sender waits for a reader that stops, on either side, and nothing is lost.

//~ interop: zero windows on either side reopen

use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::mpsc;

use queueing::Span;

use crate::greenwave_host::Stream;
use crate::world::{World, dial, noise, same};

const LENGTH: usize = 8 << 20;
/// Time without a byte after which a sender counts as stopped.
const STILL: Span = Span::from_millis(200);

#[test]
fn we_wait_while_the_kernels_reader_sleeps() {
    let Some(mut world) = World::tap("we_wait_while_the_kernels_reader_sleeps") else { return };
    let reply = noise(LENGTH, 2);
    world.ours.accepts = Stream { outbox: reply.clone(), finishes: true, ..Stream::default() };
    let (wake, woken) = mpsc::channel();
    let read = move || {
        let mut stream = dial();
        woken.recv().expect("a message from our end");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).map(|_| received)
    };
    let (mut sent, mut since) = (0, world.ours.now());
    let mut stopped_at = None;
    let received = world.meet(read, |ours| {
        let now = ours.now();
        let so_far = ours.streams.values().map(|s| s.sent).sum();
        if so_far != sent || so_far == 0 {
            (sent, since) = (so_far, now);
        } else if now.since(since) > STILL && stopped_at.is_none() {
            stopped_at = Some(sent);
            wake.send(()).expect("the reader waits");
        }
        ours.streams.values().any(|s| s.closed)
    });
    assert!(stopped_at.is_some_and(|at| at < LENGTH), "{stopped_at:?}: the window closed on the way");
    same("what the kernel received", &received.expect("the stream ends"), &reply);
}

#[test]
fn the_kernel_waits_while_our_reader_sleeps() {
    let Some(mut world) = World::tap("the_kernel_waits_while_our_reader_sleeps") else { return };
    let there = noise(LENGTH, 1);
    world.ours.accepts = Stream { holds: true, finishes: false, ..Stream::default() };
    let write = || {
        let mut stream = dial();
        stream.write_all(&there).expect("our end takes it all in the end");
        stream.shutdown(Shutdown::Write).expect("the connection stands");
        // Until our end has read everything and closes.
        stream.read_to_end(&mut Vec::new()).expect("our end closes")
    };
    let (mut held, mut since) = (0, world.ours.now());
    let mut stopped_at = None;
    let buffer = world.ours.stack().config().recv_buffer;
    world.meet(write, |ours| {
        let now = ours.now();
        let Some(&id) = ours.streams.keys().next() else { return false };
        let so_far = ours.stack().received(id).len();
        let stream = ours.streams.get_mut(&id).expect("its id was just there");
        if stream.holds {
            if so_far != held || so_far == 0 {
                (held, since) = (so_far, now);
            } else if now.since(since) > STILL {
                stopped_at = Some(held);
                (stream.holds, stream.finishes, stream.answers) = (false, true, true);
                ours.serve(id);
            }
        }
        ours.only().closed
    });
    let stopped_at = stopped_at.expect("the kernel stopped");
    assert!(stopped_at <= buffer, "{stopped_at} bytes in a buffer of {buffer}");
    same("what we received", &world.ours.only().inbox, &there);
}
