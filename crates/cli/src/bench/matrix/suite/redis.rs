//! redis's own tests for an external server.
//!
//! Other tests start servers themselves, on the machine of the tests.

use std::path::Path;

use super::super::harness::{OURS, Trial, because, finished};
use super::super::http_checks::serving;
use super::super::program::{SetupVariant, TestedProgram};
use super::super::results::{FileResult, SuiteResult};
use super::{LIMIT, copy};

/// Test that occupies a port on the machine of the tests so that the server cannot bind it. Here
/// the server is in another namespace, and the failure would end all tests.
const ON_ONE_MACHINE: &str = "CONFIG SET rollback on apply error";

/// Runs all of redis's tests, or `only` these units.
pub fn run(world: &Trial<'_>, source: &Path, only: &[String]) -> Result<SuiteResult, String> {
    let folder = copy(world, &source.join("tests"), "redis")?;
    std::fs::create_dir_all(folder.join("src")).map_err(because("a folder"))?;
    for tool in ["redis-cli", "redis-benchmark", "redis-server"] {
        let file = world.peer_client(&["sh", "-c", "command -v \"$0\"", tool])?;
        let link = folder.join("src").join(tool);
        std::os::unix::fs::symlink(file.trim(), link).map_err(because("a link"))?;
    }
    let server = serving(TestedProgram::Redis, world, SetupVariant::Usual, b"")?;
    let dir = folder.display().to_string();
    let test = ["env", "-C", &dir, "TERM=dumb", "tclsh", "tests/test_helper.tcl"];
    let what = ["--host", OURS, "--port", "6379", "--tags", "-slow", "--skiptest", ON_ONE_MACHINE];
    let single = only.iter().flat_map(|unit| ["--single", unit.as_str()]);
    let words: Vec<String> = test.into_iter().chain(what).chain(single).map(str::to_owned).collect();
    let out = finished(&world.clients, &words, LIMIT)?;
    server.stop()?;
    Ok(output(&String::from_utf8_lossy(&out.stdout)))
}

fn output(text: &str) -> SuiteResult {
    let ended = text.contains("\\o/") || text.contains("!!! WARNING");
    let mut all = SuiteResult { is_complete: ended && !text.contains("[TIMEOUT]"), ..SuiteResult::default() };
    let (mut unit, mut file, mut why) = (String::new(), FileResult::default(), None);
    for line in text.lines() {
        let after = |begin: &str| line.strip_prefix(begin);
        if let Some(next) = after("Testing ").or_else(|| line.contains("The End").then_some("")) {
            end(&mut all, &unit, std::mem::take(&mut file), why.take());
            next.clone_into(&mut unit);
        } else if after("[ok]: ").is_some() {
            file.passed += 1;
        } else if let Some(test) = after("[err]: ").or_else(|| after("[exception]: ")) {
            file.failed.push(test.split(" in tests/").next().unwrap_or(test).trim().to_owned());
        } else if let Some(test) = after("[skip]: ") {
            file.left_out.push(test.to_owned());
        } else if let Some(of) = after("[ignore]: ") {
            // A test's name precedes the reason; a group has none.
            why = of.rsplit(": ").next().map(str::to_owned);
        }
    }
    end(&mut all, &unit, file, why);
    all
}

/// Records the end of unit `unit`.
fn end(all: &mut SuiteResult, unit: &str, mut file: FileResult, why: Option<String>) {
    if unit.is_empty() {
        return;
    }
    if file.passed == 0 && file.failed.is_empty() {
        file.skipped = Some(why.unwrap_or_else(|| "no tests for such a server".to_owned()));
    }
    all.files.insert(unit.to_owned(), file);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redis_s_test_output_is_parsed() {
        let text = "Starting test server at port 21079\nTesting unit/a\n[ready]: 7\n[ok]: GET (0 ms)\n\
                    [err]: SET it in tests/unit/a.tcl\nExpected 1\n[ok]: DEL (3 ms)\n[skip]: PUT\n\
                    [1/3 done]: unit/a (1 seconds)\nTesting unit/b\n[ignore]: MOVE: no: Not supported\n\
                    [2/3 done]: unit/b (0 seconds)\nTesting unit/c\n[3/3 done]: unit/c (0 seconds)\n\n\
                    \x20                  The End\n\n!!! WARNING The following tests failed:\n\n\
                    *** [err]: SET it in tests/unit/a.tcl\n";
        let ours = output(text);
        assert!(ours.is_complete);
        assert_eq!(ours.failed(), ["unit/a"]);
        let names = |all: &[&str]| all.iter().map(|&name| name.to_owned()).collect();
        let a =
            FileResult { passed: 2, failed: names(&["SET it"]), left_out: names(&["PUT"]), skipped: None };
        assert_eq!(ours.files["unit/a"], a);
        assert_eq!(ours.files["unit/b"].skipped.as_deref(), Some("Not supported"));
        assert_eq!(ours.files["unit/c"].skipped.as_deref(), Some("no tests for such a server"));
        assert_eq!(ours.files.len(), 3);
    }

    #[test]
    fn tests_that_are_cut_off_do_not_come_to_their_end() {
        let kernel = output("Testing unit/a\n[ok]: GET (0 ms)\n[exception]: Executing test client: no.\n");
        assert_eq!((kernel.is_complete, kernel.failed()), (false, vec!["unit/a".to_owned()]));
        assert!(
            !output("Testing unit/a\n[TIMEOUT]: clients\nThe End\n!!! WARNING The following\n").is_complete
        );
    }
}
