//! TCP counters of a network namespace.
//!
//! Source: `/proc/net/netstat`, linux/net/ipv4/proc.c.

/// A counter of `TcpExt`: names in one line, values in the next.
#[must_use]
pub fn counter(netstat: &str, name: &str) -> u64 {
    let mut lines = netstat.lines().filter(|line| line.starts_with("TcpExt:"));
    let (Some(names), Some(figures)) = (lines.next(), lines.next()) else { return 0 };
    let at = names.split_whitespace().position(|its| its == name);
    at.and_then(|at| figures.split_whitespace().nth(at)?.parse().ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_finds_no_room_at_a_listener_is_counted_by_name() {
        use std::io::Write as _;
        use std::net::{Ipv4Addr, SocketAddrV4};

        use rustix::io::Errno;
        use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, connect, listen, socket_with};

        use crate::netlab::NetLab;

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

    #[test]
    fn nonsense_counts_nothing() {
        for nonsense in ["", "x", "TCP: x", "TcpExt: ListenDrops\n"] {
            assert_eq!(counter(nonsense, "ListenDrops"), 0, "{nonsense}");
        }
    }
}
