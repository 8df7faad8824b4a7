//! Suggestions for misspelt names: the valid name that is closest to the one in an error's text.
//!
//! Reads the text of errors, because all of them list the valid names in one of a few forms: those of
//! serde, of clap, and `NAME is not one of …` of our own parsers. So no parser calls this module.
//! The distance counts insertions, deletions, substitutions and swaps of neighbours (optimal string
//! alignment).

/// The name in `valid` that is closest to `given`, if it is close enough for a typing error: at most
/// one edit for every three characters, at least one.
pub fn closest<'a>(given: &str, valid: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let plain = |name: &str| name.trim_matches(['-', '[', ']']).replace(['-', '_'], "").to_lowercase();
    let given = plain(given);
    let most = (given.chars().count() / 3).max(1);
    let rank = |name: &'a str| {
        let other = plain(name);
        // A name of one letter is one edit from every other.
        let is_close =
            |edits: usize| edits <= most && edits < other.chars().count().min(given.chars().count());
        let length = other.chars().count().abs_diff(given.chars().count());
        Some(strsim::osa_distance(&given, &other))
            .filter(|edits| is_close(*edits))
            .map(|edits| (edits, length, name))
    };
    // Of two that are equally close, letters in another order are more likely than one too few.
    let best = valid.into_iter().filter_map(rank).min_by_key(|(edits, length, _)| (*edits, *length));
    best.map(|(.., name)| name)
}

/// The valid name that the text of an error suggests.
pub fn of_text(text: &str) -> Option<&str> {
    let (given, valid) = names(text)?;
    closest(given, valid)
}

/// The valid names that the text of an error lists; empty where it lists none.
pub fn valid(text: &str) -> Vec<&str> {
    names(text).map_or(Vec::new(), |(_, valid)| valid)
}

/// Forms in which errors list valid names: the text before the list.
const BEFORE_LISTS: [&str; 6] =
    [", expected ", " is not one of: ", " is not one of ", " is neither ", "; valid: ", "[possible values: "];

/// The invalid name in `text`, and the valid ones.
fn names<'a>(text: &'a str) -> Option<(&'a str, Vec<&'a str>)> {
    let found = BEFORE_LISTS.iter().find_map(|before| Some((before, text.split_once(before)?)));
    let (before, (head, list)) = found?;
    let quotes = quoted(head);
    // Clap names the value first, and then its flag.
    let given = if before.starts_with('[') { quotes.first() } else { quotes.last() };
    let given = given.copied().or_else(|| head.split_whitespace().last())?;
    let list = list.split([';', '\n']).next().unwrap_or(list);
    let list = list.strip_prefix("one of ").unwrap_or(list);
    // Serde and `is neither` quote each name; others separate names by commas.
    let is_quoted = list.trim_start_matches('[').starts_with(['`', '"', '\'']);
    if is_quoted {
        return Some((given, quoted(list)));
    }
    // A section keeps its brackets.
    let cut = |name: &'a str| if name.starts_with('[') { name } else { name.trim_end_matches(']') };
    let names = list.split([',', ' ', '|']).map(cut).filter(|name| !name.is_empty());
    Some((given, names.collect()))
}

/// The parts of `text` between quotes of one kind, in order.
fn quoted(mut text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    while let Some(at) = text.find(['`', '"', '\'']) {
        let (quote, rest) = text[at..].split_at(1);
        let Some((name, next)) = rest.split_once(quote) else { break };
        found.push(name);
        text = next;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_name_within_a_typing_error_is_suggested() {
        let valid = ["attach", "detach", "status", "p50", "p99", "x"];
        let check =
            |given: &str, expected: Option<&str>| assert_eq!(closest(given, valid), expected, "{given}");
        check("atach", Some("attach"));
        check("dettach", Some("detach"));
        check("statsu", Some("status"));
        check("Status", Some("status"));
        assert_eq!(closest("prot", ["proto", "port"]), Some("port"));
        check("frobnicate", None);
        check("y", None);
        assert_eq!(closest("--target_delay", ["--target-delay", "--port"]), Some("--target-delay"));
    }

    //~ cli: an error about a misspelt name gives the closest valid one
    #[test]
    fn each_form_of_error_gives_the_closest_valid_name() {
        for (text, expected) in [
            ("a.toml:1: unknown field `polcy`, expected one of `policy`, `cores`", Some("policy")),
            ("unknown variant `LX`, expected `LC` or `BE`", Some("LC")),
            ("unknown variant `servr`, expected `server`", Some("server")),
            ("mode \"lerned\" is not one of none, lns, learned", Some("learned")),
            ("\"nginz\" is not one of: nginx, redis", Some("nginx")),
            ("scheduler \"fsh\" is not one of fifo, fish, red in `scheduler`", Some("fish")),
            ("invalid value 'stp' for '<ACTION>' [possible values: status, stop]", Some("stop")),
            ("mode \"lms\" is not one of [\"none\", \"lns\"]", Some("lns")),
            ("arrivals \"poison 3\" is not one of: poisson RATE | uniform RATE", None),
            ("layer \"drivr\" is neither \"driver\" nor \"transport\"", Some("driver")),
            ("a.toml:3: unknown key `devic` in [serve]; valid: device, addr", Some("device")),
            ("a.toml:3: unknown key `serv` in the file; valid: [demo], [serve]", Some("[serve]")),
            ("invalid value 'relod' for '<ACTION>' [possible values: status, reload, stop]", Some("reload")),
            ("a.toml:3: a rule without a name", None),
            ("it's \"odd", None),
        ] {
            assert_eq!(of_text(text), expected, "{text}");
        }
        assert_eq!(valid("unknown key `` in a policy; valid: default, rule"), ["default", "rule"]);
    }
}
