//! SIGHUP and `control reload`: a controller applies another target delay, and nothing else.

//~ operations: SIGHUP reloads targets of `guard attach` and thresholds of `sched`

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
    let log = Scratch::new("guard-reload.log", "");
    let mut command = rig.server.command(GREENWAVE);
    command.args(["--config", file.path(), "guard", "attach", "eth0", "--control", "guard-eth0"]);
    command.stdout(Stdio::piped()).stderr(File::create(log.path()).unwrap());
    let controller = rig.server.spawn(&mut command).unwrap();
    let says = |words: &str| {
        let end = Instant::now() + LIMIT;
        loop {
            let text = std::fs::read_to_string(log.path()).unwrap();
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
    says("reloaded: target 70.0 ms");
    let now = rig.status();
    assert_eq!((&attached["target_ns"], &now["target_ns"]), (&20_000_000.into(), &70_000_000.into()));
    assert_eq!((&attached["port"], &attached["policy"]), (&now["port"], &now["policy"]), "{now}");
    again(81, "90ms");
    let line = says(":2: port changed from 80 to 81, which needs a restart");
    assert!(line.starts_with("error: ") && line.ends_with("; the previous settings stay in force"), "{line}");
    again(80, "soon");
    let line = says(":3: invalid value 'soon'");
    assert!(line.starts_with("error: ") && line.ends_with("; the previous settings stay in force"), "{line}");
    assert_eq!(rig.status()["target_ns"], 70_000_000);
    assert!(rig.connect().is_some(), "an empty queue");
    // The same, with the outcome.
    let control = |word: &str| {
        let out = rig.server.command(GREENWAVE).args(["control", "guard-eth0", word]).output().unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (out.status.code(), text(&out.stdout), text(&out.stderr))
    };
    let (code, _, refusal) = control("reload");
    assert_eq!(code, Some(2), "{refusal}");
    assert!(refusal.starts_with(&format!("error: {}:3: invalid value 'soon'", file.path())), "{refusal}");
    std::fs::write(file.path(), text(80, "80ms")).unwrap();
    let done = (Some(0), "reloaded: target 80.0 ms\n".to_owned(), String::new());
    assert_eq!(control("reload"), done);
    assert_eq!(rig.status()["target_ns"], 80_000_000);
    let (code, printed, _) = control("status");
    assert_eq!(code, Some(0));
    // Column gaps depend on the width.
    let words = printed.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains(" command guard, policy queue-delay, port 80 on eth0 "), "{printed}");
    assert_eq!(control("end"), (Some(0), "stopping\n".to_owned(), String::new()));
    assert!(!std::fs::read_to_string(log.path()).unwrap().contains("sandbox"), "nothing was refused");
    assert!(ended(controller).contains("1 connections seen"));
}
