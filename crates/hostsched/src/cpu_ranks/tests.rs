//! Every nesting of two paths, and settings of real groups.

use super::*;

/// Place of task 0 (LC) or 1 (BE).
fn task_group(task: usize, group: &str) -> TaskCgroup {
    TaskCgroup { task, critical: task == 0, group: group.into() }
}

/// Expected result for one pair of groups.
#[derive(Debug, PartialEq)]
enum Outcome {
    /// The class of the threads decides.
    Class,
    Idle(&'static str),
    Raised(&'static str),
    Limit(&'static str),
}

//~ sched: best effort ranks below latency-critical tasks in any other control group, or a limit is printed
#[test]
fn the_setting_is_made_where_two_paths_part() {
    use Outcome::{Class, Idle, Limit, Raised};
    let check = |lc: &str, be: &str, bystanders: &[&str], expected: Outcome| {
        let cgroups = BTreeSet::from([task_group(0, lc), task_group(1, be)]);
        let strangers =
            |group: &Path| Some(bystanders.iter().filter(|&path| Path::new(path).starts_with(group)).count());
        let (settings, conflicts) = plan(&cgroups, strangers);
        let is = match (&settings.iter().collect::<Vec<_>>()[..], &conflicts[..]) {
            ([], []) => Class,
            ([(group, Setting::Idle)], []) => Idle(leak(group)),
            ([(group, Setting::Heaviest)], [conflict]) => {
                assert_eq!(conflict.raised.as_ref(), Some(*group));
                Raised(leak(group))
            }
            ([], [conflict]) => Limit(leak(&conflict.group)),
            other => panic!("{other:?}"),
        };
        assert_eq!(is, expected, "LC in {lc}, BE in {be}, others in {bystanders:?}");
    };
    // Siblings, and deeper ones: systemd's and the kubelet's groups.
    check("/c/a", "/c/b", &[], Idle("/c/b"));
    check(
        "/c/system.slice/web.service",
        "/c/system.slice/batch.service",
        &[],
        Idle("/c/system.slice/batch.service"),
    );
    check("/c/system.slice/web.service", "/c/user.slice/u1/s1", &[], Idle("/c/user.slice"));
    check("/c/user.slice/u1/s1", "/c/system.slice/batch.service", &[], Idle("/c/system.slice"));
    check("/c/kubepods/pod1/main", "/c/kubepods/besteffort/pod2/main", &[], Idle("/c/kubepods/besteffort"));
    check(
        "/c/kubepods/burstable/pod1/main",
        "/c/kubepods/burstable/pod1/side",
        &[],
        Idle("/c/kubepods/burstable/pod1/side"),
    );
    // Nested, same, root.
    check("/c/a/b", "/c/a", &[], Class);
    check("/c/a", "/c/a/b", &[], Idle("/c/a/b"));
    check("/c/a", "/c/a", &[], Class);
    check("/c", "/c/a/b", &[], Idle("/c/a"));
    check("/c/a/b", "/c", &[], Class);
    check("/c", "/c", &[], Class);
    // A name that begins like another is not above it.
    check("/c/a", "/c/ab", &[], Idle("/c/ab"));
    // Others beneath the setting.
    check("/c/a", "/c/b/x", &["/c/b/y"], Raised("/c/a"));
    check("/c/a", "/c/b", &["/c/a"], Idle("/c/b"));
    check("/c/a/x", "/c/b/x", &["/c/b/y", "/c/a/y"], Limit("/c/b"));
    check("/c", "/c/b/x", &["/c/b"], Limit("/c/b"));
}

fn leak(path: &Path) -> &'static str {
    path.display().to_string().leak()
}

#[test]
fn a_group_with_a_latency_critical_task_inside_is_never_idle() {
    let cgroups = BTreeSet::from([task_group(0, "/c/a"), task_group(0, "/c/b/x"), task_group(1, "/c/b/y")]);
    let (settings, conflicts) = plan(&cgroups, |_| Some(0));
    // Between the two in /c/b it is ranked; between /c/a and /c/b the weight is raised.
    let expected = [("/c/a", Setting::Heaviest), ("/c/b/y", Setting::Idle)];
    assert_eq!(settings, expected.map(|(group, setting)| (group.into(), setting)).into());
    assert_eq!(conflicts.len(), 1);
    assert_eq!((conflicts[0].group.as_path(), conflicts[0].strangers), (Path::new("/c/b"), 0));
    // A login session is no group.
    let cgroups = BTreeSet::from([task_group(0, "/c/autogroup-1"), task_group(1, "/c/autogroup-2")]);
    let (settings, conflicts) = plan(&cgroups, |_| None);
    assert_eq!((settings.len(), conflicts.len()), (0, 1));
}
