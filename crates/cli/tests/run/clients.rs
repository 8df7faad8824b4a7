//! Programs that open connections from our stack to servers on the kernel's.

use std::net::TcpListener;

use super::servers::lighttpd;
use super::*;

/// An echo peer, until this process ends.
pub(super) fn echo(world: &World) {
    let listener = world.clients.enter(|| TcpListener::bind("[::]:8080").unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            std::thread::spawn(move || {
                let mut bytes = [0; 65_536];
                // A client that resets needs no more.
                while let Ok(len @ 1..) = stream.read(&mut bytes) {
                    if stream.write_all(&bytes[..len]).is_err() {
                        return;
                    }
                }
            });
        }
    });
}

//~ programs: `connect` works blocking, non-blocking, refused, bound, repeated and from threads, as does MSG_FASTOPEN
#[test]
fn python_connects_in_every_way() {
    let Some(world) = World::new("python_connects_in_every_way", "python3") else { return };
    echo(&world);
    let script = world.python("clients.py", include_str!("clients.py"));
    let (printed, stderr) = world.client("packet:gw0", &["python3", &script, OURS, PEER]);
    assert!(printed.ends_with("all\n"), "{printed}\n{stderr}");
    assert!(stderr.contains(" outgoing connections, "), "{stderr}");
}

//~ programs: `getifaddrs` lists the stack's addresses first
#[test]
fn a_program_finds_the_stacks_addresses() {
    let Some(world) = World::new("a_program_finds_the_stacks_addresses", "python3") else { return };
    let script = world.write("interfaces.py", include_str!("interfaces.py"));
    let (printed, stderr) = world.client("packet:gw0", &["python3", &script]);
    let found: Vec<&str> = printed.lines().collect();
    assert_eq!(found.first(), Some(&"gw0 10.7.0.2 255.255.255.0 10.7.0.255"), "{printed}{stderr}");
    assert!(found.contains(&"lo 127.0.0.1 255.0.0.0"), "and the kernel's: {printed}");
}

//~ programs: curl and iperf3 work as clients
#[test]
fn curl_and_iperf3_are_clients() {
    let Some(world) = World::new("curl_and_iperf3_are_clients", "lighttpd") else { return };
    let mut config = String::new();
    // On the kernel's TCP, at the clients' end.
    lighttpd(&world, &mut config);
    let text = std::fs::read_to_string(&config).unwrap().replace(OURS, PEER);
    std::fs::write(&config, text).unwrap();
    let _server = world.clients.spawn(world.clients.command("lighttpd").args(["-D", "-f", &config])).unwrap();
    let to = SocketAddr::new(PEER.parse().unwrap(), 80);
    world.until("it serves", || world.clients.enter(|| TcpStream::connect(to).is_ok()));
    let got = world.folder.join("got");
    let url = format!("http://{to}/big");
    let curl = ["curl", "--silent", "--show-error", "--fail", "--max-time", "30", "--output"];
    let (_, stderr) = world.client("packet:gw0", &[&curl[..], &[got.to_str().unwrap(), &url]].concat());
    assert!(std::fs::read(&got).unwrap() == noise(BIG), "3 MB arrive as they are; {stderr}");
    assert!(stderr.contains("\n1 outgoing connections, 0 failed"), "{stderr}");
    if !netlab::is_installed("iperf3") {
        return skipped("curl_and_iperf3_are_clients", "its part with iperf3: it is not there");
    }
    let _iperf = world.clients.spawn(world.clients.command("iperf3").args(["-s", "-1"])).unwrap();
    let to = SocketAddr::new(PEER.parse().unwrap(), 5201);
    let listens = || {
        let listening = world.clients.run("ss", &["-Htln", "sport = :5201"]);
        listening.is_ok_and(|text| !text.trim().is_empty())
    };
    world.until("iperf3 listens", listens);
    let (printed, stderr) = world.client("packet:gw0", &["iperf3", "-c", PEER, "-n", "4M"]);
    assert!(printed.contains("iperf Done"), "{to}: {printed}{stderr}");
}
