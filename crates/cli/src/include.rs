//! Configurations of several files: `include = ["shop.toml", "bulk.toml"]`.
//!
//! Included files follow the file that includes them, in list order, so the first file's rules are
//! evaluated first. An included file has tables only (`[[rule]]`, `[[tasks]]`); global settings
//! stand in the first file. All files form one text whose lines keep their origin; its reader
//! interprets it.

use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use crate::{Error, toml_error};

/// A file and all its includes, as one text.
#[derive(Debug)]
pub struct Included {
    pub text: String,
    /// The first line of each file, and the file.
    files: Vec<(usize, PathBuf)>,
}

/// Maximum nesting depth of includes.
const DEPTH_MAX: usize = 8;
/// Maximum number of files in total.
const FILES_MAX: usize = 64;

/// Reads the file at `path` and its includes.
///
/// # Errors
/// A file that cannot be read, that includes itself, or that may not be included; with the
/// including file and line.
pub fn read(path: &Path) -> Result<Included, Error> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::file(path, &e))?;
    let mut all = Included { text: String::new(), files: Vec::new() };
    let own = std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    all.append(path, text, &mut vec![own])?;
    Ok(all)
}

impl Included {
    /// `FILE:LINE` of the text's line, from 1.
    pub fn location(&self, line: usize) -> String {
        let at = self.files.partition_point(|(first, _)| *first <= line).max(1) - 1;
        let (first, file) = &self.files[at];
        format!("{}:{}", file.display(), line - first + 1)
    }

    /// Appends `text` of the file at `path`; `within` is the stack of files being read, itself the
    /// last.
    fn append(&mut self, path: &Path, text: String, within: &mut Vec<PathBuf>) -> Result<(), Error> {
        self.files.push((self.text.lines().count() + 1, path.to_owned()));
        let (text, asked) = split(path, text, within.len() > 1)?;
        self.text += &text;
        if !text.ends_with('\n') {
            self.text.push('\n');
        }
        for (line, name) in asked {
            let wrong = |what: String| Error::new(format!("{}:{line}: {what}", path.display()));
            let next = path.parent().unwrap_or(Path::new("")).join(&name);
            let read =
                std::fs::read_to_string(&next).and_then(|text| Ok((text, std::fs::canonicalize(&next)?)));
            let (text, own) = read.map_err(|e| {
                wrong(format!("include {name:?}: {}", crate::error::plain(&e.to_string())))
                    .advice("an existing file; paths are relative to the including file")
            })?;
            if within.contains(&own) {
                return Err(wrong(format!("include {name:?} is a cycle")).advice("remove it"));
            }
            if within.len() >= DEPTH_MAX || self.files.len() >= FILES_MAX {
                let most = format!("{DEPTH_MAX} files deep and {FILES_MAX} in all");
                return Err(
                    wrong(format!("include {name:?} exceeds the limit of {most}")).advice("fewer files")
                );
            }
            within.push(own);
            self.append(&next, text, within)?;
            within.pop();
        }
        Ok(())
    }
}

/// `text` with its `include` blanked, and the includes: line and name.
fn split(path: &Path, mut text: String, is_part: bool) -> Result<(String, Vec<(usize, String)>), Error> {
    let wrong = |line: usize, what: String| Error::new(format!("{}:{line}: {what}", path.display()));
    let line = |at: usize| text[..at].matches('\n').count() + 1;
    let table = DeTable::parse(&text)
        .map_err(|e| toml_error::of(&text, &e, |line| format!("{}:{line}", path.display())))?;
    let (mut asked, mut blank) = (Vec::new(), None);
    for (key, value) in table.get_ref() {
        if key.get_ref() == "include" {
            let advice = "include = [\"more.toml\"]";
            let bad = || {
                wrong(line(value.span().start), "include is not a list of files".to_owned()).advice(advice)
            };
            let names = value.get_ref().as_array().ok_or_else(bad)?;
            for name in names.iter() {
                let text = name.get_ref().as_str().ok_or_else(bad)?;
                asked.push((line(name.span().start), text.to_owned()));
            }
            blank = Some(key.span().start..value.span().end);
        } else if is_part && !is_tables(value.get_ref()) {
            let what = format!("{} is not allowed in an included file: only tables are", key.get_ref());
            return Err(wrong(line(key.span().start), what).advice("move it to the first file"));
        }
    }
    drop(table);
    if let Some(range) = blank {
        let blanks: String =
            text[range.clone()].chars().map(|c| if c == '\n' { '\n' } else { ' ' }).collect();
        text.replace_range(range, &blanks);
    }
    Ok((text, asked))
}

/// True for a table, or a list of tables.
fn is_tables(value: &DeValue<'_>) -> bool {
    let is_table = |value: &DeValue<'_>| value.as_table().is_some();
    is_table(value) || value.as_array().is_some_and(|all| all.iter().all(|one| is_table(one.get_ref())))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder of files, removed on drop.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str, files: &[(&str, &str)]) -> Self {
            let folder =
                std::env::temp_dir().join(format!("greenwave-include-{name}-{}", std::process::id()));
            for (file, text) in files {
                let path = folder.join(file);
                std::fs::create_dir_all(path.parent().unwrap()).unwrap();
                std::fs::write(path, text).unwrap();
            }
            Self(folder)
        }

        fn read(&self) -> Result<Included, String> {
            let cut = |text: String| text.replace(&format!("{}/", self.0.display()), "");
            read(&self.0.join("a.toml")).map_err(|e| cut(e.to_string()))
        }

        fn location(&self, all: &Included, line: usize) -> String {
            all.location(line).replace(&format!("{}/", self.0.display()), "")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn included_text_follows_with_its_own_line_numbers() {
        let folder = Folder::new(
            "follows",
            &[
                ("a.toml", "x = 1\ninclude = [\n  \"more/b.toml\",\n  \"d.toml\",\n] # two\n[[t]]\nn = 'a'"),
                ("more/b.toml", "include = [\"c.toml\"]\n[[t]]\nn = 'b'\n"),
                ("more/c.toml", "\n[[t]]\nn = 'c'\n"),
                ("d.toml", "[[t]]\nn = 'd'\n"),
            ],
        );
        let all = folder.read().unwrap();
        let table: toml::Table = all.text.parse().unwrap();
        let names = table["t"].as_array().unwrap().iter().map(|t| t["n"].as_str().unwrap());
        assert_eq!(names.collect::<Vec<_>>(), ["a", "b", "c", "d"]);
        assert!(!table.contains_key("include"), "{}", all.text);
        for (at, line) in all.text.lines().enumerate().filter(|(_, line)| line.starts_with("n = ")) {
            let expected = match line {
                "n = 'a'" => "a.toml:7",
                "n = 'b'" => "more/b.toml:3",
                "n = 'c'" => "more/c.toml:3",
                _ => "d.toml:2",
            };
            assert_eq!(folder.location(&all, at + 1), expected);
        }
    }

    #[test]
    fn an_invalid_include_is_reported_with_its_line() {
        let check = |name: &str, a: &str, b: &str, says: &str| {
            let error = Folder::new(name, &[("a.toml", a), ("b.toml", b)]).read().unwrap_err();
            assert!(error.starts_with("error: ") && error.contains(says), "{says:?} is not in {error:?}");
            assert!(error.contains("\n  try: "), "{error}");
        };
        let a = "x = 1\n\ninclude = [\"b.toml\"]\n";
        check("cycle", a, "include = ['a.toml']\n", "b.toml:1: include \"a.toml\" is a cycle");
        check("itself", a, "\ninclude = ['b.toml']\n", "b.toml:2: include \"b.toml\" is a cycle");
        check("missing", "include = ['c.toml']", "", "a.toml:1: include \"c.toml\": No such file");
        check("kind", "include = 'b.toml'", "", "a.toml:1: include is not a list of files");
        check("kinds", "include = [1]", "", "a.toml:1: include is not a list of files");
        check("setting", a, "\nx = 2\n", "b.toml:2: x is not allowed in an included file");
        let chain: Vec<(String, String)> =
            (0..9).map(|n| (format!("{n}.toml"), format!("include = ['{}.toml']", n + 1))).collect();
        let mut files: Vec<(&str, &str)> =
            chain.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        files.push(("a.toml", "include = ['0.toml']"));
        let error = Folder::new("deep", &files).read().unwrap_err();
        assert!(error.contains("6.toml:1: include \"7.toml\" exceeds the limit of 8 files deep"), "{error}");
    }

    #[test]
    fn text_that_is_no_toml_is_refused_with_its_line() {
        let folder = Folder::new("none", &[("a.toml", "x = 1\nx = 2\n")]);
        assert_eq!(
            folder.read().unwrap_err(),
            "error: a.toml:2: x is set twice\n  try: one of the two settings of x"
        );
        let folder = Folder::new("open", &[("a.toml", "include = ['b.toml']\n"), ("b.toml", "\nx = [\n")]);
        let error = folder.read().unwrap_err();
        assert!(error.starts_with("error: b.toml:"), "{error}");
    }
}
