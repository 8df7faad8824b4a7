//! SIGHUP and `control reload`: another policy for a running program.

//~ operations: SIGHUP reloads configuration and policy of `serve` and `run` without dropping a connection

use std::io::ErrorKind;

use super::servers::lighttpd;
use super::*;

/// Packets dropped by a policy are retransmitted, so the request is answered on the same connection
/// once another policy admits it. Before that, unchangeable settings and mistakes are refused.
#[test]
fn a_policy_is_read_again_and_connections_stay() {
    let test = "a_policy_is_read_again_and_connections_stay";
    let Some(world) = World::new(test, "lighttpd") else { return };
    world.write("open", "hello\n");
    let rule = "[[rule]]\nlayer = \"transport\"\nhttp = { path = \"/small\" }\ndrop = true\n";
    let policy = world.write("policy.toml", rule);
    let run_on = |device: &str| {
        let text = format!("[run]\ndevice = \"{device}\"\naddr = \"{OURS}/24\"\npolicy = \"{policy}\"\n");
        world.write("all.toml", &text)
    };
    let all = run_on("packet:gw0");
    let mut config = String::new();
    let words = ["--config", &all, "run", "--control", "web"];
    let server = world.start_as(&words, "packet:gw0", 80, &lighttpd(&world, &mut config));
    world.until("it takes connections", || world.clients.enter(|| TcpStream::connect(server.to).is_ok()));
    let mut stream = world.connect(&server);
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    assert!(ask(&mut stream, "/open").ends_with("hello\n"));
    request(&mut stream, "/small");

    let is_refused = |says: &str| {
        let (code, output) = world.control("reload");
        let line = output.lines().next().unwrap_or_default();
        assert!(code == Some(2) && line.starts_with(&format!("error: {says}")), "{output}");
        assert!(line.ends_with("; the previous settings stay in force"), "{output}");
    };
    run_on("tap:gw1");
    is_refused(&format!("{all}:2: device changed from packet:gw0 to tap:gw1, which needs a restart"));
    run_on("packet:gw0");
    world.write("policy.toml", "default = 5\npriority = 0\n");
    is_refused(&format!("{policy}:2: "));
    stream.set_nonblocking(true).unwrap();
    let end = stream.read(&mut [0]).map_err(|e| e.kind());
    assert_eq!(end, Err(ErrorKind::WouldBlock), "the rules of before hold");
    stream.set_nonblocking(false).unwrap();

    world.write("policy.toml", "default = 5\n");
    kill_process(server.pid(), Signal::HUP).unwrap();
    assert!(answer(&mut stream).ends_with("hello\n"));
    world.write("policy.toml", "default = 6\n");
    let done = format!("reloaded: policy {policy}\n");
    assert_eq!(world.control("reload"), (Some(0), done.clone()));
    assert!(ask(&mut stream, "/small").ends_with("hello\n"));
    let output = server.stop();
    assert_eq!(output.matches(&done).count(), 2, "{output}");
}
