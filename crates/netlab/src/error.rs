//! Errors of setting up a test bed.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Error of a step in setting up a test bed.
#[derive(Debug)]
pub enum LabError {
    /// The kernel cannot create a network namespace.
    Namespace {
        /// Name of the namespace.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A program does not start.
    Program {
        /// The program.
        program: String,
        /// The reason.
        why: String,
    },
    /// A program failed.
    Failed {
        /// The namespace.
        namespace: String,
        /// The program and its arguments.
        command: String,
        /// Stderr, in one line.
        message: String,
    },
    /// A kernel parameter cannot be set.
    Sysctl {
        /// The namespace.
        namespace: String,
        /// The parameter and the value.
        setting: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A control group cannot be created or changed.
    Group {
        /// The group, or the setting and its value.
        name: String,
        /// The kernel's error.
        source: io::Error,
    },
    /// A temporary directory or file cannot be created.
    Folder {
        /// Path.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

impl LabError {
    /// A remedy, if one is known.
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
            Self::Failed { namespace, command, message } => write!(f, "in {namespace}: {command}: {message}"),
            Self::Sysctl { namespace, setting, source } => write!(f, "in {namespace}: {setting}: {source}"),
            Self::Group { name, source } => write!(f, "control group {name}: {source}"),
            Self::Folder { path, source } => write!(f, "{}: {source}", path.display()),
        }
    }
}

impl std::error::Error for LabError {}
