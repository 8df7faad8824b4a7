//! Layout of the package's tree.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use super::{doc_links, output};

/// The program looks for its library in its own folder.
const LIB: &str = "usr/lib/greenwave";
/// Built files, and their modes.
const PROGRAMS: [(&str, u32); 2] = [("greenwave", 0o755), ("libgreenwave.so", 0o644)];
const DOC: &str = "usr/share/doc/greenwave";

/// Files and folders copied unchanged: from the checkout, to the package.
const TAKEN: [(&str, &str); 9] = [
    ("deploy/systemd", "usr/lib/systemd/system"),
    ("deploy/etc", "usr/share/doc/greenwave/examples/etc"),
    ("deploy/kubernetes", "usr/share/doc/greenwave/examples/kubernetes"),
    ("deploy/container", "usr/share/doc/greenwave/examples/container"),
    ("docs/guide", "usr/share/doc/greenwave/guide"),
    ("docs/glossary.md", "usr/share/doc/greenwave/glossary.md"),
    ("README.md", "usr/share/doc/greenwave/README.md"),
    ("CHANGELOG.md", "usr/share/doc/greenwave/CHANGELOG.md"),
    ("LICENSE", "usr/share/doc/greenwave/LICENSE"),
];

/// A shell, and the location of its completions.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "usr/share/bash-completion/completions/greenwave"),
    ("zsh", "usr/share/zsh/vendor-completions/_greenwave"),
    ("fish", "usr/share/fish/vendor_completions.d/greenwave.fish"),
];

/// Copyright in Debian's form (DEP-5).
const COPYRIGHT: &str = "\
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: greenwave

Files: *
Copyright: 2026 the authors of greenwave
License: Apache-2.0
Comment: The program contains crates of others, which crates.txt lists with
 their licences.

License: Apache-2.0
 On Debian systems, /usr/share/common-licenses/Apache-2.0 has the text.
";

/// Lays out at `tree` the files of the checkout `root` and of the build in `from`; `time`, in seconds of
/// the epoch, is that of its pages.
///
/// # Errors
/// A missing file, or one that cannot be written.
pub(super) fn stage(root: &Path, from: &Path, tree: &Path, time: &str) -> Result<(), String> {
    if tree.exists() {
        fs::remove_dir_all(tree).map_err(|e| format!("{}: {e}", tree.display()))?;
    }
    let lib = tree.join(LIB);
    for (name, mode) in PROGRAMS {
        program(&from.join(name), &lib.join(name), mode)?;
    }
    fs::create_dir_all(tree.join("usr/bin")).map_err(|e| e.to_string())?;
    symlink("../lib/greenwave/greenwave", tree.join("usr/bin/greenwave")).map_err(|e| e.to_string())?;
    for (source, target) in TAKEN {
        copy(&root.join(source), &tree.join(target))?;
    }
    link_pages(root, tree)?;
    write(&tree.join(DOC).join("copyright"), COPYRIGHT)?;
    write(&tree.join(DOC).join("crates.txt"), &crates(root)?)?;
    let greenwave = lib.join("greenwave");
    for (shell, target) in COMPLETIONS {
        write(&tree.join(target), &output(Command::new(&greenwave).args(["completions", shell]))?)?;
    }
    let pages = tree.join("usr/share/man/man1");
    output(Command::new(&greenwave).arg("man").arg(&pages).env("SOURCE_DATE_EPOCH", time))?;
    for page in entries(&pages)? {
        output(Command::new("gzip").args(["-9", "--no-name"]).arg(pages.join(page)))?;
    }
    allow(tree)
}

/// Gives the packaged pages links within the package.
fn link_pages(root: &Path, tree: &Path) -> Result<(), String> {
    let packaged = |path: &str| {
        let at = TAKEN.iter().find_map(|(source, target)| {
            let rest = path.strip_prefix(source)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{target}{rest}"))
        });
        at.filter(|at| tree.join(at).exists())
    };
    let pages = TAKEN.iter().flat_map(|(source, target)| {
        let names = if root.join(source).is_dir() { walk(&root.join(source)) } else { vec![String::new()] };
        names.into_iter().map(move |name| (format!("{source}{name}"), format!("{target}{name}")))
    });
    for (source, target) in pages.filter(|(source, _)| source.ends_with(".md")) {
        let at = tree.join(&target);
        let text = fs::read_to_string(&at).map_err(|e| format!("{}: {e}", at.display()))?;
        write(&at, doc_links::rewritten(&source, &target, &text, packaged))?;
    }
    Ok(())
}

/// Paths of the files below `folder`, each with its leading slash.
pub(super) fn walk(folder: &Path) -> Vec<String> {
    let below = |name: String| match folder.join(&name) {
        path if path.is_dir() => walk(&path).into_iter().map(|rest| format!("/{name}{rest}")).collect(),
        _ => vec![format!("/{name}")],
    };
    entries(folder).unwrap_or_default().into_iter().flat_map(below).collect()
}

/// The build id of an ELF file: two letters, and the rest.
fn build_id(path: &Path) -> Option<(String, String)> {
    let notes = output(Command::new("readelf").arg("--notes").arg(path)).ok()?;
    let id = notes.lines().find_map(|line| line.trim().strip_prefix("Build ID: "))?.trim().to_owned();
    (id.len() > 2).then(|| (id[..2].to_owned(), id[2..].to_owned()))
}

/// Lays out at `tree` the debug symbols of the build in `from`, by build id; true if there are any.
///
/// # Errors
/// A file that cannot be written.
pub(super) fn stage_symbols(from: &Path, tree: &Path) -> Result<bool, String> {
    let mut has_any = false;
    for name in PROGRAMS.map(|(name, _)| name) {
        let Some((first, rest)) = build_id(&from.join(name)) else { continue };
        let target = tree.join(format!("usr/lib/debug/.build-id/{first}/{rest}.debug"));
        write(&target, [])?;
        let mut objcopy = Command::new("objcopy");
        objcopy.args(["--only-keep-debug", "--compress-debug-sections"]).arg(from.join(name)).arg(&target);
        output(&mut objcopy)?;
        has_any = true;
    }
    Ok(has_any)
}

/// Copies a built file without its symbols.
fn program(source: &Path, target: &Path, mode: u32) -> Result<(), String> {
    copy(source, target)?;
    // An unstripped program is larger and works the same.
    let _ = output(Command::new("strip").arg("--strip-unneeded").args(["-R", ".comment"]).arg(target));
    let mode = fs::Permissions::from_mode(mode);
    fs::set_permissions(target, mode).map_err(|e| format!("{}: {e}", target.display()))
}

/// Copies `source`, with its contents.
fn copy(source: &Path, target: &Path) -> Result<(), String> {
    if source.is_dir() {
        return entries(source)?.iter().try_for_each(|name| copy(&source.join(name), &target.join(name)));
    }
    let bytes = fs::read(source).map_err(|e| format!("{}: {e}", source.display()))?;
    write(target, bytes)
}

/// The names in a folder, in order.
fn entries(folder: &Path) -> Result<Vec<String>, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", folder.display());
    let names = fs::read_dir(folder).map_err(failed)?;
    let mut names: Vec<_> =
        names.flatten().map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    Ok(names)
}

/// Writes a file, and creates its folders.
///
/// # Errors
/// The file or a folder cannot be written.
pub(super) fn write(path: &Path, bytes: impl AsRef<[u8]>) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    fs::create_dir_all(path.parent().expect("a file lies in a folder")).map_err(failed)?;
    fs::write(path, bytes).map_err(failed)
}

/// Makes all files readable and all folders accessible to everyone, writable by root only,
/// regardless of the umask.
///
/// # Errors
/// A file belongs to another user.
pub(super) fn allow(path: &Path) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("{}: {e}", path.display());
    let meta = fs::symlink_metadata(path).map_err(failed)?;
    if meta.is_symlink() {
        return Ok(());
    }
    let is_run = meta.is_dir() || meta.permissions().mode() & 0o100 != 0;
    let mode = if is_run { 0o755 } else { 0o644 };
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).map_err(failed)?;
    if meta.is_dir() {
        entries(path)?.iter().try_for_each(|name| allow(&path.join(name)))?;
    }
    Ok(())
}

/// The third-party crates that the program may contain: name, version, licence, source.
fn crates(root: &Path) -> Result<String, String> {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    cargo
        .args(["metadata", "--format-version=1", "--locked", "--filter-platform", &platform])
        .current_dir(root);
    let metadata: serde_json::Value =
        serde_json::from_str(&output(&mut cargo)?).map_err(|e| format!("cargo metadata: {e}"))?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let others = packages.filter(|package| !package["source"].is_null());
    let word = |value: &serde_json::Value| value.as_str().unwrap_or("–").to_owned();
    let mut lines: Vec<String> = others
        .map(|p| ["name", "version", "license", "repository"].map(|key| word(&p[key])).join("  "))
        .collect();
    lines.sort();
    let head = "Crates that this version is built or tested with: name, version, licence, source.";
    Ok(format!("{head}\n\n{}\n", lines.join("\n")))
}
