//! Machine description for reports, from the kernel.

use std::fmt;

/// A machine in one line: `Intel Xeon E5-2630 v4, 20 cores, Linux 6.1.0`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Model of the processor.
    pub cpu: String,
    /// Cores this process may use.
    pub cores: usize,
    /// The kernel's release.
    pub kernel: String,
}

impl Machine {
    /// This machine. Values missing in `/proc` are "unknown".
    #[must_use]
    pub fn this() -> Self {
        let read = |path| std::fs::read_to_string(path).unwrap_or_default();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Self::from_proc(&read("/proc/cpuinfo"), &read("/proc/sys/kernel/osrelease"), cores)
    }

    fn from_proc(cpuinfo: &str, osrelease: &str, cores: usize) -> Self {
        let named = |name: &str| Some(name.split_whitespace().collect::<Vec<_>>().join(" "));
        let cpu = cpuinfo
            .lines()
            .filter_map(|line| line.split_once(':'))
            .find(|(key, _)| matches!(key.trim(), "model name" | "Model" | "cpu model"))
            .and_then(|(_, name)| named(name))
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| format!("unknown {} processor", std::env::consts::ARCH));
        let kernel = match osrelease.trim() {
            "" => "of unknown release",
            release => release,
        };
        Self { cpu, cores, kernel: kernel.to_owned() }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let cores = if self.cores == 1 { "core" } else { "cores" };
        write!(f, "{}, {} {cores}, Linux {}", self.cpu, self.cores, self.kernel)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(cpuinfo: &str, osrelease: &str, cores: usize, expected: &str) {
        assert_eq!(Machine::from_proc(cpuinfo, osrelease, cores).to_string(), expected);
    }

    #[test]
    fn a_machine_is_one_line() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Intel(R) Xeon(R)  CPU @ 2.20GHz\nprocessor\t: 1\n";
        check(cpuinfo, "6.1.0-13\n", 2, "Intel(R) Xeon(R) CPU @ 2.20GHz, 2 cores, Linux 6.1.0-13");
    }

    #[test]
    fn what_proc_does_not_tell_is_unknown() {
        let arch = std::env::consts::ARCH;
        check("", "", 1, &format!("unknown {arch} processor, 1 core, Linux of unknown release"));
    }
}
