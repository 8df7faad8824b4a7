//! Listeners on all addresses, and what comes to the kernel's.

use std::net::{TcpListener, TcpStream};

use super::*;

/// A socket that a program made and bound in the kernel; where that is reached.
fn socket() -> (OwnedFd, SocketAddr) {
    let socket = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = socket.local_addr().unwrap();
    (socket.into(), addr)
}

/// A program's listener at `port` of all addresses, which does not listen yet.
fn bound(world: &mut World, port: u16) -> OwnedFd {
    let (answer, end) = world.bind(&format!("0.0.0.0:{port}"));
    assert_eq!(answer, Answer::Done);
    end
}

fn listens(world: &mut World, end: &OwnedFd, backlog: u32) {
    let id = Name::of(end.as_fd()).unwrap().id;
    assert_eq!(world.ask(Request::Listen { id, backlog }).0, Answer::Done);
}

#[test]
fn what_comes_to_the_kernels_addresses_is_accepted_in_the_same_line() {
    let mut world = World::new(31);
    let (half, at) = socket();
    let listener = bound(&mut world, at.port());
    pass::send(&listener, None, &Half::Here.encode(), half.as_fd()).unwrap();
    drop(half);
    listens(&mut world, &listener, 4);
    let pipe = world.desk.offer(7, end(&format!("10.0.0.1:{}", at.port())), end("10.0.0.9:4242")).unwrap();
    let mut client = TcpStream::connect(at).unwrap();
    let (first, _ours) = accept(&listener);
    assert_eq!(first.id, 7, "who came first");
    drop(pipe);

    let mut bytes = [0; super::super::super::name::LEN];
    let mut second = None;
    soon(|| {
        world.poll();
        second = pass::receive(&listener, &mut bytes, true).ok();
        second.is_some()
    });
    let name = Name::decode(&bytes).expect("it is said who comes");
    assert_eq!(name.remote, client.local_addr().unwrap());
    let fd = second.unwrap().fd.expect("with its descriptor");
    assert_eq!(Name::of(fd.as_fd()), None, "it is the kernel's");
    TcpStream::from(fd).write_all(b"hello").unwrap();
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert_eq!(text, "hello");

    drop(listener);
    soon(|| world.poll().contains(&Happened::Unlisten(at.port())));
    assert!(TcpStream::connect(at).is_err(), "it goes with the listener");
}

#[test]
fn nobody_is_taken_from_the_kernel_before_the_program_listens_or_while_too_many_wait() {
    let mut world = World::new(32);
    let (half, at) = socket();
    let listener = bound(&mut world, at.port());
    let client = TcpStream::connect(at).unwrap();
    pass::send(&listener, None, &Half::Here.encode(), half.as_fd()).unwrap();
    let waits = |listener: &OwnedFd| pass::receive(listener, &mut [0; 128], true).is_ok();
    (0..5).for_each(|_| drop(world.poll()));
    let id = Name::of(listener.as_fd()).unwrap().id;
    rustix::io::ioctl_fionbio(&listener, true).unwrap();
    assert!(!waits(&listener));
    listens(&mut world, &listener, 8);
    let mut clients = vec![client];
    let waiting = |world: &World| world.desk.listeners.get(id).expect("it is bound").waits();
    // The pair takes some; of those behind, eight wait here and eight in the kernel.
    while waiting(&world) < 8 {
        assert!(clients.len() < 10_000, "a pair takes fewer");
        clients.push(TcpStream::connect(at).unwrap());
        (0..3).for_each(|_| drop(world.poll()));
    }
    clients.extend((0..8).map(|_| TcpStream::connect(at).unwrap()));
    (0..3).for_each(|_| drop(world.poll()));
    assert_eq!(waiting(&world), 8);
    let mut taken = 0;
    soon(|| {
        world.poll();
        taken += usize::from(waits(&listener));
        taken == clients.len()
    });
}

#[test]
fn where_the_kernels_addresses_are_not_to_be_had_that_is_told() {
    let mut world = World::new(33);
    let listener = bound(&mut world, 80);
    let errno = Errno::ADDRINUSE.raw_os_error();
    let _ = send(&listener, &Half::None { errno }.encode(), QUIET).unwrap();
    let refusal = Refusal::Half { port: 80, errno };
    soon(|| {
        world.poll();
        world.desk.refused().eq([(refusal, 1)])
    });
    listens(&mut world, &listener, 4);
    world.desk.offer(7, end(HERE), end("10.0.0.9:4242")).unwrap();
    assert_eq!(accept(&listener).0.id, 7, "ours is served");
}
