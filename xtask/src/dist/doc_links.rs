//! Links of packaged pages: to the paths of the package, and none to what it does not hold.

use crate::links::{links, resolve};

/// The page `text`, at `source` in the checkout and at `target` in the package. `packaged` gives the path
/// in the package of a path of the checkout. A link to what is not packaged becomes its text.
pub(super) fn rewritten(
    source: &str,
    target: &str,
    text: &str,
    packaged: impl Fn(&str) -> Option<String>,
) -> String {
    let mut text = text.to_owned();
    let all: Vec<String> = links(&text).map(|(_, link)| link.to_owned()).collect();
    for link in all.iter().filter(|link| !link.starts_with('#')) {
        let (path, heading) = link
            .split_once('#')
            .map_or((&**link, String::new()), |(path, heading)| (path, format!("#{heading}")));
        let mark = format!("]({link})");
        match packaged(&resolve(source, path)) {
            Some(path) => text = text.replace(&mark, &format!("]({}{heading})", relative(target, &path))),
            None => text = unlinked(&text, &mark),
        }
    }
    text
}

/// The path of `to` as seen from the file `from`.
fn relative(from: &str, to: &str) -> String {
    let folder = from.rsplit_once('/').map_or("", |(folder, _)| folder);
    let (from, to): (Vec<&str>, Vec<&str>) =
        (folder.split('/').filter(|part| !part.is_empty()).collect(), to.split('/').collect());
    let same = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
    let up = vec![".."; from.len() - same];
    [&up, &to[same..]].concat().join("/")
}

/// `text` with each link that ends in `mark`, `](target)`, replaced by its text.
fn unlinked(text: &str, mark: &str) -> String {
    let (mut done, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(mark) {
        let head = &rest[..at];
        let mut depth = 1;
        let open = head.char_indices().rev().find(|(_, letter)| {
            depth += i32::from(*letter == ']') - i32::from(*letter == '[');
            depth == 0
        });
        match open {
            Some((open, _)) => {
                done.push_str(head[..open].trim_end_matches('!'));
                done.push_str(&head[open + 1..]);
            }
            None => done.push_str(head),
        }
        rest = &rest[at + mark.len()..];
    }
    done + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_leads_to_the_packages_file_or_is_its_text() {
        let packaged = |path: &str| match path {
            "docs/guide/b.md" => Some("guide/b.md".to_owned()),
            "LICENSE" => Some("LICENSE".to_owned()),
            _ => None,
        };
        let check = |source: &str, target: &str, text: &str, expected: &str| {
            assert_eq!(rewritten(source, target, text, packaged), expected);
        };
        check("README.md", "README.md", "see [b](docs/guide/b.md#x).", "see [b](guide/b.md#x).");
        check("docs/guide/a.md", "guide/a.md", "[b](b.md) [L](../../LICENSE)", "[b](b.md) [L](../LICENSE)");
        check("README.md", "README.md", "a [`c` [d]](SPEC.md) e [c](SPEC.md)", "a `c` [d] e c");
        check(
            "README.md",
            "README.md",
            "![p](pic.svg) [w](https://x.org) [h](#h)",
            "p [w](https://x.org) [h](#h)",
        );
    }
}
