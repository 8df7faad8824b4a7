//! Layout of the package's tree.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use super::output;

/// The program looks for its library in its own folder.
const LIB: &str = "usr/lib/greenwave";
const DOC: &str = "usr/share/doc/greenwave";

/// Files and folders copied unchanged: from the checkout, to the package.
const TAKEN: [(&str, &str); 7] = [
    ("deploy/systemd", "usr/lib/systemd/system"),
    ("deploy/etc", "usr/share/doc/greenwave/examples/etc"),
    ("deploy/kubernetes", "usr/share/doc/greenwave/examples/kubernetes"),
    ("deploy/container", "usr/share/doc/greenwave/examples/container"),
    ("docs/guide", "usr/share/doc/greenwave/guide"),
    ("README.md", "usr/share/doc/greenwave/README.md"),
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
Copyright: the authors of greenwave
License: Apache-2.0
Comment: The program contains crates of others, which crates.txt lists with
 their licences.

License: Apache-2.0
 On Debian systems, /usr/share/common-licenses/Apache-2.0 has the text.
";

/// Lays out at `tree` the files of the checkout `root` and of the build in `from`.
///
/// # Errors
/// A missing file, or one that cannot be written.
pub(super) fn stage(root: &Path, from: &Path, tree: &Path) -> Result<(), String> {
    if tree.exists() {
        fs::remove_dir_all(tree).map_err(|e| format!("{}: {e}", tree.display()))?;
    }
    let lib = tree.join(LIB);
    for (name, mode) in [("greenwave", 0o755), ("libgreenwave.so", 0o644)] {
        program(&from.join(name), &lib.join(name), mode)?;
    }
    fs::create_dir_all(tree.join("usr/bin")).map_err(|e| e.to_string())?;
    symlink("../lib/greenwave/greenwave", tree.join("usr/bin/greenwave")).map_err(|e| e.to_string())?;
    for (source, target) in TAKEN {
        copy(&root.join(source), &tree.join(target))?;
    }
    write(&tree.join(DOC).join("copyright"), COPYRIGHT)?;
    write(&tree.join(DOC).join("crates.txt"), &crates(root)?)?;
    let greenwave = lib.join("greenwave");
    for (shell, target) in COMPLETIONS {
        write(&tree.join(target), &output(Command::new(&greenwave).args(["completions", shell]))?)?;
    }
    let pages = tree.join("usr/share/man/man1");
    output(Command::new(&greenwave).arg("man").arg(&pages))?;
    for page in entries(&pages)? {
        output(Command::new("gzip").args(["-9", "--no-name"]).arg(pages.join(page)))?;
    }
    allow(tree)
}

/// Copies a built file without its debug information.
fn program(source: &Path, target: &Path, mode: u32) -> Result<(), String> {
    copy(source, target)?;
    // An unstripped program is larger and works the same.
    let _ = output(Command::new("strip").arg("--strip-debug").arg(target));
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
