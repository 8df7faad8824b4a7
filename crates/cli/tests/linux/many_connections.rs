//! Ten thousand connections at once.

//~ interop: 10,000 connections are open at once

use std::io::{Read, Write};
use std::net::TcpStream;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::greenwave_host::Stream;
use crate::world::{World, accept, dial, listener, same, skipped};

const CONNECTIONS: usize = 10_000;
/// Number of concurrent handshakes.
const OPENING_MAX: usize = 64;

/// Raises this process's limit of open files as required.
fn files() -> Result<(), String> {
    let limit = getrlimit(Resource::Nofile);
    let needed = CONNECTIONS as u64 + 1000;
    if limit.current.is_none_or(|soft| soft >= needed) {
        return Ok(());
    }
    if limit.maximum.is_some_and(|hard| hard < needed) {
        return Err(format!("{needed} open files are more than the limit {:?}", limit.maximum));
    }
    setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, ..limit }).map_err(|e| e.to_string())
}

fn message(i: usize) -> [u8; 64] {
    let mut bytes = [0x5a; 64];
    bytes[..8].copy_from_slice(&(i as u64).to_be_bytes());
    bytes
}

/// Sends a different message on each connection and reads it back, all at once.
fn echo_on_all(streams: &mut [TcpStream]) {
    for (i, stream) in streams.iter_mut().enumerate() {
        stream.write_all(&message(i)).expect("our end takes it");
    }
    for (i, stream) in streams.iter_mut().enumerate() {
        let mut back = [0; 64];
        stream.read_exact(&mut back).expect("our end answers");
        same("the echo", &back, &message(i));
    }
}

/// Both directions in one test: each takes half of this process's open files.
#[test]
fn ten_thousand_connections_are_served_at_once() {
    let test = "ten_thousand_connections_are_served_at_once";
    if let Err(why) = files() {
        return skipped(test, &why);
    }
    for ours_dials in [false, true] {
        let Some(mut world) = World::tap(test) else { return };
        let echo = Stream { is_echo: true, finishes: true, ..Stream::default() };
        world.ours.accepts = echo.clone();
        if ours_dials {
            let listener = world.kernel.enter(listener);
            let addr = listener.local_addr().expect("it is bound");
            let serve = || {
                let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| accept(&listener)).collect();
                echo_on_all(&mut streams);
            };
            let mut opened = 0;
            world.meet(serve, |ours| {
                let opening = ours.streams.len() - opened;
                let room = (CONNECTIONS - ours.streams.len()).min(OPENING_MAX.saturating_sub(opening));
                for _ in 0..room {
                    ours.connect(addr, echo.clone());
                }
                opened = ours.streams.values().filter(|s| s.is_open).count();
                opened == CONNECTIONS && ours.streams.values().all(|s| s.peer_closed)
            });
        } else {
            let load = || {
                let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| dial()).collect();
                echo_on_all(&mut streams);
            };
            world.meet(load, |ours| {
                ours.streams.len() == CONNECTIONS && ours.streams.values().all(|s| s.peer_closed)
            });
        }
        let clean = |s: &Stream| s.inbox.len() == 64 && s.sent == 64;
        assert!(world.ours.streams.values().all(clean), "every connection carried its message");
    }
}
