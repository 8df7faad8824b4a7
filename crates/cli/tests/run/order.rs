//! Programs get connections and datagram sockets from epoll in the order of labels.

//~ programs: `epoll_wait` returns connections and datagram sockets in the order of their labels

use super::*;

/// Accepts ten connections, waits until each has data, and answers each with its position and its
/// level; the first also with the result of reading back its private bytes.
const PROGRAM: &str = r#"
import array, fcntl, select, socket, sys, termios, time
SOL_GREENWAVE, PRIORITY, PRIVATE = 0x6777, 1, 2
listener = socket.create_server(("ADDRESS", 80))
watched, connections = select.epoll(), {}
while len(connections) < 10:
    connection, _ = listener.accept()
    watched.register(connection, select.EPOLLIN | getattr(select, sys.argv[1], 0))
    connections[connection.fileno()] = connection
def waiting(connection):
    count = array.array("i", [0])
    fcntl.ioctl(connection, termios.FIONREAD, count)
    return count[0]
while not all(waiting(connection) for connection in connections.values()):
    time.sleep(0.001)
first = next(iter(connections.values()))
own = bytes(range(48))
first.setsockopt(SOL_GREENWAVE, PRIVATE, own)
while first.getsockopt(SOL_GREENWAVE, PRIVATE, 48) != own:
    time.sleep(0.001)
turn = 0
while turn < 10:
    for fd, _ in watched.poll():
        connection = connections[fd]
        connection.recv(1000)
        level = connection.getsockopt(SOL_GREENWAVE, PRIORITY)
        connection.sendall(b"%d %d\n" % (turn, level))
        watched.unregister(fd)
        turn += 1
for connection in connections.values():
    connection.recv(1000)
"#;

const POLICY: &str = "default = 5\n[[rule]]\nname = \"fast\"\nlayer = \"driver\"\nport = 80\n\
    http = { path = \"/fast\" }\npriority = 1\n";

#[test]
fn epoll_returns_the_most_urgent_first() {
    let Some(world) = World::new("epoll_returns_the_most_urgent_first", "python3") else { return };
    let (program, policy) = (world.write("order.py", PROGRAM), world.write("policy.toml", POLICY));
    for kind in ["EPOLLIN", "EPOLLET"] {
        let program = ["python3", &program, kind];
        let server = world.start("packet:gw0", 80, &["--policy", &policy], &program);
        let mut streams = Vec::new();
        world.until("it listens", || {
            streams.extend(world.clients.enter(|| TcpStream::connect(server.to)));
            !streams.is_empty()
        });
        streams[0].set_read_timeout(Some(LIMIT)).unwrap();
        streams.extend((1..9).map(|_| world.connect(&server)));
        let ask = |stream: &mut TcpStream, path| {
            // In one segment: the policy sees a single frame.
            let request = format!("GET /{path} HTTP/1.1\r\nHost: a\r\n\r\n");
            stream.write_all(request.as_bytes()).unwrap();
        };
        streams[..7].iter_mut().for_each(|stream| ask(stream, "slow"));
        // Once this is open, those have been handed over: the kernel has them first in its list.
        streams.push(world.connect(&server));
        streams[7..].iter_mut().for_each(|stream| ask(stream, "fast"));
        let answers = streams.iter().map(|stream| {
            let mut line = String::new();
            BufReader::new(stream).read_line(&mut line).unwrap();
            let (turn, level) = line.trim().split_once(' ').expect(&line);
            (turn.parse().unwrap(), level.parse().unwrap())
        });
        let answers: Vec<(usize, u8)> = answers.collect();
        let levels: Vec<u8> = answers.iter().map(|(_, level)| *level).collect();
        assert_eq!(levels, [5, 5, 5, 5, 5, 5, 5, 1, 1, 1], "{kind}");
        let turns: Vec<usize> = answers.iter().map(|(turn, _)| *turn).collect();
        assert_eq!(turns, [3, 4, 5, 6, 7, 8, 9, 0, 1, 2], "{kind}");
    }
}

/// Binds six datagram sockets, reports when the first four and when all have data, and the order in
/// which epoll returns them.
const DATAGRAMS: &str = r#"
import array, fcntl, select, socket, sys, termios, time
watched, ports = select.epoll(), {}
for port in range(7001, 7007):
    box = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    box.bind(("ADDRESS", port))
    watched.register(box, select.EPOLLIN | getattr(select, sys.argv[1], 0))
    ports[box.fileno()] = (box, port)
client, _ = socket.create_server(("ADDRESS", 80)).accept()
def wait_for(boxes):
    count = array.array("i", [0])
    for box, _ in boxes:
        count[0] = 0
        while not count[0]:
            time.sleep(0.001)
            fcntl.ioctl(box, termios.FIONREAD, count)
wait_for(list(ports.values())[:4])
client.sendall(b"more\n")
wait_for(ports.values())
told = []
while len(told) < 6:
    for fd, _ in watched.poll():
        box, port = ports[fd]
        box.recv(1000)
        watched.unregister(fd)
        told.append(port)
client.sendall(b"%s\n" % b" ".join(b"%d" % port for port in told))
client.recv(1)
"#;

const BY_PORT: &str = "default = 5\n[[rule]]\nname = \"fast\"\nlayer = \"driver\"\nport = 7006\npriority = 1\n\
    [[rule]]\nname = \"next\"\nlayer = \"driver\"\nport = 7005\npriority = 2\n";

#[test]
fn epoll_returns_the_most_urgent_datagrams_first() {
    let Some(world) = World::new("epoll_returns_the_most_urgent_datagrams_first", "python3") else { return };
    let (program, policy) = (world.write("datagrams.py", DATAGRAMS), world.write("policy.toml", BY_PORT));
    for kind in ["EPOLLIN", "EPOLLET"] {
        let server = world.start("packet:gw0", 80, &["--policy", &policy], &["python3", &program, kind]);
        let mut stream = None;
        world.until("it listens", || {
            stream = world.clients.enter(|| TcpStream::connect(server.to)).ok();
            stream.is_some()
        });
        let stream = stream.expect("it listens");
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        let mut reader = BufReader::new(&stream);
        let mut line = || {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            line
        };
        let socket = world.clients.enter(|| std::net::UdpSocket::bind("10.7.0.9:0")).unwrap();
        let send = |port| assert_eq!(socket.send_to(b"x", (OURS, port)).unwrap(), 1);
        (7001..7005).for_each(send);
        // The kernel has those first in its list.
        assert_eq!(line(), "more\n");
        (7005..7007).for_each(send);
        assert_eq!(line(), "7006 7005 7001 7002 7003 7004\n", "{kind}");
    }
}

/// Reports each connection's type of service by getsockopt, before any data has arrived on it.
const SERVICE: &str = r#"
import socket
listener = socket.create_server(("ADDRESS", 80))
while True:
    connection, _ = listener.accept()
    connection.sendall(b"%d\n" % connection.getsockopt(socket.IPPROTO_IP, socket.IP_TOS))
    connection.close()
"#;

const BY_DSCP: &str = "[[rule]]\nname = \"expedited\"\nlayer = \"driver\"\ndscp = 46\npriority = 0\n\
    [[rule]]\nname = \"assured\"\nlayer = \"driver\"\ndscp = 10\npriority = 6\n";

#[test]
fn a_connection_is_as_urgent_as_its_first_packets() {
    let Some(world) = World::new("a_connection_is_as_urgent_as_its_first_packets", "python3") else { return };
    let (program, policy) = (world.write("service.py", SERVICE), world.write("dscp.toml", BY_DSCP));
    let server = world.start("packet:gw0", 80, &["--policy", &policy], &["python3", &program]);
    world.until("it listens", || world.clients.enter(|| TcpStream::connect(server.to)).is_ok());
    // Type of service of packets of levels 0, 6 and 7.
    for (dscp, expected) in [(0, 0), (10, 10), (46, 32), (0, 0), (10, 10)] {
        let stream = world.clients.enter(|| {
            use rustix::net::{AddressFamily, SocketType, connect, socket, sockopt::set_ip_tos};
            let socket = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
            set_ip_tos(&socket, dscp << 2).unwrap();
            connect(&socket, &server.to).unwrap();
            TcpStream::from(socket)
        });
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert_eq!(line, format!("{}\n", expected << 2), "for packets of DSCP {dscp}");
    }
    server.stop();
}
