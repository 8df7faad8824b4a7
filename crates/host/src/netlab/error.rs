//! Why a laboratory could not be set up.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a step of setting up a laboratory failed.
#[derive(Debug)]
pub enum LabError {
    /// The kernel makes no network namespace.
    Namespace {
        /// The namespace asked for.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A program could not be started.
    Program {
        /// The program.
        program: String,
        /// Why not.
        why: String,
    },
    /// A program ran and said no.
    Failed {
        /// The namespace it ran in.
        namespace: String,
        /// The program and its arguments.
        command: String,
        /// What it printed on stderr, in one line.
        said: String,
    },
    /// A kernel parameter could not be set.
    Sysctl {
        /// The namespace.
        namespace: String,
        /// The parameter and the value.
        setting: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A control group could not be made or set.
    Group {
        /// The group, or the setting and its value.
        name: String,
        /// What the kernel said.
        source: io::Error,
    },
    /// A temporary folder or file could not be made.
    Folder {
        /// Which.
        path: PathBuf,
        /// What the kernel said.
        source: io::Error,
    },
}

impl LabError {
    /// What to do about it, if anything is known to help.
    #[must_use]
    pub fn advice(&self) -> Option<String> {
        Some(match self {
            Self::Namespace { .. } | Self::Group { .. } => {
                "run as root; in a container, start it with --privileged".to_owned()
            }
            Self::Program { program, .. } => {
                let package = match program.as_str() {
                    "ip" => "iproute2",
                    "nc" => "netcat-openbsd",
                    "nginx" => "nginx-light",
                    other => other,
                };
                format!("apt-get install {package}")
            }
            Self::Failed { .. } | Self::Sysctl { .. } | Self::Folder { .. } => return None,
        })
    }
}

impl fmt::Display for LabError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Namespace { name, source } => write!(f, "no network namespace {name}: {source}"),
            Self::Program { program, why } => write!(f, "{program}: {why}"),
            Self::Failed { namespace, command, said } => write!(f, "in {namespace}: {command}: {said}"),
            Self::Sysctl { namespace, setting, source } => write!(f, "in {namespace}: {setting}: {source}"),
            Self::Group { name, source } => write!(f, "control group {name}: {source}"),
            Self::Folder { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for LabError {}
