//! Undo logs of sleeping programs, and of threads that come and go.

use std::fs;
use std::process::{Child, Command};

use rustix::thread::sched_setaffinity;

use super::*;
use crate::real_time::{BUSY, REGULAR};
use crate::soon::soon;

fn scratch(name: &str) -> PathBuf {
    std::env::temp_dir().join(format!("greenwave-journal-{name}-{}", std::process::id()))
}

fn sleep() -> Child {
    Command::new("sleep").arg("600").spawn().unwrap()
}

fn end<const N: usize>(children: [Child; N]) {
    for mut child in children {
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

fn affinity(id: u32) -> Vec<CoreId> {
    cpulist::of_set(&sched_getaffinity(pid(id)).unwrap())
}

#[test]
fn what_was_noted_is_put_back_and_done_once() {
    let folder = scratch("back");
    let child = sleep();
    let id = child.id();
    let before = (SchedPolicy::of(pid(id)).unwrap(), affinity(id));
    let mut journal = Journal::begin(&folder, &[CoreId(0)]).unwrap();
    journal.thread(0, id, id, &InheritedMarks::default()).unwrap();
    let [(path, author)] = &all(&folder).unwrap()[..] else { panic!("one journal") };
    assert!(author.is_alive() && author.cores == [CoreId(0)] && path == journal.path());
    sched_setaffinity(pid(id), &cpulist::set_of([before.1[0]])).unwrap();
    let mut expected = Restored { threads: 1, ..Restored::default() };
    if proc::may_schedule() {
        SchedPolicy::IDLE.set(pid(id)).unwrap();
    }
    // It is recorded already and gets no second line.
    assert_eq!(journal.thread(0, id, id, &InheritedMarks::default()).unwrap(), before.0);
    assert_eq!(journal.lines, 3);
    assert_eq!(restore(path).unwrap(), expected);
    assert_eq!((SchedPolicy::of(pid(id)).unwrap(), affinity(id)), before);
    assert!(!path.exists() && restore(path).is_err());
    // Ended threads need no line.
    let mut journal = Journal::begin(&folder, &[CoreId(0)]).unwrap();
    journal.thread(0, id, id, &InheritedMarks::default()).unwrap();
    end([child]);
    expected.threads = 0;
    assert_eq!(restore(path).unwrap(), expected);
    fs::remove_dir(&folder).unwrap();
}

#[test]
fn a_thread_with_its_tasks_settings_is_noted_with_those_it_would_have_without() {
    let folder = scratch("inherited");
    let children = [sleep(), sleep(), sleep(), sleep()];
    // This process, parent of all, is in no task: they inherit from the task's first thread.
    let [first, same, other, own] = children.each_ref().map(Child::id);
    let (class, cores) = (SchedPolicy::of(pid(first)).unwrap(), affinity(first));
    let mut journal = Journal::begin(&folder, &[CoreId(0)]).unwrap();
    assert_eq!(journal.thread(0, first, first, &InheritedMarks::default()).unwrap(), class);
    let (one, all) = ([cpulist::set_of([cores[0]])], [cpulist::set_of(cores.clone())]);
    for id in [same, other, own] {
        sched_setaffinity(pid(id), &one[0]).unwrap();
    }
    let batch = SchedPolicy { policy: libc::SCHED_BATCH, priority: 0 };
    SchedPolicy::IDLE.set(pid(same)).unwrap();
    batch.set(pid(other)).unwrap();
    let ours = InheritedMarks { class: Some(SchedPolicy::IDLE), cores: &one };
    assert_eq!(journal.thread(0, same, same, &ours).unwrap(), class);
    assert_eq!(journal.thread(0, other, other, &ours).unwrap(), batch, "it chose that itself");
    journal.thread(0, own, own, &InheritedMarks { cores: &all, ..ours }).unwrap();
    let noted = |id: u32| journal.threads[&(0, id, id)].cores.clone();
    assert_eq!((noted(same), noted(other)), (cores.clone(), cores.clone()));
    assert_eq!(noted(own), cores[..1], "it chose these itself");
    let restored = restore(journal.path()).unwrap();
    assert_eq!(restored.threads + restored.failed, 4);
    assert_eq!((affinity(same), affinity(own)), (cores.clone(), cores[..1].to_vec()));
    if proc::may_schedule() {
        assert_eq!((SchedPolicy::of(pid(same)).unwrap(), restored.failed), (class, 0));
    }
    assert_eq!(SchedPolicy::of(pid(other)).unwrap(), batch);
    end(children);
    fs::remove_dir(&folder).unwrap();
}

#[test]
fn what_is_inherited_from_us_would_have_been_the_parent_s() {
    let fifo = SchedPolicy { policy: libc::SCHED_FIFO, priority: 5 };
    let check = |ours: SchedPolicy, parent: SchedPolicy, expected: SchedPolicy| {
        assert_eq!(inherited(ours, parent), expected, "{ours:?} {parent:?}");
    };
    check(SchedPolicy::IDLE, SchedPolicy::OTHER, SchedPolicy::OTHER);
    check(SchedPolicy::IDLE, fifo, fifo);
    check(SchedPolicy::EXT, SchedPolicy::FIRST, SchedPolicy::OTHER);
    // Threads of the fair class become real-time: not the parent, but one beside it.
    for ours in [REGULAR, BUSY] {
        check(ours, fifo, SchedPolicy::OTHER);
        check(ours, SchedPolicy::OTHER, SchedPolicy::OTHER);
        check(ours, ours, ours);
    }
}

//~ sched: best-effort threads leave the cores of latency-critical ones, and every setting is restored
#[test]
fn a_journal_of_threads_that_come_and_go_stays_short_and_puts_everything_back() {
    let folder = scratch("churn");
    let children = [sleep(), sleep()];
    let [early, late] = children.each_ref().map(Child::id);
    let before = [early, late].map(affinity);
    let (began, no_process) = (proc::began(early, early).unwrap(), u32::MAX >> 1);
    let none = InheritedMarks::default();
    let mut journal = Journal::begin(&folder, &[CoreId(0)]).unwrap();
    journal.made(0, Path::new("/no/such/folder")).unwrap();
    journal.asks(early, began).unwrap();
    journal.asks(no_process, 1).unwrap();
    journal.thread(0, early, early, &none).unwrap();
    let (id, mut lines_max) = (std::process::id(), 0);
    for n in 0..3 * SPARE {
        if n == 2 * SPARE {
            journal.thread(0, late, late, &none).unwrap();
        }
        std::thread::scope(|scope| {
            scope.spawn(|| journal.thread(1, id, host::thread::number(), &none).unwrap());
        });
        journal.shorten(|_, thread| thread == (early, early)).unwrap();
        lines_max = lines_max.max(journal.lines);
    }
    assert!((SPARE..2 * SPARE).contains(&lines_max), "{lines_max} lines");
    let text = fs::read_to_string(journal.path()).unwrap();
    assert_eq!(text.lines().count(), journal.lines);
    let has = |line: &str| text.lines().any(|one| one == line);
    assert!(has("made 0 /no/such/folder") && has(&signal_page_line(early, began)));
    assert!(!has(&signal_page_line(no_process, 1)), "it has ended");
    let its = |task: usize| text.lines().filter_map(was).filter(move |was| was.task == task);
    assert_eq!(its(0).map(|was| was.process).collect::<Vec<_>>(), [early, late]);
    // A reaped thread may be visible for a moment more.
    soon(|| !its(1).any(|was| was.is_there()));
    assert_eq!(its(1).next().as_ref(), journal.firsts.get(&1), "for the child found last");

    // A log that was unfinished when we were killed is not read.
    fs::write(beside(journal.path()), &journal.head[..journal.head.len() / 2]).unwrap();
    let [(path, author)] = &all(&folder).unwrap()[..] else { panic!("one journal") };
    assert!(author.is_alive() && path == journal.path());
    for id in [early, late] {
        sched_setaffinity(pid(id), &cpulist::set_of([before[0][0]])).unwrap();
    }
    assert_eq!(restore(path).unwrap(), Restored { threads: 2, ..Restored::default() });
    assert_eq!([early, late].map(affinity), before);
    end(children);
    fs::remove_dir(&folder).unwrap();
}

#[test]
fn a_journal_that_cannot_be_shortened_goes_on() {
    let folder = scratch("long");
    let mut journal = Journal::begin(&folder, &[CoreId(0)]).unwrap();
    // The path of the shorter log is occupied.
    fs::create_dir(beside(journal.path())).unwrap();
    (0..=SPARE).for_each(|n| journal.made(n, Path::new("/no/such/folder")).unwrap());
    journal.shorten(|_, _| true).unwrap_err();
    journal.shorten(|_, _| true).expect("no second attempt follows at once");
    journal.made(7, Path::new("/no/such/other")).unwrap();
    let text = fs::read_to_string(journal.path()).unwrap();
    assert!(text.ends_with("made 7 /no/such/other\n"));
    assert_eq!(text.lines().count(), SPARE + 4);
    fs::remove_dir_all(&folder).unwrap();
}

//~ sched: a removed undo log is written again, so a kill restores every setting
#[test]
fn a_removed_log_is_written_again_and_restores_everything() {
    let folder = scratch("removed");
    let mut child = sleep();
    let before = affinity(child.id());
    let mut journal = Journal::begin(&folder, &[CoreId(0)]).unwrap();
    journal.thread(0, child.id(), child.id(), &InheritedMarks::default()).unwrap();
    sched_setaffinity(pid(child.id()), &cpulist::set_of([before[0]])).unwrap();
    for removes in
        [|path: &Path| fs::remove_file(path), |path: &Path| fs::remove_dir_all(path.parent().unwrap())]
    {
        removes(journal.path()).unwrap();
        assert!(all(&folder).unwrap().is_empty());
        journal.keep().unwrap();
        let [(path, author)] = &all(&folder).unwrap()[..] else { panic!("one journal") };
        assert!(author.is_alive() && path == journal.path());
    }
    let path = journal.path().to_owned();
    // The lock ends with the daemon.
    drop(journal);
    assert_eq!(restore(&path).unwrap().threads, 1);
    assert_eq!(affinity(child.id()), before);
    child.kill().unwrap();
    child.wait().unwrap();
    fs::remove_dir_all(&folder).unwrap();
}

/// A log `sched-7.journal` in `folder`, written by `process`, with these lines.
fn written(folder: &Path, process: u32, lines: &str) -> PathBuf {
    let began = proc::began(process, process).unwrap();
    let path = folder.join("sched-7.journal");
    let text = format!("greenwave sched 1 {process} {began} 0\n{lines}");
    Folder::create(folder)
        .unwrap()
        .create_file("sched-7.journal")
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    path
}

//~ sched: a stale journal, a zombie or a reused process ID is not mistaken for a scheduler
#[test]
fn a_daemon_is_alive_while_it_holds_its_journal_whatever_has_its_number() {
    let folder = scratch("alive");
    let alive = || all(&folder).unwrap().iter().map(|(_, author)| author.is_alive()).collect::<Vec<_>>();
    let this = std::process::id();
    let boot = this_boot().unwrap();
    let journal = Journal::begin(&folder, &[CoreId(0)]).unwrap();
    assert_eq!(alive(), [true]);
    drop(journal);
    assert_eq!(alive(), [false], "the kernel has released the lock, and this process has its number");
    restore(&folder.join(format!("sched-{this}.journal"))).unwrap();
    // A log of a version without a lock.
    let old = written(&folder, this, "");
    assert_eq!(alive(), [true]);
    fs::remove_file(old).unwrap();
    let named = written(&folder, this, &format!("boot {boot}\n"));
    assert_eq!(alive(), [false]);
    fs::remove_file(named).unwrap();
    let mut zombie = Command::new("true").spawn().unwrap();
    soon(|| proc::is_zombie(zombie.id()));
    let old = written(&folder, zombie.id(), "");
    assert_eq!(alive(), [false], "a zombie has a number and a start time, and has ended");
    zombie.wait().unwrap();
    assert_eq!(alive(), [false]);
    fs::remove_file(old).unwrap();
    fs::remove_dir(&folder).unwrap();
}

//~ sched: a stale journal, a zombie or a reused process ID is not mistaken for a scheduler
#[test]
fn a_journal_of_an_earlier_boot_is_removed_and_changes_nothing() {
    let folder = scratch("boot");
    let child = sleep();
    let (id, cores) = (child.id(), affinity(child.id()));
    let began = proc::began(id, id).unwrap();
    let line = format!("thread 0 {id} {id} {began} 0 0 {}", cpulist::text(&cores));
    let lines = format!("boot 0-0-0\n{line}\nstarted 0 {id} {began}\nfreezes /sys/fs/cgroup\n");
    let path = written(&folder, std::process::id(), &lines);
    sched_setaffinity(pid(id), &cpulist::set_of([cores[0]])).unwrap();
    assert_eq!(restore(&path).unwrap(), Restored { is_of_earlier_boot: true, ..Restored::default() });
    assert_eq!(affinity(id), [cores[0]], "another process has its number");
    assert!(!path.exists() && !proc::is_zombie(id));
    end([child]);
    fs::remove_dir(&folder).unwrap();
}

//~ sched: every end of the scheduler restores class, nice, cores and cgroups and ends its commands
#[test]
fn programs_that_were_started_end_with_all_that_they_have_started_and_no_other_does() {
    use std::os::unix::process::CommandExt as _;
    let folder = scratch("started");
    let group = |script: &str| Command::new("sh").args(["-c", script]).process_group(0).spawn().unwrap();
    // One with a child, one whose leader ends before its child, one that ignores SIGTERM, one that is
    // stopped.
    let mut ours =
        [group("sleep 600 & wait"), group("sleep 600 & exit"), group("sleep 600 & kill -STOP $$; wait")];
    let other = group("sleep 600 & wait");
    let reused = group("sleep 600 & wait");
    let mut journal = Journal::begin(&folder, &[CoreId(0)]).unwrap();
    let alive = |group: u32| programs::members(group).count();
    soon(|| ours.iter().chain([&other, &reused]).all(|child| alive(child.id()) > 0));
    for (task, child) in ours.iter().enumerate() {
        journal.started(task, child.id()).unwrap();
    }
    // The number belonged to another process.
    journal.folder(format!("started 9 {} 1", reused.id())).unwrap();
    let path = journal.path().to_owned();
    let restored = restore(&path).unwrap();
    assert_eq!(restored, Restored::default());
    assert!(path.exists(), "its child has not ended yet");
    soon(|| alive(ours[1].id()) == 1);
    let ended = end_programs(&path).unwrap();
    assert_eq!(ended.iter().filter(|name| name.starts_with("sleep (")).count(), 3, "{ended:?}");
    assert_eq!(ours.each_ref().map(|child| alive(child.id())), [0, 0, 0]);
    assert!(alive(other.id()) == 2 && alive(reused.id()) == 2);
    assert!(!path.exists() && end_programs(&path).is_err());
    for child in &mut ours {
        child.wait().unwrap();
    }
    for mut child in [other, reused] {
        rustix::process::kill_process_group(pid(child.id()).unwrap(), rustix::process::Signal::KILL).unwrap();
        child.wait().unwrap();
    }
    fs::remove_dir(&folder).unwrap();
}

//~ sched: journals in a folder of another user are neither read nor written
#[test]
fn a_journal_in_a_folder_of_others_is_neither_read_nor_written() {
    use std::os::unix::fs::PermissionsExt as _;
    let folder = scratch("shared");
    let path = written(&folder, std::process::id(), "freezes /sys/fs/cgroup\n");
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let says = "writable by other users (mode 777)";
    let errors = [
        all(&folder).map(drop).unwrap_err(),
        restore(&path).map(drop).unwrap_err(),
        end_programs(&path).map(drop).unwrap_err(),
        Journal::begin(&folder, &[CoreId(0)]).map(drop).unwrap_err(),
    ];
    for e in errors {
        assert_eq!(e.to_string(), says);
    }
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o700)).unwrap();
    // A file in our own directory that others may write is rejected, too.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert!(all(&folder).unwrap_err().to_string().starts_with("sched-7.journal: it is not a regular file"));
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_line_that_was_cut_short_is_no_line() {
    let line = "thread 1 70 71 4242 0 0 0-1";
    let is = was(line).unwrap();
    assert_eq!((is.task, is.process, is.thread, is.began), (1, 70, 71, 4242));
    assert_eq!((is.class, is.cores.clone()), (SchedPolicy::OTHER, vec![CoreId(0), CoreId(1)]));
    assert_eq!(is.line(), line);
    for len in 0..line.len() - 3 {
        assert_eq!(was(&line[..len]), None, "{:?}", &line[..len]);
    }
    // With anything written after it, it is invalid at any length.
    for len in 0..=line.len() {
        let text = format!("{}{CUT}{line}\n", &line[..len]);
        assert_eq!(text.lines().filter_map(was).collect::<Vec<_>>(), std::slice::from_ref(&is), "{text:?}");
    }
    // Earlier versions wrote `pulse`.
    for name in ["signal_page", "pulse"] {
        assert_eq!(process_of(&format!("{name} 70 4242")), Some((70, 4242)));
        assert_eq!(process_of(&format!("{name} 70")), None);
    }
    assert_eq!(process_of(&signal_page_line(70, 4242)), Some((70, 4242)));
    assert_eq!(made("made 3 /sys/fs/cgroup/a b"), Some((3, "/sys/fs/cgroup/a b".into())));
    assert_eq!((author("greenwave sched 2 1 1 0", true), author("", true)), (None, None));
}
