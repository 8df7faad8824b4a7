//! Errors of programs that cannot run: one line, advice, and exit status 2.

use shim::{BUILD, OTHER_BUILD, VARIABLE};

use super::*;

/// Checks that `command` fails with one line that contains `expected`, and one of advice.
#[track_caller]
pub(super) fn check(command: &mut Command, expected: &str) {
    let out = command.output().expect("greenwave starts");
    let stderr = String::from_utf8_lossy(&out.stderr);
    let lines: Vec<&str> = stderr.lines().collect();
    assert_eq!(out.status.code(), Some(2), "{stderr}");
    assert!(lines[0].starts_with("error: ") && lines[0].contains(expected), "{stderr}");
    assert!(lines.len() == 2 && lines[1].starts_with("  try: "), "{stderr}");
}

//~ run: a missing program, library, policy or device gives one line and exit 2
#[test]
fn what_cannot_be_run_is_said_so() {
    let lib = library().to_str().unwrap();
    let on = ["--device", "tap:gwr9", "--addr", "10.7.0.2/24", "--lib", lib];
    let with = |args: &[&str], expected: &str| {
        check(Command::new(GREENWAVE).arg("run").args(args), expected);
    };
    let run = |more: &[&str], expected: &str| with(&[&on[..], more].concat(), expected);
    run(&["--", "no-such-program"], "program no-such-program does not exist");
    run(&["--", "/etc/passwd"], "not executable by this user");
    run(&["--guard", "no-such", "--", "true"], "--guard: ");
    run(&["--policy", "/no/such.toml", "--", "true"], "/no/such.toml: No such file");
    with(&[&on[2..], &["--device", "eth7", "--", "true"]].concat(), "device \"eth7\" is not tap:NAME");
    with(&[&on[..4], &["--lib", "/no/lib.so", "--", "true"]].concat(), "/no/lib.so: No such file");
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("run-odd-program");
    std::fs::write(&file, "no program").unwrap();
    std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    run(&["--", file.to_str().unwrap()], "is not an executable");
    let _ = std::fs::remove_file(&file);
}

//~ run: a library of another build is refused
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
    let args = ["run", "--device", "tap:gwr9", "--addr", "10.7.0.2/24", "--lib", other, "--", "true"];
    check(Command::new(GREENWAVE).args(args), &format!("libgreenwave-other.so: {OTHER_BUILD}"));
    let doctor =
        Command::new(GREENWAVE).args(["doctor", "run"]).env("GREENWAVE_LIB", other).output().unwrap();
    let stdout = String::from_utf8_lossy(&doctor.stdout);
    assert!(doctor.status.code() == Some(1) && stdout.contains(OTHER_BUILD), "{stdout}");
    let _ = std::fs::remove_file(&file);
    let foreign_variable = format!("00000000:{}:other", "0".repeat(32));
    let program =
        Command::new("true").env("LD_PRELOAD", library()).env(VARIABLE, foreign_variable).output().unwrap();
    let stderr = String::from_utf8_lossy(&program.stderr);
    assert_eq!((program.status.code(), &*stderr), (Some(2), &*format!("error: {OTHER_BUILD}\n")));
}

//~ cli: `doctor` reports for each mechanism whether it works, the reason if not, and a remedy
#[test]
fn the_doctor_tries_the_library_on_a_program() {
    let doctor =
        Command::new(GREENWAVE).args(["doctor", "run"]).env("GREENWAVE_LIB", library()).output().unwrap();
    let stdout = String::from_utf8_lossy(&doctor.stdout);
    let loaded = format!("{}, from this build", library().canonicalize().unwrap().display());
    assert!(stdout.contains(&loaded), "{stdout}");
    for mechanism in ["preload", "channel", "device", "programs", "connections", "namespaces"] {
        let is_it = |line: &str| line.split_whitespace().take(2).eq(["run", mechanism]);
        assert!(stdout.lines().any(is_it), "{mechanism}: {stdout}");
    }
}
