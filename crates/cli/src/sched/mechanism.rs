//! How decisions are carried out: what was asked for, or the best that works here.

use host::cores::scx;
use queueing::CoreId;

use super::config::Config;
use crate::Error;

/// What can be asked for.
pub const NAMES: [&str; 3] = ["auto", "affinity", "scx"];

/// A mechanism, and why this one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// A scheduler of ours in the kernel; else by affinity and class.
    pub is_scx: bool,
    /// In a line.
    pub why: String,
}

const AFFINITY: &str =
    "runs any program on any kernel: BE in the idle class, cores by affinity; a round reads /proc";
const SCX: &str = "a scheduler of ours in the kernel (sched_ext): a core runs the task that it was given to; \
                   waits are measured there";

/// Chooses for `managed` of the cores that are `ours`.
///
/// # Errors
/// What was asked for cannot be had here, or not with this policy: why, and what to try.
pub fn choose(config: &Config, ours: &[CoreId], managed: &[CoreId]) -> Result<Choice, Error> {
    let affinity = |why: String| Ok(Choice { is_scx: false, why });
    let linux = "policy linux leaves all cores to the kernel, and under scx each is somebody's";
    match config.mechanism.as_str() {
        "affinity" => affinity(AFFINITY.to_owned()),
        "scx" if config.policy == "linux" => Err(Error::new(linux).advice("mechanism = \"affinity\"")),
        "scx" => {
            scx::check()?;
            Ok(Choice { is_scx: true, why: SCX.to_owned() })
        }
        _ if config.policy == "linux" => affinity(format!("{AFFINITY}; not scx: {linux}")),
        _ if !ours.iter().any(|core| !managed.contains(core)) => affinity(format!(
            "{AFFINITY}; not scx, whose rounds take a core that is not shared out: cores = … leaves none"
        )),
        _ => match scx::check() {
            Ok(()) => Ok(Choice { is_scx: true, why: SCX.to_owned() }),
            Err(e) => affinity(format!("{AFFINITY}; not {e}")),
        },
    }
}

impl Choice {
    /// What does not hold under it, for whoever reads the first lines.
    pub fn limits(&self, limits: &mut Vec<String>) {
        if self.is_scx {
            limits.push(
                "programs that are no task run before all tasks on these cores: keep them off (cpuset, taskset)"
                    .to_owned(),
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

    #[test]
    fn what_was_asked_for_is_taken_and_otherwise_what_works_and_why_is_said() {
        let (ours, managed) = ([0, 1].map(CoreId), [CoreId(1)]);
        let by = |text: &str, managed: &[CoreId]| choose(&config(text), &ours, managed);
        let plain = by("mechanism = \"affinity\"", &managed).unwrap();
        assert_eq!(plain, Choice { is_scx: false, why: AFFINITY.to_owned() });
        // Whatever works here, with all cores shared out none is left for rounds.
        let all = by("", &ours).unwrap();
        assert!(!all.is_scx && all.why.contains("cores = … leaves none"), "{all:?}");
        assert!(!by("policy = \"linux\"", &managed).unwrap().is_scx);
        let error = by("policy = \"linux\"\nmechanism = \"scx\"", &managed).unwrap_err().to_string();
        assert!(error.contains("policy linux leaves all cores to the kernel"), "{error}");
        let (asked, best) = (by("mechanism = \"scx\"", &managed), by("", &managed).unwrap());
        match scx::check() {
            Ok(()) => assert!(asked.unwrap().is_scx && best.is_scx),
            Err(e) => {
                let error = asked.unwrap_err().to_string();
                assert!(error.starts_with(&format!("error: {e}\n  try: ")), "{error}");
                assert!(!best.is_scx && best.why.ends_with(&format!("not {e}")), "{best:?}");
            }
        }
    }
}
