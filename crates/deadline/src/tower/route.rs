//! Route templates: the kind of a request, from its path.
//!
//! Paths with identifiers (`/users/17/orders`) are one kind of work. A segment that looks like
//! an identifier is replaced by `*`: one with a digit in it and no other segment form, or one
//! of 24 characters and more. Version segments (`v1`) stay.
//! Source: OpenTelemetry's `http.route` (the low-cardinality form of a path).

/// Template of `path`: identifiers replaced by `*`, at most [`SEGMENTS_MAX`] segments.
#[must_use]
pub fn route_template(path: &str) -> String {
    let mut template = String::with_capacity(path.len().min(128));
    for (number, segment) in path.split('/').skip(1).enumerate() {
        template.push('/');
        if number == SEGMENTS_MAX {
            template.push('*');
            break;
        }
        template.push_str(if is_identifier(segment) { "*" } else { segment });
    }
    template
}

fn is_identifier(segment: &str) -> bool {
    if segment.len() >= IDENTIFIER_LEN_MIN && !segment.contains('.') {
        return true;
    }
    let is_version = segment.len() <= 3 && segment.starts_with('v');
    segment.bytes().any(|byte| byte.is_ascii_digit()) && !is_version && !is_name_with_number(segment)
}

/// True for names such as `oauth2`: letters, then at most two digits.
fn is_name_with_number(segment: &str) -> bool {
    let letters = segment.trim_end_matches(|c: char| c.is_ascii_digit());
    let is_word = letters.len() >= 3 && letters.bytes().all(|byte| byte.is_ascii_alphabetic());
    is_word && segment.len() - letters.len() <= 2
}

/// Segments after which a path is cut.
const SEGMENTS_MAX: usize = 8;
/// Length from which a segment without a dot is an identifier: hashes and tokens.
const IDENTIFIER_LEN_MIN: usize = 24;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_replaced_and_names_stay() {
        for (path, template) in [
            ("/", "/"),
            ("/search", "/search"),
            ("/v1/users/17/orders/2026-11-28", "/v1/users/*/orders/*"),
            ("/oauth2/token", "/oauth2/token"),
            ("/items/3f2a9c1e-77aa-4c1b-9a6e-0123456789ab", "/items/*"),
            ("/t/abcdefghijklmnopqrstuvwx", "/t/*"),
            ("/greenwave.testbed.Service/Call", "/greenwave.testbed.Service/Call"),
            ("/a/b/c/d/e/f/g/h/i/j", "/a/b/c/d/e/f/g/h/*"),
        ] {
            assert_eq!(route_template(path), template);
        }
    }
}
