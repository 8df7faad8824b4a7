//! The README's picture: a request's queues on a server, each with order of arrival and of service.
//!
//! Drawn by `xtask picture`, and checked by tidy, so that its words change with the code's.

use std::fmt::Write as _;
use std::path::Path;
use std::process::ExitCode;

use crate::spec::Tree;
use crate::tidy::Finding;

const FILE: &str = "docs/guide/figures/waits.svg";

/// Queues in a request's way, and the mechanism that orders each.
const QUEUES: [(&str, &str); 6] = [
    ("NIC", "driver classifier"),
    ("TCP", "transport classifier"),
    ("worker", "dispatch policy"),
    ("CPU", "core scheduling"),
    ("egress", "levels of flows"),
    ("next service", "deadline"),
];

/// Place of the urgent request among those that wait, in order of arrival.
const URGENT: [usize; 6] = [3, 2, 3, 1, 2, 3];

const WAITING: usize = 4;
const STEP: usize = 118;

const STYLE: &str = "\
  <style>
    .l { stroke: #57606a; stroke-width: 1.5; fill: none }
    .b { stroke: #57606a; stroke-width: 1.5; fill: #8c95a01f }
    .u { fill: #1a9e52 } .o { fill: #8c95a0 }
    text { font: 13px system-ui, sans-serif; fill: #57606a }
    .s { font-size: 11px }
    @media (prefers-color-scheme: dark) {
      .l, .b { stroke: #9aa4af } text { fill: #b6c0ca }
      .u { fill: #2fc26e } .o { fill: #76808b }
    }
  </style>
  <defs><marker id=\"a\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">\
<path d=\"M0 0 8 4 0 8z\" class=\"o\"/></marker></defs>
";

/// Writes the picture into the workspace at `root`.
pub(crate) fn run(root: &Path) -> ExitCode {
    match std::fs::write(root.join(FILE), picture()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {FILE}: {e}");
            ExitCode::from(2)
        }
    }
}

/// A finding if the picture in `tree` is not the one that [`run`] writes.
pub(crate) fn check(tree: &Tree) -> Option<Finding> {
    let what = "the picture is stale; try: cargo run -p xtask -- picture".to_owned();
    (tree.get(FILE) != Some(&picture())).then(|| Finding { file: FILE.to_owned(), line: 1, what })
}

fn picture() -> String {
    let (left, width) = (96, 104);
    let total = left + QUEUES.len() * STEP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {total} 176\" width=\"{total}\" height=\"176\" \
         role=\"img\">\n  <title>A request waits in six queues; in each the urgent request is served first</title>\n{STYLE}"
    );
    for (y, name) in [(27, "arrived"), (49, "served")] {
        let _ = writeln!(svg, "  <text class=\"s\" x=\"8\" y=\"{y}\">{name} (next: right)</text>");
    }
    for (index, ((name, order), urgent)) in QUEUES.iter().zip(URGENT).enumerate() {
        let x = left + index * STEP;
        let middle = x + width / 2;
        for (y, first) in [(18, urgent), (40, 0)] {
            for position in 0..WAITING {
                let class = if position == first { "u" } else { "o" };
                let block = x + 20 + (WAITING - 1 - position) * 17;
                let _ = writeln!(
                    svg,
                    "  <rect class=\"{class}\" x=\"{block}\" y=\"{y}\" width=\"12\" height=\"12\" rx=\"2\"/>"
                );
            }
        }
        let _ = writeln!(
            svg,
            "  <rect class=\"b\" x=\"{x}\" y=\"62\" width=\"{width}\" height=\"56\" rx=\"4\"/>"
        );
        let _ = writeln!(svg, "  <text x=\"{middle}\" y=\"86\" text-anchor=\"middle\">{name}</text>");
        let _ = writeln!(
            svg,
            "  <text class=\"s\" x=\"{middle}\" y=\"104\" text-anchor=\"middle\">{order}</text>"
        );
        if index + 1 < QUEUES.len() {
            let (from, to) = (x + width + 1, x + STEP - 1);
            let _ = writeln!(svg, "  <path class=\"l\" d=\"M{from} 90 {to} 90\" marker-end=\"url(#a)\"/>");
        }
    }
    let (middle, end) = (left + (total - left) / 2, total - 16);
    let words = "the label travels with the request: priority, and time left";
    let _ = writeln!(svg, "  <text x=\"{middle}\" y=\"144\" text-anchor=\"middle\">{words}</text>");
    let _ = writeln!(svg, "  <path class=\"l\" d=\"M{left} 156 {end} 156\" marker-end=\"url(#a)\"/>");
    svg + "</svg>\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_urgent_request_is_served_first_in_every_queue() {
        let first = 20 + (WAITING - 1) * 17;
        for index in 0..QUEUES.len() {
            let block = format!("class=\"u\" x=\"{}\" y=\"40\"", 96 + index * STEP + first);
            assert!(picture().contains(&block), "{block}");
        }
        assert!(URGENT.iter().all(|position| (1..WAITING).contains(position)), "behind others by arrival");
    }

    #[test]
    fn a_picture_of_other_words_is_stale() {
        let mut tree = Tree::from([(FILE.to_owned(), picture())]);
        assert_eq!(check(&tree), None);
        tree.insert(FILE.to_owned(), "<svg/>".to_owned());
        assert!(check(&tree).is_some());
    }
}
