//! Choice of the mechanism: the requested one, or the best that works here.
//!
//! `scx` is used on request only. It schedules the managed threads alone (partial mode), below every
//! thread of the fair class: a stray process that computes stops all tasks, and the kernel ejects the
//! scheduler.

use hostsched::{Mechanism, scx};
use queueing::CoreId;

use super::config::Config;
use crate::Error;

/// A mechanism, and the reason for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    pub mechanism: Mechanism,
    /// The reason in a line.
    pub why: String,
}

const AFFINITY: &str =
    "works for any program on any kernel: cores by CPU affinity, BE in the idle class, waits from /proc";
const SCX: &str = "greenwave's sched_ext scheduler in the kernel: each core runs only its assigned task; \
                   waits are measured in the kernel";
const RUNTIME: &str = "programs on greenwave's runtime (signal_page = true) report waits and park their workers on request; \
                       other tasks use CPU affinity";

/// Chooses for `managed` of the cores that are `ours`.
///
/// # Errors
/// The requested mechanism does not work here, or not with this policy: the reason and advice.
pub fn choose(config: &Config, ours: &[CoreId], managed: &[CoreId]) -> Result<Choice, Error> {
    let by = |mechanism: Mechanism, why: String| Ok(Choice { mechanism, why });
    let affinity = |why: String| by(Mechanism::Affinity, why);
    let linux = "policy linux leaves all cores to the kernel, and scx assigns every core to a task";
    let is_left = ours.iter().any(|core| !managed.contains(core));
    match config.mechanism.as_str() {
        "affinity" => affinity(AFFINITY.to_owned()),
        "runtime" => by(Mechanism::Runtime, RUNTIME.to_owned()),
        "scx" if config.policy == "linux" => Err(Error::new(linux).advice("mechanism = \"affinity\"")),
        "scx" => {
            scx::check()?;
            by(Mechanism::Scx, SCX.to_owned())
        }
        _ if !config.has_signal_pages() => affinity(AFFINITY.to_owned()),
        _ if !is_left || config.policy == "linux" => affinity(format!(
            "{AFFINITY}; runtime is off because {}",
            if is_left { "policy linux assigns no cores" } else { "it needs a core outside cores = …" }
        )),
        _ => by(Mechanism::Runtime, RUNTIME.to_owned()),
    }
}

impl Choice {
    /// Limits of the mechanism, for the first lines of output.
    pub fn limits(&self, config: &Config, limits: &mut Vec<String>) {
        match self.mechanism {
            Mechanism::Scx => limits.push(
                "programs outside the tasks run before all tasks on these cores: move them to other cores (cpuset, taskset)"
                    .to_owned(),
            ),
            Mechanism::Runtime if config.tasks.iter().any(|task| !task.signal_page) => {
                limits.push("waits of tasks without worker signals (signal_page) are read from /proc every 2 ms".to_owned());
            }
            Mechanism::Runtime | Mechanism::Affinity => {}
        }
        if self.mechanism != Mechanism::Runtime && config.has_signal_pages() {
            limits.push(
                "worker signals (signal_page) are not read; mechanism = \"runtime\" reads them".to_owned(),
            );
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::parse("t.toml", &format!("{text}\n[[tasks]]\nname = \"a\"\nclass = \"LC\"\npid = 1\n"))
            .unwrap()
    }

    //~ sched: sched_ext in partial mode is never the default mechanism
    #[test]
    fn a_requested_mechanism_is_used_else_affinity() {
        let (ours, managed) = ([0, 1].map(CoreId), [CoreId(1)]);
        let by = |text: &str, managed: &[CoreId]| choose(&config(text), &ours, managed);
        let plain = by("mechanism = \"affinity\"", &managed).unwrap();
        assert_eq!(plain, Choice { mechanism: Mechanism::Affinity, why: AFFINITY.to_owned() });
        // On no machine is the scheduler in the kernel the default.
        for (text, managed) in [("", &managed[..]), ("", &ours), ("policy = \"linux\"", &managed)] {
            assert_eq!(by(text, managed).unwrap(), plain);
        }
        let error = by("policy = \"linux\"\nmechanism = \"scx\"", &managed).unwrap_err().to_string();
        assert!(error.contains("policy linux leaves all cores to the kernel"), "{error}");
        let asked = by("mechanism = \"scx\"", &managed);
        match scx::check() {
            Ok(()) => assert_eq!(asked.unwrap().mechanism, Mechanism::Scx),
            Err(e) => {
                let error = asked.unwrap_err().to_string();
                assert!(error.starts_with(&format!("error: {e}\n  try: ")), "{error}");
            }
        }
    }

    #[test]
    fn worker_signals_are_read_if_a_task_has_them_and_a_core_is_free() {
        let (ours, managed) = ([0, 1].map(CoreId), [CoreId(1)]);
        let parse_with_signal_page = |text: &str| {
            let be = "[[tasks]]\nname = \"b\"\nclass = \"BE\"\npid = 2\nsignal_page = true\n";
            Config::parse(
                "t.toml",
                &format!("{text}\n[[tasks]]\nname = \"a\"\nclass = \"LC\"\npid = 1\n{be}"),
            )
        };
        let by = |text: &str, managed: &[CoreId]| {
            choose(&parse_with_signal_page(text).unwrap(), &ours, managed).unwrap()
        };
        assert_eq!(by("", &managed).mechanism, Mechanism::Runtime);
        assert_eq!(by("mechanism = \"runtime\"", &ours).mechanism, Mechanism::Runtime);
        let all = by("", &ours);
        assert!(
            all.mechanism == Mechanism::Affinity
                && all.why.contains("runtime is off because it needs a core"),
            "{all:?}"
        );
        let linux = by("policy = \"linux\"", &managed);
        assert!(
            linux.mechanism == Mechanism::Affinity && linux.why.contains("policy linux assigns no cores"),
            "{linux:?}"
        );
        let limits = |choice: &Choice| {
            let mut limits = Vec::new();
            choice.limits(&parse_with_signal_page("").unwrap(), &mut limits);
            limits.join("; ")
        };
        assert!(limits(&all).contains("worker signals (signal_page) are not read"), "{}", limits(&all));
        assert!(
            limits(&by("", &managed)).contains("without worker signals (signal_page) are read from /proc")
        );
    }
}
