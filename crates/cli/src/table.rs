//! Aligned tables: leading text columns left, figures right, on the terminal and in a page.

use std::fmt;
use std::sync::OnceLock;

use crate::report::html;

/// Rows of text under a header.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Titles over adjacent columns: text and number of columns.
    groups: Vec<(String, usize)>,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
    /// Number of leading text columns.
    words: usize,
}

impl Table {
    /// A table whose first `words` columns hold text and the others figures.
    #[must_use]
    pub fn new(words: usize, header: &[&str]) -> Self {
        let header = header.iter().map(|&h| h.to_owned()).collect();
        Self { header, words, ..Self::default() }
    }

    /// Adds a line of titles above the header; the spans must add up to the number of columns.
    #[must_use]
    pub fn groups(mut self, groups: &[(&str, usize)]) -> Self {
        assert_eq!(groups.iter().map(|g| g.1).sum::<usize>(), self.header.len(), "titles cover all columns");
        self.groups = groups.iter().map(|&(text, span)| (text.to_owned(), span)).collect();
        self
    }

    /// Adds a row with as many cells as the header.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.header.len(), "a row has as many cells as the header");
        self.rows.push(cells);
    }

    /// The table as an HTML `<table>`.
    #[must_use]
    pub fn html(&self) -> String {
        let escape = html::escape;
        let cell = |tag: &str, index: usize, text: &str| {
            let class = if index < self.words { " class=\"word\"" } else { "" };
            format!("<{tag}{class}>{}</{tag}>", escape(text))
        };
        let line = |tag: &str, cells: &[String]| {
            let cells = cells.iter().enumerate().map(|(i, text)| cell(tag, i, text));
            format!("<tr>{}</tr>\n", cells.collect::<String>())
        };
        let group = |(text, span): &(String, usize)| format!("<th colspan=\"{span}\">{}</th>", escape(text));
        let groups = match self.groups.as_slice() {
            [] => String::new(),
            groups => format!("<tr class=\"group\">{}</tr>\n", groups.iter().map(group).collect::<String>()),
        };
        let rows: String = self.rows.iter().map(|row| line("td", row)).collect();
        let head = line("th", &self.header);
        let table = format!("<table>\n<thead>\n{groups}{head}</thead>\n<tbody>\n{rows}</tbody>\n</table>\n");
        html::wide("table", &table)
    }

    /// Lines of the table for a terminal of so many columns.
    #[must_use]
    pub fn within(&self, columns: usize) -> Vec<String> {
        self.lines(columns)
    }

    /// Number of rows.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// The table as Markdown, without titles over columns.
    #[must_use]
    pub fn markdown(&self) -> String {
        let line = |cells: &[String]| {
            let cells: Vec<_> = cells.iter().map(|text| text.replace('|', "\\|")).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let rules: Vec<_> =
            (0..self.header.len()).map(|i| if i < self.words { "---" } else { "--:" }).collect();
        let rows: String = self.rows.iter().map(|row| line(row)).collect();
        format!("{}|{}|\n{rows}", line(&self.header), rules.join("|"))
    }

    /// The header's lines: one, unless the table is wide and the title of a text column is wider
    /// than all its cells.
    fn head(&self) -> Vec<Vec<String>> {
        let below = |i: usize| self.rows.iter().map(|cells| chars(&cells[i])).max().unwrap_or(0);
        let is_wide = width(&self.widths(std::slice::from_ref(&self.header))) > WIDE;
        let room = |i: usize| if is_wide && i < self.words { below(i).max(ROOM) } else { usize::MAX };
        let broken: Vec<_> = self.header.iter().enumerate().map(|(i, text)| wrapped(text, room(i))).collect();
        let lines = broken.iter().map(Vec::len).max().unwrap_or(1);
        // Titles are aligned as their columns.
        let line = |at: usize, title: &Vec<String>| {
            (at + title.len()).checked_sub(lines).map_or(String::new(), |i| title[i].clone())
        };
        (0..lines).map(|at| broken.iter().map(|title| line(at, title)).collect()).collect()
    }

    fn widths(&self, head: &[Vec<String>]) -> Vec<usize> {
        let lines = || head.iter().chain(&self.rows);
        (0..self.header.len())
            .map(|i| lines().map(|cells| chars(&cells[i])).max().unwrap_or_default())
            .collect()
    }

    /// Lines of the table: columns one space apart where that keeps it within 80 columns, else two;
    /// no trailing space. Columns beyond `room` follow below, after the same text columns.
    fn lines(&self, room: usize) -> Vec<String> {
        let head = self.head();
        let widths = self.widths(&head);
        let gap = if width(&widths) + widths.len().saturating_sub(1) <= WIDE { 2 } else { 1 };
        let mut lines = Vec::new();
        for columns in self.parts(&widths, gap, room) {
            if !lines.is_empty() {
                lines.push(String::new());
            }
            if !self.groups.is_empty() {
                lines.push(self.titles(&columns, &widths, gap));
            }
            for cells in head.iter().chain(&self.rows) {
                let cell = |&i: &usize| {
                    let pad = " ".repeat(widths[i] - chars(&cells[i]));
                    let (before, after) =
                        if i < self.words { ("", pad.as_str()) } else { (pad.as_str(), "") };
                    [before, &cells[i], after, &" ".repeat(gap)].concat()
                };
                lines.push(columns.iter().map(cell).collect::<String>().trim_end().to_owned());
            }
        }
        lines
    }

    /// Groups of columns that fit `room`: all text columns, and at least one figure.
    fn parts(&self, widths: &[usize], gap: usize, room: usize) -> Vec<Vec<usize>> {
        let words: Vec<usize> = (0..self.words.min(widths.len())).collect();
        let wide = |columns: &[usize]| columns.iter().map(|&i| widths[i] + gap).sum::<usize>();
        let mut parts = vec![words.clone()];
        for (i, width) in widths.iter().enumerate().skip(words.len()) {
            let last = parts.last_mut().expect("there is one from the start");
            if last.len() > words.len() && wide(last) + width > room {
                parts.push([&words[..], &[i]].concat());
            } else {
                last.push(i);
            }
        }
        parts
    }

    /// The titles over `columns`.
    fn titles(&self, columns: &[usize], widths: &[usize], gap: usize) -> String {
        let (mut line, mut column) = (String::new(), 0);
        for (text, span) in &self.groups {
            let covered: Vec<_> = columns.iter().filter(|i| (column..column + span).contains(*i)).collect();
            column += span;
            if covered.is_empty() {
                continue;
            }
            let width = covered.iter().map(|&&i| widths[i]).sum::<usize>() + gap * (covered.len() - 1);
            let text = if text.is_empty() { String::new() } else { format!(" {text} ") };
            let fill = if text.is_empty() { ' ' } else { '-' };
            line.push_str(&centred(&text, width, fill));
            line.push_str(&" ".repeat(gap));
        }
        line.trim_end().to_owned()
    }
}

/// Width of the terminal on stdout, if it is one and was measured.
static COLUMNS: OnceLock<usize> = OnceLock::new();

/// Measures the terminal on stdout, before a sandbox prevents it.
pub fn detect_terminal() {
    if let Ok(size) = rustix::termios::tcgetwinsize(std::io::stdout()) {
        COLUMNS.get_or_init(|| usize::from(size.ws_col).max(WIDE));
    }
}

/// Width that every terminal has.
const WIDE: usize = 80;

/// Least width of a text column's title before it is wrapped.
const ROOM: usize = 10;

/// Fits the terminal's width; whole on other outputs.
impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines(COLUMNS.get().copied().unwrap_or(usize::MAX))
            .iter()
            .try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Width of a line whose columns stand one space apart.
fn width(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + widths.len().saturating_sub(1)
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

/// `text` wrapped at `room` characters between words; a longer word stays whole.
pub fn wrapped(text: &str, room: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split(' ') {
        match lines.last_mut() {
            Some(line) if chars(line) + 1 + chars(word) <= room => *line = format!("{line} {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

fn centred(text: &str, width: usize, fill: char) -> String {
    let free = width.saturating_sub(chars(text));
    let side = |n: usize| std::iter::repeat_n(fill, n).collect::<String>();
    format!("{}{text}{}", side(free / 2), side(free - free / 2))
}

/// A span in microseconds, the unit of its column, with its significant digits: `0.42`, `5.2`, `41`,
/// `506724`.
#[must_use]
pub fn micros(span: queueing::Span) -> String {
    match span.as_micros_f64() {
        0.0 => "0".to_owned(),
        us if us < 1.0 => format!("{us:.2}"),
        us if us < 10.0 => format!("{us:.1}"),
        us => format!("{us:.0}"),
    }
}

/// A figure in the format of its unit; empty where it does not exist.
#[must_use]
pub fn in_unit(unit: &str, value: f64) -> String {
    match unit {
        _ if !value.is_finite() => "–".to_owned(),
        "1" => format!("{value:.0}"),
        "µs" => micros(queueing::Span::from_secs_f64(value * 1e-6)),
        _ => number(value),
    }
}

/// A figure and half its interval in the format of their unit.
#[must_use]
pub fn with_half(unit: &str, value: f64, half: f64) -> String {
    format!("{} ± {}", in_unit(unit, value), in_unit(unit, half))
}

/// Three significant digits, with at most four digits after the point; smaller values as a power of
/// ten.
#[must_use]
pub fn number(value: f64) -> String {
    let digits = match value.abs() {
        0.0 => 0,
        v if v < 0.000_05 => return format!("{value:.0e}"),
        v if v < 0.1 => 4,
        v if v < 1.0 => 3,
        v if v < 10.0 => 2,
        v if v < 100.0 => 1,
        _ => 0,
    };
    if value.is_finite() { format!("{value:.digits$}") } else { "none".to_owned() }
}

/// `value` as by [`number`]; a dash if there is none.
#[must_use]
pub fn number_or_dash(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), number)
}

#[cfg(test)]
mod tests {
    use queueing::Span;

    use super::*;

    //~ demo: table columns: text left-aligned, figures right-aligned
    #[test]
    fn words_stand_left_and_figures_right() {
        let mut table = Table::new(1, &["mode", "p50", "p99"]).groups(&[("", 1), ("µs", 2)]);
        table.row(["none", "5", "1234"].map(str::to_owned).to_vec());
        table.row(["µ", "12.5", "7"].map(str::to_owned).to_vec());
        let expected =
            concat!("      --- µs ---\n", "mode   p50   p99\n", "none     5  1234\n", "µ     12.5     7\n",);
        assert_eq!(table.to_string(), expected);
    }

    #[test]
    fn columns_that_do_not_fit_continue_below_with_the_same_labels() {
        let header = ["thousand requests a second", "mode"].map(str::to_owned).into_iter();
        let header: Vec<String> = header.chain((1..=9).map(|i| format!("figure{i}"))).collect();
        let header: Vec<&str> = header.iter().map(String::as_str).collect();
        let mut table = Table::new(2, &header).groups(&[("", 2), ("answered in time", 5), ("late", 4)]);
        let words = ["50", "fish"].map(str::to_owned).into_iter();
        table.row(words.chain((1..=9).map(|i| (i * 11).to_string())).collect());
        let expected = [
            "                ------ answered in time -------",
            "thousand",
            "requests a",
            "second     mode figure1 figure2 figure3 figure4",
            "50         fish      11      22      33      44",
            "",
            "                 answered in time  -------- late ---------",
            "thousand",
            "requests a",
            "second     mode figure5 figure6 figure7 figure8",
            "50         fish      55      66      77      88",
            "",
            "                 late -",
            "thousand",
            "requests a",
            "second     mode figure9",
            "50         fish      99",
        ];
        assert_eq!(table.lines(50), expected);
        let unlimited = table.lines(usize::MAX);
        assert_eq!(
            unlimited.len(),
            5,
            "a long title of words is broken where the table is wide: {unlimited:?}"
        );
        assert!(
            unlimited[4].starts_with("50         fish      11") && unlimited[4].ends_with(" 99"),
            "{unlimited:?}"
        );
    }

    #[test]
    fn half_an_interval_has_the_unit_of_its_figure() {
        assert_eq!(with_half("µs", 1_861_000.0, 85_920.0), "1861000 ± 85920");
        assert_eq!(with_half("µs", 12.7, 0.25), "13 ± 0.25");
        assert_eq!(with_half("1/s", 50.0, 0.02), "50.0 ± 0.0200");
        assert_eq!(with_half("µs", 1_861_000.0, f64::NAN), "1861000 ± –");
    }

    #[test]
    fn a_page_gets_the_same_cells_escaped() {
        let mut table = Table::new(1, &["a<b", "n"]);
        table.row(vec!["x & y".to_owned(), "1".to_owned()]);
        let html = table.html();
        assert!(html.contains("<th class=\"word\">a&lt;b</th><th>n</th>"), "{html}");
        assert!(html.contains("<td class=\"word\">x &amp; y</td><td>1</td>"), "{html}");
    }

    #[test]
    fn markdown_gets_the_same_cells() {
        let mut table = Table::new(1, &["a", "n"]);
        table.row(vec!["x | y".to_owned(), "1".to_owned()]);
        assert_eq!(table.markdown(), "| a | n |\n|---|--:|\n| x \\| y | 1 |\n");
    }

    #[test]
    fn microseconds_keep_the_digits_that_matter() {
        let spans = [(0, "0"), (420, "0.42"), (5_230, "5.2"), (41_200, "41"), (1_234_000, "1234")];
        for (ns, expected) in spans.into_iter().chain([(506_724_000, "506724"), (12_345_000_000, "12345000")])
        {
            assert_eq!(micros(Span::from_nanos(ns)), expected);
        }
    }

    #[test]
    fn numbers_keep_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (0.000_03, "3e-5"),
            (-0.000_03, "-3e-5"),
            (0.01534, "0.0153"),
            (0.25, "0.250"),
            (24.51, "24.5"),
            (1234.5, "1234"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!(number(f64::NAN), "none");
    }
}
