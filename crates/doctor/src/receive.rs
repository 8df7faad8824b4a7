//! Placement and cost of receive work.
//!
//! Receive livelock needs two things: work that precedes all other work on a core, and more of it than
//! the core can do. In Linux that work is the softirq; threaded NAPI is scheduled like any other
//! thread, and RPS spreads it. Each interface is judged by its configuration; the share of a core is
//! the largest since boot, sampled at ticks.
//!
//! Source: the overload paper §4 (limiting the first stage's share); Linux,
//! Documentation/networking/{napi,scaling}.rst, proc_stat(5).

use std::fs;
use std::path::Path;

use super::Finding;

const AREA: &str = "guard";

pub(super) fn examine() -> Vec<Finding> {
    let stat = fs::read_to_string("/proc/stat").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    [softirq(&stat)].into_iter().chain(interfaces().iter().map(|set_up| judge(set_up, cores))).collect()
}

/// Receive configuration of an interface.
#[derive(Clone, Debug, PartialEq, Eq)]
struct SetUp {
    name: String,
    queues: usize,
    /// True for threaded NAPI.
    threaded: bool,
    /// Number of queues with RPS.
    steered: usize,
}

/// All interfaces in `/sys` except the loopback.
fn interfaces() -> Vec<SetUp> {
    let folders = fs::read_dir("/sys/class/net").into_iter().flatten().flatten();
    let mut found: Vec<SetUp> = folders.filter_map(|folder| set_up(&folder.path())).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn set_up(folder: &Path) -> Option<SetUp> {
    let name = folder.file_name()?.to_str()?.to_owned();
    let read = |path: &Path| fs::read_to_string(path).unwrap_or_default();
    let is_up = read(&folder.join("operstate")).trim() == "up";
    let is_ethernet = read(&folder.join("type")).trim() == "1";
    if name == "lo" || !is_up || !is_ethernet {
        return None;
    }
    let queues: Vec<_> = fs::read_dir(folder.join("queues")).ok()?.flatten().map(|q| q.path()).collect();
    let receiving =
        queues.iter().filter(|q| q.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"rx-")));
    let masks: Vec<String> = receiving.map(|queue| read(&queue.join("rps_cpus"))).collect();
    let is_set = |mask: &&String| mask.chars().any(|c| c.is_ascii_hexdigit() && c != '0');
    Some(SetUp {
        queues: masks.len(),
        threaded: read(&folder.join("threaded")).trim() == "1",
        steered: masks.iter().filter(is_set).count(),
        name,
    })
}

/// Finding for one interface on a machine of `cores` cores.
fn judge(set_up: &SetUp, cores: usize) -> Finding {
    const WHAT: &str = "receive work";
    let SetUp { name, queues, threaded, steered } = set_up;
    let plural = if *queues == 1 { "queue" } else { "queues" };
    let how = format!("{name}, {queues} {plural}");
    if *threaded {
        return Finding::works(AREA, WHAT, format!("{how}: threaded NAPI, scheduled like other threads"));
    }
    let threads = format!("echo 1 > /sys/class/net/{name}/threaded");
    let seen = match () {
        () if cores == 1 => format!("{how}: in softirq, which preempts everything on the only core"),
        () if *steered > 0 => format!("{how}: in softirq, {steered} of them spread over cores by RPS"),
        () if *queues >= cores => format!("{how}: in softirq, at least one queue per core"),
        () => {
            let spread = format!("echo {} > /sys/class/net/{name}/queues/rx-0/rps_cpus", mask(cores));
            let seen = format!("{how} for {cores} cores: in softirq, which preempts everything on its core");
            return Finding::limited(AREA, WHAT, seen, [threads, spread]);
        }
    };
    Finding::limited(AREA, WHAT, seen, [threads])
}

/// Mask of all `cores` for `rps_cpus`: groups of 32 in hexadecimal.
fn mask(cores: usize) -> String {
    let group = |bits: usize| match bits {
        32.. => "ffffffff".to_owned(),
        bits => format!("{:x}", (1_u64 << bits) - 1),
    };
    let first = if cores.is_multiple_of(32) { 32 } else { cores % 32 };
    let full_words = (cores - first) / 32;
    [group(first)].into_iter().chain((0..full_words).map(|_| group(32))).collect::<Vec<_>>().join(",")
}

/// Share of softirq time since boot, of all cores and of the busiest.
fn softirq(stat: &str) -> Finding {
    const WHAT: &str = "softirq time";
    let share = |line: &str| {
        let mut words = line.split_whitespace();
        let name = words.next()?.strip_prefix("cpu")?.to_owned();
        let times: Vec<u64> = words.map_while(|word| word.parse().ok()).take(8).collect();
        let softirq = *times.get(6)?;
        let all: u64 = times.iter().sum();
        (all > 0).then(|| (name, 100.0 * softirq as f64 / all as f64))
    };
    let shares: Vec<(String, f64)> = stat.lines().filter_map(share).collect();
    let total = shares.iter().find(|(name, _)| name.is_empty());
    let cores = shares.iter().filter(|(name, _)| !name.is_empty());
    let (Some((_, all)), Some((core, most))) = (total, cores.max_by(|a, b| a.1.total_cmp(&b.1))) else {
        return Finding::limited(AREA, WHAT, "/proc/stat has no softirq times", []);
    };
    let seen = format!("{all:.1} % of all cores since boot, {most:.1} % of core {core}, sampled at ticks");
    if *most < SHARE_MAX {
        return Finding::works(AREA, WHAT, seen);
    }
    Finding::limited(AREA, WHAT, seen, [format!("cat /proc/softirqs, to see the softirqs of core {core}")])
}

/// Percentage of a core above which receiving starves other work: the paper's rule begins to shed
/// there.
const SHARE_MAX: f64 = 75.0;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Health;

    #[track_caller]
    fn check(queues: usize, threaded: bool, steered: usize, cores: usize, expected: &str) -> Finding {
        let finding = judge(&SetUp { name: "eth0".to_owned(), queues, threaded, steered }, cores);
        assert!(finding.seen.contains(expected), "{}", finding.seen);
        finding
    }

    #[test]
    fn one_queue_on_many_cores_gets_both_ways_out() {
        let finding = check(1, false, 0, 40, "1 queue for 40 cores: in softirq, which preempts everything");
        let [threads, spread] = finding.remedies.try_into().unwrap();
        assert!(
            threads.contains("eth0/threaded") && spread.contains("echo ff,ffffffff >"),
            "{threads} {spread}"
        );
    }

    #[test]
    fn threads_are_as_it_should_be() {
        let finding = check(4, true, 0, 4, "threaded NAPI");
        assert_eq!((finding.health, finding.remedies), (Health::Works, vec![]));
    }

    #[test]
    fn spread_work_still_comes_first() {
        assert_eq!(check(2, false, 2, 4, "spread over cores by RPS").health, Health::Limited);
        assert_eq!(check(8, false, 0, 4, "at least one queue per core").health, Health::Limited);
        assert_eq!(check(1, false, 1, 1, "the only core").health, Health::Limited);
    }

    #[test]
    fn masks_are_groups_of_thirty_two() {
        for (cores, expected) in
            [(1, "1"), (4, "f"), (32, "ffffffff"), (33, "1,ffffffff"), (64, "ffffffff,ffffffff")]
        {
            assert_eq!(mask(cores), expected);
        }
    }

    #[test]
    fn the_share_is_of_all_cores_and_of_the_busiest() {
        let stat = |softirq: u32| {
            format!("cpu  10 0 10 60 0 0 20 0 0 0\ncpu0 5 0 5 40 0 0 0\ncpu1 5 0 5 10 0 0 {softirq}\n")
        };
        let quiet = softirq(&stat(20));
        assert_eq!(quiet.seen, "20.0 % of all cores since boot, 50.0 % of core 1, sampled at ticks");
        assert_eq!([quiet.health, softirq(&stat(80)).health], [Health::Works, Health::Limited]);
        assert_eq!(softirq("").seen, "/proc/stat has no softirq times");
    }
}
