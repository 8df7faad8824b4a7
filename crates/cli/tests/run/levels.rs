//! A C server that uses greenwave's API: `examples/levels.c`, against `greenwave.h`.

//~ programs: C and Python programs set rules, wait by priority and read path state through the C API

use super::*;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/levels.c");
const INCLUDE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../capi/include");
const PORT: u16 = 7000;

/// Builds the example.
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

/// Sends a line in one segment.
fn tell(stream: &mut TcpStream, line: &str) {
    stream.write_all(format!("{line}\n").as_bytes()).expect("the server reads");
}

/// Sends a line; returns the answer.
fn say(stream: &mut TcpStream, line: &str) -> String {
    tell(stream, line);
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

/// True if all data sent by clients is acknowledged: then the program has it.
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
        let answer = say(stream, "hello");
        assert!(answer.contains("priority 6 lines 1"), "each has bytes of its own: {answer}");
    }
    // All of these are queued when it polls again.
    let program = server.descendants()[0];
    kill_process(program, Signal::STOP).unwrap();
    let stat = format!("/proc/{}/stat", program.as_raw_nonzero());
    world.until("it is stopped", || std::fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T ")));
    for (n, stream) in streams.iter_mut().enumerate() {
        tell(stream, if n == 3 { "urgent" } else { "patient" });
    }
    world.until("all has come", || all_has_come(&world));
    kill_process(program, Signal::CONT).unwrap();
    let turn = |stream: &mut TcpStream| -> u32 {
        let answer = hear(stream);
        let turn = answer.strip_prefix("turn ").and_then(|rest| rest.split(' ').next()?.parse().ok());
        turn.unwrap_or_else(|| panic!("{answer}"))
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
    let answer = say(stream.as_mut().expect("it is connected"), "urgent");
    assert!(answer.contains("priority -1 lines 1 received 0 rtt unknown"), "{answer}");
    kill_process(Pid::from_child(&child), Signal::KILL).unwrap();
    let _ = child.wait();
}

/// Accepts two connections, and waits for urgent data while the other one has data that is not.
const PROGRAM: &str = r#"
import ctypes, errno, select, socket, time
api = ctypes.CDLL(None, use_errno=True)
class Event(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_uint32), ("priority", ctypes.c_int)]
class Flow(ctypes.Structure):
    _fields_ = [("rtt_ns", ctypes.c_uint64), ("received", ctypes.c_uint64),
                ("sent", ctypes.c_uint64), ("loss", ctypes.c_float)]
RULES = b"""default = 6
[message]
end = "\\n"
[[rule]]
name = "urgent"
layer = "transport"
message = { equals = "urgent" }
priority = 0
"""
listener = socket.socket()
listener.bind(("ADDRESS", 7000))
fd, why = listener.fileno(), ctypes.create_string_buffer(200)
assert (api.greenwave_owns(fd), api.greenwave_owns(0)) == (1, 0)
assert api.greenwave_classify(fd, RULES.replace(b"= 6", b"= 8"), why, 200) == -1
assert ctypes.get_errno() == errno.EINVAL and b"default 8" in why.value, why.value
assert api.greenwave_classify(fd, RULES, None, 0) == 0
listener.listen()
assert api.greenwave_classify(fd, RULES, None, 0) == -1 and ctypes.get_errno() == errno.EISCONN
watched, events = select.epoll(), (Event * 8)()
def wait(timeout, levels):
    count = api.greenwave_wait(watched.fileno(), events, 8, timeout, levels)
    assert count >= 0, ctypes.get_errno()
    return [(event.fd, event.priority) for event in events[:count]]
(first, _), (second, _) = listener.accept(), listener.accept()
one = first.fileno()
for connection in first, second:
    assert api.greenwave_owns(connection.fileno()) == 2
    assert api.greenwave_watch(watched.fileno(), connection.fileno(), select.EPOLLIN) == 0
assert wait(20000, 0xff) == [(one, 6)]
assert wait(0, 1) == [], "nothing is urgent"
assert wait(0, 0xff) == [(one, 6)], "what was passed over is still there"
second.sendall(b"now\n")
assert wait(20000, 1) == [(one, 0)], "it has become urgent meanwhile"
flow = Flow()
assert api.greenwave_flow(one, ctypes.byref(flow)) == 0
assert (flow.rtt_ns > 0, flow.received, flow.loss) == (True, 15, 0), (flow.rtt_ns, flow.received)
assert api.greenwave_set_priority(one, 3) == 0
while api.greenwave_priority(one) != 3:
    time.sleep(0.001)
own = bytes(range(48))
assert api.greenwave_private_write(one, own) == 0
read = ctypes.create_string_buffer(48)
while read.raw != own:
    assert api.greenwave_private_read(one, read) == 0
assert api.greenwave_priority(0) == -1 and ctypes.get_errno() == errno.ENOTSOCK
first.sendall(b"done\n")
first.recv(100)
first.recv(100)
"#;

#[test]
fn a_program_waits_for_what_is_urgent_and_reads_what_the_stack_knows() {
    let test = "a_program_waits_for_what_is_urgent_and_reads_what_the_stack_knows";
    let Some(world) = World::new(test, "python3") else { return };
    let program = world.write("waits.py", PROGRAM);
    let mut server = world.start("packet:gw0", PORT, &[], &["python3", &program]);
    let mut streams = Vec::new();
    world.until("it listens", || {
        streams.extend(world.clients.enter(|| TcpStream::connect(server.to)));
        !streams.is_empty()
    });
    streams.push(world.connect(&server));
    tell(&mut streams[0], "patient");
    assert_eq!(hear(&mut streams[1]), "now\n");
    tell(&mut streams[0], "urgent");
    assert_eq!(hear(&mut streams[0]), "done\n");
    drop(streams);
    let (code, output) = server.ended();
    assert_eq!(code, Some(0), "{output}");
}
