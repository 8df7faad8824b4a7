//! Output of `greenwave report` for people and scripts.

//~ results: `report` writes one self-contained page for any result

mod common;
#[path = "common/schema.rs"]
mod schema;

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use common::greenwave;
use serde_json::{Value, json};

/// A folder of the test, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("report-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("the folder for test files is writable");
        Self(path)
    }

    /// The path of `name` in the folder.
    fn path(&self, name: &str) -> String {
        self.0.join(name).to_str().expect("a path of ours is UTF-8").to_owned()
    }

    /// Writes `text` to `name`; returns its path.
    fn file(&self, name: &str, text: &str) -> String {
        std::fs::write(self.0.join(name), text).expect("the folder is writable");
        self.path(name)
    }

    fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(&self.0).expect("it is there");
        let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn read(path: impl AsRef<Path>) -> String {
    std::fs::read_to_string(path).expect("the file is there")
}

/// A one-second experiment over six seeds: its result, and its page.
static RUN: LazyLock<(Value, String)> = LazyLock::new(|| {
    let folder = Folder::new("run");
    let ran = greenwave(&["exp", "run", "overload/e3", "--out", &folder.path("")]);
    assert_eq!(ran.status.code(), Some(0), "{}", String::from_utf8_lossy(&ran.stderr));
    let [json, page] =
        ["json", "html"].map(|extension| read(folder.path(&format!("overload-e3.{extension}"))));
    (serde_json::from_str(&json).expect("it is JSON"), page)
});

fn outcome(out: &Output) -> (Option<i32>, String) {
    (out.status.code(), String::from_utf8_lossy(&[&out.stdout[..], &out.stderr].concat()).into_owned())
}

#[test]
fn a_result_is_a_page_that_needs_nothing_else() {
    let folder = Folder::new("page");
    let result = folder.file("e3.json", &RUN.0.to_string());
    let out = folder.path("page.html");
    let (code, text) = outcome(&greenwave(&["report", &result, "--out", &out]));
    assert_eq!(code, Some(0), "{text}");
    assert!(text.starts_with("1 run, ") && text.contains(" claims hold: "), "{text}");
    let page = read(&out);
    assert_eq!(page, RUN.1, "the page of a run is the same whenever it is made");
    let title = RUN.0["title"].as_str().unwrap();
    for part in [
        title,
        "<svg role=\"img\"",
        "repeat",
        "greenwave exp run overload/e3 --scale smoke --seed 1",
        "prefers-color-scheme",
        "<details>",
    ] {
        assert!(page.contains(part), "{part:?} is in the page");
    }
    let own = page.replace("xmlns=\"http://www.w3.org/2000/svg\"", "");
    for foreign in ["http:", "https:", "<script", "<link", "src=", "url("] {
        assert!(!own.contains(foreign), "{foreign:?} is not in the page");
    }
    assert_eq!(folder.names(), ["e3.json", "page.html"], "nothing else is written");
}

#[test]
fn a_folder_is_one_page_that_leads_to_each_run_and_passes_over_what_is_not_ours() {
    let folder = Folder::new("folder");
    let doctor = greenwave(&["doctor", "sched", "--json"]).stdout;
    folder.file("a.json", &RUN.0.to_string());
    folder.file("b.json", &String::from_utf8_lossy(&doctor));
    folder.file("other.json", "{\"name\": \"x\"}");
    let out = folder.path("all.html");
    let (code, text) = outcome(&greenwave(&["report", &folder.path(""), "-o", &out]));
    assert_eq!(code, Some(0), "{text}");
    assert!(
        text.contains("other.json: not a result of greenwave: no key \"greenwave\" with its kind"),
        "{text}"
    );
    let page = read(&out);
    for part in ["href=\"#run-1-", "id=\"run-1-", "id=\"run-2-doctor\"", "Findings of the doctor"] {
        assert!(page.contains(part), "{part:?} is in the page");
    }
}

//~ results: `report --compare` exits 1 if a claim fails that did not, 3 if one that held is undecided
#[test]
fn a_claim_that_held_and_fails_is_exit_1_and_one_that_is_undecided_exit_3() {
    let folder = Folder::new("compare");
    let a = folder.file("a.json", &RUN.0.to_string());
    let mut changed = RUN.0.clone();
    changed["claims"][0]["verdict"] = json!("fails");
    let worse = folder.file("worse.json", &changed.to_string());
    changed["claims"][0]["verdict"] = json!("undecided");
    let open = folder.file("open.json", &changed.to_string());
    let check = |a: &str, b: &str, code: i32, verdict: &str| {
        let (found, text) = outcome(&greenwave(&["report", "--compare", a, b]));
        assert_eq!(found, Some(code), "{text}");
        assert!(text.contains(verdict) && text.contains("paired by seed"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    };
    check(&a, &a, 0, "holds in both");
    check(&a, &worse, 1, "now FAILS");
    check(&worse, &a, 0, "now holds");
    check(&a, &open, 3, "now undecided");
    check(&open, &open, 0, "undecided in both");
    check(&open, &worse, 1, "now FAILS");
    let page = folder.path("both.html");
    let (_, text) = outcome(&greenwave(&["report", "--compare", &a, &worse, "--out", &page]));
    assert!(read(&page).contains("now FAILS"), "{text}");
}

//~ results: a full disk leaves the existing page; invalid input gives one line
#[test]
fn what_cannot_be_shown_is_one_line_with_what_to_do() {
    let folder = Folder::new("refused");
    let mut later = RUN.0.clone();
    later["greenwave"]["form"] = json!(2);
    later["greenwave"]["version"] = json!("9.0.0");
    let check = |path: &str, says: &str| {
        let (code, text) = outcome(&greenwave(&["report", path, "-o", &folder.path("page.html")]));
        assert_eq!(code, Some(2), "{text}");
        let lines: Vec<_> = text.lines().collect();
        let [what, advice] = lines[..] else { panic!("{text}") };
        assert!(what.starts_with("error: ") && what.contains(says), "{says:?} is in {text}");
        assert!(advice.starts_with("  try: "), "{text}");
    };
    check(&folder.file("later.json", &later.to_string()), "written by greenwave 9.0.0 in form 2");
    check(
        &folder.file("other.json", "{\"name\": 1}"),
        "not a result of greenwave: no key \"greenwave\" with its kind",
    );
    check(
        &folder.file("text.json", "once upon a time"),
        "not a result of greenwave: expected value at line 1",
    );
    let cut: String = RUN.0.to_string().chars().take(400).collect();
    check(&folder.file("cut.json", &cut), "not a result of greenwave: EOF while parsing");
    check(&folder.file("nothing.json", ""), "not a result of greenwave: empty file");
    check(&folder.path("missing.json"), "missing.json: No such file");
    let empty = Folder::new("empty");
    check(&empty.path(""), "holds no results");
    assert!(!folder.names().contains(&"page.html".to_owned()), "and no page is begun");
}

/// Runs `args`, which write to DISK/page.html, where the disk is full and a page exists: the page
/// stays, and the error names the disk.
fn check_on_a_full_disk(test: &str, args: &[&str]) {
    let folder = Folder::new(test);
    let full = folder.path("disk");
    let script = "disk=$1; shift
        mkdir -p $disk && mount -t tmpfs -o size=8k none $disk || exit 77
        echo old > $disk/page.html
        \"$@\"; code=$?
        cat $disk/page.html; ls -A $disk; umount $disk; exit $code";
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c", script, "sh", &full, env!("CARGO_BIN_EXE_greenwave")]);
    let out = match command.args(args.iter().map(|arg| arg.replace("DISK", &full))).output() {
        // Any output shows that the mount succeeded.
        Ok(out) if !out.stdout.is_empty() => out,
        refused => {
            // Bypasses the test harness, which hides the output of passing tests.
            let line = format!("skipped: {test}: no mount of our own");
            let refused = refused.map(|out| String::from_utf8_lossy(&out.stderr).into_owned());
            assert!(refused.as_ref().is_ok_and(|text| !text.contains("error: ")), "{refused:?}");
            let _ = writeln!(std::io::stderr(), "{line}: {refused:?}");
            return;
        }
    };
    let printed = String::from_utf8_lossy(&out.stdout);
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert_eq!(out.status.code(), Some(2), "{args:?}: {printed}{stderr}");
    assert!(printed.ends_with("old\npage.html\n"), "{args:?}: {printed}");
    assert!(
        stderr.starts_with("error: ") && stderr.contains("No space left on device\n  try: free some"),
        "{args:?}: {stderr}"
    );
}

//~ results: a full disk leaves the existing page; invalid input gives one line
#[test]
fn a_full_disk_leaves_the_page_that_was_there() {
    let test = "a_full_disk_leaves_the_page_that_was_there";
    let folder = Folder::new("full");
    let result = folder.file("e3.json", &RUN.0.to_string());
    check_on_a_full_disk(test, &["report", &result, "-o", "DISK/page.html"]);
    let model = ["guard", "model", "--mu1", "36600", "--mu2", "3300", "--out", "DISK/page.html"];
    check_on_a_full_disk(test, &model);
}

#[test]
fn a_result_with_more_or_less_than_the_schema_says_is_seen() {
    schema::conforms(&RUN.0);
    let changed = |change: fn(&mut Value)| {
        let mut result = RUN.0.clone();
        change(&mut result);
        assert_ne!(schema::refused(&result), [""; 0], "{:.200}", result.to_string());
    };
    changed(|result| drop(result.as_object_mut().unwrap().remove("greenwave")));
    changed(|result| result["greenwave"]["kind"] = json!("novel"));
    changed(|result| result["surprise"] = json!(1));
    changed(|result| result["claims"][0]["holds"] = json!("yes"));
    changed(|result| result["claims"][0]["verdict"] = json!("perhaps"));
    changed(|result| result["figures"][0]["p99"] = json!("fast"));
    changed(|result| result["plots"][0]["series"][0]["points"][0] = json!([1]));
}
