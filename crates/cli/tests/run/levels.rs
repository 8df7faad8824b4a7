//! A server in C that knows of us: `examples/levels.c`, against `greenwave.h`.

use super::*;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/levels.c");
const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../capi/include");
const PORT: u16 = 7000;

/// The example, built.
fn build(world: &World) -> String {
    let program = world.folder() + "/levels";
    let folder = library().parent().expect("a library is in a folder").display().to_string();
    let rpath = format!("-Wl,-rpath,{folder}");
    let flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-I", INCLUDE];
    let mut cc = Command::new("cc");
    cc.args(flags).args(["-o", &program, SOURCE, "-L", &folder, "-lgreenwave", &rpath]);
    let built = cc.output().expect("cc starts");
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    program
}

/// Sends a line; what is answered.
fn say(stream: &mut TcpStream, line: &str) -> String {
    writeln!(stream, "{line}").expect("the server reads");
    hear(stream)
}

fn hear(stream: &mut TcpStream) -> String {
    let mut answer = String::new();
    while !answer.ends_with('\n') {
        let mut bytes = [0; 256];
        let len = stream.read(&mut bytes).expect("the server answers");
        assert!(len > 0, "it ends with {answer:?}");
        answer.push_str(std::str::from_utf8(&bytes[..len]).expect("the answer is text"));
    }
    answer
}

/// Whether nothing that clients sent waits for its acknowledgement: then the
/// program has it.
fn all_has_come(world: &World) -> bool {
    let out = world.clients.command("ss").args(["-tnH", "state", "established"]).output().expect("ss starts");
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    assert!(!text.is_empty(), "there are connections");
    text.lines().all(|line| line.split_whitespace().nth(1) == Some("0"))
}

#[test]
fn a_server_in_c_has_rules_of_its_own_and_takes_the_most_urgent_first() {
    let test = "a_server_in_c_has_rules_of_its_own_and_takes_the_most_urgent_first";
    let Some(world) = World::new(test, "cc") else { return };
    let program = build(&world);
    let server = world.run("packet:gw0", PORT, &[&program, OURS, &PORT.to_string()]);
    let mut streams: Vec<TcpStream> = (0..4).map(|_| world.connect(&server)).collect();
    let first = say(&mut streams[0], "a question");
    assert!(first.contains("priority 6 lines 1 received 11 rtt known loss 0.00"), "{first}");
    let second = say(&mut streams[0], "urgent, and the same connection");
    assert!(second.contains("priority 0 lines 2 received 43"), "{second}");
    for stream in &mut streams[1..] {
        let said = say(stream, "hello");
        assert!(said.contains("priority 6 lines 1"), "each has bytes of its own: {said}");
    }
    // All of these wait when it looks again.
    let program = server.descendants()[0];
    kill_process(program, Signal::STOP).unwrap();
    for (n, stream) in streams.iter_mut().enumerate() {
        writeln!(stream, "{}", if n == 3 { "urgent" } else { "patient" }).unwrap();
    }
    world.until("all has come", || all_has_come(&world));
    kill_process(program, Signal::CONT).unwrap();
    let turn = |stream: &mut TcpStream| -> u32 {
        let said = hear(stream);
        let turn = said.strip_prefix("turn ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        turn.unwrap_or_else(|| panic!("{said}"))
    };
    let turns: Vec<u32> = streams.iter_mut().map(turn).collect();
    assert!(turns[..3].iter().all(|other| turns[3] < *other), "{turns:?}");
    server.stop();
}

#[test]
fn the_same_server_serves_on_the_kernels_tcp() {
    let Some(world) = World::new("the_same_server_serves_on_the_kernels_tcp", "cc") else { return };
    let program = build(&world);
    let mut command = world.ours.command(&program);
    let mut child = world.ours.spawn(command.args(["10.7.0.1", "7000"])).unwrap();
    let to = SocketAddr::from(([10, 7, 0, 1], PORT));
    let mut stream = None;
    world.until("it takes connections", || {
        stream = world.clients.enter(|| TcpStream::connect(to).ok());
        stream.is_some()
    });
    let said = say(stream.as_mut().expect("it is connected"), "urgent");
    assert!(said.contains("priority -1 lines 1 received 0 rtt unknown"), "{said}");
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    let _ = child.wait();
}
