//! Release archives: a Debian package and a tarball of the same tree.
//!
//! `stage` lays out the tree and knows nothing of archives; `dpkg-deb` and `tar` make them. The
//! package's dependencies are read from the program and its library. `--static` makes a tarball
//! only, of a statically linked program; `libgreenwave.so` beside it is preloaded into dynamically
//! linked programs, and is never static.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

mod control;
mod doc_links;
mod elf;
mod stage;

/// Location of cargo's outputs, and of the archives.
struct Settings {
    /// Folder of an existing build; by default it is built.
    from: Option<PathBuf>,
    out: PathBuf,
    /// Makes only the tarball of a static program.
    is_static: bool,
}

impl Settings {
    fn parse(root: &Path, args: &[String]) -> Result<Self, String> {
        let mut settings = Self { from: None, out: root.join("target/dist"), is_static: false };
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            if flag == "--static" {
                settings.is_static = true;
                continue;
            }
            let value = args.next().ok_or_else(|| format!("{flag} takes a folder"));
            match flag.as_str() {
                "--from" => settings.from = Some(value?.into()),
                "--out" => settings.out = value?.into(),
                other => return Err(format!("{other} is not one of --static, --from, --out")),
            }
        }
        Ok(settings)
    }
}

/// Makes the archives. Exit 0: done; 2: they could not be made.
pub(crate) fn run(root: &Path, args: &[String]) -> ExitCode {
    match Settings::parse(root, args).and_then(|settings| make(root, &settings)) {
        Ok(made) => {
            made.iter().for_each(|path| println!("{}", path.display()));
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!(
                "error: {e}\n  try: cargo run -p xtask -- dist [--static] [--from target/release] [--out target/dist]"
            );
            ExitCode::from(2)
        }
    }
}

fn make(root: &Path, settings: &Settings) -> Result<Vec<PathBuf>, String> {
    let from = match &settings.from {
        Some(folder) => folder.clone(),
        None => built(root, settings.is_static)?,
    };
    let (version, arch) = (env!("CARGO_PKG_VERSION"), control::arch(std::env::consts::ARCH));
    // Time of the last commit, so that the same tree gives the same archives.
    let time = output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root))
        .unwrap_or_else(|_| "0".to_owned());
    let libc = if settings.is_static { "static" } else { "gnu" };
    let name = format!("greenwave-{version}-{}-linux-{libc}", std::env::consts::ARCH);
    let tree = settings.out.join("tree");
    let time = time.trim();
    stage::stage(root, &from, &tree, time)?;
    let deb = settings.out.join(format!("greenwave_{version}_{arch}.deb"));
    let tar = settings.out.join(format!("{name}.tar.gz"));
    if settings.is_static {
        elf::must_be_static(&tree.join("usr/lib/greenwave/greenwave"))?;
    }
    tarball(&tree, &name, time, &tar)?;
    if settings.is_static {
        std::fs::remove_dir_all(&tree).map_err(|e| format!("{}: {e}", tree.display()))?;
        return Ok(vec![tar]);
    }
    control::debian_files(&tree, version, time)?;
    stage::write(&tree.join("DEBIAN/control"), control::control(&tree, version, arch)?)?;
    stage::allow(&tree)?;
    debian(&tree, time, &deb)?;
    std::fs::remove_dir_all(&tree).map_err(|e| format!("{}: {e}", tree.display()))?;
    let symbols = settings.out.join(format!("greenwave-dbgsym_{version}_{arch}.deb"));
    let has_symbols = stage::stage_symbols(&from, &tree)?;
    if has_symbols {
        control::debian_files_of_symbols(&tree, version, arch)?;
        stage::allow(&tree)?;
        debian(&tree, time, &symbols)?;
        std::fs::remove_dir_all(&tree).map_err(|e| format!("{}: {e}", tree.display()))?;
    }
    Ok([deb, tar].into_iter().chain(has_symbols.then_some(symbols)).collect())
}

/// Output folder of `make build`, or of `make build-static`, after the build.
fn built(root: &Path, is_static: bool) -> Result<PathBuf, String> {
    let goal = if is_static { "build-static" } else { "build" };
    match Command::new("make").arg(goal).current_dir(root).status() {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("make {goal}: {status}")),
        Err(e) => return Err(format!("make: {e}")),
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let machine = is_static.then(|| format!("{}-unknown-linux-gnu", std::env::consts::ARCH));
    Ok(target.join(machine.unwrap_or_default()).join("release"))
}

/// The contents of `usr`, in its own folder.
fn tarball(tree: &Path, name: &str, time: &str, to: &Path) -> Result<(), String> {
    let mut tar = Command::new("tar");
    tar.args(["--create", "--gzip", "--sort=name", "--owner=0", "--group=0", "--numeric-owner"]);
    tar.arg(format!("--mtime=@{time}")).arg(format!("--transform=s,^usr,{name},")).arg("--file").arg(to);
    output(tar.arg("--directory").arg(tree).arg("usr")).map(drop)
}

fn debian(tree: &Path, time: &str, to: &Path) -> Result<(), String> {
    let mut dpkg = Command::new("dpkg-deb");
    dpkg.args(["--root-owner-group", "-Zxz", "--build"]).arg(tree).arg(to);
    output(dpkg.env("SOURCE_DATE_EPOCH", time)).map(drop)
}

/// The output of `command`.
fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| format!("{program}: {e}"))?;
    if !out.status.success() {
        let stderr = String::from_utf8_lossy(&out.stderr);
        return Err(format!("{program}: {}", stderr.lines().next().unwrap_or("it failed")));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests;
