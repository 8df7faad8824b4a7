//! Report of a script that fails.

use std::fmt::Write as _;

use super::ast::Script;
use super::run::Failure;

/// Lines of the script shown before the failed one.
const BEFORE: usize = 6;

/// Failure at `line`, with the lines around it and the whole exchange.
pub fn report(script: &Script, line: usize, failure: &Failure, exchange: &[String]) -> String {
    let mut text = format!("{}:{line}: {}\n", script.path, failure.what);
    if let Some(truth) = script.lines.first() {
        let _ = writeln!(text, "  truth     {}", truth.trim_start_matches("// "));
    }
    for (index, source) in script.lines.iter().enumerate() {
        let at = index + 1;
        if at + BEFORE >= line && at <= line + 2 {
            let _ = writeln!(text, "  {}{at:3} | {source}", if at == line { ">" } else { " " });
        }
    }
    if let Some(expected) = &failure.expected {
        let _ = writeln!(text, "  expected  {expected}");
    }
    if let Some(got) = &failure.got {
        let _ = writeln!(text, "  got       {got}");
    }
    text.push_str("  the exchange:\n");
    exchange.iter().for_each(|line| {
        let _ = writeln!(text, "    {line}");
    });
    text
}
