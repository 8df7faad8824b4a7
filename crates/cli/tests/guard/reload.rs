//! SIGHUP: a controller takes another target, and nothing else.

use std::fs::File;
use std::process::Stdio;
use std::time::Instant;

use rustix::process::Signal;

use super::scratch::Scratch;
use super::{GREENWAVE, LIMIT, Rig, ended, signal};

#[test]
fn a_target_is_read_again_and_the_guard_stays() {
    let Some(rig) = Rig::new("a_target_is_read_again_and_the_guard_stays") else { return };
    let text = |port: u16, target: &str| {
        format!("[guard.attach]\nport = [{port}]\ntarget-delay = \"{target}\"\nperiod = \"1ms\"\n")
    };
    let file = Scratch::new("guard-reload.toml", &text(80, "20ms"));
    let said = Scratch::new("guard-reload.log", "");
    let mut command = rig.server.command(GREENWAVE);
    command.args(["--config", file.path(), "guard", "attach", "eth0"]);
    command.stdout(Stdio::piped()).stderr(File::create(said.path()).unwrap());
    let controller = rig.server.spawn(&mut command).unwrap();
    let says = |words: &str| {
        let end = Instant::now() + LIMIT;
        loop {
            let text = std::fs::read_to_string(said.path()).unwrap();
            if let Some(line) = text.lines().find(|line| line.contains(words)) {
                return line.to_owned();
            }
            assert!(Instant::now() < end, "{words:?} was not said: {text}");
            std::thread::yield_now();
        }
    };
    says("eth0: port 80 guarded by queue-delay, target 20.0 ms");
    let attached = rig.status();
    let again = |port: u16, target: &str| {
        std::fs::write(file.path(), text(port, target)).unwrap();
        signal(&controller, Signal::HUP);
    };
    again(80, "70ms");
    says("read again: target 70.0 ms is in force");
    let now = rig.status();
    assert_eq!((&attached["target_ns"], &now["target_ns"]), (&20_000_000.into(), &70_000_000.into()));
    assert_eq!((&attached["port"], &attached["policy"]), (&now["port"], &now["policy"]), "{now}");
    again(81, "90ms");
    let line = says(":2: port is 81 now, and 80 is in use");
    assert!(line.starts_with("error: ") && line.ends_with("; all stays as it was"), "{line}");
    again(80, "soon");
    let line = says(":3: invalid value 'soon'");
    assert!(line.starts_with("error: ") && line.ends_with("; all stays as it was"), "{line}");
    assert_eq!(rig.status()["target_ns"], 70_000_000);
    assert!(rig.connect().is_some(), "nobody waits");
    signal(&controller, Signal::INT);
    assert!(ended(controller).contains("1 connections came"));
}
