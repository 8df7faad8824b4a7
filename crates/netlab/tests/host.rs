//! Parts of `host` that need a network namespace to be tested. Without root they are skipped with a
//! message.

#[test]
fn only_local_addresses_are_ours() {
    use host::address::{local, local6};
    use netlab::{NetLab, Veth};
    use std::collections::BTreeSet;
    use std::io::Write as _;
    use std::net::{Ipv4Addr, Ipv6Addr};

    if let Some(why) = NetLab::unavailable() {
        let text = format!("skipped: only_local_addresses_are_ours: {why}\n");
        return drop(std::io::stderr().write_all(text.as_bytes()));
    }
    let lab = NetLab::new("address").unwrap();
    let (ours, other) = (lab.namespace("ours").unwrap(), lab.namespace("other").unwrap());
    lab.veth((&ours, "gw0"), (&other, "eth0"), &Veth::default()).unwrap();
    let read_proc_net = |name: &str| {
        let path = format!("/proc/thread-self/net/{name}");
        ours.enter(|| std::fs::read_to_string(path).unwrap_or_default())
    };
    let fours = || local(&read_proc_net("fib_trie")).collect::<BTreeSet<_>>();
    let (before, new) = (fours(), "fd00::1".parse::<Ipv6Addr>().unwrap());
    assert!(!local6(&read_proc_net("if_inet6")).any(|addr| addr == new));
    ours.address("gw0", "10.77.0.1".parse().unwrap(), 24).unwrap();
    ours.address("gw0", new.into(), 64).unwrap();
    // Neither the subnet's own address, nor its broadcasts, nor other hosts' addresses.
    other.address("eth0", "10.77.0.9".parse().unwrap(), 24).unwrap();
    assert_eq!(fours().difference(&before).collect::<Vec<_>>(), [&Ipv4Addr::new(10, 77, 0, 1)]);
    assert!(local6(&read_proc_net("if_inet6")).any(|addr| addr == new), "{}", read_proc_net("if_inet6"));
    assert_eq!((local("").count(), local6("no table").count()), (0, 0));
}

#[test]
fn a_connection_that_finds_no_room_at_a_listener_is_counted_by_name() {
    use std::io::Write as _;
    use std::net::{Ipv4Addr, SocketAddrV4};

    use rustix::io::Errno;
    use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with};

    use host::netstat::counter;
    use netlab::NetLab;

    if let Some(why) = NetLab::unavailable() {
        let test = "a_connection_that_finds_no_room_at_a_listener_is_counted_by_name";
        return drop(std::io::stderr().write_all(format!("skipped: {test}: {why}\n").as_bytes()));
    }
    let ours = NetLab::new("netstat").unwrap().namespace("ours").unwrap();
    ours.up("lo").unwrap();
    let to = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 8080);
    let (room, none, counts) = ours.enter(|| {
        let socket =
            || socket_with(AddressFamily::INET, SocketType::STREAM, SocketFlags::NONBLOCK, None).unwrap();
        let count = || {
            let text = std::fs::read_to_string("/proc/thread-self/net/netstat").unwrap();
            ["ListenOverflows", "ListenDrops"].map(|name| counter(&text, name))
        };
        let (listener, first, second) = (socket(), socket(), socket());
        bind(&listener, &to).unwrap();
        // A backlog of 0 holds one connection.
        listen(&listener, 0).unwrap();
        let mut counts = vec![count()];
        let room = connect(&first, &to);
        counts.push(count());
        let none = connect(&second, &to);
        counts.push(count());
        (room, none, counts)
    });
    assert_eq!([room, none], [Err(Errno::INPROGRESS); 2], "connect does not block");
    assert_eq!(counts, [[0, 0], [0, 0], [1, 1]]);
}
