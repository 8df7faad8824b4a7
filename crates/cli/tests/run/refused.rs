//! What cannot run is told in one line, with what to try, and exit status 2.

use host::seam::{BUILD, OTHER_BUILD, VARIABLE};

use super::*;

#[track_caller]
fn check(args: &[&str], expected: &str) {
    let out = Command::new(GREENWAVE).arg("run").args(args).output().expect("greenwave starts");
    let said = String::from_utf8_lossy(&out.stderr);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(out.status.code(), Some(2), "{said}");
    assert!(lines[0].starts_with("error: ") && lines[0].contains(expected), "{said}");
    assert!(lines.len() == 2 && lines[1].starts_with("  try: "), "{said}");
}

#[test]
fn what_cannot_be_run_is_said_so() {
    let lib = library().to_str().unwrap();
    let on = ["--device", "tap:gwr9", "--addr", "10.7.0.2/24", "--lib", lib];
    let run = |more: &[&str], expected: &str| check(&[&on[..], more].concat(), expected);
    run(&["--", "no-such-program"], "program no-such-program is not there");
    run(&["--", "/etc/passwd"], "not a program that we may run");
    run(&["--guard", "no-such", "--", "true"], "--guard: ");
    run(&["--policy", "/no/such.toml", "--", "true"], "/no/such.toml: No such file");
    check(&[&on[2..], &["--device", "eth7", "--", "true"]].concat(), "device \"eth7\" is not tap:NAME");
    check(&[&on[..4], &["--lib", "/no/lib.so", "--", "true"]].concat(), "/no/lib.so: No such file");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let file = folder.join("run-odd-program");
    let odd = |bytes: &[u8], mode: u32| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::write(&file, bytes).unwrap();
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    odd(b"no program", 0o755);
    run(&["--", file.to_str().unwrap()], "neither a program nor a script");
    let mut stat = vec![0; 256];
    stat[..6].copy_from_slice(b"\x7fELF\x02\x01");
    (stat[18], stat[32], stat[54], stat[56], stat[64]) = (62, 64, 56, 1, 1);
    odd(&stat, 0o755);
    run(&["--", file.to_str().unwrap()], "is linked statically");
    // Two headers: a loader's name, and the note of Go. Nothing is started.
    (stat[56], stat[64], stat[120]) = (2, 3, 4);
    (stat[72], stat[96], stat[128], stat[152]) = (180, 4, 200, 16);
    stat[180..184].copy_from_slice(b"/ld\0");
    stat[200..216].copy_from_slice(b"\x03\0\0\0\0\0\0\0\x04\0\0\0Go\0\0");
    odd(&stat, 0o755);
    run(&["--", file.to_str().unwrap()], "is a Go program");
    if rustix::process::geteuid().is_root() {
        odd(&std::fs::read("/bin/true").unwrap(), 0o755);
        std::os::unix::fs::chown(&file, Some(65_534), Some(65_534)).unwrap();
        let set = std::os::unix::fs::PermissionsExt::from_mode(0o4755);
        std::fs::set_permissions(&file, set).unwrap();
        run(&["--", file.to_str().unwrap()], "is setuid");
    } else {
        skipped("what_cannot_be_run_is_said_so", "its part with setuid needs root");
    }
    let _ = std::fs::remove_file(&file);
}

#[test]
fn a_library_of_another_build_is_refused_and_ends_a_program_that_has_it() {
    let mut bytes = std::fs::read(library()).unwrap();
    let build = BUILD.as_bytes();
    let at: Vec<usize> =
        (0..bytes.len() - build.len()).filter(|&at| bytes[at..].starts_with(build)).collect();
    assert!(!at.is_empty(), "a library says of which build it is");
    at.into_iter().for_each(|at| bytes[at..at + build.len()].fill(b'x'));
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libgreenwave-other.so");
    std::fs::write(&file, bytes).unwrap();
    let other = file.to_str().unwrap();
    check(
        &["--device", "tap:gwr9", "--addr", "10.7.0.2/24", "--lib", other, "--", "true"],
        &format!("libgreenwave-other.so: {OTHER_BUILD}"),
    );
    let doctor =
        Command::new(GREENWAVE).args(["doctor", "run"]).env("GREENWAVE_LIB", other).output().unwrap();
    let said = String::from_utf8_lossy(&doctor.stdout);
    assert!(doctor.status.code() == Some(1) && said.contains(OTHER_BUILD), "{said}");
    let _ = std::fs::remove_file(&file);
    let theirs = format!("00000000:{}:other", "0".repeat(32));
    let program = Command::new("true").env("LD_PRELOAD", library()).env(VARIABLE, theirs).output().unwrap();
    let said = String::from_utf8_lossy(&program.stderr);
    assert_eq!((program.status.code(), &*said), (Some(2), &*format!("error: {OTHER_BUILD}\n")));
}

#[test]
fn the_doctor_tries_the_library_on_a_program() {
    let doctor =
        Command::new(GREENWAVE).args(["doctor", "run"]).env("GREENWAVE_LIB", library()).output().unwrap();
    let said = String::from_utf8_lossy(&doctor.stdout);
    let loaded = format!("{}, of this build", library().canonicalize().unwrap().display());
    assert!(said.contains(&loaded), "{said}");
    for mechanism in ["preload", "desk", "device", "programs", "connections", "namespaces"] {
        let is_it = |line: &str| line.split_whitespace().take(2).eq(["run", mechanism]);
        assert!(said.lines().any(is_it), "{mechanism}: {said}");
    }
}
