//! What is switched on: nothing, one thing, all but one, or all.

use std::fmt;
use std::str::FromStr;

use crate::BadConfig;

/// The mechanisms of a platform.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mechanisms {
    /// Switches serve levels, and flows in turn (FISH); else in order of arrival.
    pub fabric: bool,
    /// Receive buffers and event queues serve by level (ADPS); else in order of arrival.
    pub events: bool,
    /// Budgets travel: queues serve by what is left and drop what cannot make it, and
    /// who is behind becomes more urgent (D2P).
    pub deadline: bool,
    /// Newcomers are let in by how long they would wait (the overload paper).
    pub guard: bool,
    /// Cores are given to who waits and taken from who disturbs (Caladan); else they
    /// are the kernel's.
    pub cores: bool,
}

/// Their names.
const NAMES: [&str; 5] = ["fabric", "events", "deadline", "guard", "cores"];

impl Mechanisms {
    /// Those of a kind, in the order of [`NAMES`].
    fn of(on: impl Fn(&str) -> bool) -> Self {
        let [fabric, events, deadline, guard, cores] = NAMES.map(on);
        Self { fabric, events, deadline, guard, cores }
    }
}

/// `none`, `all`, `only fabric`, `all but fabric`.
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
            "mechanisms {text:?} are none of none, all, only NAME, all but NAME, where NAME is one of {}",
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
    fn mechanisms_are_named_by_what_differs() {
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
