//! Programs under test: their command lines and requests.

use std::path::PathBuf;
use std::process::Command;

use ::load::kernel::AppProtocol;
use ::load::protocol::memcached;
use netlab::TempDir;
use serde::Deserialize;

use super::super::progress_lines::workload;
use super::Config;
use crate::error::Error;
use crate::source_dir;

/// A latency-critical program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Critical {
    /// Debian's package, with one thread, on the kernel's TCP.
    Memcached,
    /// Block server of `workloads`, on greenwave's stack.
    Storage,
    /// Transactional store of `workloads`, on greenwave's stack.
    Tpcc,
}

/// A best-effort program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BestEffort {
    /// STREAM that fits in the L2 cache.
    StreamL2,
    /// STREAM through DRAM.
    StreamDram,
    /// Compute-bound simulation with a small working set.
    Swaptions,
    /// Swaptions with the Boehm collector's malloc.
    SwaptionsGc,
    /// Clustering of a stream.
    Streamcluster,
    /// Go program with garbage collection.
    Garbage,
    /// Debian's encoder, fed by `workloads`.
    X264,
}

/// Number of keys stored in memcached.
pub const KEYS: u32 = 100_000;
/// Requests of `storage`: reads of 4 to 64 KiB, and a tenth as many writes.
const BLOCKS: [(&str, f64, u8, usize); 4] = [
    ("read-4k", 0.6, 1, 32),
    ("read-16k", 0.2, 4, 32),
    ("read-64k", 0.1, 16, 32),
    ("write-4k", 0.1, 0x81, 32 + 4096),
];
/// TPC-C's mix, §5.2.3.
const TRANSACTIONS: [(&str, f64, u8, usize); 5] = [
    ("new-order", 0.45, 0, 32),
    ("payment", 0.43, 1, 32),
    ("order-status", 0.04, 2, 32),
    ("delivery", 0.04, 3, 32),
    ("stock-level", 0.04, 4, 32),
];
/// Facebook's USR pool.
const KEYED: [(&str, f64, u8, usize); 2] = [
    ("get", 1.0 - memcached::SET_SHARE, memcached::GET, 32),
    ("set", memcached::SET_SHARE, memcached::SET, 32),
];

impl Critical {
    /// Name, share, kind and length of each class of its requests.
    pub fn requests(self) -> &'static [(&'static str, f64, u8, usize)] {
        match self {
            Self::Memcached => &KEYED,
            Self::Storage => &BLOCKS,
            Self::Tpcc => &TRANSACTIONS,
        }
    }

    /// Protocol of its requests.
    pub fn protocol(self) -> AppProtocol {
        match self {
            Self::Memcached => AppProtocol::Memcached { keys: KEYS },
            Self::Storage => {
                AppProtocol::Texts { text: include_bytes!("../../../../../../LICENSE").to_vec() }
            }
            Self::Tpcc => AppProtocol::Synthetic,
        }
    }

    /// True if it is on greenwave's runtime and publishes its queueing delay.
    pub const fn publishes_delay(self) -> bool {
        matches!(self, Self::Storage | Self::Tpcc)
    }

    /// Name of its executable.
    pub const fn program(self) -> &'static str {
        match self {
            Self::Memcached => "memcached",
            Self::Storage => "storage",
            Self::Tpcc => "tpcc",
        }
    }
}

impl BestEffort {
    /// Name of its executable.
    pub const fn program(self) -> &'static str {
        match self {
            Self::StreamL2 => "stream-l2",
            Self::StreamDram => "stream-dram",
            Self::Swaptions | Self::SwaptionsGc => "swaptions",
            Self::Streamcluster => "streamcluster",
            Self::Garbage => "garbage",
            Self::X264 => "x264-film",
        }
    }

    /// Command line that starts the program, including a wrapper. Builds its inputs in `folder` if
    /// needed.
    ///
    /// # Errors
    /// A required file or program is missing.
    pub fn command_line(self, config: &Config, folder: &TempDir) -> Result<Vec<String>, Error> {
        let text = |path: PathBuf| path.display().to_string();
        let keep = config.keep_mib.to_string();
        let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
        Ok(match self {
            Self::Garbage => {
                let program = folder.path().join("garbage");
                build(
                    Command::new("go")
                        .current_dir(source("garbage")?)
                        .args(["build", "-o"])
                        .arg(&program)
                        .arg("."),
                    "go, such as apt-get install golang-go",
                )?;
                [vec![text(program)], words(&["-every", EVERY, "-keep-mib", &keep])].concat()
            }
            Self::SwaptionsGc => {
                let library = folder.path().join("libcollector.so");
                let flags = ["-O2", "-shared", "-fPIC", "-o"];
                build(
                    Command::new("cc")
                        .args(flags)
                        .arg(&library)
                        .arg(source("collector/malloc.c")?)
                        .arg("-lgc"),
                    "apt-get install gcc libc6-dev libgc-dev",
                )?;
                let preload = format!("LD_PRELOAD={}", library.display());
                let program = text(workload(self.program())?);
                let seed = config.seed.to_string();
                words(&["env", &preload, &program, "--every", EVERY, "--keep-mib", &keep, "--seed", &seed])
            }
            Self::X264 if !netlab::is_installed("x264") => {
                return Err(Error::new("world colocated: x264 is not installed")
                    .advice("apt-get install x264, or another value of be"));
            }
            _ => {
                let seed = config.seed.to_string();
                words(&[&text(workload(self.program())?), "--every", EVERY, "--seed", &seed])
            }
        })
    }
}

/// Interval between progress lines.
const EVERY: &str = "20ms";

/// Source of a part that is not in Rust, in the source tree of this build.
fn source(name: &str) -> Result<PathBuf, Error> {
    let path = source_dir::path("workloads").join(name);
    match path.exists() {
        true => Ok(path),
        false => Err(Error::new(format!("world colocated: {} is missing", path.display()))
            .advice("another value of be, or the source tree of this greenwave")),
    }
}

fn build(command: &mut Command, advice: &str) -> Result<(), Error> {
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |why: &str| Error::new(format!("world colocated: {program}: {why}")).advice(advice);
    if !netlab::is_installed(&program) {
        return Err(failed("is missing"));
    }
    let out = command.output().map_err(|e| failed(&e.to_string()))?;
    let stderr = String::from_utf8_lossy(&out.stderr);
    match out.status.success() {
        true => Ok(()),
        false => Err(failed(stderr.lines().find(|line| line.contains("error")).unwrap_or("it fails"))),
    }
}
