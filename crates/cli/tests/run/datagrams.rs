//! Programs that send and receive datagrams on our stack, with peers on the kernel's.

//~ datagrams: Python's blocking and asyncio servers, memcached and iperf3 exchange datagrams of 0 to 65,507 bytes

use std::net::UdpSocket;

use netlab::client::check_datagram_echo;
use rustix::net::sockopt;

use super::*;

/// Lengths of datagrams: empty, whole, fragmented, and the maximum.
const LENS: [usize; 6] = [0, 1, 1472, 1473, 9000, 65_507];

impl World {
    /// The answer to `ask` from `to`, on a connected socket of the clients; repeats the request
    /// until there is one.
    #[track_caller]
    fn answer(&self, to: SocketAddr, ask: &[u8]) -> Vec<u8> {
        self.answer_in((&self.clients, PEER), to, ask)
    }

    /// Same as `answer`, on a socket at the address `from` of the namespace `of`.
    #[track_caller]
    fn answer_in(&self, (of, from): (&Namespace, &str), to: SocketAddr, ask: &[u8]) -> Vec<u8> {
        of.enter(|| {
            let socket = UdpSocket::bind((from, 0)).unwrap();
            socket.connect(to).unwrap();
            socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
            let (mut bytes, mut got) = (vec![0; 65_536], None);
            // A request before it listens is refused.
            self.until("it answers", || {
                let _ = socket.send(ask);
                got = socket.recv(&mut bytes).ok();
                got.is_some()
            });
            bytes.truncate(got.expect("it has answered"));
            bytes
        })
    }
}

/// Traffic class of the peer's datagrams below: DSCP 46, and ECN bits of an ECN-capable transport.
const CLASS: u8 = 46 << 2 | 2;

/// An echo peer at `addr`, until this process ends.
pub(super) fn echo(world: &World, addr: &str) {
    let socket = world.clients.enter(|| UdpSocket::bind((addr, 8080)).unwrap());
    match addr.contains(':') {
        true => sockopt::set_ipv6_tclass(&socket, CLASS.into()).unwrap(),
        false => sockopt::set_ip_tos(&socket, CLASS).unwrap(),
    }
    std::thread::spawn(move || {
        let mut bytes = [0; 65_536];
        loop {
            // Errors of closed ports are reported here, too.
            if let Ok((len, sender)) = socket.recv_from(&mut bytes) {
                let _ = socket.send_to(&bytes[..len], sender);
            }
        }
    });
}

/// An echo server; for `beyond` it queries another server.
const ON_ALL_ADDRESSES: &str = r#"
import socket
def bound(port):
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.bind(("", port))
    return s
server, other = bound(7005), bound(7006)
other.connect(("127.0.0.1", 7007))
while True:
    data, who = server.recvfrom(100)
    if data == b"beyond":
        other.send(b"who are you?")
        data = other.recv(100)
    server.sendto(data, who)
"#;

//~ datagrams: a socket on all addresses is reached through the kernel's and reaches beyond the device
#[test]
fn a_socket_on_all_addresses_is_reached_by_the_kernels_and_reaches_beyond_the_device() {
    let test = "a_socket_on_all_addresses_is_reached_by_the_kernels_and_reaches_beyond_the_device";
    let Some(world) = World::new(test, "python3") else { return };
    let beyond = world.ours.enter(|| UdpSocket::bind("127.0.0.1:7007").unwrap());
    std::thread::spawn(move || {
        while let Ok((_, sender)) = beyond.recv_from(&mut [0; 100]) {
            let _ = beyond.send_to(b"I am", sender);
        }
    });
    let server = world.start("packet:gw0", 7005, &[], &["python3", "-c", ON_ALL_ADDRESSES]);
    let (to, local) = (server.to, "127.0.0.1:7005".parse().unwrap());
    assert_eq!(world.answer(to, b"hello"), b"hello");
    assert_eq!(world.answer_in((&world.ours, "127.0.0.1"), local, b"hello"), b"hello");
    assert_eq!(world.answer(to, b"beyond"), b"I am");
    assert_eq!(world.answer_in((&world.ours, "127.0.0.1"), local, b"beyond"), b"I am");
    let output = server.stop();
    assert!(!output.lines().any(|line| line.starts_with("refused: ")), "{output}");
}

#[test]
fn python_answers_datagrams() {
    let Some(world) = World::new("python_answers_datagrams", "python3") else { return };
    let script = world.python("datagrams.py", include_str!("datagrams.py"));
    let mut server = world.start("packet:gw0", 7001, &[], &["python3", &script, OURS, PEER, "serves"]);
    // Asyncio does not send empty datagrams.
    for (port, lens) in [(7001, &LENS[..]), (7002, &LENS[1..])] {
        let to = SocketAddr::new(OURS.parse().unwrap(), port);
        assert_eq!(world.answer(to, b"hello"), b"hello");
        world.clients.enter(|| check_datagram_echo(to, lens));
    }
    for port in [7001, 7002] {
        assert_eq!(world.answer(SocketAddr::new(OURS.parse().unwrap(), port), b"over"), b"over");
    }
    let (code, output) = server.ended();
    assert_eq!(code, Some(0), "{output}");
    assert!(output.contains(" datagrams in, ") && output.contains("0 no receiver, 0 no route"), "{output}");
}

//~ datagrams: every call on datagram sockets works: connected or not, peeked, truncated, polled, copied, inherited
#[test]
fn python_uses_datagrams_in_every_way() {
    let Some(world) = World::new("python_uses_datagrams_in_every_way", "python3") else { return };
    echo(&world, PEER);
    let script = world.python("datagrams.py", include_str!("datagrams.py"));
    let (printed, stderr) = world.client("packet:gw0", &["python3", &script, OURS, PEER]);
    assert!(printed.ends_with("all\n"), "{printed}\n{stderr}");
}

//~ datagrams: datagrams work over IPv6
#[test]
fn datagrams_go_over_ipv6() {
    let Some(world) = World::new("datagrams_go_over_ipv6", "python3") else { return };
    let (ours, peer) = ("fd07::2", "fd07::9");
    world.clients.address("eth0", peer.parse().unwrap(), 64).unwrap();
    echo(&world, peer);
    let script = world.python("datagrams.py", include_str!("datagrams.py"));
    let program = ["python3", &script, ours, peer, "six"];
    world.client_at("fd07::2/64", "packet:gw0", &program);
}

#[test]
fn memcached_answers_datagrams() {
    let Some(world) = World::new("memcached_answers_datagrams", "memcached") else { return };
    let program = ["memcached", "-u", "root", "-l", OURS, "-p", "11211", "-U", "11211", "-t", "4"];
    let server = world.run("packet:gw0", 11_211, &program);
    // Its frames: a number, the datagram's index and count, and a zero.
    let frame = |number: u8, text: &str| [&[0, number, 0, 0, 0, 1, 0, 0], text.as_bytes()].concat();
    assert_eq!(world.answer(server.to, &frame(1, "set k 0 0 5\r\nhello\r\n")), frame(1, "STORED\r\n"));
    let expected = "VALUE k 0 5\r\nhello\r\nEND\r\n";
    for number in 2..200 {
        assert_eq!(world.answer(server.to, &frame(number, "get k\r\n")), frame(number, expected));
    }
    let output = server.stop();
    assert!(output.contains(" datagrams in, "), "{output}");
}

/// It binds all addresses, and drops datagrams without their interface's index.
#[test]
fn dnsmasq_answers_questions() {
    let Some(world) = World::new("dnsmasq_answers_questions", "dnsmasq") else { return };
    let alone = ["--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--pid-file", "--user=root"];
    let program = [&["dnsmasq", "--keep-in-foreground", "--address=/x.test/192.0.2.1"], &alone[..]].concat();
    let server = world.start("packet:gw0", 53, &[], &program);
    // Query for x.test of class IN, type A (RFC 1035 §4).
    let ask = b"\x12\x34\x01\0\0\x01\0\0\0\0\0\0\x01x\x04test\0\0\x01\0\x01";
    let answer = world.answer(server.to, ask);
    assert!(answer.starts_with(b"\x12\x34") && answer.ends_with(&[0, 4, 192, 0, 2, 1]), "{answer:?}");
    let output = server.stop();
    assert!(output.contains(" datagrams in, "), "{output}");
}

#[test]
fn iperf3_measures_datagrams_at_either_end() {
    let Some(world) = World::new("iperf3_measures_datagrams_at_either_end", "iperf3") else { return };
    // Slow enough that a socket's buffer holds the data while a busy machine does not run iperf3.
    let measure = ["-u", "-n", "2M", "-b", "20M", "-l", "1400", "-c"];
    let mut server = world.start("packet:gw0", 5201, &[], &["iperf3", "-s", "-1"]);
    let mut printed = String::new();
    world.until("iperf3 takes a client", || {
        let out = world.clients.command("iperf3").args(measure).arg(OURS).output().expect("iperf3 starts");
        printed = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
        out.status.success()
    });
    assert!(printed.contains("iperf Done"), "{printed}");
    let (code, output) = server.ended();
    assert_eq!(code, Some(0), "{output}");
    let count = |summary: &str, before: &str| -> u64 {
        let (head, _) = summary.split_once(before).unwrap_or_else(|| panic!("{before:?}: {summary}"));
        head.split([' ', '\n']).next_back().and_then(|word| word.parse().ok()).expect(summary)
    };
    // 2 MiB in pieces of 1400 bytes; a busy machine may lose some.
    assert!(count(&output, " datagrams in, ") > 1000, "{output}");
    let _iperf = world.clients.spawn(world.clients.command("iperf3").args(["-s", "-1"])).unwrap();
    world.until("iperf3 listens", || {
        let listening = world.clients.run("ss", &["-Htln", "sport = :5201"]);
        listening.is_ok_and(|text| !text.trim().is_empty())
    });
    let (printed, stderr) = world.client("packet:gw0", &[&["iperf3"][..], &measure, &[PEER]].concat());
    assert!(printed.contains("iperf Done"), "{printed}{stderr}");
    assert!(count(&stderr, " out; dropped") > 1000, "{stderr}");
}
