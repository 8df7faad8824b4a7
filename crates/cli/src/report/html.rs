//! HTML page: title, sections, one style sheet; no script and no external file.

/// One section of a page.
#[derive(Clone, Debug)]
pub struct Section {
    /// Heading; empty for none.
    pub heading: String,
    /// HTML: tables, SVG, paragraphs.
    pub body: String,
}

impl Section {
    /// Creates a section of HTML.
    pub fn new(heading: impl Into<String>, body: impl Into<String>) -> Self {
        Self { heading: heading.into(), body: body.into() }
    }

    /// Creates a section of plain text: one paragraph per line.
    pub fn text(heading: impl Into<String>, text: &str) -> Self {
        let body = text.lines().map(|line| format!("<p>{}</p>\n", escape(line)));
        Self::new(heading, body.collect::<String>())
    }

    /// Creates a section of names and values.
    pub fn pairs<N: AsRef<str>, V: AsRef<str>>(heading: impl Into<String>, pairs: &[(N, V)]) -> Self {
        let row = |(name, value): &(N, V)| {
            format!("<dt>{}</dt><dd>{}</dd>\n", escape(name.as_ref()), escape(value.as_ref()))
        };
        Self::new(heading, format!("<dl>\n{}</dl>\n", pairs.iter().map(row).collect::<String>()))
    }

    /// HTML of the section as a subsection, with its heading one level lower.
    #[must_use]
    pub fn inner(&self) -> String {
        let heading = match self.heading.as_str() {
            "" => String::new(),
            heading => format!("<h3>{}</h3>\n", escape(heading)),
        };
        format!("{heading}{}", self.body)
    }
}

/// HTML that scrolls on its own, also with the keyboard, if wider than the page. `label` is its
/// accessible name.
#[must_use]
pub fn wide(label: &str, html: &str) -> String {
    let label = escape(label);
    format!("<div class=\"wide\" tabindex=\"0\" role=\"group\" aria-label=\"{label}\">\n{html}</div>\n")
}

/// HTML that a click on its summary expands, without a script.
#[must_use]
pub fn folded(summary: &str, html: &str) -> String {
    format!("<details>\n<summary>{}</summary>\n{html}</details>\n", escape(summary))
}

/// `text` as an anchor: letters, digits and hyphens.
#[must_use]
pub fn anchor(text: &str) -> String {
    text.chars().map(|c| if c.is_ascii_alphanumeric() { c.to_ascii_lowercase() } else { '-' }).collect()
}

/// `text` with HTML's special characters escaped.
#[must_use]
pub fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// A self-contained page.
#[must_use]
pub fn page(title: &str, sections: &[Section]) -> String {
    let section = |section: &Section| {
        let heading = match section.heading.as_str() {
            "" => String::new(),
            heading => format!("<h2 id=\"{}\">{}</h2>\n", anchor(heading), escape(heading)),
        };
        format!("<section>\n{heading}{}</section>\n", section.body)
    };
    let body: String = sections.iter().map(section).collect();
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n<h1>{title}</h1>\n{body}</main>\n</body>\n</html>\n"
    )
}

/// Style sheet. Colours are variables, so that a dark page changes values only. Plots are drawn for
/// a light page and take their line and text colours from the page.
const STYLE: &str = r##"
:root { color-scheme: light dark; --ink: #1a1a1a; --back: #fff; --soft: #f5f5f5;
  --rule: #ccc; --quiet: #555; --link: #005a8c; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6e6e6; --back: #16181c; --soft: #20242a; --rule: #4a4f57; --quiet: #a9adb3;
    --link: #7ab8e6; }
  svg [fill="#5A5A5A"] { fill: #7d7d7d; } svg [stroke="#5A5A5A"] { stroke: #7d7d7d; }
  svg [fill="#005A8C"] { fill: #3c8cc0; }
}
svg [fill="#FFFFFF"] { fill: var(--back); } svg [fill="#000000"] { fill: var(--ink); }
svg [stroke="#000000"] { stroke: var(--ink); }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--back);
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: break-word; }
a { color: var(--link); }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin-top: 2rem; }
h3 { font-size: 1rem; margin: 1.5rem 0 .5rem; }
.wide { overflow-x: auto; margin: 1rem 0; }
.wide:focus-visible, summary:focus-visible, a:focus-visible { outline: 2px solid var(--link); outline-offset: 2px; }
svg { display: block; width: 100%; height: auto; }
.wide > svg { min-width: 44rem; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; }
th, td { padding: .2rem .45rem; text-align: right; white-space: nowrap; }
thead th { border-bottom: 1px solid var(--quiet); }
tr.group th { text-align: center; border-bottom: 1px solid var(--rule); }
tbody tr:nth-child(even) { background: var(--soft); }
th.word, td.word { text-align: left; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; }
dt { color: var(--quiet); } dd { margin: 0; min-width: 0; overflow-wrap: anywhere; }
summary { cursor: pointer; padding: .3rem 0; }
code { overflow-wrap: anywhere; background: var(--soft); padding: .1rem .3rem; }
.note { color: var(--quiet); }
@media (max-width: 40rem) {
  body { margin: 1rem auto; padding: 0 .75rem; } h1 { font-size: 1.3rem; }
  dl { grid-template-columns: 1fr; gap: 0; } dd { margin: 0 0 .5rem; }
}
"##;

#[cfg(test)]
mod tests {
    use super::*;

    //~ demo: `report.html` is self-contained and shows a CDF per class and the stages of p99
    #[test]
    fn a_page_stands_alone() {
        let sections = [Section::text("A & B", "one\ntwo"), Section::pairs("", &[("seed", "7".to_owned())])];
        let html = page("x < y", &sections);
        for part in
            ["<h1>x &lt; y</h1>", "<h2 id=\"a---b\">A &amp; B</h2>", "<p>two</p>", "<dt>seed</dt><dd>7</dd>"]
        {
            assert!(html.contains(part), "{part} in {html}");
        }
        assert!(html.contains("prefers-color-scheme: dark"), "the page supports dark mode");
        for foreign in ["http:", "https:", "<script", "<link", "@import", "src="] {
            assert!(!html.contains(foreign), "{foreign}");
        }
    }
}
