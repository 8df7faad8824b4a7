//! What users install: a Debian package and a tarball of the same tree.
//!
//! `stage` lays the tree out, and knows nothing of archives; `dpkg-deb` and
//! `tar` make them, as they do for everybody. Not a static program:
//! `libgreenwave.so` is preloaded into programs that use the machine's glibc,
//! and what the package depends on is read from the two files.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

mod control;
mod stage;

/// Where what cargo built lies, and where the archives go.
struct Settings {
    /// Built already, there; otherwise it is built.
    from: Option<PathBuf>,
    out: PathBuf,
}

impl Settings {
    fn parse(root: &Path, args: &[String]) -> Result<Self, String> {
        let mut settings = Self { from: None, out: root.join("target/dist") };
        let mut args = args.iter();
        while let Some(flag) = args.next() {
            let value = args.next().ok_or_else(|| format!("{flag} takes a folder"));
            match flag.as_str() {
                "--from" => settings.from = Some(value?.into()),
                "--out" => settings.out = value?.into(),
                other => return Err(format!("{other} is none of --from, --out")),
            }
        }
        Ok(settings)
    }
}

/// Makes both archives. Exit 0: they are there; 2: they could not be made.
pub(crate) fn run(root: &Path, args: &[String]) -> ExitCode {
    match Settings::parse(root, args).and_then(|settings| make(root, &settings)) {
        Ok(made) => {
            made.iter().for_each(|path| println!("{}", path.display()));
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!(
                "error: {e}\n  try: cargo run -p xtask -- dist [--from target/release] [--out target/dist]"
            );
            ExitCode::from(2)
        }
    }
}

fn make(root: &Path, settings: &Settings) -> Result<Vec<PathBuf>, String> {
    let from = match &settings.from {
        Some(folder) => folder.clone(),
        None => built(root)?,
    };
    let (version, arch) = (env!("CARGO_PKG_VERSION"), control::arch(std::env::consts::ARCH));
    // The last commit's, so that the same tree gives the same archives.
    let time = output(Command::new("git").args(["log", "-1", "--format=%ct"]).current_dir(root))
        .unwrap_or_else(|_| "0".to_owned());
    let name = format!("greenwave-{version}-{}-linux-gnu", std::env::consts::ARCH);
    let tree = settings.out.join("tree");
    stage::stage(root, &from, &tree)?;
    let deb = settings.out.join(format!("greenwave_{version}_{arch}.deb"));
    let tar = settings.out.join(format!("{name}.tar.gz"));
    tarball(&tree, &name, time.trim(), &tar)?;
    stage::write(&tree.join("DEBIAN/control"), control::control(&tree, version, arch)?)?;
    stage::allow(&tree)?;
    debian(&tree, time.trim(), &deb)?;
    std::fs::remove_dir_all(&tree).map_err(|e| format!("{}: {e}", tree.display()))?;
    Ok(vec![deb, tar])
}

/// Where what `make build` builds lies, once it is built.
fn built(root: &Path) -> Result<PathBuf, String> {
    let status = Command::new("make").arg("build").current_dir(root).status();
    match status {
        Ok(status) if status.success() => {}
        Ok(status) => return Err(format!("make build: {status}")),
        Err(e) => return Err(format!("make: {e}")),
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    Ok(target.join("release"))
}

/// What is below `usr`, in a folder of its own.
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

/// What `command` prints.
fn output(command: &mut Command) -> Result<String, String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let out = command.output().map_err(|e| format!("{program}: {e}"))?;
    if !out.status.success() {
        let said = String::from_utf8_lossy(&out.stderr);
        return Err(format!("{program}: {}", said.lines().next().unwrap_or("it failed")));
    }
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests;
