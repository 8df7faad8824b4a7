//! A page: title, sections, one style sheet, no script, no other file.

/// One section of a page.
#[derive(Clone, Debug)]
pub struct Section {
    /// Its heading; empty for none.
    pub heading: String,
    /// HTML: tables, SVG, paragraphs.
    pub body: String,
}

impl Section {
    /// A section of HTML.
    pub fn new(heading: impl Into<String>, body: impl Into<String>) -> Self {
        Self { heading: heading.into(), body: body.into() }
    }

    /// A section of plain text: one paragraph per line.
    pub fn text(heading: impl Into<String>, text: &str) -> Self {
        let body = text.lines().map(|line| format!("<p>{}</p>\n", escape(line)));
        Self::new(heading, body.collect::<String>())
    }

    /// A section that pairs names with values.
    pub fn pairs(heading: impl Into<String>, pairs: &[(&str, String)]) -> Self {
        let row =
            |(name, value): &(&str, String)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(value));
        Self::new(heading, format!("<dl>\n{}</dl>\n", pairs.iter().map(row).collect::<String>()))
    }
}

/// `text` with the characters that mean something in HTML made harmless.
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
            heading => format!("<h2>{}</h2>\n", escape(heading)),
        };
        format!("<section>\n{heading}{}</section>\n", section.body)
    };
    let body: String = sections.iter().map(section).collect();
    let title = escape(title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<h1>{title}</h1>\n{body}</body>\n</html>\n"
    )
}

const STYLE: &str = "\
:root { color-scheme: light; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff;
  max-width: 62rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.6rem; } h2 { font-size: 1.2rem; margin-top: 2rem; }
section > svg { display: block; max-width: 100%; height: auto; margin: 1rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .9rem; display: block; overflow-x: auto; }
th, td { padding: .2rem .45rem; text-align: right; white-space: nowrap; }
thead th { border-bottom: 1px solid #888; } tr.group th { text-align: center; border-bottom: 1px solid #ccc; }
tbody tr:nth-child(even) { background: #f5f5f5; }
.word { text-align: left; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: .2rem 1rem; } dd { margin: 0; }
.note { color: #555; }
";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_stands_alone() {
        let sections = [Section::text("A & B", "one\ntwo"), Section::pairs("", &[("seed", "7".to_owned())])];
        let html = page("x < y", &sections);
        for part in ["<h1>x &lt; y</h1>", "<h2>A &amp; B</h2>", "<p>two</p>", "<dt>seed</dt><dd>7</dd>"] {
            assert!(html.contains(part), "{part} in {html}");
        }
        for foreign in ["http:", "https:", "<script", "<link", "@import", "src="] {
            assert!(!html.contains(foreign), "{foreign}");
        }
    }
}
