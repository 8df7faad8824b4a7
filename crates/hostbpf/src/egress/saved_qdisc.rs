//! Saved root qdisc of an egress, and how to restore it.
//!
//! The kernel's default returns by itself once ours is removed. A configured qdisc is restored from the
//! arguments that `tc` prints. They are tried in a separate network namespace first, so that nothing is
//! removed that could not be restored.

use serde_json::Value;

use super::error::FabricError;
use super::tc;
use netlab::Namespace;

/// Root qdisc before the attach.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SavedQdisc {
    /// The kernel's default.
    Default,
    /// A configured one: its handle, such as `8001:`, and its kind and options.
    Chosen { handle: String, words: String },
}

/// A text field of a qdisc in `tc`'s JSON.
pub(super) fn text<'a>(qdisc: &'a Value, key: &str) -> &'a str {
    qdisc.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// True for the root qdisc.
pub(super) fn is_root(qdisc: &Value) -> bool {
    qdisc.get("root").and_then(Value::as_bool).unwrap_or_default()
}

impl SavedQdisc {
    /// Saves the root qdisc of `device`, after a trial restore in `workshop`.
    pub(super) fn of(device: &str, qdiscs: &[Value], workshop: &Namespace) -> Result<Self, FabricError> {
        let Some(root) = qdiscs.iter().find(|qdisc| is_root(qdisc)) else { return Ok(Self::Default) };
        let handle = text(root, "handle").to_owned();
        if handle == "0:" {
            return Ok(Self::Default);
        }
        let refuse = |why: String| {
            Err(FabricError::Unrestorable {
                device: device.to_owned(),
                root: format!("{} {handle}", text(root, "kind")),
                why,
            })
        };
        let is_below =
            |qdisc: &&Value| !is_root(qdisc) && !matches!(text(qdisc, "kind"), "clsact" | "ingress");
        if let Some(below) = qdiscs.iter().find(is_below) {
            return refuse(format!("{} {} is below it", text(below, "kind"), text(below, "handle")));
        }
        let show = |device: &str| -> Result<[String; 2], FabricError> {
            let classes = tc::run(&["class", "show", "dev", device])?;
            Ok([tc::run(&["qdisc", "show", "dev", device])?, classes])
        };
        let [shown, classes] = show(device)?;
        if !tc::run(&["filter", "show", "dev", device])?.trim().is_empty() {
            return refuse("it has filters".to_owned());
        }
        let Some(words) = words(&shown) else {
            return refuse("the output of tc is not understood".to_owned());
        };
        let before = Self::Chosen { handle: handle.clone(), words: spoken(&words) };
        let tried = workshop.enter(|| {
            tc::batch(&before.commands("lo"))?;
            show("lo")
        });
        match tried {
            // Classes that the qdisc makes by itself will exist then, too.
            Ok([_, made]) if made != classes => refuse("it has classes".to_owned()),
            Ok([shown, _]) if self::words(&shown).as_deref() == Some(words.as_str()) => Ok(before),
            Ok([shown, _]) => refuse(format!("tc restores {:?} instead of {words:?}", shown.trim())),
            Err(e) => refuse(e.to_string()),
        }
    }

    /// Lines of tc that restore the saved qdisc on `device`, which has ours.
    pub(super) fn commands(&self, device: &str) -> Vec<String> {
        match self {
            Self::Default => vec![format!("qdisc del dev {device} root")],
            Self::Chosen { handle, words } => {
                vec![format!("qdisc replace dev {device} root handle {handle} {words}")]
            }
        }
    }

    /// The qdisc as text for the user.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Default => "the kernel's default qdisc".to_owned(),
            Self::Chosen { words, .. } => words.clone(),
        }
    }
}

/// Kind and options of the root in the output of `tc qdisc show`:
/// `qdisc tbf 8001: root refcnt 2 rate 1Mbit …`.
fn words(shown: &str) -> Option<String> {
    let line = shown.lines().find(|line| line.split_whitespace().nth(3) == Some("root"))?;
    let mut words = line.split_whitespace().skip(1);
    let kind = words.next()?;
    let rest: Vec<&str> = words.skip(2).collect();
    // The number of queues that share it is the kernel's choice.
    let options = match rest.split_first() {
        Some((&"refcnt", [_, options @ ..])) => options,
        _ => &rest[..],
    };
    Some([&[kind], options].concat().join(" "))
}

/// Arguments for `tc` from its output: packets are printed as `77p`, but given as 77.
fn spoken(words: &str) -> String {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    let spoken = words.split(' ').map(|word| match word.strip_suffix('p') {
        Some(number) if is_number(number) => number,
        _ => word,
    });
    spoken.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_root_is_put_back_in_the_words_that_tc_shows() {
        let check =
            |shown: &str, expected: Option<&str>| assert_eq!(words(shown).as_deref(), expected, "{shown}");
        check(
            "qdisc tbf 8002: root refcnt 3 rate 100Mbit burst 32Kb lat 50ms \n",
            Some("tbf rate 100Mbit burst 32Kb lat 50ms"),
        );
        check("qdisc clsact ffff: parent ffff:fff1 \nqdisc pfifo 1: root limit 7p", Some("pfifo limit 7p"));
        check("qdisc noqueue 0: root refcnt 2 ", Some("noqueue"));
        check("qdisc pfifo 3: parent 1:1 limit 7p", None);
        check("", None);
        assert_eq!(
            spoken("fq limit 77p flow_limit 9p quantum 3028b p 1xp"),
            "fq limit 77 flow_limit 9 quantum 3028b p 1xp"
        );
    }
}
