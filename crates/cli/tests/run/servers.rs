//! Each server behaves on our stack as on the kernel's.

//~ programs: lighttpd, nginx, redis, memcached, Apache and Python servers serve clients in another namespace

use std::net::TcpListener;

use super::*;

const LIGHTTPD: &str = "server.document-root = \"FOLDER\"\nserver.bind = \"ADDRESS\"\nserver.port = 80\n\
    server.errorlog = \"FOLDER/error.log\"\nserver.max-keep-alive-requests = 1000\n";
const NGINX: &str = "daemon off;\nmaster_process MASTER;\nworker_processes 1;\nuser root;\npid FOLDER/pid;\n\
    error_log FOLDER/error.log;\nevents { worker_connections 512; }\nhttp {\n  access_log off;\n\
    client_body_temp_path FOLDER/t1; proxy_temp_path FOLDER/t2; fastcgi_temp_path FOLDER/t3;\n\
    uwsgi_temp_path FOLDER/t4; scgi_temp_path FOLDER/t5;\n  server { listen LISTEN; root FOLDER; }\n}\n";

pub(super) fn lighttpd<'a>(world: &World, config: &'a mut String) -> [&'a str; 4] {
    *config = world.write("lighttpd.conf", LIGHTTPD);
    ["lighttpd", "-D", "-f", config]
}

pub(super) fn nginx<'a>(world: &World, master: bool, listen: &str, config: &'a mut String) -> [&'a str; 5] {
    let master = if master { "on" } else { "off" };
    let text = NGINX.replace("MASTER", master).replace("LISTEN", listen);
    *config = world.write("nginx.conf", &text);
    ["nginx", "-e", "stderr", "-c", config]
}

#[test]
fn lighttpd_serves() {
    let Some(world) = World::new("lighttpd_serves", "lighttpd") else { return };
    for device in ["packet:gw0", "xdp:gw0"] {
        let mut config = String::new();
        let server = world.run(device, 80, &lighttpd(&world, &mut config));
        world.files_arrive(&server);
        world.connections_are_kept(&server);
        let output = server.stop();
        assert!(output.contains(" connections, 0 reset"), "{output}");
        assert!(!output.contains("refused: 1 no listener"), "{output}");
    }
}

#[test]
fn nginx_serves_alone_and_with_a_worker() {
    let Some(world) = World::new("nginx_serves_alone_and_with_a_worker", "nginx") else { return };
    for (master, listen) in [(false, "ADDRESS:80"), (true, "ADDRESS:80"), (true, "80 reuseport")] {
        let mut config = String::new();
        let server = world.run("packet:gw0", 80, &nginx(&world, master, listen, &mut config));
        world.files_arrive(&server);
        world.connections_are_kept(&server);
        server.stop();
    }
}

#[test]
fn redis_serves() {
    let Some(world) = World::new("redis_serves", "redis-server") else { return };
    let folder = world.folder();
    let program = ["redis-server", "--bind", OURS, "--port", "6379", "--save", "", "--dir", &folder];
    let program = [&program[..], &["--protected-mode", "no"]].concat();
    let server = world.run("packet:gw0", 6379, &program);
    let mut stream = world.connect(&server);
    let value = noise(1_000_000).iter().map(|byte| b'a' + byte % 26).collect::<Vec<u8>>();
    write!(stream, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n${}\r\n", value.len()).unwrap();
    stream.write_all(&[&value[..], b"\r\n"].concat()).unwrap();
    let mut answer = [0; 5];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"+OK\r\n");
    let others: Vec<TcpStream> = (0..50).map(|_| world.connect(&server)).collect();
    for mut other in others {
        other.write_all(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n").unwrap();
        let expected = [format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat();
        let mut got = vec![0; expected.len()];
        other.read_exact(&mut got).unwrap();
        assert!(got == expected, "a million bytes come back");
    }
    // Redis reports each client's address.
    stream.write_all(b"CLIENT LIST\r\n").unwrap();
    let mut bytes = [0; 4096];
    let len = stream.read(&mut bytes).unwrap();
    let list = String::from_utf8_lossy(&bytes[..len]);
    let this = stream.local_addr().unwrap();
    assert!(list.contains(&format!("addr={this} laddr={OURS}:6379")), "{list}");
    server.stop();
}

#[test]
fn python_serves_with_sockets_that_block() {
    let Some(world) = World::new("python_serves_with_sockets_that_block", "python3") else { return };
    let folder = world.folder();
    for bind in [OURS, "0.0.0.0"] {
        let program = ["python3", "-m", "http.server", "80", "--bind", bind, "--directory", &folder];
        let server = world.run("packet:gw0", 80, &program);
        world.files_arrive(&server);
        server.stop();
    }
}

//~ programs: a server on all addresses is reached through the kernel's addresses too
#[test]
fn a_server_on_all_addresses_is_reached_by_the_kernels_too() {
    let test = "a_server_on_all_addresses_is_reached_by_the_kernels_too";
    let Some(world) = World::new(test, "python3") else { return };
    let folder = world.folder();
    let get = |to: &str| {
        let mut stream = world.ours.enter(|| TcpStream::connect(to)).ok()?;
        stream.write_all(b"GET /small HTTP/1.0\r\n\r\n").ok()?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).ok()?;
        Some(answer)
    };
    let is_served = |to: &str| get(to).is_some_and(|answer| answer.ends_with("\r\n\r\nhello\n"));
    for (bind, local) in [("0.0.0.0", "127.0.0.1:80"), ("::", "[::1]:80"), ("::", "127.0.0.1:80")] {
        let program = ["python3", "-m", "http.server", "80", "--bind", bind, "--directory", &folder];
        let server = world.run("packet:gw0", 80, &program);
        assert!(is_served(local), "{local} of {bind}");
        assert_eq!(world.get(&server, "/small"), b"hello\n", "ours, too");
        assert!(is_served("10.7.0.1:80"), "any of them");
        let output = server.stop();
        assert!(!output.lines().any(|line| line.starts_with("refused: ")), "{output}");
        assert!(get(local).is_none(), "it is gone with the server");
    }
    let _other = world.ours.enter(|| TcpListener::bind("127.0.0.1:80")).unwrap();
    let program = ["python3", "-m", "http.server", "80", "--directory", &folder];
    let server = world.run("packet:gw0", 80, &program);
    assert_eq!(world.get(&server, "/small"), b"hello\n", "ours is served");
    let output = server.stop();
    assert!(
        output.contains("refused: port 80 of the kernel's addresses: Address already in use, 1×"),
        "{output}"
    );
}

/// Number of concurrent connections, at most as many as a test may hold.
const MANY: usize = 1000;

#[test]
fn memcached_serves_many_connections_with_threads() {
    let test = "memcached_serves_many_connections_with_threads";
    let Some(world) = World::new(test, "memcached") else { return };
    let program = ["memcached", "-u", "root", "-l", OURS, "-p", "11211", "-U", "0", "-t", "4", "-c", "2000"];
    let server = world.run("packet:gw0", 11_211, &program);
    let mut first = world.connect(&server);
    let value = noise(100_000);
    write!(first, "set k 0 0 {}\r\n", value.len()).unwrap();
    first.write_all(&[&value[..], b"\r\n"].concat()).unwrap();
    let mut answer = [0; 8];
    first.read_exact(&mut answer).unwrap();
    assert_eq!(&answer, b"STORED\r\n");
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let many = limit.current.map_or(MANY, |most| MANY.min(most as usize - 100));
    let mut others: Vec<TcpStream> = (0..many).map(|_| world.connect(&server)).collect();
    let expected = [b"VALUE k 0 100000\r\n", &value[..], b"\r\nEND\r\n"].concat();
    for (n, other) in others.iter_mut().enumerate() {
        other.write_all(b"get k\r\n").unwrap();
        // All are open; some send requests at once.
        if n % 50 == 0 {
            let mut got = vec![0; expected.len()];
            other.read_exact(&mut got).unwrap();
            assert!(got == expected, "connection {n}");
        }
    }
    first.write_all(b"stats\r\n").unwrap();
    let mut stats = String::new();
    let mut lines = BufReader::new(&mut first);
    while !stats.ends_with("END\r\n") {
        assert!(lines.read_line(&mut stats).unwrap() > 0);
    }
    assert!(stats.contains("STAT threads 4"), "{stats}");
    server.stop();
}

const APACHE: &str = "ServerRoot FOLDER\nServerName a\nPidFile FOLDER/pid\nListen ADDRESS:80\nUser www-data\n\
    Group www-data\nLoadModule mpm_event_module MODULES/mod_mpm_event.so\nErrorLog FOLDER/error.log\n\
    LoadModule authz_core_module MODULES/mod_authz_core.so\nDocumentRoot FOLDER\nDefaultRuntimeDir FOLDER\n\
    StartServers 2\nServerLimit 2\nThreadsPerChild 8\nMaxRequestWorkers 16\nMaxSpareThreads 16\n\
    MinSpareThreads 1\n<Directory FOLDER>\nRequire all granted\n</Directory>\n";
const APACHE_MODULES: &str = "/usr/lib/apache2/modules";

#[test]
fn apache_serves_with_threads_that_wait_for_events() {
    let test = "apache_serves_with_threads_that_wait_for_events";
    let Some(world) = World::new(test, "apache2") else { return };
    if !Path::new(APACHE_MODULES).exists() {
        return skipped(test, "Apache's modules are not where Debian has them");
    }
    // Its workers are not root.
    if !world.folder.ancestors().all(may_be_entered) {
        return skipped(test, "the folder of the tests is not for everybody to enter");
    }
    let config = world.write("apache.conf", &APACHE.replace("MODULES", APACHE_MODULES));
    let server = world.run("packet:gw0", 80, &["apache2", "-DFOREGROUND", "-f", &config]);
    world.files_arrive(&server);
    world.connections_are_kept(&server);
    server.stop();
}

/// True if any user may read a folder's files.
pub(super) fn may_be_entered(folder: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    folder.metadata().is_ok_and(|of| of.permissions().mode() & 1 == 1)
}

//~ programs: connections inherit their listener's options; a server without descriptors waits for one
#[test]
fn listeners_pass_on_their_options_and_wait_for_descriptors() {
    let test = "listeners_pass_on_their_options_and_wait_for_descriptors";
    let Some(world) = World::new(test, "python3") else { return };
    let script = world.write("serving.py", include_str!("serving.py"));
    let mut server = world.start("packet:gw0", 7001, &[], &["python3", &script, OURS]);
    let mut stream = None;
    world.until("it listens", || {
        stream = world.clients.enter(|| TcpStream::connect(server.to).ok());
        stream.is_some()
    });
    let mut stream = stream.expect("it is connected");
    stream.write_all(b"hi").unwrap();
    let mut answer = [0; 8];
    let end = [stream.read(&mut answer), stream.read(&mut answer)];
    assert!(matches!(end, [Ok(2), Err(_)] | [Err(_), _]), "a linger time of zero resets: {end:?}");
    server.to.set_port(7002);
    let mut kept = Vec::new();
    world.until("it listens", || {
        world.clients.enter(|| TcpStream::connect(server.to)).map(|s| kept.push(s)).is_ok()
    });
    (0..40).for_each(|_| kept.push(world.connect(&server)));
    kept.iter_mut().for_each(|stream| stream.write_all(b"first").unwrap());
    kept.push(world.connect(&server));
    kept.last_mut().unwrap().write_all(b"last").unwrap();
    for (n, stream) in kept.iter_mut().enumerate() {
        let mut answer = [0; 5];
        stream.set_nonblocking(false).unwrap();
        stream.read_exact(&mut answer).unwrap_or_else(|e| panic!("connection {n} is served, not {e}"));
        assert_eq!(&answer, b"hello");
    }
    server.to.set_port(7003);
    world.until("it listens", || world.clients.enter(|| TcpStream::connect(server.to).is_ok()));
    let mut streams: Vec<TcpStream> = (0..100).map(|_| world.connect(&server)).collect();
    for (n, stream) in streams.iter_mut().enumerate() {
        writeln!(stream, "line {n}").unwrap();
    }
    for (n, stream) in streams.iter_mut().enumerate() {
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        assert_eq!(line, format!("line {n}\n"));
    }
    streams.truncate(1);
    streams[0].write_all(b"over\n").unwrap();
    let (code, output) = server.ended();
    assert_eq!(code, Some(0), "{output}");
}

//~ programs: TCP_FASTOPEN of a listener delivers the request with the SYN
#[test]
fn a_request_comes_with_the_syn_where_the_server_has_asked_for_that() {
    let test = "a_request_comes_with_the_syn_where_the_server_has_asked_for_that";
    let Some(world) = World::new(test, "python3") else { return };
    let script = world.write("fast_open.py", include_str!("fast_open.py"));
    for when in ["before", "bound", "listening"] {
        let server = world.run("packet:gw0", 80, &["python3", &script, OURS, when]);
        let mut client = Command::new("python3");
        client.args([&script, OURS]);
        let out = world.clients.enter(|| client.output()).unwrap();
        let printed = String::from_utf8(out.stdout).unwrap() + &String::from_utf8(out.stderr).unwrap();
        // The first connection gets a cookie.
        assert_eq!(printed, "hello, it came later\nhello, it came with the SYN\n", "{when}");
        let output = server.stop();
        assert!(!output.lines().any(|line| line.starts_with("refused: ")), "{when}: {output}");
    }
}

#[test]
fn the_kernels_end_of_a_tap_device_is_served() {
    let test = "the_kernels_end_of_a_tap_device_is_served";
    let Some(mut world) = World::new(test, "lighttpd") else { return };
    if !Path::new("/dev/net/tun").exists() {
        return skipped(test, "this kernel offers no TAP devices");
    }
    // The kernel's end is in the server's namespace.
    world.ours = NetLab::new("run").unwrap().namespace("tap").unwrap();
    world.clients = world.ours.clone();
    let mut config = String::new();
    let server = world.run("tap:gwr0", 80, &lighttpd(&world, &mut config));
    world.files_arrive(&server);
    server.stop();
}

/// A proxy whose connection to the next service is kept; `greenwave run` records its packets.
const PROXY: &str = "daemon off;\nmaster_process off;\nuser root;\npid FOLDER/pid;\nerror_log FOLDER/error.log;\n\
    events { worker_connections 512; }\nhttp {\n  access_log off;\n\
    client_body_temp_path FOLDER/t1; proxy_temp_path FOLDER/t2; fastcgi_temp_path FOLDER/t3;\n\
    uwsgi_temp_path FOLDER/t4; scgi_temp_path FOLDER/t5;\n  upstream next { server NEXT; keepalive 1; }\n\
    server { listen ADDRESS:80; location / { proxy_pass http://next; proxy_http_version 1.1;\n\
    proxy_set_header Connection \"\"; } }\n}\n";
const LEVELS: &str = "default = 4\n\
    [[rule]]\nlayer = \"transport\"\nhttp = { path = \"/pay\" }\npriority = 0\n\
    [[rule]]\nlayer = \"transport\"\nhttp = { path = \"/bulk\" }\npriority = 7\n";

/// First bytes and DSCP of the TCP segments to `port` with payload, and of SYNs, in a capture over
/// IPv4.
fn segments(capture: &[u8], port: u16) -> Vec<(String, u8)> {
    let (mut at, mut found) = (24, Vec::new());
    while let Some(head) = capture.get(at..at + 16) {
        let len = u32::from_le_bytes(head[8..12].try_into().expect("four bytes")) as usize;
        let ip = &capture[at + 16 + 14..at + 16 + len];
        at += 16 + len;
        if ip.len() < 40 || ip[0] != 0x45 || ip[9] != 6 || ip[22..24] != port.to_be_bytes() {
            continue;
        }
        let end = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        let payload = &ip[20 + usize::from(ip[32] >> 4) * 4..end];
        if ip[33] & 2 != 0 || !payload.is_empty() {
            let line = payload.split(|byte| *byte == b'\r').next().unwrap_or_default();
            found.push((String::from_utf8_lossy(line).into_owned(), ip[1] >> 2));
        }
    }
    found
}

//~ programs: under nginx as a proxy each upstream request leaves with its own level, and so does the SYN
#[test]
fn a_proxys_upstream_requests_have_their_own_levels() {
    let test = "a_proxys_upstream_requests_have_their_own_levels";
    let Some(world) = World::new(test, "nginx") else { return };
    let next = world.clients.enter(|| TcpListener::bind((PEER, 8080)).unwrap());
    let served = std::thread::spawn(move || {
        let (mut stream, _) = next.accept().expect("the proxy connects");
        let mut bytes = [0; 4096];
        while let Ok(1..) = stream.read(&mut bytes) {
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhello\n").expect("it reads");
        }
    });
    let config = world.write("nginx.conf", &PROXY.replace("NEXT", &format!("{PEER}:8080")));
    let (policy, capture) = (world.write("policy.toml", LEVELS), world.folder() + "/frames.pcap");
    let options = ["--policy", &policy, "--pcap", &capture];
    let server = world.start("packet:gw0", 80, &options, &["nginx", "-e", "stderr", "-c", &config]);
    world.until("it serves", || world.clients.enter(|| TcpStream::connect(server.to).is_ok()));
    let mut stream = world.connect(&server);
    for path in ["/bulk", "/pay", "/other", "/pay", "/bulk"] {
        ask(&mut stream, path);
    }
    server.stop();
    served.join().expect("one connection serves them all");
    let found = segments(&std::fs::read(&capture).expect("there is a capture"), 8080);
    let found: Vec<(&str, u8)> = found.iter().map(|(line, dscp)| (line.as_str(), *dscp)).collect();
    let get = |path: &str| format!("GET {path} HTTP/1.1");
    let [pay, bulk, other] = ["/pay", "/bulk", "/other"].map(get);
    let expected = [("", 18), (&*bulk, 0), (&*pay, 32), (&*other, 18), (&*pay, 32), (&*bulk, 0)];
    assert_eq!(found, expected);
}
