//! Packages of a placeholder program: contents, paths, and owners.

//~ gates: `xtask dist` builds a Debian package and a tarball, alike from the same tree

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::*;

/// A stand-in for greenwave that prints man pages and completions.
const PROGRAM: &str = "#!/bin/sh
case $1 in
  man) mkdir -p \"$2\" && echo page >\"$2/greenwave.1\" && echo page >\"$2/greenwave-serve.1\" ;;
  completions) echo \"complete for $2\" ;;
esac
";

/// A folder with build outputs, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("greenwave-dist-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("built")).unwrap();
        fs::write(folder.join("built/greenwave"), PROGRAM).unwrap();
        fs::set_permissions(folder.join("built/greenwave"), fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(folder.join("built/libgreenwave.so"), "\0libc.so.6\0GLIBC_2.34\0").unwrap();
        Self(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

fn is_there(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok()
}

#[test]
fn the_tree_has_the_program_and_all_that_belongs_to_it() {
    let folder = Folder::new("tree");
    let tree = folder.0.join("tree");
    stage::stage(root(), &folder.0.join("built"), &tree, "0").unwrap();
    for (path, mode) in [
        ("usr/bin/greenwave", 0o755),
        ("usr/lib/greenwave/greenwave", 0o755),
        ("usr/lib/greenwave/libgreenwave.so", 0o644),
        ("usr/lib/systemd/system/greenwave-guard@.service", 0o644),
        ("usr/lib/systemd/system/greenwave-egress@.service", 0o644),
        ("usr/lib/systemd/system/greenwave-sched.service", 0o644),
        ("usr/lib/systemd/system/greenwave-serve@.service", 0o644),
        ("usr/share/man/man1/greenwave.1.gz", 0o644),
        ("usr/share/man/man1/greenwave-serve.1.gz", 0o644),
        ("usr/share/bash-completion/completions/greenwave", 0o644),
        ("usr/share/zsh/vendor-completions/_greenwave", 0o644),
        ("usr/share/fish/vendor_completions.d/greenwave.fish", 0o644),
        ("usr/share/doc/greenwave/copyright", 0o644),
        ("usr/share/doc/greenwave/LICENSE", 0o644),
        ("usr/share/doc/greenwave/crates.txt", 0o644),
        ("usr/share/doc/greenwave/guide/waits/nic.md", 0o644),
        ("usr/share/doc/greenwave/guide/figures/nic.svg", 0o644),
        ("usr/share/doc/greenwave/examples/etc/guard-eth0", 0o644),
        ("usr/share/doc/greenwave/examples/kubernetes/guard.yaml", 0o644),
        ("usr/share/doc/greenwave/examples/container/Containerfile", 0o644),
    ] {
        let meta = fs::metadata(tree.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(meta.permissions().mode() & 0o7777, mode, "{path}");
    }
    // Every relative link of a packaged page leads to a packaged file.
    let doc = tree.join("usr/share/doc/greenwave");
    let mut checked = 0;
    for page in stage::walk(&doc).into_iter().filter(|page| page.ends_with(".md")) {
        let text = fs::read_to_string(doc.join(&page[1..])).unwrap();
        for (line, link) in crate::links::links(&text).filter(|(_, link)| !link.starts_with('#')) {
            let path = crate::links::resolve(&page[1..], link.split('#').next().unwrap_or(link));
            assert!(doc.join(&path).exists(), "{page}:{line}: {link}");
            checked += 1;
        }
    }
    assert!(checked > 50, "{checked} links");
    let zsh = fs::read_to_string(tree.join("usr/share/zsh/vendor-completions/_greenwave")).unwrap();
    assert_eq!(zsh, "complete for zsh\n");
    let crates = fs::read_to_string(tree.join("usr/share/doc/greenwave/crates.txt")).unwrap();
    assert!(crates.lines().any(|line| line.starts_with("serde_json  1.")), "{crates}");
}

#[test]
fn every_unit_starts_only_where_it_is_configured_and_can_be_enabled() {
    let folder = root().join("deploy/systemd");
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let text = fs::read_to_string(entry.path()).unwrap();
        for line in ["ConditionPathExists=/etc/greenwave/", "WantedBy=", "Documentation=man:greenwave-"] {
            assert!(text.lines().any(|has| has.starts_with(line)), "{line}: {}", entry.path().display());
        }
    }
}

#[test]
fn both_archives_hold_the_tree_and_are_roots() {
    let folder = Folder::new("archives");
    if !is_there("dpkg-deb") || !is_there("tar") || !is_there("gzip") {
        return eprintln!("skipped: both_archives_hold_the_tree_and_are_roots: no dpkg-deb, tar or gzip");
    }
    let (from, out) = (Some(folder.0.join("built")), folder.0.join("out"));
    let settings = Settings { from, out, is_static: false };
    let made = make(root(), &settings).unwrap();
    // A script has no symbols.
    let [deb, tar] = &made[..] else { panic!("{made:?}") };
    let listed = output(Command::new("dpkg-deb").arg("--contents").arg(deb)).unwrap();
    for path in [
        "./usr/bin/greenwave -> ../lib/greenwave/greenwave",
        "./usr/lib/systemd/system/greenwave-sched.service",
        "./usr/share/doc/greenwave/changelog.gz",
    ] {
        assert!(listed.contains(path), "{path} is not in {listed}");
    }
    assert!(listed.lines().all(|line| line.contains(" root/root ")), "{listed}");
    let control = output(Command::new("dpkg-deb").arg("--field").arg(deb)).unwrap();
    for line in [concat!("Version: ", env!("CARGO_PKG_VERSION")), "Depends: libc6 (>= 2.34)"] {
        assert!(control.lines().any(|has| has == line), "{line} is not in {control}");
    }
    let listed = output(Command::new("tar").arg("-tzf").arg(tar)).unwrap();
    assert!(listed.lines().any(|line| line.ends_with("-linux-gnu/lib/greenwave/greenwave")), "{listed}");
    assert!(!folder.0.join("out/tree").exists(), "what they were made of is gone");
    // A second run gives the same bytes.
    let before = made.iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>();
    make(root(), &settings).unwrap();
    let again = made.iter().map(|path| fs::read(path).unwrap()).collect::<Vec<_>>();
    assert!(before == again, "the same tree gives the same archives");
}

#[test]
fn what_is_not_there_is_said() {
    let folder = Folder::new("missing");
    fs::remove_file(folder.0.join("built/libgreenwave.so")).unwrap();
    let error = stage::stage(root(), &folder.0.join("built"), &folder.0.join("tree"), "0").unwrap_err();
    assert!(error.contains("libgreenwave.so: No such file"), "{error}");
    let parse = |words: &[&str]| {
        Settings::parse(root(), &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()).err()
    };
    assert_eq!(parse(&["--to", "x"]), Some("--to is not one of --static, --from, --out".to_owned()));
    assert_eq!(parse(&["--out"]), Some("--out takes a folder".to_owned()));
    assert_eq!(parse(&["--static", "--from", "a", "--out", "b"]), None);
}

#[test]
fn what_is_not_static_is_not_packed_as_if_it_were() {
    let folder = Folder::new("static");
    let (from, out) = (Some(folder.0.join("built")), folder.0.join("out"));
    let error = make(root(), &Settings { from, out: out.clone(), is_static: true }).unwrap_err();
    assert!(error.ends_with("greenwave: it is no ELF file of 64 bits"), "{error}");
    let archives = fs::read_dir(out).unwrap().flatten().filter(|entry| entry.path().is_file()).count();
    assert_eq!(archives, 0);
    let this = std::env::current_exe().unwrap();
    let error = elf::must_be_static(&this).unwrap_err();
    assert!(error.contains("it is loaded by /"), "{error}");
}
