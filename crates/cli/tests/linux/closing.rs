//! Half-closed connections, resets and refusals.

//~ interop: half close, RST storms and refusals end as on the kernel

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};

use net::stack::CloseReason;
use rustix::net::sockopt::set_socket_linger;

use crate::greenwave_host::Stream;
use crate::world::{KERNEL, World, accept, dial, listener, noise, same};

#[test]
fn an_answer_follows_the_end_of_the_question() {
    let Some(mut world) = World::tap("an_answer_follows_the_end_of_the_question") else { return };
    let (question, answer) = (noise(300_000, 1), noise(1_000_000, 2));
    world.ours.accepts =
        Stream { outbox: answer.clone(), answers: true, finishes: true, ..Stream::default() };
    let ask = || {
        let mut stream = dial();
        stream.write_all(&question).expect("our end takes it");
        stream.shutdown(Shutdown::Write).expect("the connection stands");
        let mut received = Vec::new();
        stream.read_to_end(&mut received).map(|_| received)
    };
    let received = world.meet(ask, |ours| ours.streams.values().any(|s| s.closed));
    same("the answer", &received.expect("the answer comes"), &answer);
    same("the question", &world.ours.only().inbox, &question);
}

#[test]
fn we_hear_the_answer_after_we_closed_our_half() {
    let Some(mut world) = World::tap("we_hear_the_answer_after_we_closed_our_half") else { return };
    let (question, answer) = (noise(300_000, 1), noise(1_000_000, 2));
    let listener = world.kernel.enter(listener);
    let stream = Stream { outbox: question.clone(), finishes: true, ..Stream::default() };
    world.ours.connect(listener.local_addr().expect("it is bound"), stream);
    let serve = || {
        let mut stream = accept(&listener);
        let mut received = Vec::new();
        stream.read_to_end(&mut received).expect("the question ends");
        stream.write_all(&answer).expect("we take the answer");
        received
    };
    let received = world.meet(serve, |ours| ours.only().peer_closed);
    same("the question", &received, &question);
    same("the answer", &world.ours.only().inbox, &answer);
}

/// Number of connections reset in one test.
const STORM: usize = 2000;

#[test]
fn a_storm_of_resets_leaves_nothing_behind() {
    let Some(mut world) = World::tap("a_storm_of_resets_leaves_nothing_behind") else { return };
    let storm = || {
        for i in 0..STORM {
            let mut stream = dial();
            stream.write_all(&[i as u8; 100]).expect("our end takes it");
            // Closing with no time to linger is a reset.
            set_socket_linger(&stream, Some(std::time::Duration::ZERO)).expect("a valid time");
        }
    };
    world.meet(storm, |ours| ours.streams.len() == STORM && ours.living() == 0);
    let reset = |s: &Stream| s.ended == Some(CloseReason::Reset);
    assert!(world.ours.streams.values().all(reset), "every connection was reset");
    assert_eq!(world.ours.stack().connections(), 0);
    // It still serves.
    world.ours.streams.clear();
    world.ours.accepts = Stream { is_echo: true, finishes: true, ..Stream::default() };
    let echo = || crate::world::converse(&dial(), b"still there?");
    let received = world.meet(echo, |_| true).expect("our end serves");
    same("the echo", &received, b"still there?");
}

#[test]
fn the_kernel_receives_each_of_our_resets() {
    let Some(mut world) = World::tap("the_kernel_receives_each_of_our_resets") else { return };
    let listener = world.kernel.enter(listener);
    let addr = listener.local_addr().expect("it is bound");
    let count = || {
        let is_reset = |mut stream: TcpStream| {
            let result = stream.read_to_end(&mut Vec::new());
            result.is_err_and(|e| e.kind() == ErrorKind::ConnectionReset)
        };
        (0..STORM).filter(|_| is_reset(accept(&listener))).count()
    };
    let mut dialled = 0;
    let resets = world.meet(count, |ours| {
        let open: Vec<_> = ours.streams.iter().filter(|(_, s)| s.is_open).map(|(&id, _)| id).collect();
        for id in open {
            ours.abort(id);
            ours.streams.get_mut(&id).expect("it was just there").is_open = false;
        }
        if dialled < STORM && ours.living() < 16 {
            ours.connect(addr, Stream::default());
            dialled += 1;
        }
        ours.living() == 0
    });
    assert_eq!(resets, STORM);
    assert_eq!(world.ours.stack().connections(), 0);
}

#[test]
fn a_port_without_a_listener_refuses_either_way() {
    let Some(mut world) = World::tap("a_port_without_a_listener_refuses_either_way") else { return };
    world.ours.connect((KERNEL, 9).into(), Stream::default());
    let dial = || TcpStream::connect((crate::world::OURS, 9)).err().map(|e| e.kind());
    let refused = world.meet(dial, |ours| ours.living() == 0);
    assert_eq!(refused, Some(ErrorKind::ConnectionRefused));
    assert_eq!(world.ours.only().ended, Some(CloseReason::Reset));
}
