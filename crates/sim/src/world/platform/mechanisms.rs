//! Selection of mechanisms: none, one, all but one, or all.

use std::fmt;
use std::str::FromStr;

use crate::BadConfig;

/// Enabled mechanisms of a platform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mechanisms {
    /// Switches schedule by level and fairly between flows (FISH); else FIFO.
    pub fabric: bool,
    /// Receive buffers and event queues are served by level (ADPS); else FIFO.
    pub events: bool,
    /// Budgets propagate: queues are ordered by remaining budget and drop infeasible requests;
    /// late requests rise in priority (D2P).
    pub deadline: bool,
    /// Connection requests are admitted by expected queueing delay (overload paper).
    pub guard: bool,
    /// Cores are allocated by queueing delay and interference (Caladan); else by the kernel.
    pub cores: bool,
}

/// Names of the mechanisms.
const NAMES: [&str; 5] = ["fabric", "events", "deadline", "guard", "cores"];

impl Mechanisms {
    /// Mechanisms selected by `on`, in the order of [`NAMES`].
    fn of(on: impl Fn(&str) -> bool) -> Self {
        let [fabric, events, deadline, guard, cores] = NAMES.map(on);
        Self { fabric, events, deadline, guard, cores }
    }
}

/// Text form: `none`, `all`, `only fabric`, `all but fabric`.
impl FromStr for Mechanisms {
    type Err = BadConfig;

    fn from_str(text: &str) -> Result<Self, BadConfig> {
        let known = |name: &&str| NAMES.contains(name);
        match text {
            "none" => return Ok(Self::of(|_| false)),
            "all" => return Ok(Self::of(|_| true)),
            _ => {}
        }
        if let Some(name) = text.strip_prefix("only ").filter(known) {
            return Ok(Self::of(|mechanism| mechanism == name));
        }
        if let Some(name) = text.strip_prefix("all but ").filter(known) {
            return Ok(Self::of(|mechanism| mechanism != name));
        }
        Err(BadConfig(format!(
            "mechanisms {text:?} is not one of: none, all, only NAME, all but NAME, where NAME is one of {}",
            NAMES.join(", ")
        )))
    }
}

impl fmt::Display for Mechanisms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let on = [self.fabric, self.events, self.deadline, self.guard, self.cores];
        let names: Vec<_> = NAMES.iter().zip(on).filter(|(_, on)| *on).map(|(name, _)| *name).collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mechanisms_are_named_by_their_differences() {
        let check = |text: &str, shown: &str| {
            let read: Result<Mechanisms, _> = text.parse();
            assert_eq!(read.map(|mechanisms| mechanisms.to_string()), Ok(shown.to_owned()), "{text}");
        };
        check("none", "none");
        check("all", "fabric events deadline guard cores");
        check("only guard", "guard");
        check("all but deadline", "fabric events guard cores");
        for text in ["", "only", "only fish", "all but", "guard"] {
            assert!(text.parse::<Mechanisms>().is_err(), "{text:?}");
        }
    }
}
