//! Results of a program's own tests, per file, on greenwave's stack and on the kernel's.
//!
//! The kernel's TCP is the reference: a test that fails there too does not count against greenwave.
//! A skipped test is reported as skipped, never as passed.

use std::collections::{BTreeMap, BTreeSet};

/// Result of one test file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileResult {
    /// Passed tests, if reported individually.
    pub passed: usize,
    /// Failed tests, by name or number.
    pub failed: Vec<String>,
    /// Tests that were not run.
    pub left_out: Vec<String>,
    /// Reason why none was run.
    pub skipped: Option<String>,
}

impl FileResult {
    /// Text of a table cell.
    fn cell(&self) -> String {
        match (&self.skipped, &self.failed[..], &self.left_out[..]) {
            (Some(why), [], _) => format!("skipped: {why}"),
            (_, [], []) => "pass".to_owned(),
            (_, [], out) => format!("pass, without: {}", out.join(", ")),
            (_, failed, _) => format!("fail: {}", failed.join(", ")),
        }
    }

    fn passes(&self) -> bool {
        self.failed.is_empty() && self.skipped.is_none()
    }
}

/// Results of all tests on one stack.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SuiteResult {
    pub files: BTreeMap<String, FileResult>,
    /// True if the tests ran to their end.
    pub is_complete: bool,
}

impl SuiteResult {
    /// Files with failures.
    pub fn failed(&self) -> Vec<String> {
        let failed = self.files.iter().filter(|(_, file)| !file.failed.is_empty());
        failed.map(|(name, _)| name.clone()).collect()
    }

    /// Replaces the results of files that `again` contains.
    pub fn replace(&mut self, again: Self) {
        self.is_complete &= again.is_complete;
        self.files.extend(again.files);
    }

    fn cell(&self, file: &str) -> String {
        self.files.get(file).map_or_else(|| "not run".to_owned(), FileResult::cell)
    }

    fn sums(&self) -> String {
        let passed: usize = self.files.values().map(|file| file.passed).sum();
        let tests = if passed > 0 { format!(" ({passed} tests)") } else { String::new() };
        let count = |is: &dyn Fn(&FileResult) -> bool| self.files.values().filter(|file| is(file)).count();
        format!(
            "{} files pass{tests}, {} fail, {} are skipped{}",
            count(&FileResult::passes),
            self.failed().len(),
            count(&|file| file.skipped.is_some() && file.failed.is_empty()),
            if self.is_complete { "" } else { ", and does not finish" },
        )
    }
}

/// Verdict on greenwave's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SuiteVerdict {
    Works,
    /// Every failure also occurs on the kernel's TCP.
    Limited,
    Fails,
}

/// Results of one test suite on both stacks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Results {
    /// Name and version of the source.
    pub source: String,
    pub verdict: SuiteVerdict,
    pub summary: String,
    ours: SuiteResult,
    kernel: SuiteResult,
}

impl Results {
    /// Compares the results `ours` and `kernel` of the tests of `source`.
    pub fn new(source: &str, ours: SuiteResult, kernel: SuiteResult) -> Self {
        let worse = |name: &&String| match (ours.files.get(*name), kernel.files.get(*name)) {
            (Some(ours), Some(kernel)) => {
                ours.failed.iter().any(|test| !kernel.failed.contains(test))
                    || kernel.passes() && !ours.passes()
            }
            (ours, kernel) => {
                ours.is_some_and(|file| !file.failed.is_empty()) || kernel.is_some_and(FileResult::passes)
            }
        };
        let names_all: BTreeSet<&String> = ours.files.keys().chain(kernel.files.keys()).collect();
        let only: Vec<&String> = names_all.into_iter().filter(worse).collect();
        let names = only.iter().map(|file| format!("{file} ({})", ours.cell(file)));
        let names = names.collect::<Vec<_>>().join(", ");
        let some = ours.files.values().any(FileResult::passes);
        let verdict = match (only.is_empty() && some, ours.is_complete, kernel.is_complete) {
            (false, ..) | (_, false, true) => SuiteVerdict::Fails,
            (true, true, _) if ours.failed().is_empty() => SuiteVerdict::Works,
            (true, ..) => SuiteVerdict::Limited,
        };
        let mut summary = match ours.sums() == kernel.sums() {
            true => format!("{source}, on both stacks: {}", ours.sums()),
            false => format!("{source}: {}; on the kernel's TCP: {}", ours.sums(), kernel.sums()),
        };
        if !names.is_empty() {
            summary = format!("{summary}; worse on greenwave's stack: {names}");
        }
        Self { source: source.to_owned(), verdict, summary, ours, kernel }
    }

    /// Each file, with its results on greenwave's stack and on the kernel's.
    pub fn files(&self) -> impl Iterator<Item = (&str, [String; 2])> {
        let names: BTreeSet<&String> = self.ours.files.keys().chain(self.kernel.files.keys()).collect();
        names.into_iter().map(|name| (name.as_str(), [self.ours.cell(name), self.kernel.cell(name)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One file per word: `a` passes, `a!` fails, `a?` is skipped.
    fn output(words: &str, is_complete: bool) -> SuiteResult {
        let files = words.split_whitespace().map(|word| {
            let file = match word.chars().last() {
                Some('!') => FileResult { failed: vec!["2".to_owned()], ..FileResult::default() },
                Some('?') => FileResult { skipped: Some("no".to_owned()), ..FileResult::default() },
                _ => FileResult { passed: 3, ..FileResult::default() },
            };
            (word.trim_end_matches(['!', '?']).to_owned(), file)
        });
        SuiteResult { files: files.collect(), is_complete }
    }

    #[track_caller]
    fn check(ours: &str, kernel: &str, verdict: SuiteVerdict, summary: &str) {
        let results = Results::new("p-1", output(ours, true), output(kernel, true));
        assert_eq!((results.verdict, results.summary.as_str()), (verdict, summary), "{ours} and {kernel}");
    }

    #[test]
    fn a_failure_on_greenwave_s_stack_only_counts_against_it() {
        check(
            "a b?",
            "a b?",
            SuiteVerdict::Works,
            "p-1, on both stacks: 1 files pass (3 tests), 0 fail, 1 are skipped",
        );
        check(
            "a b!",
            "a b!",
            SuiteVerdict::Limited,
            "p-1, on both stacks: 1 files pass (3 tests), 1 fail, 0 are skipped",
        );
        let kernel = "on the kernel's TCP: 2 files pass (6 tests), 0 fail, 0 are skipped";
        let ours = "p-1: 1 files pass (3 tests)";
        check(
            "a b!",
            "a b",
            SuiteVerdict::Fails,
            &format!("{ours}, 1 fail, 0 are skipped; {kernel}; worse on greenwave's stack: b (fail: 2)"),
        );
        check(
            "a b?",
            "a b",
            SuiteVerdict::Fails,
            &format!("{ours}, 0 fail, 1 are skipped; {kernel}; worse on greenwave's stack: b (skipped: no)"),
        );
        check(
            "a",
            "a b",
            SuiteVerdict::Fails,
            &format!("{ours}, 0 fail, 0 are skipped; {kernel}; worse on greenwave's stack: b (not run)"),
        );
    }

    #[test]
    fn what_does_not_come_to_its_end_does_not_work() {
        let verdict = |ours, kernel| Results::new("p-1", output("a", ours), output("a", kernel)).verdict;
        assert_eq!(verdict(true, true), SuiteVerdict::Works);
        assert_eq!(verdict(false, true), SuiteVerdict::Fails);
        assert_eq!(verdict(false, false), SuiteVerdict::Limited);
        assert_eq!(
            Results::new("p-1", output("", true), output("", true)).verdict,
            SuiteVerdict::Fails,
            "nothing passes"
        );
    }

    #[test]
    fn what_is_run_again_counts_as_it_was_then() {
        let mut first = output("a! b c!", true);
        assert_eq!(first.failed(), ["a", "c"]);
        first.replace(output("a c!", true));
        assert_eq!((first.failed(), first.is_complete), (vec!["c".to_owned()], true));
    }
}
