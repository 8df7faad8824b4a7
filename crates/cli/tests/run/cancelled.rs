//! C programs whose threads are cancelled while they wait for sockets on the stack.

use super::*;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/run/cancelled.c");
const PORT: u16 = 7000;

#[test]
fn a_thread_that_waits_for_a_socket_of_ours_can_be_cancelled() {
    let test = "a_thread_that_waits_for_a_socket_of_ours_can_be_cancelled";
    let Some(world) = World::new(test, "cc") else { return };
    let program = world.folder() + "/cancelled";
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-pthread", "-o", &program, SOURCE]);
    let built = cc.output().expect("cc starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let mut server = world.start("packet:gw0", PORT, &[], &[&program, OURS, &PORT.to_string()]);
    let mut stream = None;
    world.until("it listens", || {
        stream = world.clients.enter(|| TcpStream::connect(server.to)).ok();
        stream.is_some()
    });
    let (code, output) = server.ended();
    assert_eq!(code, Some(0), "{output}");
}
