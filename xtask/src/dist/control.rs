//! The package's control file (deb-control(5)) and changelog.

use std::fs;
use std::path::Path;
use std::process::Command;

use super::{output, stage};

/// System libraries that our builds may link to, and Debian's package of each.
const LIBRARIES: [(&str, &str); 4] = [
    ("libgcc_s.so.1", "libgcc-s1"),
    ("libelf.so.1", "libelf1"),
    ("libz.so.1", "zlib1g"),
    ("libzstd.so.1", "libzstd1"),
];

/// Maintainer; the project has no mail address, and the domain is none (RFC 2606 §2).
const MAINTAINER: &str = "the authors of greenwave <authors@greenwave.invalid>";

/// Writes the changelog in Debian's form, of the `time` in seconds of the epoch.
///
/// # Errors
/// A file cannot be written, or `date` or `gzip` is missing.
pub(super) fn debian_files(tree: &Path, version: &str, time: &str) -> Result<(), String> {
    let doc = tree.join("usr/share/doc/greenwave");
    let date = output(Command::new("date").args(["-R", "-u", "-d"]).arg(format!("@{time}")))?;
    let entry = format!(
        "greenwave ({version}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- {MAINTAINER}  {}\n",
        date.trim()
    );
    stage::write(&doc.join("changelog"), entry)?;
    output(Command::new("gzip").args(["-9", "--no-name"]).arg(doc.join("changelog"))).map(drop)
}

/// Writes the control file of the package of debug symbols.
///
/// # Errors
/// A file cannot be written.
pub(super) fn debian_files_of_symbols(tree: &Path, version: &str, arch: &str) -> Result<(), String> {
    let failed = |e: std::io::Error| format!("usr/share/doc/greenwave-dbgsym: {e}");
    let doc = tree.join("usr/share/doc");
    fs::create_dir_all(&doc).map_err(failed)?;
    // Changelog and copyright are those of the program's package.
    std::os::unix::fs::symlink("greenwave", doc.join("greenwave-dbgsym")).map_err(failed)?;
    let size = size(&tree.join("usr")).div_ceil(1024);
    let control = format!(
        "Package: greenwave-dbgsym\n\
         Version: {version}\n\
         Architecture: {arch}\n\
         Maintainer: {MAINTAINER}\n\
         Section: debug\n\
         Auto-Built-Package: debug-symbols\n\
         Priority: optional\n\
         Installed-Size: {size}\n\
         Depends: greenwave (= {version})\n\
         Description: debug symbols for greenwave\n \
         Names of functions and lines, for backtraces and profiles.\n"
    );
    stage::write(&tree.join("DEBIAN/control"), control)
}

/// Debian's name of Rust's architecture `arch`.
pub(super) fn arch(arch: &str) -> &str {
    match arch {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "riscv64gc" => "riscv64",
        other => other,
    }
}

/// The file `control` for the contents of `tree`.
///
/// # Errors
/// The program is missing.
pub(super) fn control(tree: &Path, version: &str, arch: &str) -> Result<String, String> {
    let lib = tree.join("usr/lib/greenwave");
    let mut built = Vec::new();
    for name in ["greenwave", "libgreenwave.so"] {
        built.extend(fs::read(lib.join(name)).map_err(|e| format!("{name}: {e}"))?);
        built.push(0);
    }
    let size = size(&tree.join("usr")).div_ceil(1024);
    Ok(format!(
        "Package: greenwave\n\
         Version: {version}\n\
         Architecture: {arch}\n\
         Maintainer: {MAINTAINER}\n\
         Section: net\n\
         Priority: optional\n\
         Installed-Size: {size}\n\
         Depends: {}\n\
         Recommends: iproute2\n\
         Description: short tails for urgent requests on a shared server\n \
         A TCP/IP stack with priorities, a guard against overload before servers\n \
         on the kernel's TCP, an egress that serves short flows first, a scheduler\n \
         that shares cores with batch work, and the experiments of their papers.\n",
        depends(&built)
    ))
}

/// Dependencies of the files `built`: glibc of the newest version that they name, and the named
/// libraries.
fn depends(built: &[u8]) -> String {
    let words = built.split(|&byte| byte == 0).filter_map(|word| std::str::from_utf8(word).ok());
    let words: Vec<&str> =
        words.filter(|word| word.starts_with("GLIBC_2.") || word.starts_with("lib")).collect();
    let version = |word: &&str| {
        let mut numbers = word.strip_prefix("GLIBC_2.")?.split('.').map(str::parse::<u32>);
        Some((numbers.next()?.ok()?, numbers.next().and_then(Result::ok).unwrap_or(0)))
    };
    let libc = match words.iter().filter_map(version).max() {
        Some((minor, 0)) => format!("libc6 (>= 2.{minor})"),
        Some((minor, patch)) => format!("libc6 (>= 2.{minor}.{patch})"),
        None => "libc6".to_owned(),
    };
    let others = LIBRARIES.iter().filter(|(file, _)| words.contains(file)).map(|(_, package)| *package);
    std::iter::once(libc.as_str()).chain(others).collect::<Vec<_>>().join(", ")
}

/// Total size in bytes of the files below `path`.
fn size(path: &Path) -> u64 {
    let Ok(meta) = fs::symlink_metadata(path) else { return 0 };
    if !meta.is_dir() {
        return meta.len();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| size(&entry.path())).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_files_name_is_what_they_depend_on() {
        let built =
            b"x\0GLIBC_2.17\0GLIBC_2.34\0GLIBC_2.3.4\0libc.so.6\0libelf.so.1\0libother.so\0GLIBC_PRIVATE\0";
        assert_eq!(depends(built), "libc6 (>= 2.34), libelf1");
        assert_eq!(depends(b"#!/bin/sh"), "libc6");
    }
}
