//! Every end of a daemon, and all that it has changed.

use std::os::unix::process::CommandExt as _;

use hostsched::Group;
use rustix::process::kill_process_group;

use super::*;

/// Signals; true if the daemon itself restores its changes, else its guardian does.
const WAYS: [(Signal, bool); 7] = [
    (Signal::INT, true),
    (Signal::TERM, true),
    (Signal::KILL, false),
    (Signal::ABORT, false),
    (Signal::ILL, false),
    (Signal::QUIT, false),
    (Signal::USR1, false),
];

/// Managed tasks: a process, and one in each of two control groups, of which one is frozen. The first
/// is in a group of the controller `cpu`, and a latency-critical one is in another.
struct Victims {
    programs: [Program; 3],
    groups: [Group; 2],
    critical: Program,
    /// Groups of the controller `cpu`: LC's and the first one's, where they can be made.
    shares: Vec<Group>,
}

impl Victims {
    fn new(name: &str) -> Option<Self> {
        let home = Hierarchy::freezer()?.folder_of(std::process::id())?;
        let group = |kind: &str| Group::make(&home, &format!("da-{name}-{kind}-{}", std::process::id())).ok();
        let groups = [group("frozen")?, group("thawed")?];
        let nice = || {
            let mut command = Command::new("nice");
            command.args(["-n", "5", "sh", "-c", SPINS]).stdin(Stdio::null());
            Program(command.spawn().expect("nice starts"))
        };
        let programs = [nice(), nice(), nice()];
        let one = cpulist::set_of(affinity::cores().ok()?.into_iter().take(1));
        for program in &programs {
            until("it is nice", || nice_of(program.0.id()) > nice_of(std::process::id()));
            rustix::thread::sched_setaffinity(program.pid(), &one).unwrap();
        }
        groups[0].take(programs[1].0.id()).unwrap();
        groups[1].take(programs[2].0.id()).unwrap();
        groups[0].freeze(true).unwrap();
        let critical = Program(Command::new("sleep").arg("600").spawn().expect("sleep starts"));
        let home = Hierarchy::idle().and_then(|tree| tree.folder_of(std::process::id()));
        let share = |kind: &str| {
            Group::make(home.as_ref()?, &format!("da-{name}-{kind}-{}", std::process::id())).ok()
        };
        let shares: Vec<Group> = [share("urgent"), share("batch")].into_iter().flatten().collect();
        for (group, id) in shares.iter().zip([critical.0.id(), programs[0].0.id()]) {
            group.take(id).unwrap();
            std::fs::write(group.path().join("cpu.shares"), "512").unwrap();
        }
        Some(Self { programs, groups, critical, shares })
    }

    /// All their settings that may be changed.
    fn state(&self) -> Vec<String> {
        let of = |program: &Program| format!("{:?} nice {:?}", program.scheduled(), nice_of(program.0.id()));
        let frozen = |group: &Group| format!("frozen: {}", group.is_frozen());
        let share = |group: &Group| {
            let read = |file: &str| std::fs::read_to_string(group.path().join(file)).unwrap_or_default();
            format!("shares {}, idle {}", read("cpu.shares").trim(), read("cpu.idle").trim())
        };
        let programs = self.programs.iter().chain([&self.critical]).map(of);
        programs.chain(self.groups.iter().map(frozen)).chain(self.shares.iter().map(share)).collect()
    }

    /// True if all settings that a daemon makes were made.
    fn are_taken(&self) -> bool {
        let is_idle = |group: &Group| {
            std::fs::read_to_string(group.path().join("cpu.idle")).is_ok_and(|idle| idle.trim() == "1")
        };
        let taken = |program: &Program| program.scheduled().0 == SchedPolicy::IDLE;
        self.programs.iter().all(taken) && self.shares.iter().skip(1).all(is_idle)
    }
}

impl Drop for Victims {
    fn drop(&mut self) {
        for (program, group) in self.programs.iter_mut().skip(1).zip(&self.groups) {
            let _ = program.0.kill();
            let _ = group.freeze(false);
            let _ = program.0.wait();
            let _ = std::fs::remove_dir(group.path());
        }
        for (program, group) in [&mut self.critical, &mut self.programs[0]].into_iter().zip(&self.shares) {
            let _ = program.0.kill();
            let _ = program.0.wait();
            let _ = std::fs::remove_dir(group.path());
        }
    }
}

fn nice_of(id: u32) -> Option<u64> {
    proc::Stat::of(id)?.field(19)
}

/// Number of processes whose command line has `mark`.
fn marked(mark: &str) -> usize {
    let has = |id: &u32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        !proc::is_zombie(*id) && String::from_utf8_lossy(&line).contains(mark)
    };
    proc::processes().filter(has).count()
}

//~ sched: every end of the scheduler restores class, nice, cores and cgroups and ends its commands
#[test]
fn however_a_daemon_ends_all_is_as_before_and_what_it_started_has_ended() {
    let test = "however_a_daemon_ends_all_is_as_before_and_what_it_started_has_ended";
    if !proc::may_schedule() {
        return skipped(test, "no CAP_SYS_NICE");
    }
    for (stop_method, is_in_order) in WAYS {
        let name = format!("ends-{}", stop_method.as_raw());
        let Some(victims) = Victims::new(&name) else { return skipped(test, "no freezer") };
        let before = victims.state();
        // A program with a child, both marked by a unique argument of sleep.
        let mark = format!("86400.{}{}", std::process::id(), stop_method.as_raw());
        let config = format!(
            "sensor = \"none\"\nmechanism = \"affinity\"\n\
             [[tasks]]\nname = \"own\"\nclass = \"BE\"\ncommand = [\"sh\", \"-c\", \"sleep {mark} & wait\"]\n\
             [[tasks]]\nname = \"lc\"\nclass = \"LC\"\npid = {}\n\
             [[tasks]]\nname = \"one\"\nclass = \"BE\"\npid = {}\n\
             [[tasks]]\nname = \"frozen\"\nclass = \"BE\"\ncgroup = \"{}\"\n\
             [[tasks]]\nname = \"thawed\"\nclass = \"BE\"\ncgroup = \"{}\"\n",
            victims.critical.0.id(),
            victims.programs[0].0.id(),
            victims.groups[0].path().display(),
            victims.groups[1].path().display(),
        );
        let file = Scratch::new(&format!("{name}.toml"), &config);
        let journals = journals(&name);
        let args = ["sched", "--config", file.path(), "--state-dir", &journals];
        // A shell ignores SIGQUIT in background jobs, and so would the daemon.
        let mut command = Command::new("env");
        command.args(["--default-signal=QUIT", GREENWAVE]).args(args);
        let daemon = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut daemon = Program(daemon.expect("greenwave starts"));
        until("all are taken over", || victims.are_taken() && marked(&mark) == 2);
        kill_process(daemon.pid().unwrap(), stop_method).unwrap();
        let ended = daemon.0.wait().unwrap();
        assert_eq!(ended.code(), is_in_order.then_some(0), "{stop_method:?}");
        until(&format!("all is put back after {stop_method:?}"), || victims.state() == before);
        until(&format!("its programs have ended after {stop_method:?}"), || marked(&mark) == 0);
        until("no journal is left", || std::fs::read_dir(&journals).is_ok_and(|folder| folder.count() == 0));
    }
}

//~ sched: every end of the scheduler restores class, nice, cores and cgroups and ends its commands
#[test]
fn restore_reports_and_ends_programs_of_a_killed_daemon() {
    let test = "restore_reports_and_ends_programs_of_a_killed_daemon";
    if !proc::may_schedule() {
        return skipped(test, "no CAP_SYS_NICE");
    }
    let mark = format!("86401.{}", std::process::id());
    // A program that ignores SIGTERM, from the kernel and from us.
    let config = format!(
        "sensor = \"none\"\nmechanism = \"affinity\"\n[[tasks]]\nname = \"own\"\nclass = \"BE\"\n\
         command = [\"sh\", \"-c\", \"trap '' TERM; sleep {mark} & wait; wait\"]\n"
    );
    let file = Scratch::new("restore-ends.toml", &config);
    let journals = journals("restore-ends");
    let args = ["sched", "--config", file.path(), "--state-dir", &journals];
    // With its guardian in a group that is killed as a whole, as when a control group ends.
    let mut command = Command::new(GREENWAVE);
    command.args(args).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
    let mut daemon = Program(command.spawn().expect("greenwave starts"));
    until("it runs", || marked(&mark) == 2);
    let guardian = proc::family(daemon.0.id()).into_iter().find(|&id| {
        std::fs::read(format!("/proc/{id}/cmdline"))
            .is_ok_and(|line| String::from_utf8_lossy(&line).contains("--guard"))
    });
    kill_process(Pid::from_raw(guardian.expect("it has one") as i32).unwrap(), Signal::KILL).unwrap();
    kill_process_group(daemon.pid().unwrap(), Signal::KILL).unwrap();
    daemon.0.wait().unwrap();
    assert_eq!(marked(&mark), 2, "it heard nothing");
    let out = greenwave(&["sched", "restore", "--state-dir", &journals]);
    let stdout = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && stdout.contains("; ended the programs it had started: "), "{stdout}");
    assert!(stdout.contains("sh (") && stdout.contains("sleep ("), "{stdout}");
    assert_eq!(marked(&mark), 0);
    let again = greenwave(&["sched", "restore", "--state-dir", &journals]);
    assert_eq!(String::from_utf8_lossy(&again.stdout), "nothing to restore\n");
}

//~ sched: a stale journal, a zombie or a reused process ID is not mistaken for a scheduler
#[test]
fn a_zombie_daemon_has_ended() {
    if !proc::may_schedule() {
        return skipped("a_zombie_daemon_has_ended", "no CAP_SYS_NICE");
    }
    let program = Program::spins();
    let before = program.scheduled();
    let (mut daemon, config) = daemon("zombie", &program);
    let family = proc::family(daemon.0.id());
    for id in family.into_iter().rev() {
        kill_process(Pid::from_raw(id as i32).unwrap(), Signal::KILL).unwrap();
    }
    // Unreaped, it keeps its process id.
    until("it is a zombie", || proc::is_zombie(daemon.0.id()));
    let out = greenwave(&["sched", "restore", "--state-dir", &journals("zombie")]);
    let stdout = String::from_utf8_lossy(&out.stdout);
    assert!(stdout.contains(" has ended: "), "{stdout}");
    assert_eq!(program.scheduled(), before);
    drop(config);
    daemon.0.wait().unwrap();
}

/// Runs greenwave as another user, without a session's run-time folder.
fn as_other(args: &[&str], environment: &[(&str, &str)]) -> std::process::Output {
    let mut command = Command::new(GREENWAVE);
    command.args(args).uid(OTHER).gid(OTHER).env_remove("XDG_RUNTIME_DIR").envs(environment.iter().copied());
    command.current_dir("/").output().expect("greenwave starts")
}

/// User id of `nobody`.
const OTHER: u32 = 65_534;

//~ sched: journals in a folder of another user are neither read nor written
#[test]
fn a_folder_of_journals_that_another_user_prepared_is_refused() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let test = "a_folder_of_journals_that_another_user_prepared_is_refused";
    if !rustix::process::geteuid().is_root() {
        return skipped(test, "only root can act as two users");
    }
    let shared = netlab::TempDir::new("da-shared").unwrap();
    let permit = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    permit(shared.path(), 0o1777);
    let precious = netlab::TempDir::new("da-precious").unwrap();
    std::fs::write(precious.path().join("file"), "precious").unwrap();
    let (tmp, folder) = (shared.path().to_str().unwrap(), shared.path().join(format!("greenwave-{OTHER}")));
    let config =
        Scratch::new("shared.toml", "[[tasks]]\nname = \"a\"\nclass = \"LC\"\ncommand = [\"true\"]\n");
    let public = shared.path().join("shared.toml");
    std::fs::copy(config.path(), &public).unwrap();
    permit(&public, 0o644);
    let starts = ["sched", "--config", public.to_str().unwrap(), "--duration", "100ms"];
    if !as_other(&["--version"], &[]).status.success() {
        return skipped(test, "another user cannot run the program under test");
    }
    // A folder of root is trusted, and root is the attacker here; so it belongs to a third user.
    let third = |path: &std::path::Path| std::os::unix::fs::lchown(path, Some(1234), Some(1234)).unwrap();
    let check = |says: &str| {
        for args in [&starts[..], &["sched", "restore"]] {
            let out = as_other(args, &[("TMPDIR", tmp)]);
            let stderr = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(2), "{stderr}");
            assert!(
                stderr.contains(says) && stderr.contains("\n  try: ") && stderr.lines().count() == 2,
                "{stderr}"
            );
            assert_eq!(std::fs::read_to_string(precious.path().join("file")).unwrap(), "precious");
            assert_eq!(std::fs::read_dir(precious.path()).unwrap().count(), 1);
        }
    };
    std::fs::create_dir(&folder).unwrap();
    third(&folder);
    check("owned by user 1234");
    permit(&folder, 0o777);
    check("owned by user 1234");
    std::fs::remove_dir(&folder).unwrap();
    symlink(precious.path(), &folder).unwrap();
    third(&folder);
    check("is a link of user 1234");
    std::fs::remove_file(&folder).unwrap();
    let made = as_other(&starts, &[("TMPDIR", tmp)]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    assert_eq!(std::fs::metadata(&folder).unwrap().permissions().mode() & 0o7777, 0o700);
    // Its own folder, writable by others.
    permit(&folder, 0o770);
    check("writable by other users (mode 770)");
}
