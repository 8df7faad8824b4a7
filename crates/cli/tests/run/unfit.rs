//! Programs that cannot preload a library are refused before anything is created. Each is built
//! here by the compiler of its kind.

//~ run: programs that cannot be preloaded are refused with the reason: static, setuid, Go, other libc, 32 bits

use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;

use super::refused::check;
use super::*;

/// A kind of program: its name, its compiler, the build script, and the expected error.
pub(super) type Kind = (&'static str, &'static str, &'static str, &'static str);

const STATIC: &str = " is statically linked, so no library can be preloaded";
const GO: &str = " is a Go program: ";
const NO_LIBRARY: &str = " does not use the C library: ";

/// Sources: `main.c`, `bare.c` without a C library, `main.rs`, `main.zig`, `main.go`, `cgo.go`.
#[rustfmt::skip]
const KINDS: &[Kind] = &[
    ("glibc-static", "gcc", "gcc -static main.c -o $OUT", STATIC),
    ("glibc-static-pie", "gcc", "gcc -static-pie main.c -o $OUT", STATIC),
    ("glibc-static-stripped", "gcc", "gcc -static -s main.c -o $OUT", STATIC),
    ("musl-static", "musl-gcc", "musl-gcc -static main.c -o $OUT", STATIC),
    ("musl-dynamic", "musl-gcc", "musl-gcc main.c -o $OUT", " needs the loader /lib/ld-musl-"),
    ("bare-dynamic", "gcc", "gcc -nostdlib -pie bare.c -o $OUT", NO_LIBRARY),
    ("bare-static", "gcc", "gcc -nostdlib -static bare.c -o $OUT", STATIC),
    ("object", "gcc", "gcc -c main.c -o $OUT && chmod +x $OUT", " is not an executable"),
    ("rust-static", "rustc", "rustc -C target-feature=+crt-static main.rs -o $OUT", STATIC),
    ("rust-static-exe", "rustc",
        "rustc -C target-feature=+crt-static -C relocation-model=static main.rs -o $OUT", STATIC),
    ("zig", "zig", "zig build-exe main.zig -femit-bin=$OUT", STATIC),
    ("go-static", "go", "CGO_ENABLED=0 go build -o $OUT main.go", GO),
    ("go-pie", "go", "CGO_ENABLED=0 go build -buildmode=pie -o $OUT main.go", GO),
    ("go-stripped", "go", "CGO_ENABLED=0 go build -ldflags='-s -w' -o $OUT main.go", GO),
    ("go-no-build-id", "go", "CGO_ENABLED=0 go build -ldflags='-s -w -buildid=' -o $OUT main.go", GO),
    ("go-pie-no-build-id", "go",
        "CGO_ENABLED=0 go build -buildmode=pie -ldflags='-s -w -buildid=' -o $OUT main.go", GO),
    ("go-cgo", "go", "CGO_ENABLED=1 go build -o $OUT cgo.go", GO),
    ("go-cgo-stripped", "go", "CGO_ENABLED=1 go build -ldflags='-s -w' -o $OUT cgo.go", GO),
    ("go-cgo-pie", "go", "CGO_ENABLED=1 go build -buildmode=pie -o $OUT cgo.go", GO),
    ("go-cgo-no-build-id", "go", "CGO_ENABLED=1 go build -ldflags='-s -w -buildid=' -o $OUT cgo.go", GO),
    ("go-cgo-static", "go", "CGO_ENABLED=1 go build -ldflags='-extldflags=-static' -o $OUT cgo.go", GO),
];

/// Programs for foreign architectures.
#[cfg(target_arch = "x86_64")]
#[rustfmt::skip]
const FOREIGN: &[Kind] = &[
    ("x86-32", "gcc", "gcc -m32 -nostdlib bare.c -o $OUT", " is built for 32-bit x86, "),
    ("x86-32-static", "gcc", "gcc -m32 -nostdlib -static bare.c -o $OUT", " is built for 32-bit x86, "),
    ("x32", "gcc", "gcc -mx32 -nostdlib bare.c -o $OUT", " is built for x86-64 with 32-bit pointers (x32), "),
    ("go-arm64", "go", "CGO_ENABLED=0 GOARCH=arm64 go build -o $OUT main.go", " is built for 64-bit ARM, "),
    ("go-386", "go", "CGO_ENABLED=0 GOARCH=386 go build -o $OUT main.go", " is built for 32-bit x86, "),
    // The opposite byte order.
    ("go-s390x", "go", "CGO_ENABLED=0 GOARCH=s390x go build -o $OUT main.go", " is built for IBM S/390, "),
];
#[cfg(not(target_arch = "x86_64"))]
const FOREIGN: &[Kind] = &[];

const SOURCES: [(&str, &str); 6] = [
    ("main.c", "int main(void) { return 0; }\n"),
    ("bare.c", "void _start(void) { for (;;) ; }\n"),
    ("main.rs", "fn main() {}\n"),
    ("main.zig", "pub fn main() void {}\n"),
    ("main.go", "package main\n\nfunc main() {}\n"),
    (
        "cgo.go",
        "package main\n\n// int one(void) { return 1; }\nimport \"C\"\n\nfunc main() { println(C.one()) }\n",
    ),
];

/// A folder with the sources and Go's build cache.
fn folder(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    SOURCES.iter().for_each(|(name, text)| std::fs::write(folder.join(name), text).unwrap());
    folder
}

/// Builds the program, or returns the reason it cannot be built here.
pub(super) fn build(folder: &Path, (name, compiler, script, _): &Kind) -> Result<PathBuf, String> {
    let there = Command::new("sh").args(["-c", "command -v \"$0\"", compiler]).output().unwrap();
    if !there.status.success() {
        return Err(format!("the program {compiler} is not there"));
    }
    let program = folder.join(name);
    let mut shell = Command::new("sh");
    shell.args(["-c", script]).current_dir(folder).env("OUT", &program);
    let go = [("GO111MODULE", "off"), ("GOTOOLCHAIN", "local"), ("GOFLAGS", "")];
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("go-cache");
    let out = shell.envs(go).env("GOCACHE", cache).output().unwrap();
    let stderr = String::from_utf8_lossy(&out.stderr);
    match out.status.success() {
        true => Ok(program),
        false => Err(format!("{script}: {}", stderr.lines().next().unwrap_or("it failed"))),
    }
}

/// Checks the refusal of `run` for `program`, started as `user`.
#[track_caller]
fn refuses(program: &Path, user: Option<u32>, expected: &str) {
    let program = program.to_str().unwrap();
    let mut command = Command::new(GREENWAVE);
    command.args(["run", "--device", "tap:gwr9", "--addr", "10.7.0.2/24", "--lib"]).arg(library());
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    check(command.args(["--", program]), expected);
}

#[test]
fn programs_that_cannot_be_preloaded_into_are_refused_by_kind() {
    let test = "programs_that_cannot_be_preloaded_into_are_refused_by_kind";
    let folder = folder("run-unfit");
    for kind in KINDS.iter().chain(FOREIGN) {
        match build(&folder, kind) {
            Ok(program) => refuses(&program, None, &format!("{}{}", program.display(), kind.3)),
            Err(why) => skipped(test, &format!("{}: {why}", kind.0)),
        }
    }
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_go_program_without_sections_is_recognised_by_its_segments() {
    let test = "a_go_program_without_sections_is_recognised_by_its_segments";
    let folder = folder("run-unfit-sections");
    for kind in KINDS.iter().filter(|kind| kind.1 == "go") {
        let program = match build(&folder, kind) {
            Ok(program) => program,
            Err(why) => return skipped(test, &why),
        };
        // As sstrip does: the header refers to no sections any more.
        let mut bytes = std::fs::read(&program).unwrap();
        bytes[40..48].fill(0);
        bytes[58..64].fill(0);
        std::fs::write(&program, bytes).unwrap();
        refuses(&program, None, &format!("{}{GO}", program.display()));
    }
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn a_script_is_judged_by_what_runs_it() {
    let test = "a_script_is_judged_by_what_runs_it";
    let folder = folder("run-unfit-scripts");
    let program = match build(&folder, &KINDS[0]) {
        Ok(program) => program,
        Err(why) => return skipped(test, &why),
    };
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    let script = folder.join("script");
    for first in [format!("#!{}", program.display()), format!("#!/usr/bin/env {}", KINDS[0].0)] {
        std::fs::write(&script, format!("{first}\n")).unwrap();
        std::fs::set_permissions(&script, PermissionsExt::from_mode(0o755)).unwrap();
        let mut command = Command::new(GREENWAVE);
        command.args(["run", "--device", "tap:gwr9", "--addr", "10.7.0.2/24", "--lib"]).arg(library());
        command.env("PATH", &path).arg("--").arg(&script);
        check(&mut command, &format!("{}{STATIC}", program.display()));
    }
    let _ = std::fs::remove_dir_all(&folder);
}

#[test]
fn programs_that_gain_rights_are_refused() {
    let test = "programs_that_gain_rights_are_refused";
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return skipped(test, "it needs root");
    }
    let folder = folder("run-unfit-rights");
    let program = folder.join("true");
    let is = |mode: u32| {
        std::fs::copy("/bin/true", &program).unwrap();
        chown(&program, Some(NOBODY), Some(NOBODY)).unwrap();
        std::fs::set_permissions(&program, PermissionsExt::from_mode(mode)).unwrap();
    };
    for (mode, how) in [(0o4755, "setuid"), (0o2755, "setgid"), (0o6755, "setuid")] {
        is(mode);
        refuses(&program, None, &format!("{} is {how}; ", program.display()));
    }
    is(0o755);
    let set = Command::new("setcap").arg("cap_net_bind_service+ep").arg(&program).status();
    let starts = Command::new(GREENWAVE).arg("--version").uid(NOBODY).output();
    match (set.is_ok_and(|set| set.success()), starts.is_ok_and(|out| out.status.success())) {
        (true, true) => {
            refuses(&program, Some(NOBODY), &format!("{} is given capabilities; ", program.display()));
        }
        (false, _) => skipped(test, "capabilities: setcap is not there, or this folder keeps none"),
        (_, false) => skipped(test, "capabilities: others may not start greenwave here"),
    }
    let _ = std::fs::remove_dir_all(&folder);
}
