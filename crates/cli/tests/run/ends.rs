//! Ends of servers, clients and the command, by any cause: nothing is left.

//~ run: a killed program or worker ends its connections, and the next worker serves
//~ faults: a killed `run`, program or worker leaves no connection behind

use super::servers::{lighttpd, nginx};
use super::threads::{NONE, statuses};
use super::*;

/// True if a connection ends, by FIN or reset.
fn ends(stream: &mut TcpStream) -> bool {
    stream.set_nonblocking(false).unwrap();
    matches!(stream.read(&mut [0; 64]), Ok(0)) || stream.read(&mut [0; 64]).is_err()
}

//~ run: ctrl-C and kill -9 of either side leave no process and no device
#[test]
fn a_program_that_is_killed_ends_its_connections_and_the_run() {
    let test = "a_program_that_is_killed_ends_its_connections_and_the_run";
    let Some(world) = World::new(test, "lighttpd") else { return };
    let mut config = String::new();
    let mut server = world.run("packet:gw0", 80, &lighttpd(&world, &mut config));
    let mut kept: Vec<TcpStream> = (0..10).map(|_| world.connect(&server)).collect();
    kept.iter_mut().for_each(|stream| assert!(ask(stream, "/small").ends_with("hello\n")));
    let [program] = server.descendants()[..] else { panic!("lighttpd is one process") };
    kill_process(program, Signal::KILL).unwrap();
    assert!(kept.iter_mut().all(ends), "the peers hear of it");
    let (code, output) = server.ended();
    assert_eq!(code, Some(128 + 9), "{output}");
}

//~ faults: a removed interface ends `serve` and `run` with a line and exit 2
#[test]
fn an_interface_that_is_taken_away_ends_the_program_and_the_run() {
    let test = "an_interface_that_is_taken_away_ends_the_program_and_the_run";
    let Some(world) = World::new(test, "lighttpd") else { return };
    let mut config = String::new();
    for (device, clients) in [("packet:gw0", &world.clients), ("tap:gw1", &world.ours)] {
        let mut server = world.start(device, 80, &[], &lighttpd(&world, &mut config));
        let connect = || TcpStream::connect_timeout(&server.to, LIMIT);
        world.until("it takes connections", || clients.enter(connect).is_ok());
        let [program] = server.descendants()[..] else { panic!("lighttpd is one process") };
        let (_, name) = device.split_once(':').unwrap();
        world.ours.run("ip", &["link", "delete", name]).unwrap();
        let (code, output) = server.ended();
        assert_eq!(code, Some(2), "{output}");
        let line = format!("error: {device}: interface lost: ");
        assert!(output.contains(&line) && output.contains("\n  try: greenwave run again"), "{output}");
        assert!(is_gone(program), "it was asked to end");
    }
}

#[test]
fn a_killed_worker_ends_its_connections_and_the_next_one_serves() {
    let test = "a_killed_worker_ends_its_connections_and_the_next_one_serves";
    let Some(world) = World::new(test, "nginx") else { return };
    let mut config = String::new();
    let server = world.run("packet:gw0", 80, &nginx(&world, true, "ADDRESS:80", &mut config));
    let mut stream = world.connect(&server);
    assert!(ask(&mut stream, "/small").ends_with("hello\n"));
    let [_, worker] = server.descendants()[..] else { panic!("a master and a worker") };
    kill_process(worker, Signal::KILL).unwrap();
    assert!(ends(&mut stream), "the peer hears of it");
    world.until("the master starts another", || {
        server.descendants().len() == 2 && !server.descendants().contains(&worker)
    });
    assert_eq!(world.get(&server, "/small"), b"hello\n");
    // A reload: another worker takes over the listener.
    let master = server.descendants()[0];
    let before = server.descendants();
    kill_process(master, Signal::HUP).unwrap();
    world.until("the old worker leaves", || is_gone(before[1]));
    assert_eq!(world.get(&server, "/small"), b"hello\n");
    server.stop();
}

//~ run: ctrl-C and kill -9 of either side leave no process and no device
#[test]
fn ctrl_c_ends_all_of_it() {
    let Some(world) = World::new("ctrl_c_ends_all_of_it", "nginx") else { return };
    let mut config = String::new();
    let server = world.run("packet:gw0", 80, &nginx(&world, true, "ADDRESS:80", &mut config));
    let mut stream = world.connect(&server);
    assert!(ask(&mut stream, "/small").ends_with("hello\n"));
    let started = server.descendants();
    assert_eq!(started.len(), 2, "a master and the worker that answered");
    server.stop();
    assert!(started.into_iter().all(is_gone));
    assert!(ends(&mut stream));
}

//~ run: ctrl-C and kill -9 of either side leave no process and no device
#[test]
fn what_a_program_leaves_behind_as_it_ends_is_asked_to_end_too() {
    let test = "what_a_program_leaves_behind_as_it_ends_is_asked_to_end_too";
    let Some(world) = World::new(test, "python3") else { return };
    let program = world.write(
        "left.py",
        "import signal, sys\n\
         signal.signal(signal.SIGTERM, lambda *_: (open('FOLDER/asked', 'w').close(), sys.exit(0)))\n\
         open('FOLDER/ready', 'w').close()\n\
         signal.pause()\n",
    );
    // The shell ends at SIGTERM, and the program then becomes our child.
    let words = format!("python3 {program} & wait");
    let server = world.start("packet:gw0", 80, &[], &["sh", "-c", &words]);
    world.until("it is there", || world.folder.join("ready").exists());
    server.stop();
    assert!(world.folder.join("asked").exists(), "it was not killed");
}

//~ run: ctrl-C and kill -9 of either side leave no process and no device
#[test]
fn when_we_are_killed_the_program_ends_and_no_device_is_left() {
    let test = "when_we_are_killed_the_program_ends_and_no_device_is_left";
    let Some(mut world) = World::new(test, "nginx") else { return };
    if !Path::new("/dev/net/tun").exists() {
        return skipped(test, "this kernel offers no TAP devices");
    }
    world.ours = NetLab::new("run").unwrap().namespace("tap").unwrap();
    world.clients = world.ours.clone();
    let mut config = String::new();
    let mut server = world.run("tap:gwr0", 80, &nginx(&world, true, "ADDRESS:80", &mut config));
    let started = server.descendants();
    kill_process(server.pid(), Signal::KILL).unwrap();
    let _ = server.child.wait();
    world.until("master and worker end", || started.iter().all(|pid| is_gone(*pid)));
    assert!(!world.ours.run("ip", &["-brief", "link"]).unwrap().contains("gwr0"));
}

//~ operations: `run` and `guard attach` drop the privileges that they do not need
#[test]
fn a_run_gives_up_what_it_does_not_need_and_its_program_nothing() {
    let test = "a_run_gives_up_what_it_does_not_need_and_its_program_nothing";
    let Some(world) = World::new(test, "lighttpd") else { return };
    let mut config = String::new();
    let mut server = world.start("packet:gw0", 80, &["--control", "web"], &lighttpd(&world, &mut config));
    world.until("it takes connections", || world.clients.enter(|| TcpStream::connect(server.to).is_ok()));
    /// CAP_KILL, bit 5.
    const KILL: &str = "0000000000000020";
    let keys = ["NoNewPrivs", "Seccomp", "CapEff", "CapPrm", "CapInh"];
    let threads = statuses(server.child.id(), keys);
    assert!(threads.len() >= 2, "the stack's and the waiting thread: {threads:?}");
    assert!(threads.iter().all(|has| has == &["1", "2", KILL, KILL, NONE]), "{threads:?}");
    let [program] = server.descendants()[..] else { panic!("lighttpd is one process") };
    for [gains, filtered] in statuses(program.as_raw_nonzero().get() as u32, ["NoNewPrivs", "Seccomp"]) {
        assert_eq!([gains.as_str(), &filtered], ["0", "0"], "the program is as it is anywhere");
    }
    world.files_arrive(&server);
    let (code, status) = world.control("status");
    assert!(code == Some(0) && status.contains("lighttpd on packet:gw0\n"), "{status}");
    let (code, refusal) = world.control("reload");
    let says = "error: reload reads --policy and --config, and neither was given; the previous settings stay in force\n";
    assert!(code == Some(2) && refusal.starts_with(says), "{refusal}");
    assert_eq!(world.control("end"), (Some(0), "stopping\n".to_owned()));
    let (code, output) = server.ended();
    assert_eq!(code, Some(0), "{output}");
    assert!(!output.contains("sandbox"), "there is nothing to say: {output}");
}
