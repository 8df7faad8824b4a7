//! Tasks that must not be managed: refused at the start, by `check` and by a reload, and left alone when
//! they join later.

use std::fs::File;
use std::os::unix::fs::symlink;

use hostsched::Group;

use super::*;

/// A control group of the test, removed on drop.
struct Inside(Group);

impl Inside {
    fn make(name: &str) -> Option<Self> {
        let home = Hierarchy::freezer()?.folder_of(std::process::id())?;
        Group::make(&home, &format!("refused-{name}-{}", std::process::id())).ok().map(Self)
    }

    fn path(&self) -> String {
        self.0.path().display().to_string()
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        let _ = self.0.dissolve();
    }
}

//~ sched: no task contains greenwave, its guardian, its ancestors, the first process or a kernel thread
//~ sched: overlapping tasks are refused, whatever path, link or mount names them
#[test]
fn tasks_that_contain_greenwave_or_each_other_are_refused() {
    let test = "tasks_that_contain_greenwave_or_each_other_are_refused";
    let (Some(group), true) = (Inside::make("overlap"), proc::may_schedule()) else {
        return skipped(test, "no cgroup, or no CAP_SYS_NICE");
    };
    let program = Program::spins();
    group.0.take(program.0.id()).unwrap();
    let check = |tasks: &[(&str, &str, String)], says: &str| {
        let task = |(name, class, selector): &(&str, &str, String)| {
            format!("[[tasks]]\nname = \"{name}\"\nclass = \"{class}\"\n{selector}\n")
        };
        let text: String = tasks.iter().map(task).collect();
        let file = Scratch::new("refused.toml", &format!("sensor = \"none\"\n{text}"));
        let journals = journals("refused");
        for args in
            [&["check", file.path()][..], &["sched", "--config", file.path(), "--state-dir", &journals]]
        {
            let out = greenwave(args);
            let stderr = String::from_utf8_lossy(&out.stderr);
            assert_eq!(out.status.code(), Some(2), "{stderr}");
            assert!(stderr.contains(says), "{says:?} is not in {stderr:?}");
            assert!(stderr.contains("\n  try: ") && stderr.lines().count() == 2, "{stderr}");
        }
        assert_eq!(program.scheduled().0, SchedPolicy::OTHER);
    };
    let (pid, at) = (|id: u32| format!("pid = {id}"), |path: &str| format!("cgroup = \"{path}\""));
    let this = std::process::id();
    check(&[("a", "BE", pid(this))], &format!("task a: process {this} ("));
    check(&[("a", "BE", pid(this))], ") is an ancestor of greenwave");
    check(&[("a", "BE", pid(1))], "the first process");
    if proc::sees_kernel_threads() {
        check(&[("a", "LC", pid(2))], "task a: process 2 (kthreadd) is a kernel thread");
    }
    let (path, id) = (group.path(), program.0.id());
    let link = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("refused-link-{this}"));
    symlink(&path, &link).unwrap();
    let link_path = link.display().to_string();
    let spellings =
        [path.clone(), format!("{path}/"), format!("{path}/../refused-overlap-{this}"), link_path];
    for spelling in &spellings {
        let says =
            format!("tasks web and batch overlap: process {id} (sh) is in process {id} (sh) and in cgroup ");
        check(&[("web", "LC", pid(id)), ("batch", "BE", at(spelling))], &says);
    }
    for spelling in &spellings[1..] {
        let says = "tasks web and batch overlap: cgroup ";
        check(&[("web", "LC", at(&path)), ("batch", "BE", at(spelling))], says);
    }
    std::fs::remove_file(link).unwrap();
}

//~ sched: a process that joins a task's group is left alone if it is protected or of another task
#[test]
fn a_daemon_that_joins_its_own_group_goes_on_and_refuses_reloads() {
    let test = "a_daemon_that_joins_its_own_group_goes_on_and_refuses_reloads";
    let (Some(group), true) = (Inside::make("joins"), proc::may_schedule()) else {
        return skipped(test, "no cgroup, or no CAP_SYS_NICE");
    };
    let program = Program::spins();
    group.0.take(program.0.id()).unwrap();
    let text = format!(
        "sensor = \"none\"\nmechanism = \"affinity\"\n\
         [[tasks]]\nname = \"batch\"\nclass = \"BE\"\ncgroup = \"{}\"\n",
        group.path()
    );
    let (file, log) = (Scratch::new("joins.toml", &text), Scratch::new("joins.log", ""));
    let out = File::options().append(true).open(log.path()).unwrap();
    let args = ["sched", "--config", file.path(), "--state-dir", &journals("joins"), "--interval", "20ms"];
    let mut daemon = Command::new(GREENWAVE);
    daemon.args(args).stdout(out.try_clone().unwrap()).stderr(out);
    let mut daemon = Program(daemon.spawn().expect("greenwave starts"));
    until("it is taken over", || program.scheduled().0 == SchedPolicy::IDLE);
    let guardian = proc::descendants(daemon.0.id());
    let says = |words: &str| {
        until(words, || std::fs::read_to_string(log.path()).is_ok_and(|text| text.contains(words)));
    };
    let joins: Vec<u32> = guardian.into_iter().chain([daemon.0.id()]).collect();
    for &id in &joins {
        group.0.take(id).unwrap();
        says(&format!("error: task batch: process {id} ("));
        assert_ne!(SchedPolicy::of(Pid::from_raw(id as i32)).unwrap(), SchedPolicy::IDLE);
    }
    says("threads not managed");
    kill_process(daemon.pid().unwrap(), Signal::HUP).unwrap();
    says("contains process ");
    says("the previous settings stay in force");
    let parent = group.0.path().parent().unwrap();
    for id in joins {
        std::fs::write(parent.join("cgroup.procs"), id.to_string()).unwrap();
    }
    kill_process(daemon.pid().unwrap(), Signal::TERM).unwrap();
    assert_eq!(daemon.0.wait().unwrap().code(), Some(0));
    assert_eq!(program.scheduled().0, SchedPolicy::OTHER);
}
