//! Registry of experiments: those that ship with the program, and files that a user names.

use std::path::Path;

use include_dir::Dir;

use super::embedded::SHIPPED;
use super::spec::Experiment;
use crate::error::Error;

/// File of an experiment.
#[derive(Clone, Debug)]
pub struct Source {
    /// `paper/name`, or the path the user gave.
    pub name: String,
    text: String,
    /// The paper's numbers, as CSV.
    paper: String,
}

impl Source {
    /// Parses the experiment.
    ///
    /// # Errors
    /// One line: the experiment's name and the error.
    pub fn parse(&self) -> Result<Experiment, Error> {
        Experiment::parse(&self.text).map_err(|e| Error::new(format!("experiment {}: {e}", self.name)))
    }

    /// All texts that the experiment is parsed from.
    pub fn texts(&self) -> [&str; 2] {
        [&self.text, &self.paper]
    }

    /// The paper's printed number called `id`.
    ///
    /// # Errors
    /// `paper.csv` has no such row, or its value is not a number.
    pub fn paper_number(&self, id: &str) -> Result<f64, Error> {
        let row = self.paper.lines().find_map(|line| line.strip_prefix(id)?.strip_prefix(','));
        let value = row.and_then(|rest| rest.split(',').next()).and_then(|v| v.parse().ok());
        value.ok_or_else(|| {
            Error::new(format!("experiment {}: paper.csv has no number {id:?}", self.name))
                .advice(format!("a line \"{id},NUMBER\" in paper.csv beside it"))
        })
    }
}

/// The shipped experiments, by name.
#[must_use]
pub fn all() -> Vec<Source> {
    let mut sources: Vec<Source> = SHIPPED.dirs().flat_map(sources_in).collect();
    sources.sort_by(|a, b| a.name.cmp(&b.name));
    sources
}

fn sources_in<'a>(folder: &'a Dir<'a>) -> impl Iterator<Item = Source> + 'a {
    let text = |file: &include_dir::File<'_>| file.contents_utf8().unwrap_or_default().to_owned();
    let paper = folder.get_file(folder.path().join("paper.csv")).map(text).unwrap_or_default();
    let experiments = folder.files().filter(|f| f.path().extension().is_some_and(|e| e == "toml"));
    experiments.map(move |file| Source {
        name: file.path().with_extension("").display().to_string(),
        text: text(file),
        paper: paper.clone(),
    })
}

/// Experiments that `name` selects: one, all of a paper, a file, or `all`.
///
/// # Errors
/// No experiment has the name; the error lists the names that exist.
pub fn find(name: &str) -> Result<Vec<Source>, Error> {
    if name.ends_with(".toml") {
        return from_file(Path::new(name)).map(|source| vec![source]);
    }
    if name == "all" {
        return Ok(all());
    }
    let prefix = format!("{}/", name.trim_end_matches('/'));
    let sources: Vec<_> =
        all().into_iter().filter(|s| s.name == name || s.name.starts_with(&prefix)).collect();
    if sources.is_empty() {
        let names: Vec<_> = all().into_iter().map(|s| s.name).collect();
        return Err(Error::new(format!("experiment {name:?} is not one of {}", names.join(", ")))
            .advice("greenwave exp list"));
    }
    Ok(sources)
}

/// File name stem for files about the experiment `name`.
#[must_use]
pub fn stem(name: &str) -> String {
    name.trim_end_matches(".toml").trim_matches(['.', '/']).replace('/', "-")
}

/// Reads `path`, and `paper.csv` beside it if that exists.
///
/// # Errors
/// The file cannot be read.
pub fn from_file(path: &Path) -> Result<Source, Error> {
    let text = std::fs::read_to_string(path).map_err(|e| Error::file(path, &e))?;
    let paper = std::fs::read_to_string(path.with_file_name("paper.csv")).unwrap_or_default();
    Ok(Source { name: path.display().to_string(), text, paper })
}
