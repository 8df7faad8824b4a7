//! Each server does on our stack what it does on the kernel's.

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
        let said = server.stop();
        assert!(said.contains(" connections, 0 reset"), "{said}");
        assert!(!said.contains("not taken: nobody listened 1"), "{said}");
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
    let mut said = [0; 5];
    stream.read_exact(&mut said).unwrap();
    assert_eq!(&said, b"+OK\r\n");
    let others: Vec<TcpStream> = (0..50).map(|_| world.connect(&server)).collect();
    for mut other in others {
        other.write_all(b"*2\r\n$3\r\nGET\r\n$1\r\nk\r\n").unwrap();
        let expected = [format!("${}\r\n", value.len()).as_bytes(), &value, b"\r\n"].concat();
        let mut got = vec![0; expected.len()];
        other.read_exact(&mut got).unwrap();
        assert!(got == expected, "a million bytes come back");
    }
    // Redis asks for each client's address.
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

#[test]
fn the_kernels_end_of_a_tap_device_is_served() {
    let test = "the_kernels_end_of_a_tap_device_is_served";
    let Some(mut world) = World::new(test, "lighttpd") else { return };
    if !Path::new("/dev/net/tun").exists() {
        return skipped(test, "this kernel offers no TAP devices");
    }
    // Its kernel's end is in the namespace of the server.
    world.ours = Lab::new("run").unwrap().namespace("tap").unwrap();
    world.clients = world.ours.clone();
    let mut config = String::new();
    let server = world.run("tap:gwr0", 80, &lighttpd(&world, &mut config));
    world.files_arrive(&server);
    server.stop();
}
