//! Files of another user in a directory writable by all, and our own files.

//~ cli: files that another user placed in a shared folder are neither followed, written nor read

use std::fs::{self, Permissions};
use std::io::{ErrorKind, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use super::*;
use crate::scratch::Scratch;

/// Another user, `nobody`.
const OTHER: u32 = 65_534;

/// Runs `script` in `folder` as the other user; false if this user cannot become another.
fn by_other(test: &str, folder: &Path, script: &str) -> bool {
    if !geteuid().is_root() {
        println!("skipped: {test}: only root can act as two users");
        return false;
    }
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(folder).uid(OTHER).gid(OTHER);
    assert!(command.status().unwrap().success(), "{script}");
    true
}

/// A way in which this crate's callers write or read here.
type Way = (&'static str, fn(&Path) -> io::Result<()>);

const WAYS: [Way; 6] = [
    ("create", |path| create(path)?.write_all(b"ours")),
    ("append", |path| append(path)?.write_all(b"ours")),
    ("check_writable", check_writable),
    ("replace", |path| replace(path, true, |file| file.write_all(b"ours"))),
    ("a folder that is made", |path| Folder::create(path)?.create_file("file").map(drop)),
    ("a folder that is opened", |path| Folder::open(path)?.read("file").map(drop)),
];

#[test]
fn what_another_user_has_put_into_a_shared_folder_is_neither_followed_nor_written_nor_read() {
    let test = "what_another_user_has_put_into_a_shared_folder_is_neither_followed_nor_written_nor_read";
    let own = Scratch::new("victim", 0o700);
    let (file, folder) = (own.at("precious"), own.at("folder"));
    fs::write(&file, "precious").unwrap();
    fs::create_dir(&folder).unwrap();
    let (file, folder) = (file.display(), folder.display());
    for (mode, shared) in [(0o1777, "sticky"), (0o777, "not-sticky")] {
        let shared = Scratch::new(shared, mode);
        let traps = [
            ("a link to a file", format!("ln -s {file} t"), "t"),
            ("a link to nothing yet", format!("ln -s {}/new t", own.0.display()), "t"),
            ("a link to a folder", format!("ln -s {folder} t"), "t"),
            ("a path through a link", format!("ln -s {} t", own.0.display()), "t/precious"),
            ("a path through two links", format!("ln -s {} u; ln -s u t", own.0.display()), "t/folder"),
            ("a file", "echo theirs >t; chmod 666 t".to_owned(), "t"),
            ("a FIFO", "mkfifo t; chmod 666 t".to_owned(), "t"),
            ("a folder", "mkdir t; echo theirs >t/file; chmod 777 t".to_owned(), "t"),
        ];
        for (what, script, name) in traps {
            if !by_other(test, &shared.0, &script) {
                return;
            }
            for (operation, run) in WAYS {
                let done = run(&shared.at(name));
                let outcome = done.as_ref().map_or_else(ToString::to_string, |()| "done".to_owned());
                assert!(done.is_err(), "{operation} through {what} of another user, mode {mode:o}");
                assert!(!outcome.contains('\n'), "{outcome}");
                assert_eq!(
                    fs::read_to_string(own.at("precious")).unwrap(),
                    "precious",
                    "{operation}, {what}"
                );
                assert!(!own.at("new").exists(), "{operation}, {what}");
                assert_eq!(fs::read_dir(own.at("folder")).unwrap().count(), 0, "{operation}, {what}");
            }
            if what.contains("link") || what == "a file" || what == "a FIFO" {
                let e = create(&shared.at(name)).unwrap_err();
                assert!(
                    Untrusted::advice(&e).is_some() && e.to_string().contains("user 65534"),
                    "{what}: {e}"
                );
            }
            assert!(by_other(test, &shared.0, "rm -rf t u"));
        }
    }
}

#[test]
fn a_folder_for_run_time_files_is_ours_alone() {
    let scratch = Scratch::new("folder", 0o755);
    let path = scratch.at("run");
    let refused = |path: &Path, says: &str| {
        for done in [Folder::open(path), Folder::create(path)] {
            let e = done.expect_err(says);
            assert!(e.to_string().contains(says) && Untrusted::advice(&e).is_some(), "{says:?}: {e}");
        }
    };
    let folder = Folder::create(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().mode() & 0o7777, 0o700);
    folder.create_file("a").unwrap().write_all(b"text").unwrap();
    assert_eq!(fs::metadata(path.join("a")).unwrap().mode() & 0o7777, 0o600);
    assert_eq!(folder.create_file("a").unwrap_err().kind(), ErrorKind::AlreadyExists);
    assert_eq!(folder.read("a").unwrap(), "text");
    for mode in [0o770, 0o707, 0o1777, 0o775, 0o720] {
        fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
        refused(&path, &format!("writable by other users (mode {mode:o})"));
    }
    fs::set_permissions(&path, Permissions::from_mode(0o755)).unwrap();
    let at = |name: &str| path.join(name);
    symlink("a", at("link")).unwrap();
    fs::hard_link(at("a"), at("second")).unwrap();
    fs::create_dir(at("folder")).unwrap();
    assert!(Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
    fs::write(at("open"), "x").unwrap();
    fs::set_permissions(at("open"), Permissions::from_mode(0o666)).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
    let folder = Folder::open(&path).unwrap();
    for name in ["link", "second", "a", "folder", "fifo", "open", "socket"] {
        let e = folder.read(name).expect_err(name);
        assert!(Untrusted::advice(&e).is_some_and(|advice| advice.contains(name)), "{name}: {e}");
    }
    assert_eq!(folder.read("none").unwrap_err().kind(), ErrorKind::NotFound);
    folder.remove("second").unwrap();
    folder.rename("a", "b").unwrap();
    assert_eq!(folder.read("b").unwrap(), "text");
    if geteuid().is_root() {
        std::os::unix::fs::chown(&path, Some(OTHER), None).unwrap();
        refused(&path, "owned by user 65534, neither by you nor by root");
    }
}

#[test]
fn hard_links_count_for_nothing_where_others_may_write() {
    let (own, shared) = (Scratch::new("own", 0o700), Scratch::new("hard", 0o1777));
    fs::write(own.at("precious"), "precious").unwrap();
    fs::hard_link(own.at("precious"), shared.at("t")).unwrap();
    for (operation, run) in WAYS {
        assert!(run(&shared.at("t")).is_err(), "{operation}");
        assert_eq!(fs::read_to_string(own.at("precious")).unwrap(), "precious", "{operation}");
    }
    // Where only this user may write, the link is intended.
    create(&own.at("precious")).unwrap();
    assert_eq!(fs::read_to_string(shared.at("t")).unwrap(), "");
}

#[test]
fn what_is_ours_is_written_by_any_path_to_it() {
    for mode in [0o700, 0o755, 0o775, 0o1777] {
        let scratch = Scratch::new(&format!("ours-{mode:o}"), mode);
        let (file, link, dangling) = (scratch.at("file"), scratch.at("link"), scratch.at("dangling"));
        fs::create_dir(scratch.at("folder")).unwrap();
        symlink("folder", scratch.at("way")).unwrap();
        symlink("file", &link).unwrap();
        symlink(scratch.at("folder/new"), &dangling).unwrap();
        for path in [&file, &link, &dangling, &scratch.at("way/../folder/other"), &scratch.at("way/third")] {
            check_writable(path).unwrap();
            let is_new = !path.exists();
            create(path).unwrap().write_all(b"one").unwrap();
            append(path).unwrap().write_all(b" two").unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), "one two", "{}", path.display());
            replace(path, false, |file| file.write_all(b"three")).unwrap();
            check_writable(path).unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), "three", "{} {is_new}", path.display());
        }
        assert!(link.is_symlink() && dangling.is_symlink(), "a link stays a link");
        assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 5, "no temporary file is left");
    }
    for path in ["/dev/null", "/proc/self/fd/2", "/dev/stderr"] {
        check_writable(path.as_ref()).unwrap_or_else(|e| panic!("{path}: {e}"));
        create(path.as_ref()).unwrap_or_else(|e| panic!("{path}: {e}"));
    }
    let full = replace("/dev/full".as_ref(), true, |file| file.write_all(b"x"));
    assert_eq!(full.unwrap_err().kind(), ErrorKind::StorageFull);
}

#[test]
fn a_fifo_of_ours_is_written_to_as_it_is() {
    let scratch = Scratch::new("fifo", 0o1777);
    let path = scratch.at("fifo");
    assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
    check_writable(&path).unwrap();
    let reader = std::thread::spawn({
        let path = path.clone();
        move || {
            let mut text = String::new();
            File::open(path).unwrap().read_to_string(&mut text).unwrap();
            text
        }
    });
    create(&path).unwrap().write_all(b"frames").unwrap();
    assert_eq!(reader.join().unwrap(), "frames");
}

#[test]
fn what_cannot_be_written_is_refused_and_nothing_is_left() {
    let scratch = Scratch::new("refused", 0o755);
    for path in
        [scratch.0.as_path(), Path::new("/no/such/folder/file"), Path::new("/proc/none"), Path::new("")]
    {
        for (operation, run) in WAYS.into_iter().take(4) {
            assert!(run(path).is_err(), "{operation} {}", path.display());
        }
    }
    let path = scratch.at("file");
    fs::write(&path, "kept").unwrap();
    let failed = replace(&path, true, |file| {
        file.write_all(b"half")?;
        Err(ErrorKind::StorageFull.into())
    });
    assert!(failed.is_err());
    assert_eq!(fs::read_to_string(&path).unwrap(), "kept");
    symlink("loop", scratch.at("loop")).unwrap();
    assert!(create(&scratch.at("loop")).is_err());
    assert_eq!(fs::read_dir(&scratch.0).unwrap().count(), 2);
}

/// Source files that open, create or link files by path without this module, and the reasons.
const OTHERS: [(&str, &str); 30] = [
    ("host/src/scratch.rs", "a directory of one test"),
    ("host/src/files/folder.rs", "folders on the way to one that is checked"),
    ("hostsched/src/cgroups.rs", "control groups"),
    ("hostsched/src/cpu_ranks.rs", "control groups"),
    ("hostsched/src/undo_log/restore.rs", "control groups, as the undo log records them"),
    ("doctor/src/cores.rs", "control groups"),
    ("netlab/src/cgroup.rs", "control groups"),
    ("netlab/src/namespace.rs", "/proc/sys"),
    ("hostbpf/src/egress/gso_max_size.rs", "/proc/sys"),
    ("drivers/src/tap/mod.rs", "/dev/net/tun, /proc/sys"),
    ("shim/src/bypass/watcher.rs", "/dev/null"),
    ("netlab/src/temp_dir.rs", "a folder with a name of its own, made and never taken as it is"),
    ("hostsched/src/handoff_latency.rs", "a page in a folder of the laboratory"),
    ("host/src/signal_page.rs", "/proc/ID/fd, and checked by its seals"),
    (
        "host/src/queue_report.rs",
        "reads what a service tells: its writer is believed by the operator's choice of the path",
    ),
    ("host/src/disk/files.rs", "files of applications, which name and own them"),
    ("cli/src/bench/matrix/program.rs", "a folder of the laboratory"),
    ("cli/src/bench/matrix/suite/memcached.rs", "a folder of the laboratory"),
    ("cli/src/bench/matrix/suite/mod.rs", "a folder of the laboratory"),
    ("cli/src/bench/matrix/suite/redis.rs", "a folder of the laboratory"),
    ("cli/src/bench/matrix/harness.rs", "a folder of the laboratory"),
    ("cli/src/bench/net/setup.rs", "a folder of the laboratory"),
    ("cli/src/exp/world/sched_daemon.rs", "a folder of the laboratory"),
    ("cli/src/exp/world/tiers/stack.rs", "a folder of the laboratory"),
    ("cli/src/exp/mod.rs", "the folder of results; files in it are written by this module"),
    ("cli/src/exp/hunt.rs", "the folder of results; files in it are written by this module"),
    ("cli/src/exp/summary.rs", "the folder of results; files in it are written by this module"),
    ("cli/src/exp/result.rs", "the folder of results; files in it are written by this module"),
    ("cli/src/man_pages.rs", "the folder of pages; files in it are written by this module"),
    (
        "guard/src/tower/queue_report.rs",
        "a library of services: makes the file, or takes one that is its own",
    ),
];

/// Calls that open, create or link a file by path for writing.
const CALLS: [&str; 12] = [
    "fs::write(",
    "File::create",
    "OpenOptions::new",
    "File::options(",
    "create_dir(",
    "create_dir_all(",
    "fs::rename(",
    "fs::copy(",
    "symlink(",
    "set_permissions(",
    "DirBuilder",
    "generate_to(",
];

/// Source files below `folder`, without tests.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
        if ["tests", "fuzz"].iter().any(|kind| name.starts_with(kind)) {
            continue;
        }
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

//~ fuzzing: files are written by the module that checks owners, modes and links, or for a stated reason
#[test]
fn files_are_written_by_this_module_or_for_a_reason_that_is_given() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut found = Vec::new();
    // `testbed` runs in experiments, in a directory of the test bed; `capi` runs in other programs.
    for entry in fs::read_dir(&crates).unwrap().flatten() {
        if !["testbed", "capi"].iter().any(|name| entry.file_name() == *name) {
            sources(&entry.path().join("src"), &mut found);
        }
    }
    let mut unused: Vec<&str> = OTHERS.iter().map(|(file, _)| *file).collect();
    for path in found.iter().filter(|path| path.extension().is_some_and(|kind| kind == "rs")) {
        let text = fs::read_to_string(path).unwrap();
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let is_call =
            |line: &&str| !line.trim().starts_with("//") && CALLS.iter().any(|call| line.contains(call));
        let Some(line) = code.lines().find(is_call) else { continue };
        let name = path.strip_prefix(&crates).unwrap().display().to_string();
        assert!(
            OTHERS.iter().any(|(file, _)| *file == name),
            "{name}: {}: by crate::files, or with a reason here",
            line.trim()
        );
        unused.retain(|file| *file != name);
    }
    assert_eq!(unused, [] as [&str; 0], "these need no exception any more");
}
