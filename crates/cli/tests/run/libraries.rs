//! Valid values of `--lib` and `$GREENWAVE_LIB`: our library of this build, writable only by root
//! where root runs it. Any other is refused before the program starts.

//~ run: only this build's library is loaded, and as root only one that others cannot change

use std::ffi::OsStr;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::CommandExt;

use super::refused::check;
use super::*;

/// A folder of the test.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    fn file(&self, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
        let file = self.0.join(name);
        std::fs::write(&file, bytes).unwrap();
        file
    }

    /// A copy of the library with this owner and mode.
    fn library(&self, user: u32, group: u32, mode: u32) -> PathBuf {
        let copy = self.0.join(format!("libgreenwave-{user}-{group}-{mode:o}.so"));
        std::fs::copy(library(), &copy).unwrap();
        chown(&copy, Some(user), Some(group)).unwrap();
        std::fs::set_permissions(&copy, PermissionsExt::from_mode(mode)).unwrap();
        copy
    }

    /// The program compiled from `source` with these arguments, if there is a compiler.
    fn compiled(&self, name: &str, source: &str, args: &[&str]) -> Option<PathBuf> {
        let (source, out) = (self.file(&format!("{name}.c"), source), self.0.join(name));
        let done =
            Command::new("gcc").args(args).arg(source).arg("-o").arg(&out).stderr(Stdio::null()).status();
        done.is_ok_and(|done| done.success()).then_some(out)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Checks that both ways refuse `lib`, as `user`, and the program does not start.
#[track_caller]
fn refuses_as(lib: &Path, user: Option<u32>, expected: &str) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let started = folder.join(format!("started-{:?}", std::thread::current().id()));
    for by_flag in [true, false] {
        let mut command = Command::new(GREENWAVE);
        command.args(["run", "--device", "tap:gwr9", "--addr", "10.7.0.2/24"]);
        match by_flag {
            true => command.arg("--lib").arg(lib),
            false => command.env("GREENWAVE_LIB", lib),
        };
        command.args([OsStr::new("--"), OsStr::new("touch"), started.as_os_str()]);
        if let Some(user) = user {
            command.uid(user).gid(user);
        }
        if !by_flag {
            check(&mut command, "error: GREENWAVE_LIB: ");
        }
        check(&mut command, expected);
        assert!(!started.exists(), "{lib:?}: the program was started");
    }
}

#[track_caller]
fn refuses(lib: &Path, expected: &str) {
    refuses_as(lib, None, expected);
}

#[test]
fn what_is_not_the_library_is_refused_before_the_program_starts() {
    let test = "what_is_not_the_library_is_refused_before_the_program_starts";
    let folder = Folder::new("run-not-libraries");
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let libc = maps.lines().find(|line| line.ends_with("/libc.so.6")).expect("it is linked dynamically");
    let libc = PathBuf::from(&libc[libc.find('/').unwrap()..]);
    let another = "it is not libgreenwave.so";
    refuses(&libc, another);
    let link = folder.0.join("libgreenwave.so");
    symlink(&libc, &link).unwrap();
    refuses(&link, another);
    refuses(Path::new("/no/lib.so"), "/no/lib.so: No such file or directory");
    refuses(&folder.0, "it is a directory, not libgreenwave.so");
    refuses(Path::new("/dev/null"), "it is not a file, not libgreenwave.so");
    let pipe = folder.0.join("pipe");
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    refuses(&pipe, "it is not a file, not libgreenwave.so");
    refuses(&folder.file("text.so", "no library"), "it is not an ELF file, not libgreenwave.so");
    refuses(&folder.file("empty.so", ""), "it is not an ELF file, not libgreenwave.so");
    refuses(Path::new(GREENWAVE), "it is a program, not libgreenwave.so");
    let bytes = std::fs::read(library()).unwrap();
    // The file has its headers and note, and nothing else.
    let cut = folder.file("cut.so", &bytes[..4096]);
    let mut command = Command::new(GREENWAVE);
    command.args(["run", "--device", "tap:gwr9", "--addr", "10.7.0.2/24", "--lib"]).arg(&cut);
    let out = command.args(["--", "true"]).output().unwrap();
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && stderr.contains("cut.so is not loaded: "), "{stderr}");
    match folder.compiled("own.so", "int one(void) { return 1; }\n", &["-shared", "-fPIC"]) {
        Some(own) => refuses(&own, another),
        None => skipped(test, "libraries made here: gcc is not there"),
    }
    if let Some(object) = folder.compiled("own.o", "int one(void) { return 1; }\n", &["-c"]) {
        refuses(&object, "it is an object file, not libgreenwave.so");
    }
    if cfg!(target_arch = "x86_64")
        && let Some(foreign) = folder.compiled(
            "foreign.so",
            "int one(void) { return 1; }\n",
            &["-m32", "-shared", "-nostdlib", "-fPIC"],
        )
    {
        refuses(&foreign, "is for 32-bit x86, and programs here are for 64-bit x86");
    }
}

#[test]
fn an_empty_variable_names_no_library() {
    let mut command = Command::new(GREENWAVE);
    command.args(["run", "--device", "eth7", "--addr", "10.7.0.2/24", "--", "true"]).env("GREENWAVE_LIB", "");
    // The library beside this program is valid; the device is not.
    library();
    check(&mut command, "device \"eth7\" is not tap:NAME");
}

#[test]
fn a_library_that_others_than_root_could_change_is_refused_by_root() {
    let test = "a_library_that_others_than_root_could_change_is_refused_by_root";
    const NOBODY: u32 = 65_534;
    if !rustix::process::geteuid().is_root() {
        return skipped(test, "it needs root");
    }
    let folder = Folder::new("run-exposed-libraries");
    for (user, group, mode, how) in [
        (0, 0, 0o666, "world-writable (mode 0666)"),
        (0, 0, 0o777, "world-writable (mode 0777)"),
        (0, NOBODY, 0o664, "writable by group 65534 (mode 0664)"),
        (NOBODY, 0, 0o644, "owned by user 65534"),
        (NOBODY, NOBODY, 0o444, "owned by user 65534"),
    ] {
        let file = folder.library(user, group, mode);
        refuses(&file, &format!("{}: {how}, and it would run in root's programs", file.display()));
        std::fs::remove_file(&file).unwrap();
    }
    let file = folder.library(0, 0, 0o755);
    let of_folder = |user: u32, mode: u32| {
        chown(&folder.0, Some(user), None).unwrap();
        std::fs::set_permissions(&folder.0, PermissionsExt::from_mode(mode)).unwrap();
    };
    of_folder(0, 0o777);
    let end = ", and it would run in root's programs";
    refuses(&file, &format!("{}: world-writable (mode 0777){end}", folder.0.display()));
    of_folder(NOBODY, 0o755);
    refuses(&file, &format!("{}: owned by user 65534{end}", folder.0.display()));
    // A folder like /tmp; and one that only root may write.
    for mode in [0o1777, 0o755] {
        of_folder(0, mode);
        let mut doctor = Command::new(GREENWAVE);
        let out = doctor.args(["doctor", "run"]).env("GREENWAVE_LIB", &file).output().unwrap();
        let stdout = String::from_utf8_lossy(&out.stdout);
        assert!(stdout.contains(&format!("{}, from this build", file.display())), "{mode:o}: {stdout}");
    }
}

#[test]
fn a_library_that_may_not_be_read_is_refused() {
    let test = "a_library_that_may_not_be_read_is_refused";
    const NOBODY: u32 = 65_534;
    let starts = Command::new(GREENWAVE).arg("--version").uid(NOBODY).output();
    if !rustix::process::geteuid().is_root() || !starts.is_ok_and(|out| out.status.success()) {
        return skipped(test, "it needs root, and a greenwave that others may start");
    }
    let folder = Folder::new("run-unreadable-libraries");
    let file = folder.library(0, 0, 0o600);
    refuses_as(&file, Some(NOBODY), &format!("{}: Permission denied", file.display()));
}
